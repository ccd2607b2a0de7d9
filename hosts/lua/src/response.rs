//! From what a handler has returned to a reply.
//!
//! Everything is collected while Lua can still be asked, below the fence; numbers become strings there. It is sent when Lua has
//! returned: the strings stay where they are, on the stack, and are not copied.

use crate::error_page::Fault;
use crate::exchange::Exchange;
use crate::vm::Desk;
use crate::vm::stack::{bytes_at, raise, type_name};
use mlua::ffi::{self, lua_State};
use oribi_message::{FieldPair, ResponseHead};
use std::os::raw::c_int;

/// The content type of a text that comes without any field.
const PLAIN_TEXT: FieldPair<'static> = (b"Content-Type", b"text/plain; charset=utf-8");

/// Where the results of a handler stand.
const STATUS: c_int = 1;
const FIELDS: c_int = 2;
const BODY: c_int = 3;

/// How a handler may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `status, fields, body`; `status, body`; `body`.
    Oribi,
    /// `status, fields, body`, where the status may be a string like "404 Not Found".
    Wsapi,
}

/// An answer as it was collected. The bytes are Lua's, or last for ever.
#[derive(Debug)]
pub(crate) struct Answer {
    status: u16,
    fields: Vec<FieldPair<'static>>,
    parts: Vec<&'static [u8]>,
}

impl Answer {
    pub(crate) const fn new() -> Self {
        Self { status: 200, fields: Vec::new(), parts: Vec::new() }
    }

    fn clear(&mut self) {
        self.status = 200;
        self.fields.clear();
        self.parts.clear();
    }

    fn head(&self) -> ResponseHead<'_> {
        ResponseHead { status: self.status, fields: &self.fields }
    }
}

/// Collects what a handler has returned: the three values at the bottom of the stack. A body that is an iterator is sent at once.
/// Returns how many values are on the stack, all of which must stay there until [`send`] has sent the answer.
///
/// # Safety
/// `l` is below a fence, and no frame up to there holds anything to be dropped.
#[inline]
pub(crate) unsafe fn collect(l: *mut lua_State, desk: &Desk, shape: Shape) -> c_int {
    desk.fault.set(Fault::Response);
    // SAFETY: as promised by the caller. The answer is borrowed by nobody else: the handler has returned.
    unsafe {
        let answer = desk.answer_mut();
        answer.clear();
        let mut body = BODY;
        match ffi::lua_type(l, STATUS) {
            ffi::LUA_TNUMBER => {
                let status = ffi::lua_tonumber(l, STATUS);
                answer.status = final_status(status)
                    .unwrap_or_else(|| raise(l, format_args!("{status} is no status of a response: 200 to 599 are")));
                if shape == Shape::Oribi
                    && ffi::lua_type(l, FIELDS) != ffi::LUA_TTABLE
                    && ffi::lua_type(l, BODY) == ffi::LUA_TNIL
                {
                    body = FIELDS;
                }
            }
            ffi::LUA_TSTRING if shape == Shape::Wsapi => answer.status = status_line(l),
            ffi::LUA_TSTRING | ffi::LUA_TFUNCTION if shape == Shape::Oribi => body = STATUS,
            _ => raise(l, format_args!("the handler has returned a {} where its status is expected", type_name(l, STATUS))),
        }
        if body == BODY {
            match ffi::lua_type(l, FIELDS) {
                ffi::LUA_TTABLE => collect_fields(l, answer),
                ffi::LUA_TNIL => {}
                _ => {
                    raise(l, format_args!("the handler has returned a {} where its fields are expected", type_name(l, FIELDS)))
                }
            }
        }
        let plain = ffi::lua_type(l, FIELDS) != ffi::LUA_TTABLE && shape == Shape::Oribi;
        if plain && ffi::lua_type(l, body) != ffi::LUA_TNIL {
            answer.fields.push(PLAIN_TEXT);
        }
        match ffi::lua_type(l, body) {
            ffi::LUA_TSTRING | ffi::LUA_TNUMBER => answer.parts.extend(bytes_at(l, body)),
            ffi::LUA_TNIL => {}
            ffi::LUA_TTABLE => collect_list(l, answer, body),
            ffi::LUA_TFUNCTION => stream(l, desk, body),
            _ => raise(
                l,
                format_args!(
                    "the handler has returned a {} where its body is expected: a string, a list of strings or an iterator",
                    type_name(l, body)
                ),
            ),
        }
        ffi::lua_gettop(l)
    }
}

fn final_status(number: f64) -> Option<u16> {
    ((200.0..600.0).contains(&number) && number.fract() == 0.0).then_some(number as u16)
}

/// The status at the beginning of a string: "404 Not Found".
unsafe fn status_line(l: *mut lua_State) -> u16 {
    // SAFETY: as for `collect`.
    unsafe {
        let line = bytes_at(l, STATUS).unwrap_or_default();
        status_of(line).unwrap_or_else(|| raise(l, format_args!("\"{}\" is no status of a response", line.escape_ascii())))
    }
}

/// The status that a line like "404 Not Found" begins with.
pub(crate) fn status_of(line: &[u8]) -> Option<u16> {
    let digits = line.get(..3).filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
    let number = digits.iter().fold(0.0, |number, digit| number * 10.0 + f64::from(digit - b'0'));
    line.get(3).is_none_or(|&byte| byte == b' ').then(|| final_status(number)).flatten()
}

/// Collects the fields: `name = value`, `name = {value, value}`, or, where their order matters, `{name, value}`.
///
/// A number becomes a string in its place on the stack. That string stays there, below what is worked on, so that the collector
/// leaves it alone.
unsafe fn collect_fields(l: *mut lua_State, answer: &mut Answer) {
    // SAFETY: as for `collect`.
    unsafe {
        ffi::lua_pushnil(l);
        while ffi::lua_next(l, FIELDS) != 0 {
            // The stack: key, value.
            match ffi::lua_type(l, -2) {
                ffi::LUA_TSTRING => {
                    let name = bytes_at(l, -2).unwrap_or_default();
                    match ffi::lua_type(l, -1) {
                        ffi::LUA_TSTRING => {
                            answer.fields.push((name, bytes_at(l, -1).unwrap_or_default()));
                            ffi::lua_settop(l, -2);
                        }
                        ffi::LUA_TNUMBER => {
                            answer.fields.push((name, bytes_at(l, -1).unwrap_or_default()));
                            ffi::luaL_checkstack(l, 4, c"too many fields".as_ptr());
                            ffi::lua_insert(l, -2);
                        }
                        ffi::LUA_TTABLE => collect_values(l, answer, name),
                        _ => raise_for_field(l, name),
                    }
                }
                ffi::LUA_TNUMBER if ffi::lua_type(l, -1) == ffi::LUA_TTABLE => collect_pair(l, answer),
                _ => raise(l, format_args!("the fields of the response hold a {} without a name", type_name(l, -1))),
            }
        }
    }
}

/// The stack: key, list. Leaves the key.
unsafe fn collect_values(l: *mut lua_State, answer: &mut Answer, name: &'static [u8]) {
    // SAFETY: as for `collect`.
    unsafe {
        for place in 1.. {
            ffi::lua_rawgeti(l, -1, place);
            match ffi::lua_type(l, -1) {
                ffi::LUA_TNIL => break,
                ffi::LUA_TSTRING => {
                    answer.fields.push((name, bytes_at(l, -1).unwrap_or_default()));
                    ffi::lua_settop(l, -2);
                }
                ffi::LUA_TNUMBER => {
                    answer.fields.push((name, bytes_at(l, -1).unwrap_or_default()));
                    ffi::luaL_checkstack(l, 4, c"too many fields".as_ptr());
                    ffi::lua_insert(l, -3);
                }
                _ => raise_for_field(l, name),
            }
        }
        ffi::lua_settop(l, -3);
    }
}

/// The stack: key, pair. Leaves the key.
unsafe fn collect_pair(l: *mut lua_State, answer: &mut Answer) {
    // SAFETY: as for `collect`.
    unsafe {
        ffi::lua_rawgeti(l, -1, 1);
        ffi::lua_rawgeti(l, -2, 2);
        let name = if ffi::lua_type(l, -2) == ffi::LUA_TSTRING { bytes_at(l, -2) } else { None };
        let kind = ffi::lua_type(l, -1);
        let value = bytes_at(l, -1);
        let (Some(name), Some(value)) = (name, value) else {
            raise(l, format_args!("the fields of the response hold a list that is no pair of a name and a value"))
        };
        answer.fields.push((name, value));
        if kind == ffi::LUA_TNUMBER {
            ffi::luaL_checkstack(l, 4, c"too many fields".as_ptr());
            ffi::lua_insert(l, -4);
            ffi::lua_settop(l, -3);
        } else {
            ffi::lua_settop(l, -4);
        }
    }
}

/// Complains of a field whose value, on top of the stack, cannot be sent.
unsafe fn raise_for_field(l: *mut lua_State, name: &[u8]) -> ! {
    // SAFETY: as for `collect`.
    unsafe {
        let found = type_name(l, -1);
        let name = name.escape_ascii();
        raise(
            l,
            format_args!("the field {name} of the response is a {found}: a string, a number or a list of them is expected"),
        )
    }
}

/// Collects a body that is a list of strings.
unsafe fn collect_list(l: *mut lua_State, answer: &mut Answer, body: c_int) {
    // SAFETY: as for `collect`.
    unsafe {
        for place in 1.. {
            ffi::lua_rawgeti(l, body, place);
            match ffi::lua_type(l, -1) {
                ffi::LUA_TNIL => {
                    ffi::lua_settop(l, -2);
                    break;
                }
                ffi::LUA_TSTRING => {
                    answer.parts.extend(bytes_at(l, -1));
                    ffi::lua_settop(l, -2);
                }
                ffi::LUA_TNUMBER => {
                    // Stays on the stack, see `collect_fields`.
                    answer.parts.extend(bytes_at(l, -1));
                    ffi::luaL_checkstack(l, 4, c"too many numbers in a body".as_ptr());
                }
                _ => raise(l, format_args!("element {place} of the body is a {}, not a string", type_name(l, -1))),
            }
        }
    }
}

/// Sends the pieces that an iterator gives. The head goes out with the first one, so that a failure before it can still be told.
unsafe fn stream(l: *mut lua_State, desk: &Desk, body: c_int) {
    let Some(exchange) = desk.exchange() else { return };
    let mut started = false;
    // SAFETY: as for `collect`; the answer is not changed while it is used.
    unsafe {
        loop {
            desk.fault.set(Fault::Runtime);
            ffi::lua_pushvalue(l, body);
            ffi::lua_call(l, 0, 1);
            desk.fault.set(Fault::Response);
            let piece = match ffi::lua_type(l, -1) {
                ffi::LUA_TNIL => break,
                ffi::LUA_TSTRING | ffi::LUA_TNUMBER => bytes_at(l, -1).unwrap_or_default(),
                _ => raise(l, format_args!("the body's iterator has returned a {}, not a string", type_name(l, -1))),
            };
            let sent = desk.contain(|| {
                (started || exchange.start(desk.answer_mut().head())) && (piece.is_empty() || exchange.write(piece))
            });
            started = true;
            match sent {
                Some(true) => ffi::lua_settop(l, -2),
                Some(false) => return,
                None => raise(l, format_args!("the response cannot be sent")),
            }
        }
        if started && desk.contain(|| exchange.finish()).is_none() {
            raise(l, format_args!("the response cannot be sent"));
        }
    }
}

/// Sends the answer that was collected.
///
/// # Safety
/// What [`collect`] left on the stack is still there.
#[inline]
pub(crate) unsafe fn send(desk: &Desk, exchange: &Exchange<'_>) {
    // SAFETY: Lua runs nothing now.
    let answer = unsafe { desk.answer_mut() };
    exchange.respond(answer.head(), &answer.parts);
    answer.clear();
}
