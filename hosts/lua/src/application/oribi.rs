//! Oribi's own style: `return function(request) return status, fields, body end`.

use crate::request;
use crate::response::{self, Shape};
use crate::state_context::StateContext;
use crate::waits;
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;

/// Further upvalues; the first is the state's context.
const HANDLER: c_int = 2;
const METATABLE: c_int = 3;

/// Replaces the handler on top of the stack by the function that answers requests by calling it.
///
/// # Safety
/// `l` is below a fence.
pub(super) unsafe fn push_server(l: *mut lua_State, context: &StateContext) {
    // SAFETY: as promised by the caller.
    unsafe {
        request::push_metatable(l, context);
        if context.waits {
            context.push_function(l, arguments, 1);
            response::push_answering(l, context, Shape::Oribi);
            return waits::make_server(l);
        }
        context.push_function(l, serve, 2);
    }
}

/// The further upvalue of [`arguments`].
const METATABLE_OF_ARGUMENTS: c_int = 2;

/// Returns the handler's argument, if handlers may wait.
unsafe extern "C-unwind" fn arguments(l: *mut lua_State) -> c_int {
    // SAFETY: as for `serve`.
    unsafe {
        let context = StateContext::of_running(l);
        ffi::lua_createtable(l, 0, 0);
        context.object.set(ffi::lua_topointer(l, -1));
        ffi::lua_pushvalue(l, ffi::lua_upvalueindex(METATABLE_OF_ARGUMENTS));
        ffi::lua_setmetatable(l, -2);
        1
    }
}

unsafe extern "C-unwind" fn serve(l: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this below a fence, with the upvalues of `push_server`; this frame holds nothing to be dropped.
    unsafe {
        let context = StateContext::of_running(l);
        ffi::lua_pushvalue(l, ffi::lua_upvalueindex(HANDLER));
        ffi::lua_createtable(l, 0, 0);
        context.object.set(ffi::lua_topointer(l, -1));
        ffi::lua_pushvalue(l, ffi::lua_upvalueindex(METATABLE));
        ffi::lua_setmetatable(l, -2);
        ffi::lua_call(l, 1, 3);
        response::answer(l, context, Shape::Oribi)
    }
}
