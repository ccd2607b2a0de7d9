//! WSAPI: `run(env)` returns status, headers and an iterator.
//!
//! As with WSAPI's own connectors, the headers may be missing, and the body may be a string, a list or nil.

use crate::exchange::Exchange;
use crate::response::{self, Shape};
use crate::state_context::StateContext;
use crate::vm::Stack;
use crate::vm::stack::{bytes_at, push_bytes};
use crate::{request, variables, waits};
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;
use std::os::unix::ffi::OsStrExt;

/// Further upvalues; the first is the state's context.
const RUN: c_int = 2;
const ENV_METATABLE: c_int = 3;
const INPUT_METATABLE: c_int = 4;
const ERROR: c_int = 5;
const NAMES: c_int = 6;

/// Replaces the script's function on top of the stack by the function that answers requests by calling it.
///
/// # Safety
/// `l` is below a fence.
pub(super) unsafe fn push_server(l: *mut lua_State, context: &StateContext) {
    // SAFETY: as promised by the caller.
    unsafe {
        ffi::lua_createtable(l, 0, 1);
        ffi::lua_pushcclosure(l, missing, 0);
        ffi::lua_setfield(l, -2, c"__index".as_ptr());
        request::push_input_metatable(l, context);
        ffi::lua_createtable(l, 0, 1);
        context.push_function(l, write_error, 0);
        ffi::lua_setfield(l, -2, c"write".as_ptr());
        variables::push_names(l);
        if context.waits {
            // The handler stays; `arguments` takes the place of it among its own upvalues.
            ffi::lua_pushvalue(l, -5);
            ffi::lua_insert(l, -5);
            context.push_function(l, arguments, 5);
            response::push_answering(l, context, Shape::Wsapi);
            return waits::make_server(l);
        }
        context.push_function(l, serve, 5);
    }
}

unsafe extern "C-unwind" fn serve(l: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this below a fence, with the upvalues of `push_server`; this frame holds nothing to be dropped.
    unsafe {
        let context = StateContext::of_running(l);
        let Some(exchange) = context.exchange() else { return 0 };
        ffi::lua_pushvalue(l, ffi::lua_upvalueindex(RUN));
        push_environment(l, context, exchange);
        ffi::lua_call(l, 1, 3);
        response::answer(l, context, Shape::Wsapi)
    }
}

/// Returns the handler's argument, if handlers may wait.
unsafe extern "C-unwind" fn arguments(l: *mut lua_State) -> c_int {
    // SAFETY: as for `serve`.
    unsafe {
        let context = StateContext::of_running(l);
        let Some(exchange) = context.exchange() else { return 0 };
        push_environment(l, context, exchange);
        1
    }
}

/// Pushes `env`.
///
/// # Safety
/// `l` runs a function with the upvalues of `push_server`, below a fence.
#[inline]
unsafe fn push_environment(l: *mut lua_State, context: &StateContext, exchange: &Exchange<'_>) {
    // SAFETY: as promised by the caller.
    unsafe {
        variables::push(l, context, exchange, ffi::lua_upvalueindex(NAMES));
        ffi::lua_getfield(l, -1, c"PATH_INFO".as_ptr());
        if bytes_at(l, -1).is_none_or(<[u8]>::is_empty) {
            push_bytes(l, b"/");
            ffi::lua_setfield(l, -3, c"PATH_INFO".as_ptr());
        }
        ffi::lua_settop(l, -2);
        push_bytes(l, context.script.parent().map(|directory| directory.as_os_str().as_bytes()).unwrap_or_default());
        ffi::lua_setfield(l, -2, c"APP_PATH".as_ptr());
        ffi::lua_createtable(l, 0, 0);
        context.object.set(ffi::lua_topointer(l, -1));
        ffi::lua_pushvalue(l, ffi::lua_upvalueindex(INPUT_METATABLE));
        ffi::lua_setmetatable(l, -2);
        ffi::lua_setfield(l, -2, c"input".as_ptr());
        if exchange.data().is_some() {
            request::push_data(l, context, exchange, ffi::lua_upvalueindex(INPUT_METATABLE));
            ffi::lua_setfield(l, -2, c"data".as_ptr());
        }
        ffi::lua_pushvalue(l, ffi::lua_upvalueindex(ERROR));
        ffi::lua_setfield(l, -2, c"error".as_ptr());
        ffi::lua_pushvalue(l, ffi::lua_upvalueindex(ENV_METATABLE));
        ffi::lua_setmetatable(l, -2);
    }
}

/// A variable that the request does not have reads as an empty string.
unsafe extern "C-unwind" fn missing(l: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this below a fence.
    unsafe { push_bytes(l, b"") };
    1
}

/// `env.error:write(...)` writes to the log.
unsafe extern "C-unwind" fn write_error(l: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this below a fence; inside `contain`, no error is raised.
    unsafe {
        let count = ffi::lua_gettop(l) - 1;
        for index in 2..=count + 1 {
            ffi::luaL_checkstack(l, 3, std::ptr::null());
            ffi::luaL_tolstring(l, index, std::ptr::null_mut());
        }
        if count > 0 {
            ffi::lua_concat(l, count);
            let context = StateContext::of_running(l);
            let mut stack = Stack::of(l);
            context.contain(|| context.say(stack.quiet().string(-1).unwrap_or_default()));
        }
        0
    }
}
