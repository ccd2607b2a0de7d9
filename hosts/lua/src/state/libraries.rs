//! The libraries of a new state: Lua's own, except for a few functions that would affect more than the script.

use crate::state_context::StateContext;
use crate::vm::stack::{push_bytes, raise};
use crate::vm::{Slot, Stack, arm};
use crate::{LuaSettings, modules, search_paths, waits};
use mlua::ffi::{self, lua_Debug, lua_State};
use mlua::{Function, Lua, Table};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::raw::c_int;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The message of the error that `os.exit` raises.
const EXITED: &str = "os.exit";

/// Prepares the libraries for a script.
pub(super) fn prepare(lua: &Lua, context: &StateContext, script: &Path, settings: &LuaSettings) -> mlua::Result<()> {
    let globals = lua.globals();
    globals.set("print", function(lua, context, print)?)?;
    globals.get::<Table>("os")?.set("exit", function(lua, context, exit)?)?;
    let debug: Table = globals.get("debug")?;
    for name in ["sethook", "gethook"] {
        let original: Function = debug.get(name)?;
        // SAFETY: mlua runs this below a fence of its own; the state's context outlives the state.
        let guarded: Function = unsafe { lua.exec_raw(original, |l| context.push_function(l, with_own_hooks, 1)) }?;
        debug.set(name, guarded)?;
    }
    search_paths::extend(lua)?;
    set_paths(&globals.get("package")?, script, settings)?;
    modules::install(lua, &settings.environment)?;
    settings.hooks.install(lua)?;
    let switches = if cfg!(feature = "luajit") {
        // LuaJIT's hooks belong to the state, not to a coroutine.
        (None, None)
    } else {
        (Some(function(lua, context, enter_coroutine)?), Some(function(lua, context, left_coroutine)?))
    };
    let stopping = function(lua, context, is_stopping)?;
    let prelude = lua.load(include_str!("prelude.lua")).set_name("=[oribi]");
    let directory = script.parent().map(|directory| lua.create_string(directory.as_os_str().as_bytes())).transpose()?;
    let deadline = function(lua, context, deadline)?;
    prelude.call::<()>((function(lua, context, note_loaded)?, directory, deadline, stopping, switches.0, switches.1))?;
    if settings.waits { waits::install(lua, context) } else { Ok(()) }
}

/// A host function as a value.
fn function(lua: &Lua, context: &StateContext, function: ffi::lua_CFunction) -> mlua::Result<Function> {
    // SAFETY: mlua runs this below a fence of its own; the state's context outlives the state.
    unsafe { lua.exec_raw((), |l| context.push_function(l, function, 0)) }
}

/// Makes `require` look in the script's directory first. The process's working directory is not changed, because all threads
/// share it.
fn set_paths(package: &Table, script: &Path, settings: &LuaSettings) -> mlua::Result<()> {
    let beside = script.parent().into_iter().chain(settings.include.iter().map(PathBuf::as_path));
    let (mut lua_path, mut native_path) = (String::new(), String::new());
    for directory in beside {
        // Lua's templates cannot contain these characters.
        let Some(directory) = directory.to_str().filter(|name| !name.contains([';', '?'])) else { continue };
        // Writing into a string does not fail.
        let _ = write!(lua_path, "{directory}/?.lua;{directory}/?/init.lua;");
        let _ = write!(native_path, "{directory}/?.so;");
    }
    for (name, first, given) in [("path", lua_path, &settings.package_path), ("cpath", native_path, &settings.package_cpath)] {
        let rest = match given {
            Some(given) => given.clone(),
            None => package.get(name)?,
        };
        package.set(name, first + &rest)?;
    }
    Ok(())
}

/// `print` writes to the log, because a server's standard output is not read.
unsafe extern "C-unwind" fn print(l: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this below a fence; values to be dropped are made only when no more errors can be raised.
    unsafe {
        let count = ffi::lua_gettop(l);
        for index in 1..=count {
            if index > 1 {
                push_bytes(l, b"\t");
            }
            ffi::luaL_checkstack(l, 3, std::ptr::null());
            ffi::luaL_tolstring(l, index, std::ptr::null_mut());
        }
        if count > 0 {
            ffi::lua_concat(l, 2 * count - 1);
        } else {
            push_bytes(l, b"");
        }
        let context = StateContext::of_running(l);
        let mut stack = Stack::of(l);
        context.contain(|| context.say(stack.quiet().string(-1).unwrap_or_default()));
        0
    }
}

/// `os.exit` ends the request, not the server, by an error that `pcall` cannot catch.
unsafe extern "C-unwind" fn exit(l: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this below a fence; this frame holds nothing.
    unsafe {
        StateContext::of_running(l).exited.set(true);
        arm(l, raise_exit);
        push_bytes(l, EXITED.as_bytes());
        ffi::lua_error(l)
    }
}

unsafe extern "C-unwind" fn raise_exit(l: *mut lua_State, _: *mut lua_Debug) {
    // SAFETY: a hook may raise an error; this frame holds nothing.
    unsafe {
        push_bytes(l, EXITED.as_bytes());
        ffi::lua_error(l)
    }
}

/// Calls `debug.sethook` or `debug.gethook`, which is the second upvalue, while no hook of this host is set. During the call no
/// signal handler may set a hook, because LuaJIT changes its tables of instructions then. And `gethook` must return the hook
/// that the script has set.
unsafe extern "C-unwind" fn with_own_hooks(l: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this below a fence; this frame holds nothing.
    unsafe {
        ffi::lua_pushvalue(l, ffi::lua_upvalueindex(2));
        ffi::lua_insert(l, 1);
        Slot::with_current(|slot| slot.into_iter().for_each(Slot::lend_hooks));
        let status = ffi::lua_pcall(l, ffi::lua_gettop(l) - 1, ffi::LUA_MULTRET, 0);
        Slot::with_current(|slot| slot.into_iter().for_each(Slot::take_hooks));
        if status != ffi::LUA_OK {
            ffi::lua_error(l)
        }
        ffi::lua_gettop(l)
    }
}

/// Records the name of a file that is about to be loaded.
unsafe extern "C-unwind" fn note_loaded(l: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this below a fence; inside `contain`, no error is raised.
    unsafe {
        let context = StateContext::of_running(l);
        let mut stack = Stack::of(l);
        if let Some(name) = stack.quiet().string(1) {
            context.contain(|| context.note_loaded(PathBuf::from(OsStr::from_bytes(name))));
        }
        0
    }
}

/// Records a coroutine that is about to be resumed, and returns it.
unsafe extern "C-unwind" fn enter_coroutine(l: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this below a fence; this frame holds nothing.
    unsafe {
        ffi::lua_settop(l, 1);
        let thread = ffi::lua_tothread(l, 1);
        if !thread.is_null() {
            switch_to(l, thread);
        }
        1
    }
}

/// Called with the results of `coroutine.resume`, which it returns, in the coroutine that has resumed another one. If the other
/// coroutine called `os.exit`, `resume` has turned the error into a result; then this function raises it again.
unsafe extern "C-unwind" fn left_coroutine(l: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this below a fence; this frame holds nothing.
    unsafe {
        if StateContext::of_running(l).exited.get() {
            switch_to_running(l);
            return exit(l);
        }
        let count = ffi::lua_gettop(l);
        ffi::luaL_checkstack(l, 2, std::ptr::null());
        switch_to_running(l);
        ffi::lua_settop(l, count);
        count
    }
}

/// # Safety
/// As for [`switch_to`].
unsafe fn switch_to_running(l: *mut lua_State) {
    // SAFETY: as promised by the caller.
    unsafe {
        ffi::lua_pushthread(l);
        switch_to(l, l);
    }
}

/// The longest time of a deadline: a century, in seconds.
const LONGEST: f64 = 3_153_600_000.0;

/// `oribi.deadline(seconds)`: the script may run for this time from now on; without a number, without a limit.
unsafe extern "C-unwind" fn deadline(l: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this below a fence; inside `contain`, no error is raised, and this frame holds nothing.
    unsafe {
        let time = match ffi::lua_type(l, 1) {
            ffi::LUA_TNIL | ffi::LUA_TNONE => None,
            ffi::LUA_TNUMBER if (0.0..=LONGEST).contains(&ffi::lua_tonumber(l, 1)) => {
                Some(Duration::from_secs_f64(ffi::lua_tonumber(l, 1)))
            }
            _ => raise(l, format_args!("a deadline is a number of seconds from now, or nil for none")),
        };
        let context = StateContext::of_running(l);
        let Some(exchange) = context.exchange() else {
            raise(l, format_args!("there is no request, so there is no deadline to change"))
        };
        if context.contain(|| exchange.extend_deadline(time)).is_none() {
            raise(l, format_args!("the deadline cannot be changed"));
        }
        0
    }
}

/// Whether the script is being stopped, because of its time limit or because it has called `os.exit`.
unsafe extern "C-unwind" fn is_stopping(l: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this below a fence; this frame holds nothing.
    unsafe {
        let stopped = Slot::with_current(|slot| slot.is_some_and(Slot::was_stopped));
        ffi::lua_pushboolean(l, c_int::from(stopped || StateContext::of_running(l).exited.get()));
        1
    }
}

/// Records the coroutine `thread`, which is on top of the stack, as the running one. The watchdog may read this record after an
/// error has ended that coroutine, so the registry protects the coroutine from garbage collection until another one is
/// recorded.
unsafe fn switch_to(l: *mut lua_State, thread: *mut lua_State) {
    // SAFETY: as for the callers. No other entry of the registry has the address of the state's context as its key.
    unsafe {
        ffi::lua_pushvalue(l, -1);
        ffi::lua_rawsetp(l, ffi::LUA_REGISTRYINDEX, std::ptr::from_ref(StateContext::of_running(l)).cast());
    }
    Slot::with_current(|slot| {
        if let Some(slot) = slot {
            slot.switch(thread);
        }
    });
}
