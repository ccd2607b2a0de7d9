//! The CGI variables of a request as a Lua table (RFC 3875, section 4.1).

use crate::exchange::Exchange;
use crate::script_path::ScriptSource;
use crate::state_context::StateContext;
use crate::vm::stack::{push_bytes, push_written, raise};
use mlua::ffi::{self, lua_State};
use oribi_host::environment::{Key, PathInfo, Rest, Split};
use oribi_message::{KnownVariable, Role};
use percent_encoding::percent_decode;
use std::os::raw::c_int;
use std::os::unix::ffi::OsStrExt;

/// Texts that are the same in every HTTP request. They follow the names in the list of [`push_names`].
const CONSTANTS: [&str; 8] = [
    "GATEWAY_INTERFACE",
    "CGI/1.1",
    "SERVER_SOFTWARE",
    concat!("Oribi/", env!("CARGO_PKG_VERSION")),
    "FCGI_ROLE",
    Role::Responder.as_str(),
    "SCRIPT_FILENAME",
    "DOCUMENT_ROOT",
];
/// The number of pairs of a name and a value among them.
const PAIRS: usize = 3;
const SCRIPT_FILENAME: usize = 6;
const DOCUMENT_ROOT: usize = 7;

/// Pushes a list of all interned names of variables, so that each Lua string is made only once. The index of a name is its key
/// plus one.
///
/// # Safety
/// `l` is below a fence.
pub(crate) unsafe fn push_names(l: *mut lua_State) {
    // SAFETY: as promised by the caller.
    unsafe {
        ffi::lua_createtable(l, Key::count() as c_int, 0);
        for key in 0..Key::count() {
            push_bytes(l, Key(key).name().unwrap_or_default().as_bytes());
            ffi::lua_rawseti(l, -2, place(key as usize));
        }
        for (number, text) in CONSTANTS.iter().enumerate() {
            push_bytes(l, text.as_bytes());
            ffi::lua_rawseti(l, -2, constant(number));
        }
    }
}

const fn place(number: usize) -> ffi::lua_Integer {
    number as ffi::lua_Integer + 1
}

const fn constant(number: usize) -> ffi::lua_Integer {
    place(Key::count() as usize + number)
}

/// Pushes a table of all variables of the request; `names` is the stack index of the list from [`push_names`].
///
/// # Safety
/// `l` is below a fence, and no frame up to there holds anything to be dropped.
pub(crate) unsafe fn push(l: *mut lua_State, context: &StateContext, exchange: &Exchange<'_>, names: c_int) {
    let request = exchange.request;
    // SAFETY: as promised by the caller.
    unsafe {
        ffi::lua_createtable(l, 0, 32);
        let kind = if maps_scripts(exchange) { PathInfo::AsGiven } else { PathInfo::Decoded };
        // Lua may collect garbage before it copies the bytes of a variable, and a finalizer may then request the variables,
        // too. `describe` keeps the memory of the bytes from being overwritten by that.
        let described = context.describe(|environment| {
            environment.describe(request, kind, |key, name, value| {
                if key == Key::OTHER {
                    push_bytes(l, name);
                } else {
                    ffi::lua_rawgeti(l, names, place(key.0 as usize));
                }
                push_bytes(l, value);
                ffi::lua_rawset(l, -3);
            });
        });
        if described.is_none() {
            raise(l, format_args!("a finalizer cannot have the variables of a request while they are being made"));
        }
        if let Some(gateway) = request.web_server() {
            set(l, b"FCGI_ROLE", gateway.role.as_str().as_bytes());
        } else {
            for pair in 0..PAIRS {
                ffi::lua_rawgeti(l, names, constant(2 * pair));
                ffi::lua_rawgeti(l, names, constant(2 * pair + 1));
                ffi::lua_rawset(l, -3);
            }
            ffi::lua_rawgeti(l, names, constant(SCRIPT_FILENAME));
            push_bytes(l, exchange.found.script.as_os_str().as_bytes());
            ffi::lua_rawset(l, -3);
            if let ScriptSource::DocumentRoot { root, .. } = &exchange.settings.source {
                ffi::lua_rawgeti(l, names, constant(DOCUMENT_ROOT));
                push_bytes(l, root.as_os_str().as_bytes());
                ffi::lua_rawset(l, -3);
            }
        }
        if exchange.found.script_name.is_some() {
            set(l, b"SCRIPT_NAME", script_name(exchange));
            push_bytes(l, b"PATH_INFO");
            push_path_info(l, exchange);
            ffi::lua_rawset(l, -3);
        }
    }
}

/// Sets a variable in the table on top of the stack.
unsafe fn set(l: *mut lua_State, name: &[u8], value: &[u8]) {
    // SAFETY: as for `push`.
    unsafe {
        push_bytes(l, name);
        push_bytes(l, value);
        ffi::lua_rawset(l, -3);
    }
}

/// SERVER_PROTOCOL: the client's protocol; behind a web server, if it is known.
pub(crate) fn protocol<'a>(exchange: &Exchange<'a>) -> &'a [u8] {
    let said = exchange.request.gateway.and_then(|gateway| gateway.get(KnownVariable::ServerProtocol));
    said.filter(|said| !said.is_empty()).unwrap_or_else(|| exchange.request.head.version().as_str().as_bytes())
}

/// SCRIPT_NAME: the part of the path that led to the script.
pub(crate) fn script_name<'a>(exchange: &Exchange<'a>) -> &'a [u8] {
    match (&exchange.found.script_name, exchange.request.web_server()) {
        (Some(name), _) => name,
        (None, Some(gateway)) if maps_scripts(exchange) => gateway.get(KnownVariable::ScriptName).unwrap_or_default(),
        (None, _) => Split::of(exchange.request).script_name,
    }
}

/// Whether the web server in front has chosen the script. If so, PATH_INFO is the part of the path behind the script, as in
/// CGI. Otherwise the script is an app, and the whole path below the app is its PATH_INFO.
fn maps_scripts(exchange: &Exchange<'_>) -> bool {
    matches!(exchange.settings.source, ScriptSource::Gateway { .. })
}

/// Pushes PATH_INFO: the part of the path behind the script, decoded.
///
/// # Safety
/// As for [`push`].
pub(crate) unsafe fn push_path_info(l: *mut lua_State, exchange: &Exchange<'_>) {
    let rest = match (&exchange.found.script_name, exchange.request.web_server()) {
        (None, Some(gateway)) if maps_scripts(exchange) => {
            // SAFETY: as promised by the caller.
            return unsafe { push_bytes(l, gateway.get(KnownVariable::PathInfo).unwrap_or_default()) };
        }
        (None, _) => match Split::of(exchange.request).path_info {
            // SAFETY: as promised by the caller.
            Rest::Decoded(path) => return unsafe { push_bytes(l, path) },
            Rest::AsSent(path) => path,
        },
        (Some(_), _) => exchange.request.head.path().get(exchange.found.path_info_at..).unwrap_or_default(),
    };
    // SAFETY: as promised by the caller.
    unsafe { push_decoded(l, rest) };
}

/// Pushes a path with its percent escapes decoded once. A broken escape stays as it is.
///
/// # Safety
/// As for [`push`].
pub(crate) unsafe fn push_decoded(l: *mut lua_State, path: &[u8]) {
    // SAFETY: as promised by the caller; the bytes of a request are not Lua's.
    unsafe {
        if memchr::memchr(b'%', path).is_none() {
            return push_bytes(l, path);
        }
        push_written(l, path.len(), |room| {
            // Decoding never makes a text longer.
            room.iter_mut().zip(percent_decode(path)).map(|(place, byte)| *place = byte).count()
        });
    }
}
