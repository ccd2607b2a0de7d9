//! The context of a state, which the host's functions in the state share with the host, and whose address they hold; and the
//! fence, below which the host calls Lua.

mod fence;
mod turn;

pub use fence::Failure;
pub(crate) use fence::{Ending, Halt, explain, explain_coroutine, protect, resume};
pub(crate) use turn::Turn;

use crate::answer::{AnswerRoom, LuafcgidAnswer};
use crate::error_page::Fault;
use crate::exchange::Exchange;
use mlua::Lua;
use mlua::ffi::{self, lua_State};
use oribi_host::environment::Environment;
use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::ffi::CString;
use std::os::raw::{c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::ptr;

/// The key of the state's context in the registry of a state is the address of this static.
static KEY: u8 = 0;

/// The context of a state. Only the thread that runs the state touches it.
pub(crate) struct StateContext {
    /// The exchange that is being answered; null between requests.
    exchange: Cell<*const Exchange<'static>>,
    /// The number of the current request: an object that a script has kept from an earlier request has a smaller number.
    pub(crate) serial: Cell<u64>,
    /// The last number that was given to a request.
    issued: Cell<u64>,
    /// Whether scripts run in coroutines that may wait.
    pub(crate) waits: bool,
    /// The address of the object that represents the exchange in the script, such as the request table.
    pub(crate) object: Cell<*const c_void>,
    /// The address of the object that reads the data to be filtered for a web server; null until the script requests it.
    pub(crate) data: Cell<*const c_void>,
    /// The kind of fault that is reported if an error is raised now.
    pub(crate) fault: Cell<Fault>,
    /// Whether the script has called `os.exit`.
    pub(crate) exited: Cell<bool>,
    /// The payload of a panic in a host function.
    panic: Cell<Option<Box<dyn Any + Send>>>,
    /// The last error with its traceback, as the message handler found it.
    message: UnsafeCell<Vec<u8>>,
    /// The status in the last error object: `error({404, "gone"})`.
    asked: Cell<Option<u16>>,
    /// The files that the script and its modules were loaded from since the last [`StateContext::take_loaded`].
    loaded: UnsafeCell<Vec<PathBuf>>,
    /// Memory for an answer.
    answer: UnsafeCell<AnswerRoom>,
    /// Memory for the variables of a request.
    environment: UnsafeCell<Environment>,
    /// Whether the variables are being passed to Lua.
    describing: Cell<bool>,
    /// The output of a script in the style of luafcgid so far.
    pub(crate) luafcgid_answer: UnsafeCell<LuafcgidAnswer>,
    /// The script, for messages.
    pub(crate) script: PathBuf,
    /// The path of the script with a NUL at the end, for Lua.
    pub(crate) file: CString,
}

impl StateContext {
    pub(crate) fn new(script: PathBuf, waits: bool) -> Self {
        // A path with a NUL leads to no file, and neither does an empty path.
        let file = CString::new(script.as_os_str().as_bytes()).unwrap_or_default();
        Self {
            exchange: Cell::new(ptr::null()),
            serial: Cell::new(0),
            issued: Cell::new(0),
            waits,
            object: Cell::new(ptr::null()),
            data: Cell::new(ptr::null()),
            fault: Cell::new(Fault::Runtime),
            exited: Cell::new(false),
            panic: Cell::new(None),
            message: UnsafeCell::new(Vec::new()),
            asked: Cell::new(None),
            loaded: UnsafeCell::new(Vec::new()),
            answer: UnsafeCell::default(),
            environment: UnsafeCell::new(Environment::new()),
            describing: Cell::new(false),
            luafcgid_answer: UnsafeCell::new(LuafcgidAnswer::default()),
            script,
            file,
        }
    }

    /// Returns the context of the state in which a host function runs: its address is the first upvalue of this function.
    ///
    /// # Safety
    /// The running function was made by [`StateContext::push_function`].
    #[inline]
    pub(crate) unsafe fn of_running<'a>(l: *mut lua_State) -> &'a Self {
        // SAFETY: the state's context lives longer than its state, and is only ever borrowed shared.
        unsafe { &*ffi::lua_touserdata(l, ffi::lua_upvalueindex(1)).cast::<Self>() }
    }

    /// Returns the context that [`StateContext::own`] has registered for a state; `None` if there is none.
    ///
    /// # Safety
    /// `l` is a live state with room for a value.
    unsafe fn of_state<'a>(l: *mut lua_State) -> Option<&'a Self> {
        // SAFETY: as promised by the caller. Reading the registry neither allocates nor raises an error. The context lives
        // longer than its state, and is only borrowed shared.
        unsafe {
            ffi::lua_rawgetp(l, ffi::LUA_REGISTRYINDEX, (&raw const KEY).cast());
            let context = ffi::lua_touserdata(l, -1).cast::<Self>();
            ffi::lua_settop(l, -2);
            context.as_ref()
        }
    }

    /// Registers the context in its state, so that [`StateContext::of_state`] finds it in hooks.
    ///
    /// # Safety
    /// `l` is a live state below a fence; the address of the context does not change while the state lives.
    pub(crate) unsafe fn own(&self, l: *mut lua_State) {
        // SAFETY: as promised by the caller.
        unsafe {
            ffi::lua_pushlightuserdata(l, ptr::from_ref(self).cast_mut().cast());
            ffi::lua_rawsetp(l, ffi::LUA_REGISTRYINDEX, (&raw const KEY).cast());
        }
    }

    /// Returns the method and path of the request that a state answers; empty if it answers none.
    ///
    /// # Safety
    /// `l` runs in a hook.
    pub(crate) unsafe fn request_of(l: *mut lua_State) -> Vec<u8> {
        // SAFETY: as promised by the caller.
        let exchange = unsafe { Self::of_state(l) }.and_then(Self::exchange);
        exchange
            .map(|exchange| [exchange.request.head.method(), b" ", exchange.request.head.path()].concat())
            .unwrap_or_default()
    }

    /// Calls `work`, which must call no Lua function, with the exchange that a state answers, and with the number of its
    /// request.
    ///
    /// # Errors
    /// The state has no memory left.
    pub(crate) fn with_exchange<R>(lua: &Lua, work: impl FnOnce(Option<&Exchange<'_>>, u64) -> R) -> mlua::Result<R> {
        let mut found = None;
        // SAFETY: the stack is left as it was, and reading the registry raises no error.
        unsafe { lua.exec_raw::<()>((), |l| found = Self::of_state(l))? };
        Ok(work(found.and_then(Self::exchange), found.map_or(0, |context| context.serial.get())))
    }

    /// Pushes a host function whose first upvalue is the address of this context. The `more` values on top of the stack become
    /// its further upvalues.
    ///
    /// # Safety
    /// `l` is a live state below a fence; the address of the context does not change while the state lives.
    pub(crate) unsafe fn push_function(&self, l: *mut lua_State, function: ffi::lua_CFunction, more: c_int) {
        // SAFETY: as promised by the caller.
        unsafe {
            ffi::lua_pushlightuserdata(l, ptr::from_ref(self).cast_mut().cast());
            ffi::lua_insert(l, -1 - more);
            ffi::lua_pushcclosure(l, function, 1 + more);
        }
    }

    /// The exchange that is being answered.
    #[inline]
    pub(crate) fn exchange<'a>(&'a self) -> Option<&'a Exchange<'a>> {
        // SAFETY: `serve` sets the pointer to a live exchange, and sets it to null when it returns. The result is used only in
        // calls of host functions, and all of these end before `serve` returns.
        unsafe { self.exchange.get().cast::<Exchange<'a>>().as_ref() }
    }

    /// Sets `exchange` as the current one while `work` runs.
    #[inline]
    pub(crate) fn serve<R>(&self, exchange: &Exchange<'_>, work: impl FnOnce() -> R) -> R {
        struct Clear<'a>(&'a StateContext);
        impl Drop for Clear<'_> {
            fn drop(&mut self) {
                self.0.exchange.set(ptr::null());
                self.0.object.set(ptr::null());
                self.0.data.set(ptr::null());
            }
        }
        self.exchange.set(ptr::from_ref(exchange).cast());
        self.serial.set(self.serial.get() + 1);
        self.fault.set(Fault::Runtime);
        self.describing.set(false);
        let _clear = Clear(self);
        work()
    }

    /// Runs `work`, which must call no Lua function and raise no Lua error. If `work` panics, the panic must not cross into
    /// Lua: the call returns `None`, and [`protect`] resumes the panic later. The caller must then raise a Lua error, if it
    /// raises any, itself.
    #[inline]
    pub(crate) fn contain<R>(&self, work: impl FnOnce() -> R) -> Option<R> {
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(value) => Some(value),
            Err(panic) => {
                self.panic.set(Some(panic));
                None
            }
        }
    }

    /// Takes the payload of a panic.
    #[inline]
    fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        self.panic.take()
    }

    /// The memory for collecting and sending the answer.
    ///
    /// # Safety
    /// No other borrow of this memory lives, and no Lua code runs while the result is used.
    #[expect(clippy::mut_from_ref, reason = "the desk is one thread's, and the caller sees to it that there is one borrow")]
    #[inline]
    pub(crate) unsafe fn answer_room(&self) -> &mut AnswerRoom {
        // SAFETY: as promised by the caller.
        unsafe { &mut *self.answer.get() }
    }

    /// Calls `work` with the memory for variables. Returns `None` if this memory is in use: a finalizer has interrupted a
    /// caller further down the stack that uses it.
    ///
    /// If `work` raises a Lua error, because memory has run out, this memory counts as in use until the next request begins.
    pub(crate) fn describe<R>(&self, work: impl FnOnce(&mut Environment) -> R) -> Option<R> {
        if self.describing.replace(true) {
            return None;
        }
        // SAFETY: `describing` excludes another borrow.
        let result = work(unsafe { &mut *self.environment.get() });
        self.describing.set(false);
        Some(result)
    }

    /// Writes a message of a script to the error log of the web server in front. Without a web server, writes it to the
    /// server's own log.
    pub(crate) fn say(&self, text: &[u8]) {
        match self.exchange() {
            Some(exchange) => exchange.report(text),
            None => log::info!("{}: {}", self.script.display(), String::from_utf8_lossy(text).trim_end()),
        }
    }

    /// Records that a file was loaded.
    pub(crate) fn note_loaded(&self, path: PathBuf) {
        // SAFETY: the borrow ends here, and nothing in between calls Lua.
        unsafe { (*self.loaded.get()).push(path) };
    }

    /// Returns the files that were loaded since the last call.
    pub(crate) fn take_loaded(&mut self) -> Vec<PathBuf> {
        std::mem::take(self.loaded.get_mut())
    }

    /// Takes the last error message.
    fn take_message(&self) -> Vec<u8> {
        // SAFETY: the borrow ends here, and nothing in between calls Lua.
        unsafe { std::mem::take(&mut *self.message.get()) }
    }
}
