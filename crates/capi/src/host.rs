//! Adapts a host written in C to the server's traits.
#![allow(unsafe_code)]

use crate::crew::OribiCrew;
use crate::fence::fence;
use crate::interruption::CInterruption;
use crate::table::{OribiHost, OribiLock};
use crate::tracing::CTracing;
use crate::types::{OribiBytes, OribiContent, OribiField, OribiLane, OribiRequest, OribiVariable};
use oribi_host::environment::{Environment, FIXED, Key, PathInfo};
use oribi_host::{After, Crew, GlobalLock, Host, Interruption, Outlet, Reply, Request, Runtime, Tracing, Wait};
use oribi_message::Role;
use std::cell::RefCell;
use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

const AFTER_DEFERRED: u32 = 1;
const AFTER_RETIRE: u32 = 2;

/// The runtime that calls a table of functions.
pub(crate) struct CRuntime {
    table: OribiHost,
    lock: Option<CLock>,
}

/// The lock of a host, and the crew whose threads share it.
struct CLock {
    host: OribiHost,
    table: OribiLock,
    /// Boxed, because the language keeps the address of the `OribiCrew`.
    crew: RefCell<Option<Box<OribiCrew>>>,
}

// SAFETY: the header demands of `open` that it may be called from any thread (one at a time, for which the server provides),
// and the other functions of a runtime are called only in processes with one thread. The fields of a lock are used with that
// lock held.
unsafe impl Sync for CRuntime {}

impl CRuntime {
    /// # Safety
    /// The functions of both tables conform to the header.
    pub(crate) unsafe fn new(table: OribiHost, lock: Option<OribiLock>) -> Self {
        Self { table, lock: lock.map(|lock| CLock { host: table, table: lock, crew: RefCell::default() }) }
    }

    fn moment(&self, function: Option<unsafe extern "C" fn(*mut c_void, u32)>, worker: usize) {
        if let Some(function) = function {
            // SAFETY: `new` was promised that the table's functions take its data.
            unsafe { function(self.table.data, worker as u32) };
        }
    }
}

impl Runtime for CRuntime {
    fn open(&self, own: bool) -> Result<Box<dyn Host>, String> {
        // SAFETY: `new` was promised that the table's functions conform to the header; there is no shared lane.
        let host = unsafe { CHost::open(self.table, own, None) }?;
        Ok(Box::new(host))
    }

    fn fork(&self) -> Option<io::Result<u32>> {
        let fork = self.table.fork?;
        // SAFETY: as in `moment`.
        let pid = unsafe { fork(self.table.data) };
        Some(u32::try_from(pid).map_err(|_| io::Error::other("the language runtime could not fork; the log has its message")))
    }

    fn global_lock(&self) -> Option<&dyn GlobalLock> {
        self.lock.as_ref().map(|lock| lock as &dyn GlobalLock)
    }

    fn before_fork(&self, worker: usize) {
        self.moment(self.table.before_fork, worker);
    }

    fn worker_started(&self, worker: usize) {
        self.moment(self.table.worker_started, worker);
    }

    fn worker_stopping(&self, worker: usize) {
        self.moment(self.table.worker_stopping, worker);
    }

    fn end(&self, status: i32) {
        if let Some(end) = self.table.end {
            // SAFETY: as in `moment`.
            unsafe { end(self.table.data, status) };
        }
    }

    fn set_title(&self, title: &str) -> bool {
        if let Some(set_title) = self.table.set_title {
            // SAFETY: as in `moment`; the text is borrowed for the call.
            unsafe { set_title(self.table.data, title.as_ptr().cast(), title.len()) };
        }
        true
    }

    fn tracing(&self) -> Option<Arc<dyn Tracing>> {
        let trace = self.table.trace?;
        // SAFETY: `new` was promised that the table's functions take its data.
        Some(Arc::new(unsafe { CTracing::new(trace, self.table.data, self.table.trace_unnoticed != 0) }))
    }

    fn server_ready(&self) {
        if let Some(server_ready) = self.table.server_ready {
            // SAFETY: as in `moment`.
            unsafe { server_ready(self.table.data) };
        }
    }
}

/// Calls a wait from C.
unsafe extern "C" fn wait(argument: *mut c_void) {
    // SAFETY: `argument` points to the `&dyn Wait` of `without_lock`, which lives until the table's function has returned.
    fence((), || unsafe { (*argument.cast::<&dyn Wait>()).wait() });
}

unsafe extern "C" fn interrupt(argument: *mut c_void) {
    // No `fence`, because a signal handler may call this, and `fence` may allocate. A wait in a process with one thread is
    // interrupted by an atomic and a system call; any other wait by a lock that cannot be poisoned. Neither panics.
    // SAFETY: as in `wait`; a wait may be interrupted from any thread.
    unsafe { (*argument.cast::<&dyn Wait>()).interrupt() };
}

impl CLock {
    fn crew(&self) -> *const OribiCrew {
        self.crew.borrow().as_deref().map_or(ptr::null(), ptr::from_ref)
    }
}

impl GlobalLock for CLock {
    fn begin(&self, crew: &dyn Crew, most: usize) {
        // SAFETY: the server keeps `crew` until it has called `end`, which drops the `OribiCrew`.
        *self.crew.borrow_mut() = Some(Box::new(unsafe { OribiCrew::new(crew) }));
        if let Some(begin) = self.table.begin {
            // SAFETY: `CRuntime::new` was promised that the table's functions take the host's data.
            unsafe { begin(self.host.data, self.crew(), most as u32) };
        }
    }

    fn end(&self) {
        if let Some(end) = self.table.end {
            // SAFETY: as in `begin`.
            unsafe { end(self.host.data) };
        }
        *self.crew.borrow_mut() = None;
    }

    fn open(&self) -> Result<Box<dyn Host>, String> {
        let crew = self.crew.borrow();
        let lane = crew.as_ref().ok_or("no crew is at work")?.lane();
        // SAFETY: `CRuntime::new` was promised that the table's functions conform to the header. The server drops all contexts
        // before it calls `end`, which drops the lane.
        let host = unsafe { CHost::open(self.host, false, Some(lane)) }?;
        Ok(Box::new(host))
    }

    fn without_lock(&self, to_wait_for: &dyn Wait) -> bool {
        let argument = (&raw const to_wait_for).cast_mut().cast();
        // SAFETY: as in `begin`; the argument lives until the function returns.
        self.table.without_lock.is_some_and(|function| unsafe { function(self.host.data, wait, interrupt, argument) } != 0)
    }

    fn start_thread(&self) -> bool {
        // SAFETY: as in `begin`; the crew outlives the threads that were started for it.
        self.table.start_thread.is_some_and(|start| unsafe { start(self.host.data, self.crew()) } != 0)
    }

    fn see_to_interrupts(&self) -> bool {
        // SAFETY: as in `begin`.
        self.table.see_to_interrupts.is_none_or(|see_to| unsafe { see_to(self.host.data) } != 0)
    }

    fn rest_main(&self) -> Option<bool> {
        // SAFETY: as in `begin`.
        self.table.rest_main.map(|rest| unsafe { rest(self.host.data) } != 0)
    }

    fn wake_main(&self) {
        if let Some(wake) = self.table.wake_main {
            // SAFETY: as in `begin`.
            unsafe { wake(self.host.data) };
        }
    }

    fn tells_before_unlocking(&self) -> bool {
        self.table.tells_before_unlocking != 0
    }
}

/// A context, as the pointer that the host returned.
pub(crate) struct CHost {
    table: OribiHost,
    context: *mut c_void,
    /// Boxed, because the host may keep the address of the lane.
    own_lane: Box<OribiLane>,
    /// The lane of the crew, if the context belongs to a thread of a crew. Otherwise the context answers at `own_lane`.
    shared_lane: Option<*const OribiLane>,
    environment: Environment,
    /// The fixed variables, whose names stay from request to request, followed by the other variables of the current request.
    variables: Vec<OribiVariable>,
    trailers: Vec<OribiField>,
    interruption: Option<Arc<CInterruption>>,
}

// SAFETY: the header allows a context to change threads between `leave` and `enter`. No other field is bound to a thread.
unsafe impl Send for CHost {}

impl CHost {
    /// # Safety
    /// The functions of `table` do what the header requires; `shared_lane` outlives the context.
    pub(crate) unsafe fn open(table: OribiHost, own: bool, shared_lane: Option<*const OribiLane>) -> Result<Self, String> {
        let open = table.open.ok_or("the host has no function that opens a context")?;
        // SAFETY: the caller's promise: `open` takes the table's data.
        let context = unsafe { open(table.data, own.into()) };
        if context.is_null() {
            return Err("the host could not open a context".to_owned());
        }
        let fixed = FIXED.iter().enumerate().map(|(place, name)| OribiVariable::of(Key(place as u32), name.as_bytes(), b""));
        let (environment, variables) = (Environment::new(), fixed.collect());
        // The loop of a language belongs to the interpreter that has loaded the app.
        let run_loop = if own || shared_lane.is_some() { None } else { table.run_loop };
        let table = OribiHost { run_loop, ..table };
        let interruption = table.interrupt.map(|interrupt| Arc::new(CInterruption::new(interrupt, context)));
        Ok(Self {
            table,
            context,
            own_lane: Box::default(),
            shared_lane,
            environment,
            variables,
            trailers: Vec::new(),
            interruption,
        })
    }

    fn call(&self, function: Option<unsafe extern "C" fn(*mut c_void)>) {
        if let Some(function) = function {
            // SAFETY: the table's functions take its contexts (`CRuntime::new`).
            unsafe { function(self.context) };
        }
    }
}

impl Host for CHost {
    fn enter(&mut self) {
        self.call(self.table.enter);
    }

    fn begin(&mut self, outlet: &dyn Outlet) {
        // SAFETY: the server does not move the outlet until it has called `leave`, which closes the lane.
        unsafe { self.own_lane.open(outlet) };
        if let Some(begin) = self.table.begin {
            // SAFETY: the table's functions take its contexts (`CRuntime::new`), and the lane lives as long as the host.
            unsafe { begin(self.context, &raw const *self.own_lane) };
        }
    }

    fn attend(&mut self, _outlet: &dyn Outlet) -> After {
        // SAFETY: as in `call`.
        self.table.attend.map_or_else(After::default, |attend| after(unsafe { attend(self.context) }))
    }

    fn has_loop(&self) -> bool {
        self.table.run_loop.is_some()
    }

    fn run_loop(&mut self, descriptor: BorrowedFd<'_>, timeout: Option<Duration>) -> After {
        // Rounded up, because the loop would come round in vain before the time is over.
        let milliseconds = |time: Duration| i64::try_from(time.as_micros().div_ceil(1000)).unwrap_or(i64::MAX);
        let timeout = timeout.map_or(-1, milliseconds);
        // SAFETY: as in `call`; the descriptor is open during the call.
        self.table
            .run_loop
            .map_or_else(After::default, |run| after(unsafe { run(self.context, descriptor.as_raw_fd(), timeout) }))
    }

    fn answer(&mut self, request: &Request<'_>, reply: Reply<'_>) -> After {
        let Some(answer) = self.table.answer else { return After::default() };
        let (outlet, exchange) = reply.detach();
        let lane = self.shared_lane.unwrap_or(&raw const *self.own_lane);
        // SAFETY: `CHost::open` was promised that a shared lane outlives this context, and `own_lane` is a field. The server
        // does not move the outlet before the lane drops its pointer to it: an own lane in `leave`, a shared lane when the crew
        // ends and the lane is dropped.
        unsafe { (*lane).open(outlet) };
        let path = if self.table.raw_path == 0 { PathInfo::Decoded } else { PathInfo::AsSent };
        let variables = &mut self.variables;
        variables.truncate(FIXED.len());
        let described = self.environment.describe_in_two(request, path);
        if let Some(fixed) = variables.first_chunk_mut::<{ FIXED.len() }>() {
            described.fixed(|place, value| fixed[place].value = OribiBytes::of(value));
        }
        described.others().for_each(|(key, name, value)| variables.push(OribiVariable::of(key, name, value)));
        self.trailers.clear();
        if let Some(trailers) = request.trailers {
            self.trailers.extend(trailers.fields().map(|(name, value)| OribiField::of(name, value)));
        }
        let queue_time = if outlet.reports_queue_times() { outlet.queue_time(exchange) } else { None };
        let filtered = request.gateway.as_ref().filter(|gateway| gateway.role == Role::Filter);
        let data = filtered.map(|gateway| OribiContent::of(&gateway.data));
        let described = OribiRequest {
            variables: variables.as_ptr(),
            variable_count: variables.len(),
            content: OribiContent::of(&request.content),
            data: data.as_ref().map_or(ptr::null(), ptr::from_ref),
            https: request.https.into(),
            gateway: request.web_server().is_some().into(),
            trailers: self.trailers.as_ptr(),
            trailer_count: self.trailers.len(),
            queue_time: queue_time.map_or(-1.0, |time| time.as_secs_f64()),
            request: ptr::from_ref(request).cast(),
        };
        // SAFETY: the context came from `open` of the same table. Everything that the request points to is borrowed for this
        // call, and the lane lives as long as the context.
        after(unsafe { answer(self.context, lane, exchange.0, &raw const described) })
    }

    fn interruption(&self) -> Option<Arc<dyn Interruption>> {
        self.interruption.clone().map(|interruption| interruption as Arc<dyn Interruption>)
    }

    fn run_deferred(&mut self) -> After {
        // SAFETY: as in `call`.
        self.table.run_deferred.map_or_else(After::default, |run| after(unsafe { run(self.context) }))
    }

    fn leave(&mut self) {
        self.call(self.table.leave);
        self.own_lane.close();
    }
}

impl Drop for CHost {
    fn drop(&mut self) {
        self.call(self.table.close);
    }
}

const fn after(flags: u32) -> After {
    After { deferred: flags & AFTER_DEFERRED != 0, retire: flags & AFTER_RETIRE != 0 }
}
