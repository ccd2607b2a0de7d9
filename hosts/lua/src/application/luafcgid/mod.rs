//! The styles of luafcgid: `main(env, con)`, which answers through `con`, and the older `handler()`, which returns the body.

mod connection;

use super::Style;
use crate::error_page::Fault;
use crate::exchange::{Exchange, Progress};
use crate::state_context::StateContext;
use crate::vm::Stack;
use crate::vm::stack::{push_bytes, raise, type_name};
use crate::{variables, waits};
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;

/// Further upvalues; the first is the state's context.
const HANDLER: c_int = 2;
const METATABLE: c_int = 3;
const NAMES: c_int = 4;
const MUST_RETURN: c_int = 5;

/// The version of the interface for scripts, LUAFCGID_VERSION.
const INTERFACE: ffi::lua_Integer = 1;

/// Replaces the script's function on top of the stack by the function that answers requests by calling it.
///
/// # Safety
/// `l` is below a fence.
pub(super) unsafe fn push_server(l: *mut lua_State, context: &StateContext, style: Style) {
    // SAFETY: as promised by the caller.
    unsafe {
        connection::push_metatable(l, context);
        variables::push_names(l);
        ffi::lua_pushboolean(l, c_int::from(style == Style::LuafcgidFirst));
        if context.waits {
            // The handler stays at the bottom. Both functions have copies of all four values as upvalues.
            let handler = ffi::lua_gettop(l) - 3;
            for function in [arguments as ffi::lua_CFunction, returned] {
                for index in handler..handler + 4 {
                    ffi::lua_pushvalue(l, index);
                }
                context.push_function(l, function, 4);
            }
            ffi::lua_pushnil(l);
            ffi::lua_replace(l, handler + 3);
            ffi::lua_replace(l, handler + 2);
            ffi::lua_replace(l, handler + 1);
            return waits::make_server(l);
        }
        context.push_function(l, serve, 4);
    }
}

unsafe extern "C-unwind" fn serve(l: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this below a fence, with the upvalues of `push_server`, and this frame holds nothing to be dropped.
    // Each borrow of the answer ends before Lua runs again.
    unsafe {
        let context = StateContext::of_running(l);
        let Some(exchange) = context.exchange() else { return 0 };
        ffi::lua_pushvalue(l, ffi::lua_upvalueindex(HANDLER));
        push_arguments(l, context, exchange);
        ffi::lua_call(l, 2, 1);
        take_result(l, context, exchange)
    }
}

/// Returns the handler's arguments, if handlers may wait.
unsafe extern "C-unwind" fn arguments(l: *mut lua_State) -> c_int {
    // SAFETY: as for `serve`.
    unsafe {
        let context = StateContext::of_running(l);
        let Some(exchange) = context.exchange() else { return 0 };
        push_arguments(l, context, exchange);
        2
    }
}

/// Takes the handler's result, if handlers may wait.
unsafe extern "C-unwind" fn returned(l: *mut lua_State) -> c_int {
    // SAFETY: as for `serve`.
    unsafe {
        let context = StateContext::of_running(l);
        let Some(exchange) = context.exchange() else { return 0 };
        ffi::lua_settop(l, 1);
        take_result(l, context, exchange)
    }
}

/// Begins the answer, and pushes `env` and `con`.
///
/// # Safety
/// `l` runs a function with the upvalues of `push_server`, below a fence.
#[inline]
unsafe fn push_arguments(l: *mut lua_State, context: &StateContext, exchange: &Exchange<'_>) {
    // SAFETY: as promised by the caller; the borrow of the answer ends before Lua runs again.
    unsafe {
        (*context.luafcgid_answer.get()).begin(exchange.settings);
        variables::push(l, context, exchange, ffi::lua_upvalueindex(NAMES));
        push_bytes(l, b"LUAFCGID_VERSION");
        ffi::lua_pushinteger(l, INTERFACE);
        ffi::lua_rawset(l, -3);
        connection::push(l, context, ffi::lua_upvalueindex(METATABLE));
    }
}

/// Takes the handler's result, which is on top of the stack, and ends the answer.
///
/// # Safety
/// As for [`push_arguments`]; no frame up to the fence holds anything to be dropped.
#[inline]
unsafe fn take_result(l: *mut lua_State, context: &StateContext, exchange: &Exchange<'_>) -> c_int {
    // SAFETY: as promised by the caller. Each borrow of the answer ends before Lua runs again.
    unsafe {
        // In the first generation of luafcgid, `handler` returned the body. If the script has used `puts`, the return value is
        // ignored.
        let must_return = ffi::lua_toboolean(l, ffi::lua_upvalueindex(MUST_RETURN)) != 0;
        let silent = exchange.progress() == Progress::Nothing && (*context.luafcgid_answer.get()).body.is_empty();
        if silent && ffi::lua_type(l, -1) == ffi::LUA_TSTRING {
            let mut stack = Stack::of(l);
            context.contain(|| {
                (*context.luafcgid_answer.get()).body.extend_from_slice(stack.quiet().string(-1).unwrap_or_default());
            });
        } else if silent && must_return {
            context.fault.set(Fault::Response);
            raise(l, format_args!("the function `handler` has returned a {}, not a string", type_name(l, -1)));
        }
        match context.contain(|| finish(context, exchange)) {
            Some(()) => 0,
            None => raise(l, format_args!("the response cannot be sent")),
        }
    }
}

/// Sends the unflushed answer, and ends the answer.
pub(crate) fn finish(context: &StateContext, exchange: &Exchange<'_>) {
    // SAFETY: nothing else borrows the answer: the script has returned, or was stopped and does not continue.
    let answer = unsafe { &mut *context.luafcgid_answer.get() };
    if exchange.progress() == Progress::Nothing {
        answer.with_head(|head, body| exchange.respond(head, &[body]));
    } else {
        if !answer.body.is_empty() {
            exchange.write(&answer.body);
        }
        exchange.finish();
    }
    answer.end();
}
