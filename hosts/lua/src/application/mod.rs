//! The styles of apps, and the recognition of a script's style.
//!
//! The host runs the script once. The script's return value and the globals that it has defined decide; the first of these
//! rules that applies:
//! 1. The script returns a function: Oribi's own style ([`oribi`]), or WSAPI if the script's name ends in `.ws`.
//! 2. The script returns a table with a function `run`, or has made itself a module with such a function: WSAPI ([`wsapi`]).
//! 3. The script has defined the global function that the setting `handler` names (`main` by default): luafcgid ([`luafcgid`]).
//! 4. The script has defined the global function `run`: WSAPI.
//! 5. The script has defined the global function `handler`, which returns the page: the first generation of luafcgid.

pub(crate) mod luafcgid;
mod oribi;
mod wsapi;

use crate::LuaSettings;
use crate::error_page::Fault;
use crate::hooks;
use crate::state_context::StateContext;
use crate::vm::Stack;
use crate::vm::stack::{push_bytes, raise};
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;
use std::os::unix::ffi::OsStrExt;

/// The styles of apps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A function of the request that returns status, fields and body.
    Oribi,
    /// `run(env)`, which returns status, headers and an iterator.
    Wsapi,
    /// `main(env, con)`.
    Luafcgid,
    /// `handler()`, which returns the body.
    LuafcgidFirst,
}

impl Style {
    const ALL: [Self; 4] = [Self::Oribi, Self::Wsapi, Self::Luafcgid, Self::LuafcgidFirst];

    /// The style with this number.
    pub(crate) fn numbered(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or(Self::Oribi)
    }
}

/// Upvalues of the chooser; the first is the state's context.
const MODULE: c_int = 2;
const HANDLER: c_int = 3;

/// Pushes the chooser: a function that runs the script and returns two values, the function that answers requests with the
/// script, and the number of the script's [`Style`].
///
/// # Safety
/// `l` is a live state below a fence, with room for three values; `context` outlives the state.
pub(crate) unsafe fn push_chooser(l: *mut lua_State, context: &StateContext, settings: &LuaSettings) {
    let module = context.script.file_stem().map(OsStrExt::as_bytes).unwrap_or_default();
    // SAFETY: as promised by the caller.
    unsafe {
        push_bytes(l, module);
        push_bytes(l, settings.handler.as_bytes());
        context.push_function(l, choose, 2);
    }
}

unsafe extern "C-unwind" fn choose(l: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this below a fence, with the upvalues of `push_chooser`; this frame holds nothing to be dropped.
    unsafe {
        let context = StateContext::of_running(l);
        run_script(l, context);
        // 1: the return value of the script.
        if ffi::lua_type(l, 1) == ffi::LUA_TFUNCTION {
            // A launcher of WSAPI, recognized by its name, returns `run`.
            let launcher = context.script.extension().is_some_and(|ending| ending == "ws");
            return serve(l, context, if launcher { Style::Wsapi } else { Style::Oribi });
        }
        if has_run(l, 1) {
            return serve(l, context, Style::Wsapi);
        }
        ffi::lua_getfield(l, ffi::LUA_REGISTRYINDEX, c"_LOADED".as_ptr());
        ffi::lua_pushvalue(l, ffi::lua_upvalueindex(MODULE));
        ffi::lua_rawget(l, -2);
        // For a script called `string.lua` this is Lua's own module `string`, which has no `run`.
        if has_run(l, -1) {
            return serve(l, context, Style::Wsapi);
        }
        for (name, style) in [(None, Style::Luafcgid), (Some(c"run"), Style::Wsapi), (Some(c"handler"), Style::LuafcgidFirst)] {
            match name {
                None => {
                    ffi::lua_pushglobaltable(l);
                    ffi::lua_pushvalue(l, ffi::lua_upvalueindex(HANDLER));
                    ffi::lua_rawget(l, -2);
                }
                Some(name) => {
                    ffi::lua_getglobal(l, name.as_ptr());
                }
            }
            if ffi::lua_type(l, -1) == ffi::LUA_TFUNCTION {
                return serve(l, context, style);
            }
        }
        context.fault.set(Fault::File);
        let mut stack = Stack::of(l);
        let handler = stack.quiet().string(ffi::lua_upvalueindex(HANDLER)).unwrap_or_default().escape_ascii();
        raise(
            l,
            format_args!(
                "there is nothing to answer requests with: the script must return a function, or a table with a function `run`, \
                 or define a global function `{handler}`, `run` or `handler`"
            ),
        )
    }
}

/// Loads and runs the script, and leaves its return value as the only value on the stack.
unsafe fn run_script(l: *mut lua_State, context: &StateContext) {
    // SAFETY: as for `choose`.
    unsafe {
        let status = ffi::luaL_loadfile(l, context.file.as_ptr());
        if status != ffi::LUA_OK {
            context.fault.set(match status {
                ffi::LUA_ERRSYNTAX => Fault::Syntax,
                ffi::LUA_ERRMEM => Fault::Memory,
                _ => Fault::File,
            });
            ffi::lua_error(l);
        }
        // With the same argument as `require`, so that `module(...)` works.
        ffi::lua_pushvalue(l, ffi::lua_upvalueindex(MODULE));
        ffi::lua_call(l, 1, 1);
    }
}

/// Whether a table with a function `run` is at `index`; if so, pushes that function.
unsafe fn has_run(l: *mut lua_State, index: c_int) -> bool {
    // SAFETY: as for `choose`.
    unsafe {
        if ffi::lua_type(l, index) != ffi::LUA_TTABLE {
            return false;
        }
        ffi::lua_getfield(l, index, c"run".as_ptr());
        let found = ffi::lua_type(l, -1) == ffi::LUA_TFUNCTION;
        if !found {
            ffi::lua_settop(l, -2);
        }
        found
    }
}

/// Makes the function on top of the stack the handler, and returns from the chooser.
unsafe fn serve(l: *mut lua_State, context: &StateContext, style: Style) -> c_int {
    // SAFETY: as for `choose`.
    unsafe {
        hooks::wrap_handler(l, context.script.as_os_str().as_bytes());
        match style {
            Style::Oribi => oribi::push_server(l, context),
            Style::Wsapi => wsapi::push_server(l, context),
            Style::Luafcgid | Style::LuafcgidFirst => luafcgid::push_server(l, context, style),
        }
        ffi::lua_pushinteger(l, style as u8 as ffi::lua_Integer);
        2
    }
}
