//! A language with one lock for all of its threads, implemented over oribi.h; the lock is a plain mutex. Its apps are paths.

use oribi_capi::{
    OribiBytes, OribiCrew, OribiHost, OribiLane, OribiLock, OribiRequest, oribi_abandon, oribi_config_new, oribi_config_set,
    oribi_crew_serve, oribi_extend_deadline, oribi_finish, oribi_has_deadlines, oribi_respond, oribi_run, oribi_start,
    oribi_write,
};
use rustix::fs::Timespec;
use rustix::thread::{NanosleepRelativeResult, nanosleep};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

/// The folder of the files that a test makes, to which paths of apps refer.
pub const FOLDER: &str = "ORIBI_TEST_FOLDER";
pub const THREADS: &str = "ORIBI_TEST_THREADS";
/// A request timeout.
pub const TIMEOUT: &str = "ORIBI_TEST_TIMEOUT";

/// More bytes than any socket buffers.
pub const FLOOD: usize = 64 << 20;

const PATH_INFO: usize = 2;
const WOKEN: i32 = 4;

/// The lock: a flag, because a thread may unlock a lock that another thread has locked.
#[derive(Default)]
struct Lock {
    taken: Mutex<bool>,
    free: Condvar,
}

static LOCK: Lock = Lock { taken: Mutex::new(false), free: Condvar::new() };

thread_local! {
    static HAS_LOCK: Cell<bool> = const { Cell::new(false) };
}

impl Lock {
    fn take(&self) {
        let mut taken = locked(&self.taken);
        while *taken {
            taken = self.free.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
        *taken = true;
        HAS_LOCK.set(true);
    }

    fn let_go(&self) {
        assert_held();
        HAS_LOCK.set(false);
        *locked(&self.taken) = false;
        self.free.notify_one();
    }

    /// Runs `act` without the lock, like an app that waits.
    fn without<T>(&self, act: impl FnOnce() -> T) -> T {
        self.let_go();
        let result = act();
        self.take();
        result
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Aborts if the server calls the language without the lock. A panic must not cross C.
fn assert_held() {
    if !HAS_LOCK.get() {
        eprintln!("the language was called without its lock");
        std::process::abort();
    }
}

/// The threads in the crew, including those that are being started.
static IN_CREW: AtomicUsize = AtomicUsize::new(0);
static ANSWERED_BY: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
static MAIN: OnceLock<ThreadId> = OnceLock::new();
static MAIN_IS_TO_END: AtomicBool = AtomicBool::new(false);

/// The function that ends a wait.
#[derive(Clone, Copy)]
struct Interrupt {
    thread: ThreadId,
    function: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
}

// SAFETY: the header lets any thread interrupt a wait while it lasts.
unsafe impl Send for Interrupt {}

/// The waits that are not over.
static WAITS: Mutex<Vec<Interrupt>> = Mutex::new(Vec::new());

fn interrupt(of: impl Fn(ThreadId) -> bool) {
    let waits = locked(&WAITS);
    for wait in waits.iter().filter(|wait| of(wait.thread)) {
        // SAFETY: a wait in the list is not over: before a wait ends, its thread removes it from the list, and needs the lock
        // of the list for that.
        unsafe { (wait.function)(wait.argument) };
    }
}

unsafe extern "C" fn open(_data: *mut c_void, _own: c_int) -> *mut c_void {
    assert_held();
    Box::into_raw(Box::new(Context::default())).cast()
}

/// The context of a thread, with the orders to its app.
#[derive(Default)]
struct Context {
    exchange: AtomicU64,
    interrupted: AtomicBool,
    milliseconds: AtomicU64,
}

thread_local! {
    /// The context that answers on this thread.
    static ANSWERS: Cell<*const Context> = const { Cell::new(ptr::null()) };
}

/// The number of orders that arrived on another thread, for another exchange, or of another kind.
static ASTRAY: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn interrupt_app(context: *mut c_void, exchange: u64, order: c_uint, milliseconds: u64) {
    const INTERRUPT: c_uint = 2;
    let context: *const Context = context.cast();
    // SAFETY: `open` made the context, and the server calls this while the context answers.
    let present = unsafe { &*context };
    if ANSWERS.get() != context || present.exchange.load(SeqCst) != exchange || order != INTERRUPT {
        ASTRAY.fetch_add(1, SeqCst);
    }
    present.milliseconds.store(milliseconds, SeqCst);
    present.interrupted.store(true, SeqCst);
}

/// Sleeps, as an app, without the lock. `false` if it was interrupted.
fn nap(context: &Context) -> bool {
    LOCK.without(|| {
        let mut left = Timespec { tv_sec: 600, tv_nsec: 0 };
        while let NanosleepRelativeResult::Interrupted(rest) = nanosleep(&left) {
            if context.interrupted.load(SeqCst) {
                eprintln!("a nap was interrupted after {} ms", context.milliseconds.load(SeqCst));
                return false;
            }
            left = rest;
        }
        true
    })
}

unsafe extern "C" fn close(context: *mut c_void) {
    assert_held();
    // SAFETY: `open` made it.
    drop(unsafe { Box::from_raw(context.cast::<Context>()) });
}

unsafe extern "C" fn worker_started(_data: *mut c_void, _worker: u32) {
    // The worker's first thread runs the language.
    HAS_LOCK.set(false);
    *locked(&LOCK.taken) = false;
    LOCK.take();
    let _ = MAIN.set(thread::current().id());
}

unsafe extern "C" fn begin(_data: *mut c_void, _crew: *const OribiCrew, most: u32) {
    assert_held();
    if most == 1 {
        IN_CREW.fetch_add(1, SeqCst);
    }
}

unsafe extern "C" fn end(_data: *mut c_void) {
    assert_held();
    let threads = IN_CREW.load(SeqCst) - usize::from(threads() == 1);
    eprintln!("the lane goes with {threads} threads in it");
}

unsafe extern "C" fn without_lock(
    _data: *mut c_void,
    wait: unsafe extern "C" fn(*mut c_void),
    interrupt: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
) -> c_int {
    let thread = thread::current().id();
    locked(&WAITS).push(Interrupt { thread, function: interrupt, argument });
    LOCK.without(|| {
        // SAFETY: the header gives the function this argument.
        unsafe { wait(argument) };
        locked(&WAITS).retain(|wait| wait.argument != argument);
    });
    1
}

unsafe extern "C" fn start_thread(_data: *mut c_void, crew: *const OribiCrew) -> c_int {
    assert_held();
    let crew = crew as usize;
    let started = thread::Builder::new().spawn(move || {
        LOCK.take();
        // SAFETY: this thread was started for this crew.
        unsafe { oribi_crew_serve(crew as *const OribiCrew) };
        IN_CREW.fetch_sub(1, SeqCst);
        LOCK.let_go();
    });
    if started.is_ok() {
        IN_CREW.fetch_add(1, SeqCst);
    }
    started.is_ok().into()
}

unsafe extern "C" fn see_to_interrupts(_data: *mut c_void) -> c_int {
    assert_held();
    // Other threads run now, if they can.
    LOCK.without(thread::yield_now);
    let main = MAIN.get() == Some(&thread::current().id());
    (!(main && MAIN_IS_TO_END.load(SeqCst))).into()
}

fn folder() -> PathBuf {
    std::env::var(FOLDER).expect("the test says it").into()
}

fn threads() -> usize {
    std::env::var(THREADS).ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Waits, as an app, until the test has made a file.
fn wait_for_file(path: &Path) {
    LOCK.without(|| {
        while !path.exists() {
            thread::sleep(Duration::from_millis(2));
        }
    });
}

unsafe extern "C" fn answer(context: *mut c_void, lane: *const OribiLane, exchange: u64, request: *const OribiRequest) -> u32 {
    assert_held();
    // SAFETY: `open` made it.
    let context = unsafe { &*context.cast::<Context>() };
    context.exchange.store(exchange, SeqCst);
    context.interrupted.store(false, SeqCst);
    ANSWERS.set(context);
    // SAFETY: the header guarantees the variable.
    let path = unsafe { (*(*request).variables.add(PATH_INFO)).value };
    // SAFETY: the path is valid until a function is called with the lane, and it is copied here.
    let path = unsafe { std::slice::from_raw_parts(path.data.cast::<u8>(), path.size) }.to_owned();
    let path = String::from_utf8_lossy(&path).into_owned();
    locked(&ANSWERED_BY).insert(format!("{:?}", thread::current().id()));
    let (app, name) = path[1..].split_once('/').unwrap_or((&path[1..], ""));
    let text = match app {
        "wait" => {
            // Shows the test that the app waits.
            std::fs::write(folder().join(format!("{name}.waits")), "").expect("the folder is the test's");
            wait_for_file(&folder().join(name));
            "waited".to_owned()
        }
        "threads" => locked(&ANSWERED_BY).len().to_string(),
        "pid" => std::process::id().to_string(),
        "interrupt" => {
            interrupt(|_| true);
            "interrupted".to_owned()
        }
        "end-main" => {
            MAIN_IS_TO_END.store(true, SeqCst);
            interrupt(|thread| MAIN.get() == Some(&thread));
            "ended".to_owned()
        }
        "nap" | "short-nap" => {
            if app == "short-nap" {
                // SAFETY: the lane is that of the call.
                unsafe { oribi_extend_deadline(lane, exchange, 300) };
            }
            if !nap(context) {
                // SAFETY: as above.
                unsafe { oribi_abandon(lane, exchange) };
                return 0;
            }
            "slept".to_owned()
        }
        "astray" => ASTRAY.load(SeqCst).to_string(),
        // SAFETY: the lane is that of the call.
        "has-deadlines" => unsafe { oribi_has_deadlines(lane) }.to_string(),
        "unlimited" => {
            // SAFETY: the lane is that of the call.
            unsafe { oribi_extend_deadline(lane, exchange, -1) };
            wait_for_file(&folder().join(name));
            "waited".to_owned()
        }
        "flood" => return flood(lane, exchange),
        _ => "quick".to_owned(),
    };
    let part = OribiBytes { data: text.as_ptr().cast(), size: text.len() };
    // SAFETY: the text outlives the call, and there are no fields.
    unsafe { oribi_respond(lane, exchange, 200, ptr::null(), 0, &raw const part, 1) };
    0
}

/// Sends more content than the buffers hold for a client that does not read.
fn flood(lane: *const OribiLane, exchange: u64) -> u32 {
    let piece = vec![b'x'; 1 << 20];
    // SAFETY: lane and exchange are those of the call, and the piece outlives each call.
    unsafe {
        oribi_start(lane, exchange, 200, ptr::null(), 0);
        for _ in 0..FLOOD / piece.len() {
            let mut result = oribi_write(lane, exchange, piece.as_ptr().cast(), piece.len());
            while result == WOKEN {
                result = oribi_write(lane, exchange, piece.as_ptr().cast(), 0);
            }
        }
        oribi_finish(lane, exchange);
    }
    0
}

/// Serves with this language until a signal stops the server, and ends the process.
pub fn serve() -> ! {
    LOCK.take();
    // SAFETY: zeros are a table without functions.
    let (mut host, mut lock): (OribiHost, OribiLock) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    lock.size = size_of::<OribiLock>();
    lock.begin = Some(begin);
    lock.end = Some(end);
    lock.without_lock = Some(without_lock);
    lock.start_thread = Some(start_thread);
    lock.see_to_interrupts = Some(see_to_interrupts);
    host.size = size_of::<OribiHost>();
    host.name = c"locked".as_ptr();
    host.open = Some(open);
    host.close = Some(close);
    host.answer = Some(answer);
    host.worker_started = Some(worker_started);
    host.lock = &raw const lock;
    host.interrupt = Some(interrupt_app);
    let config = oribi_config_new();
    let threads = threads().to_string();
    let timeout = std::env::var(TIMEOUT).unwrap_or_else(|_| "off".to_owned());
    let settings = [
        ("listen", "127.0.0.1:0"),
        ("workers", "1"),
        ("threads", &threads),
        ("err-respawn-interval", "10ms"),
        ("request-timeout", &timeout),
        // With this, a client that does not read blocks the thread that answers it.
        ("output-spool-size", "off"),
    ];
    for (name, value) in settings {
        let texts = [name, value, "test"].map(|text| CString::new(text).expect("no NUL is in it"));
        let [name, value, origin] = texts.each_ref().map(|text| text.as_ptr().cast::<c_char>());
        // SAFETY: the config was just made, and the texts end with a NUL.
        assert_eq!(unsafe { oribi_config_set(config, name, value, origin) }, 0);
    }
    // SAFETY: the functions do what the header says, and both tables outlive the call.
    std::process::exit(unsafe { oribi_run(config, &raw const host) })
}
