//! The request table of Oribi's own style: an empty table that computes each property when the script reads it, so that a
//! script pays only for the properties that it uses. The script may put values of its own into it.

use crate::content;
use crate::exchange::Exchange;
use crate::state_context::StateContext;
use crate::variables;
use crate::vm::Stack;
use crate::vm::stack::{bytes_at, push_bytes, push_written, raise};
use mlua::ffi::{self, lua_State};
use oribi_host::Content;
use oribi_message::KnownField;
use std::cell::Cell;
use std::os::raw::c_int;

/// Upvalues of the function that computes the properties; the first is the state's context.
const READ: c_int = 2;
const LINES: c_int = 3;
const FIELDS: c_int = 4;
const NAMES: c_int = 5;
const FIELD_NAMES: c_int = 6;
const INPUT_METATABLE: c_int = 7;

/// Pushes the metatable of requests.
///
/// # Safety
/// `l` is below a fence.
pub(crate) unsafe fn push_metatable(l: *mut lua_State, context: &StateContext) {
    // SAFETY: as promised by the caller.
    unsafe {
        ffi::lua_createtable(l, 0, 2);
        context.push_function(l, read, 0);
        context.push_function(l, lines, 0);
        ffi::lua_createtable(l, 0, 1);
        context.push_function(l, find_field, 0);
        ffi::lua_setfield(l, -2, c"__index".as_ptr());
        variables::push_names(l);
        push_field_names(l);
        push_input_metatable(l, context);
        context.push_function(l, property, 6);
        ffi::lua_setfield(l, -2, c"__index".as_ptr());
        push_bytes(l, b"request");
        ffi::lua_setfield(l, -2, c"__name".as_ptr());
    }
}

/// Pushes the metatable of objects that only have the methods `read` and `lines`: WSAPI's input, or the data for a filter.
///
/// # Safety
/// `l` is below a fence.
pub(crate) unsafe fn push_input_metatable(l: *mut lua_State, context: &StateContext) {
    // SAFETY: as promised by the caller.
    unsafe {
        ffi::lua_createtable(l, 0, 1);
        ffi::lua_createtable(l, 0, 2);
        context.push_function(l, read, 0);
        ffi::lua_setfield(l, -2, c"read".as_ptr());
        context.push_function(l, lines, 0);
        ffi::lua_setfield(l, -2, c"lines".as_ptr());
        ffi::lua_setfield(l, -2, c"__index".as_ptr());
    }
}

/// Pushes an object for reading the data that the script shall filter for a web server, or `nil` in any other role. `metatable`
/// is the stack index of the metatable from [`push_input_metatable`].
///
/// # Safety
/// `l` is below a fence.
pub(crate) unsafe fn push_data(l: *mut lua_State, context: &StateContext, exchange: &Exchange<'_>, metatable: c_int) {
    // SAFETY: as promised by the caller.
    unsafe {
        if exchange.data().is_none() {
            return ffi::lua_pushnil(l);
        }
        ffi::lua_createtable(l, 0, 0);
        context.data.set(ffi::lua_topointer(l, -1));
        ffi::lua_pushvalue(l, metatable);
        ffi::lua_setmetatable(l, -2);
    }
}

/// Returns the exchange that the object at `index` represents. Raises an error if it is not the exchange that is being
/// answered.
///
/// # Safety
/// `l` is below a fence, and no frame from the caller's up to the fence holds anything to be dropped.
#[inline]
unsafe fn current<'a>(l: *mut lua_State, context: &'a StateContext, index: c_int) -> &'a Exchange<'a> {
    // SAFETY: as promised by the caller.
    unsafe {
        match context.exchange() {
            Some(exchange) if ffi::lua_topointer(l, index) == context.object.get() => exchange,
            _ => raise_late(l),
        }
    }
}

unsafe fn raise_late(l: *mut lua_State) -> ! {
    // SAFETY: as for `current`.
    unsafe { raise(l, format_args!("this request has been answered: what is needed of it later must be kept in variables")) }
}

/// Content that is read piece by piece, and the number of bytes read.
struct Source<'a> {
    content: Content<'a>,
    taken: &'a Cell<u64>,
}

/// Returns the content that the object at `index` reads. Raises an error if the object does not belong to the exchange that is
/// being answered.
///
/// # Safety
/// As for [`current`].
unsafe fn source<'a>(l: *mut lua_State, context: &'a StateContext, index: c_int) -> Source<'a> {
    // SAFETY: as promised by the caller.
    unsafe {
        let object = ffi::lua_topointer(l, index);
        if let Some(exchange) = context.exchange()
            && object == context.data.get()
            && let Some(content) = exchange.data()
        {
            return Source { content, taken: &exchange.data_taken };
        }
        let exchange = current(l, context, index);
        Source { content: exchange.request.content, taken: &exchange.taken }
    }
}

/// `request.name`, unless the script has set it.
unsafe extern "C-unwind" fn property(l: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this below a fence with a table and a key; this frame holds nothing to be dropped.
    unsafe {
        let context = StateContext::of_running(l);
        let Some(property) = Stack::of(l).quiet().string(2).and_then(Property::named) else { return 0 };
        let exchange = current(l, context, 1);
        let request = exchange.request;
        let head = &request.head;
        match property {
            Property::Method => push_bytes(l, head.method()),
            Property::Target => push_bytes(l, head.target()),
            Property::Path => variables::push_decoded(l, head.path()),
            Property::Query => push_bytes(l, head.query()),
            Property::Protocol => push_bytes(l, variables::protocol(exchange)),
            Property::Scheme => push_bytes(l, if request.https { b"https" } else { b"http" }),
            Property::RemoteAddress => push_bytes(l, request.remote_address()),
            Property::RemotePort => push_port(l, request.remote.port),
            Property::ServerName => push_bytes(l, request.server_name()),
            Property::ServerPort => push_port(l, request.server_port()),
            Property::ScriptName => push_bytes(l, variables::script_name(exchange)),
            Property::PathInfo => variables::push_path_info(l, exchange),
            Property::ContentType => match head.field(KnownField::ContentType) {
                Some(value) => push_bytes(l, value),
                None => ffi::lua_pushnil(l),
            },
            Property::ContentLength => match request.content.size() {
                Some(size) => push_size(l, size),
                None => ffi::lua_pushnil(l),
            },
            Property::Read => ffi::lua_pushvalue(l, ffi::lua_upvalueindex(READ)),
            Property::Lines => ffi::lua_pushvalue(l, ffi::lua_upvalueindex(LINES)),
            Property::Headers => {
                push_fields(l, exchange);
                keep(l);
            }
            Property::Trailers => {
                push_trailers(l, exchange);
                keep(l);
            }
            Property::QueueTime => match exchange.queue_time() {
                Some(time) => ffi::lua_pushnumber(l, time.as_secs_f64() as ffi::lua_Number),
                None => ffi::lua_pushnil(l),
            },
            Property::Data => {
                push_data(l, context, exchange, ffi::lua_upvalueindex(INPUT_METATABLE));
                keep(l);
            }
            Property::Variables => {
                variables::push(l, context, exchange, ffi::lua_upvalueindex(NAMES));
                keep(l);
            }
        }
        1
    }
}

/// Stores the value on top of the stack in the request's table, so that it is made only once.
unsafe fn keep(l: *mut lua_State) {
    // SAFETY: as for `property`: the table is at 1, the key at 2.
    unsafe {
        ffi::lua_pushvalue(l, 2);
        ffi::lua_pushvalue(l, -2);
        ffi::lua_rawset(l, 1);
    }
}

/// The properties of a request.
#[derive(Clone, Copy)]
enum Property {
    Method,
    Target,
    Path,
    Query,
    Protocol,
    Scheme,
    RemoteAddress,
    RemotePort,
    ServerName,
    ServerPort,
    ScriptName,
    PathInfo,
    ContentType,
    ContentLength,
    Headers,
    Trailers,
    QueueTime,
    Variables,
    Data,
    Read,
    Lines,
}

impl Property {
    fn named(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"method" => Self::Method,
            b"target" => Self::Target,
            b"path" => Self::Path,
            b"query" => Self::Query,
            b"protocol" => Self::Protocol,
            b"scheme" => Self::Scheme,
            b"remote_address" => Self::RemoteAddress,
            b"remote_port" => Self::RemotePort,
            b"server_name" => Self::ServerName,
            b"server_port" => Self::ServerPort,
            b"script_name" => Self::ScriptName,
            b"path_info" => Self::PathInfo,
            b"content_type" => Self::ContentType,
            b"content_length" => Self::ContentLength,
            b"headers" => Self::Headers,
            b"trailers" => Self::Trailers,
            b"queue_time" => Self::QueueTime,
            b"variables" => Self::Variables,
            b"data" => Self::Data,
            b"read" => Self::Read,
            b"lines" => Self::Lines,
            _ => return None,
        })
    }
}

/// Pushes a number of bytes: as an integer in Lua 5.4, and as a float in `LuaJIT`, which has no integers.
unsafe fn push_size(l: *mut lua_State, size: u64) {
    // SAFETY: as for `property`.
    unsafe {
        if cfg!(feature = "luajit") {
            ffi::lua_pushnumber(l, size as ffi::lua_Number);
        } else {
            ffi::lua_pushinteger(l, size as ffi::lua_Integer);
        }
    }
}

/// Pushes a port, which the server stores as digits.
unsafe fn push_port(l: *mut lua_State, digits: &[u8]) {
    let port = digits.iter().fold(0_u32, |port, digit| port.wrapping_mul(10).wrapping_add(u32::from(digit.wrapping_sub(b'0'))));
    // SAFETY: as for `property`.
    unsafe { ffi::lua_pushinteger(l, port as ffi::lua_Integer) };
}

/// Pushes a list of the names of well-known fields, so that each string is made only once.
unsafe fn push_field_names(l: *mut lua_State) {
    // SAFETY: as for `push_metatable`.
    unsafe {
        ffi::lua_createtable(l, KnownField::ALL.len() as c_int, 0);
        for &field in KnownField::ALL {
            push_bytes(l, field.name().as_bytes());
            ffi::lua_rawseti(l, -2, field as ffi::lua_Integer + 1);
        }
    }
}

/// Pushes a table of all fields, with names in lower case. The table's metatable finds a name in any case. The values of
/// repeated fields are joined in order (RFC 9110, section 5.3; for cookies RFC 6265, section 5.4).
unsafe fn push_fields(l: *mut lua_State, exchange: &Exchange<'_>) {
    // SAFETY: as for `property`.
    unsafe {
        ffi::lua_createtable(l, 0, 16);
        let mut seen = [false; KnownField::ALL.len()];
        for (known, name, value) in exchange.request.head.fields() {
            match known {
                Some(known) => {
                    ffi::lua_rawgeti(l, ffi::lua_upvalueindex(FIELD_NAMES), known as ffi::lua_Integer + 1);
                    if !std::mem::replace(&mut seen[known as usize], true) {
                        push_bytes(l, value);
                        ffi::lua_rawset(l, -3);
                        continue;
                    }
                }
                None => push_lower_case(l, name),
            }
            add_value(l, value, if known == Some(KnownField::Cookie) { b"; " } else { b", " });
        }
        ffi::lua_pushvalue(l, ffi::lua_upvalueindex(FIELDS));
        ffi::lua_setmetatable(l, -2);
    }
}

/// Pushes a table of the trailers, in the form of [`push_fields`], or `nil` if there are none.
unsafe fn push_trailers(l: *mut lua_State, exchange: &Exchange<'_>) {
    // SAFETY: as for `property`; the bytes of a request are not Lua's.
    unsafe {
        let Some(trailers) = exchange.request.trailers else { return ffi::lua_pushnil(l) };
        ffi::lua_createtable(l, 0, 4);
        for (name, value) in trailers.fields() {
            push_bytes(l, name);
            add_value(l, value, b", ");
        }
        ffi::lua_pushvalue(l, ffi::lua_upvalueindex(FIELDS));
        ffi::lua_setmetatable(l, -2);
    }
}

/// Adds a value to the table below the name on top of the stack, after its earlier values of this name, and pops the name.
unsafe fn add_value(l: *mut lua_State, value: &[u8], separator: &[u8]) {
    // SAFETY: as for `property`; the bytes of a request are not Lua's.
    unsafe {
        ffi::lua_pushvalue(l, -1);
        ffi::lua_rawget(l, -3);
        if ffi::lua_type(l, -1) == ffi::LUA_TNIL {
            ffi::lua_settop(l, -2);
            push_bytes(l, value);
        } else {
            push_bytes(l, separator);
            push_bytes(l, value);
            ffi::lua_concat(l, 3);
        }
        ffi::lua_rawset(l, -3);
    }
}

/// Pushes the name of a field in lower case.
unsafe fn push_lower_case(l: *mut lua_State, name: &[u8]) {
    // SAFETY: as for `property`; the bytes of a request are not Lua's.
    unsafe {
        push_written(l, name.len(), |room| {
            room.iter_mut().zip(name).for_each(|(place, byte)| *place = byte.to_ascii_lowercase());
            name.len()
        });
    }
}

/// `request.headers[name]` for a name that is not in lower case.
unsafe extern "C-unwind" fn find_field(l: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this below a fence with a table and a key; this frame holds nothing to be dropped.
    unsafe {
        let mut stack = Stack::of(l);
        let Some(length) = stack.quiet().string(2).map(<[u8]>::len) else { return 0 };
        // Read again after the memory has been allocated, because that may run a finalizer.
        push_written(l, length, |room| match stack.quiet().string(2) {
            Some(name) => room.iter_mut().zip(name).map(|(place, byte)| *place = byte.to_ascii_lowercase()).count(),
            None => 0,
        });
        ffi::lua_rawget(l, 1);
        1
    }
}

/// The amount of content to read.
enum Amount {
    Bytes(u64),
    Rest,
    /// The rest; an empty string if nothing is left.
    All,
    Line {
        /// Whether to include the line end.
        whole: bool,
    },
}

/// `request:read([n])`: reads n bytes, a line ("l" without its end, "L" with its end), or the rest ("a", or no argument). The
/// letters may follow an asterisk, as in Lua 5.1. Returns `nil` at the end of the content, but an empty string for "a".
unsafe extern "C-unwind" fn read(l: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this below a fence; this frame holds nothing to be dropped.
    unsafe {
        let context = StateContext::of_running(l);
        let source = source(l, context, 1);
        let amount = match ffi::lua_type(l, 2) {
            ffi::LUA_TNONE | ffi::LUA_TNIL => Amount::Rest,
            ffi::LUA_TNUMBER => Amount::Bytes(ffi::lua_tonumber(l, 2).max(0.0) as u64),
            _ => match bytes_at(l, 2).map(|text| text.strip_prefix(b"*").unwrap_or(text)) {
                Some([b'a', ..]) => Amount::All,
                Some([b'l', ..]) => Amount::Line { whole: false },
                Some([b'L', ..]) => Amount::Line { whole: true },
                _ => raise(l, format_args!("request:read wants a number of bytes, \"a\" for all or \"l\" for a line")),
            },
        };
        read_content(l, &source, &amount)
    }
}

/// `request:lines()`: an iterator over the lines of the content.
unsafe extern "C-unwind" fn lines(l: *mut lua_State) -> c_int {
    // SAFETY: as for `read`.
    unsafe {
        let context = StateContext::of_running(l);
        source(l, context, 1);
        ffi::lua_settop(l, 1);
        context.push_function(l, next_line, 0);
        ffi::lua_insert(l, 1);
        2
    }
}

unsafe extern "C-unwind" fn next_line(l: *mut lua_State) -> c_int {
    // SAFETY: as for `read`.
    unsafe {
        let context = StateContext::of_running(l);
        let source = source(l, context, 1);
        read_content(l, &source, &Amount::Line { whole: false })
    }
}

/// Pushes the next excerpt of the content, or `nil` at its end.
unsafe fn read_content(l: *mut lua_State, source: &Source<'_>, amount: &Amount) -> c_int {
    let (content, at) = (&source.content, source.taken.get());
    let length = match *amount {
        Amount::Bytes(count) => Ok(count),
        Amount::Rest | Amount::All => Ok(u64::MAX),
        Amount::Line { .. } => content::line_length(content, at),
    };
    // SAFETY: as for `read`; an io::Error of these kinds holds no heap, and is not dropped when an error is raised.
    unsafe {
        let excerpt = match length.and_then(|length| content::Excerpt::open(content, at, length)) {
            Ok(excerpt) => excerpt,
            Err(error) => raise(l, format_args!("the content cannot be read: {}", error.kind())),
        };
        source.taken.set(at + excerpt.length());
        let nothing_left = excerpt.length() == 0 && source.taken.get() >= content.size().unwrap_or(0);
        if nothing_left && !matches!(amount, Amount::All) {
            ffi::lua_pushnil(l);
            return 1;
        }
        excerpt.push(l, matches!(amount, Amount::Line { whole: false }));
        1
    }
}
