//! Waits of scripts: the reasons, the results, and the Lua functions by which scripts wait.
//!
//! A handler that may wait runs in a coroutine. The Lua code of `coroutines.lua` yields a mark and the reason of the wait; the
//! lane resumes the coroutine with the result. Without such a coroutine, as while a script is loaded, a wait blocks the thread
//! ([`blocking`]).

pub(crate) mod blocking;

use crate::exchange::Exchange;
use crate::state_context::StateContext;
use mlua::ffi::{self, lua_State};
use mlua::{Function, LightUserData, Lua, Table, Value};
use std::ffi::CStr;
use std::os::fd::RawFd;
use std::os::raw::{c_int, c_void};

/// Registry keys of the functions of `coroutines.lua` in a state: the function that waits, the one that makes the function
/// that answers requests, the one that makes `con` wait for slow clients, and the metatable of waits that have ended.
const NAMES: [&CStr; 4] = [WAIT_FUNCTION, SERVER, PATIENT, ENDED];
const WAIT_FUNCTION: &CStr = c"oribi.waits.wait";
const SERVER: &CStr = c"oribi.waits.server";
const PATIENT: &CStr = c"oribi.waits.patient";
const ENDED: &CStr = c"oribi.waits.ended";

/// The direction in which a script waits for a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// Its address is the first value that a coroutine yields when it waits.
static WAIT: u8 = 0;

/// The first value of a wait.
fn wait_mark() -> Value {
    Value::LightUserData(LightUserData((&raw const WAIT).cast_mut().cast()))
}

/// The numbers of waits.
const KINDS: [(&str, c_int); 10] = [
    ("sleep", Kind::SLEEP),
    ("read", Kind::READ),
    ("write", Kind::WRITE),
    ("park", Kind::PARK),
    ("wake", Kind::WAKE),
    ("spawn", Kind::SPAWN),
    ("room", Kind::ROOM),
    ("self", Kind::MYSELF),
    ("forget", Kind::FORGET),
    ("stopping", Kind::STOPPING),
];

struct Kind;

impl Kind {
    const SLEEP: c_int = 1;
    const READ: c_int = 2;
    const WRITE: c_int = 3;
    const PARK: c_int = 4;
    const WAKE: c_int = 5;
    const SPAWN: c_int = 6;
    const ROOM: c_int = 7;
    const MYSELF: c_int = 8;
    const FORGET: c_int = 9;
    const STOPPING: c_int = 10;
}

/// The table of the numbers of waits, by their names.
pub(crate) fn kinds(lua: &Lua) -> mlua::Result<Table> {
    let kinds = lua.create_table()?;
    for (name, number) in KINDS {
        kinds.raw_set(name, number)?;
    }
    // Lua 5.4 has a wrapper of its own.
    kinds.raw_set("wraps", cfg!(feature = "luajit"))?;
    Ok(kinds)
}

/// The reason for which a coroutine waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Wish {
    /// For this number of seconds.
    Sleep(f64),
    /// For a descriptor, at most for this number of seconds.
    Descriptor(RawFd, Direction, Option<f64>),
    /// Until another coroutine wakes it.
    Park,
    /// Wake the task with this number.
    Wake(u64),
    /// Run a function as a task; this number of values, the function and its arguments, is on the coroutine's stack.
    Spawn(c_int),
    /// Until its client has taken content.
    Room,
    /// Its own number.
    Myself,
    /// End the waits of other tasks for a descriptor that is about to be closed.
    Forget(RawFd),
    /// Whether the worker ends.
    IsStopping,
}

impl Wish {
    /// Whether the coroutine goes on at once.
    pub(crate) const fn is_immediate(self) -> bool {
        matches!(self, Self::Wake(_) | Self::Myself | Self::Forget(_) | Self::IsStopping)
    }

    /// Parses the wait that a coroutine has requested of Lua code without a coroutine.
    pub(crate) fn new(kind: c_int, first: Option<f64>, second: Option<f64>) -> Option<Self> {
        Some(match kind {
            Kind::SLEEP => Self::Sleep(first?),
            Kind::READ => Self::Descriptor(first? as RawFd, Direction::Read, second),
            Kind::WRITE => Self::Descriptor(first? as RawFd, Direction::Write, second),
            Kind::PARK => Self::Park,
            Kind::WAKE => Self::Wake(first? as u64),
            Kind::ROOM => Self::Room,
            Kind::MYSELF => Self::Myself,
            Kind::FORGET => Self::Forget(first? as RawFd),
            Kind::STOPPING => Self::IsStopping,
            _ => return None,
        })
    }

    /// Reads the values that a coroutine has yielded; removes them, except for those of [`Wish::Spawn`].
    ///
    /// # Safety
    /// `thread` has just yielded `count` values.
    pub(crate) unsafe fn read(thread: *mut lua_State, count: c_int) -> Option<Self> {
        // SAFETY: as promised by the caller; reading numbers neither allocates nor raises an error.
        unsafe {
            let number = |place: c_int| {
                let index = place - count;
                (place < count && ffi::lua_type(thread, index) == ffi::LUA_TNUMBER).then(|| ffi::lua_tonumber(thread, index))
            };
            let is_wait = count >= 2
                && ffi::lua_type(thread, -count) == ffi::LUA_TLIGHTUSERDATA
                && ffi::lua_touserdata(thread, -count) == (&raw const WAIT).cast_mut().cast::<c_void>();
            let wish = is_wait.then(|| number(1)).flatten().and_then(|kind| match kind as c_int {
                Kind::SPAWN if count > 2 => Some(Self::Spawn(count - 2)),
                kind => Self::new(kind, number(2), number(3)),
            });
            if !matches!(wish, Some(Self::Spawn(_))) {
                ffi::lua_settop(thread, -count - 1);
            }
            wish
        }
    }
}

/// The result of a wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// The coroutine begins; this number of arguments is on its stack.
    Start(c_int),
    /// The awaited event has happened, or the time is over.
    Happened(bool),
    /// A number.
    Number(u64),
    /// The wait cannot go on: see `coroutines.lua` for the numbers.
    Ended(c_int),
}

impl Outcome {
    /// The client of the request has gone.
    pub(crate) const CLIENT_GONE: Self = Self::Ended(1);
    /// The worker ends.
    pub(crate) const WORKER_ENDS: Self = Self::Ended(2);
    /// There is no memory for a task.
    pub(crate) const NO_MEMORY: Self = Self::Ended(3);

    /// Pushes the values that the wait returns. Returns their number.
    ///
    /// # Safety
    /// `thread` has yielded, or has not begun; these values need no memory.
    pub(crate) unsafe fn push(self, thread: *mut lua_State) -> c_int {
        // SAFETY: as promised by the caller; a coroutine has room for twenty values.
        unsafe {
            match self {
                Self::Start(arguments) => return arguments,
                Self::Happened(happened) => {
                    ffi::lua_pushnil(thread);
                    ffi::lua_pushboolean(thread, c_int::from(happened));
                }
                Self::Number(number) => {
                    ffi::lua_pushnil(thread);
                    ffi::lua_pushnumber(thread, number as ffi::lua_Number);
                }
                Self::Ended(reason) => {
                    ffi::lua_pushinteger(thread, reason.into());
                    return 1;
                }
            }
            2
        }
    }
}

/// Prepares a state for handlers that wait.
///
/// # Errors
/// The state has no memory left.
pub(crate) fn install(lua: &Lua, context: &StateContext) -> mlua::Result<()> {
    // SAFETY: mlua runs this below a fence of its own; the state's context outlives the state.
    let is_full: Function = unsafe { lua.exec_raw((), |l| context.push_function(l, is_full, 0)) }?;
    let block = lua.create_function(blocking::wait)?;
    let chunk = lua.load(include_str!("coroutines.lua")).set_name("=[oribi]");
    let values: (Value, Value, Value, Value) = chunk.call((wait_mark(), block, is_full, kinds(lua)?))?;
    for (name, value) in NAMES.into_iter().zip([values.0, values.1, values.2, values.3]) {
        lua.set_named_registry_value(&name.to_string_lossy(), value)?;
    }
    Ok(())
}

/// The function by which the module `oribi` waits, and the metatable of the errors of waits that have ended; in a state whose
/// handlers do not wait, the first blocks, and there are no such errors.
///
/// # Errors
/// The state has no memory left.
pub(crate) fn function(lua: &Lua) -> mlua::Result<(Function, Value)> {
    let wait: Option<Function> = lua.named_registry_value(&WAIT_FUNCTION.to_string_lossy())?;
    match wait {
        Some(wait) => Ok((wait, lua.named_registry_value(&ENDED.to_string_lossy())?)),
        None => Ok((lua.create_function(blocking::wait)?, Value::Table(lua.create_table()?))),
    }
}

/// Whether the waits of a state block.
///
/// # Errors
/// The state has no memory left.
pub(crate) fn block(lua: &Lua) -> mlua::Result<bool> {
    Ok(lua.named_registry_value::<Value>(&WAIT_FUNCTION.to_string_lossy())?.is_nil())
}

/// Replaces four values on top of the stack by the function that answers requests: the handler, the function that returns its
/// arguments, the one that takes its results and returns an iterator if the body is one, and the one that sends a piece and
/// returns whether more may follow.
///
/// # Safety
/// `l` is below a fence, in a state in which [`install`] was called; no frame up to the fence holds anything to be dropped.
pub(crate) unsafe fn make_server(l: *mut lua_State) {
    // SAFETY: as promised by the caller.
    unsafe {
        ffi::lua_getfield(l, ffi::LUA_REGISTRYINDEX, SERVER.as_ptr());
        ffi::lua_insert(l, -5);
        ffi::lua_call(l, 4, 1);
    }
}

/// Makes the methods in the table on top of the stack wait for slow clients.
///
/// # Safety
/// As for [`make_server`].
pub(crate) unsafe fn make_patient(l: *mut lua_State) {
    // SAFETY: as promised by the caller.
    unsafe {
        ffi::lua_getfield(l, ffi::LUA_REGISTRYINDEX, PATIENT.as_ptr());
        ffi::lua_pushvalue(l, -2);
        ffi::lua_call(l, 1, 0);
    }
}

/// Whether a script that sends must wait for its client.
unsafe extern "C-unwind" fn is_full(l: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this below a fence; inside `contain`, no error is raised.
    unsafe {
        let context = StateContext::of_running(l);
        let full = context.contain(|| context.exchange().is_some_and(Exchange::is_full)).unwrap_or_default();
        ffi::lua_pushboolean(l, c_int::from(full));
        1
    }
}
