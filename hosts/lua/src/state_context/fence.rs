//! The fence for Lua errors: no error of a script passes [`protect`].

use super::StateContext;
use crate::error_page::Fault;
use crate::vm::{OUT_OF_TIME, Slot, Stack, disarm};
use mlua::ffi::{self, lua_State};
use std::os::raw::{c_char, c_int};
use std::panic::resume_unwind;

/// The most bytes of an error's message and traceback that are kept.
const MESSAGE_BYTES: usize = 64 << 10;

/// The place of the message handler on the stack of a state's thread.
const HANDLER: c_int = 1;

/// The failure of a call of a script.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The kind of fault.
    pub fault: Fault,
    /// The message of the script or of Lua, mostly with a traceback. Several lines, without a line end after the last.
    pub message: String,
    /// The status in an error object of the script: `error({404, "gone"})`; `None` without one.
    pub status: Option<u16>,
}

impl Failure {
    pub(crate) fn new(fault: Fault, message: &str) -> Self {
        Self { fault, message: message.to_owned(), status: None }
    }
}

/// The end of a protected call.
pub(crate) enum Ending {
    /// The function returned; its results are on the stack.
    Returned,
    /// The function returned although it was to be stopped: its results are valid, but the state must not be used again.
    Late,
    /// The script called `os.exit`.
    Exited,
    /// The function raised an error.
    Failed(Failure),
}

/// Calls the function that is on the stack below its `arguments`, and leaves its `results` values on the stack. If a host
/// function has panicked during the call, resumes the panic.
///
/// # Safety
/// `l` is the coroutine of a live state in which the host calls the script, with the message handler at index [`HANDLER`], and
/// runs nothing else. `context` is the context of that state.
pub(crate) unsafe fn protect(
    l: *mut lua_State,
    context: &StateContext,
    slot: Option<&Slot>,
    arguments: c_int,
    results: c_int,
) -> Ending {
    if let Some(slot) = slot {
        slot.begin(l);
    }
    // SAFETY: as promised by the caller.
    let status = unsafe { ffi::lua_pcall(l, arguments, results, HANDLER) };
    let stopped = slot.is_some_and(Slot::end);
    // A script may return although it has called `os.exit`, which raises an error: a library written in C, or one of the
    // script's coroutines, may have caught that error.
    if status == ffi::LUA_OK && !stopped && !context.exited.get() {
        return Ending::Returned;
    }
    // SAFETY: as promised by the caller.
    unsafe { fail(l, context, status, stopped) }
}

/// The end of a turn of a coroutine.
pub(crate) enum Halt {
    /// The coroutine has yielded this number of values, which are on its stack.
    Yielded(c_int),
    /// Its function has returned.
    Ended,
    /// Its function has ended in another way; never [`Ending::Returned`].
    Badly(Ending),
}

/// Resumes the coroutine `thread` with the `arguments` values on its stack. `l` is the coroutine in which the host calls the
/// script. If a host function has panicked meanwhile, resumes the panic.
///
/// # Safety
/// As for [`protect`]. `thread` is a coroutine of the same state that the registry keeps as `reference`, and that has not ended with an error.
/// `explain` is the reference of [`explain_coroutine`] in the registry.
pub(crate) unsafe fn resume(
    l: *mut lua_State,
    (thread, reference): (*mut lua_State, c_int),
    explain: c_int,
    context: &StateContext,
    slot: &Slot,
    arguments: c_int,
) -> Halt {
    let mut results = 0;
    slot.begin(thread);
    // SAFETY: as promised by the caller; errors end in lua_resume.
    let status = unsafe { ffi::lua_resume(thread, l, arguments, &raw mut results) };
    let stopped = slot.end();
    if !stopped && !context.exited.get() {
        match status {
            ffi::LUA_OK => return Halt::Ended,
            ffi::LUA_YIELD => return Halt::Yielded(results),
            _ => {}
        }
    }
    // SAFETY: as promised by the caller; the error is on top of the coroutine's stack. The message handler is called below a
    // fence of its own. A yield is no error here: a script that was to be stopped has waited instead.
    unsafe {
        if !matches!(status, ffi::LUA_OK | ffi::LUA_YIELD | ffi::LUA_ERRMEM) && !context.exited.get() {
            let height = ffi::lua_gettop(l);
            ffi::lua_rawgeti(l, ffi::LUA_REGISTRYINDEX, explain.into());
            // The stack of a coroutine with an error has no room for a value.
            ffi::lua_rawgeti(l, ffi::LUA_REGISTRYINDEX, reference.into());
            ffi::lua_xmove(thread, l, 1);
            slot.begin(l);
            let _ = ffi::lua_pcall(l, 2, 0, 0);
            slot.end();
            ffi::lua_settop(l, height);
        }
        let status = if status == ffi::LUA_YIELD { ffi::LUA_ERRRUN } else { status };
        Halt::Badly(fail(thread, context, status, stopped))
    }
}

/// # Safety
/// As for [`protect`], which has just got `status` from Lua.
#[cold]
unsafe fn fail(l: *mut lua_State, context: &StateContext, status: c_int, stopped: bool) -> Ending {
    let exited = context.exited.replace(false);
    if exited {
        // SAFETY: as promised by the caller.
        unsafe { disarm(l) };
    }
    if let Some(panic) = context.take_panic() {
        resume_unwind(panic);
    }
    if exited {
        return Ending::Exited;
    }
    let message = context.take_message();
    let asked = context.asked.take();
    if stopped {
        if status == ffi::LUA_OK {
            return Ending::Late;
        }
        let message = if message.is_empty() { OUT_OF_TIME.to_owned() } else { String::from_utf8_lossy(&message).into_owned() };
        return Ending::Failed(Failure { fault: Fault::Time, message, status: None });
    }
    let fault = match status {
        ffi::LUA_ERRMEM => Fault::Memory,
        _ => context.fault.get(),
    };
    let message = match status {
        // Lua calls no message handler for these.
        ffi::LUA_ERRMEM => "not enough memory".to_owned(),
        ffi::LUA_ERRERR if message.is_empty() => "an error while an error was handled".to_owned(),
        _ => String::from_utf8_lossy(&message).into_owned(),
    };
    Ending::Failed(Failure { fault, message, status: asked })
}

/// The message handler: records an error while the stack still shows where it was raised.
pub(crate) unsafe extern "C-unwind" fn explain(l: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this below a fence with the error object.
    unsafe {
        ffi::lua_settop(l, 1);
        record(l, l, 1)
    }
}

/// The same for a coroutine that has ended with an error: called with the coroutine and the error object.
pub(crate) unsafe extern "C-unwind" fn explain_coroutine(l: *mut lua_State) -> c_int {
    // SAFETY: the host calls this below a fence; the registry keeps the coroutine.
    unsafe {
        let thread = ffi::lua_tothread(l, 1);
        ffi::lua_remove(l, 1);
        record(l, thread, 0)
    }
}

/// Pushes the message of an error of a host function, whose text is on top of the stack: without the name of its kind and
/// without its own traceback.
///
/// # Safety
/// A string is on top of the stack of `l`, which has room for another one.
unsafe fn push_message(l: *mut lua_State) -> *const c_char {
    // SAFETY: as promised by the caller; the string stays on the stack while it is read.
    unsafe {
        let mut stack = Stack::of(l);
        let text = stack.quiet().string(-1).unwrap_or_default();
        let message = text.strip_prefix(b"runtime error: ").unwrap_or(text);
        let size = memchr::memmem::find(message, b"\nstack traceback:").unwrap_or(message.len());
        ffi::lua_pushlstring(l, message.as_ptr().cast(), size);
        ffi::lua_tolstring(l, -1, std::ptr::null_mut())
    }
}

/// Records the error object that is alone on the stack of `l`, with a traceback of `thread` from `level` on.
///
/// # Safety
/// `l` runs a host function with the state's context, below a fence; `thread` is a live coroutine of its state.
unsafe fn record(l: *mut lua_State, thread: *mut lua_State, level: c_int) -> c_int {
    // SAFETY: as promised by the caller; nothing here is to be dropped when an error is raised.
    unsafe {
        let context = StateContext::of_running(l);
        let mut object = 1;
        if ffi::lua_type(l, 1) == ffi::LUA_TTABLE {
            ffi::lua_rawgeti(l, 1, 1);
            ffi::lua_rawgeti(l, 1, 2);
            let status = ffi::lua_tointeger(l, 2);
            if (400..=599).contains(&status) && ffi::lua_type(l, 2) == ffi::LUA_TNUMBER {
                context.asked.set(Some(status as u16));
                object = 3;
            }
        }
        let mut text = ffi::luaL_tolstring(l, object, std::ptr::null_mut());
        // Code that has not run yet, or has returned already, has no stack to show.
        if context.fault.get() == Fault::Runtime && object == 1 {
            if ffi::lua_type(l, 1) == ffi::LUA_TUSERDATA {
                text = push_message(l);
            }
            ffi::luaL_traceback(l, thread, text, level);
        }
        let mut stack = Stack::of(l);
        let quiet = stack.quiet();
        let text = quiet.string(-1).unwrap_or_default();
        let kept = &mut *context.message.get();
        kept.clear();
        // Longer text, which would not be read anyway, is not copied outside of the state's limit.
        kept.extend_from_slice(&text[..text.len().min(MESSAGE_BYTES)]);
        quiet.cut(1);
        1
    }
}
