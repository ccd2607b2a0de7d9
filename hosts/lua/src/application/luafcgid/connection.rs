//! `con`, the object with which a script writes to its client and reads the content of the request.

use crate::answer::LuafcgidAnswer;
use crate::content;
use crate::exchange::{Exchange, Progress};
use crate::hooks;
use crate::settings::ConfigValue;
use crate::state_context::StateContext;
use crate::vm::stack::{bytes_at, push_bytes, raise, type_name};
use crate::vm::{Quiet, Stack};
use crate::waits;
use mlua::ffi::{self, lua_State};
use oribi_host::Content;
use std::cell::Cell;
use std::os::raw::c_int;

/// The name of this metatable in luafcgid, for messages.
const NAME: &[u8] = b"LuaFCGId.Request";

/// Further upvalues of the methods; the first is the state's context.
const METATABLE: c_int = 2;
/// An upvalue of `config` only: a table of the values that the script has set.
const CHANGED: c_int = 3;

/// The most bytes that `gets` returns at once unless the configuration (`maxpost`) says otherwise.
const GETS_BYTES: f64 = 1_048_576.0;

/// The value in a `con`: the number of the request that the `con` belongs to. So a `con` that a script has kept from an earlier
/// request is recognized.
type Handle = u64;

/// Pushes the metatable of `con`.
///
/// # Safety
/// `l` is below a fence.
pub(super) unsafe fn push_metatable(l: *mut lua_State, context: &StateContext) {
    let methods: [(&std::ffi::CStr, ffi::lua_CFunction); 10] = [
        (c"puts", puts),
        (c"gets", gets),
        (c"data", data),
        (c"header", header),
        (c"flush", flush),
        (c"reset", reset),
        (c"log", log),
        (c"config", config),
        (c"status", status),
        (c"content_type", content_type),
    ];
    // SAFETY: as promised by the caller.
    unsafe {
        ffi::lua_createtable(l, 0, 2);
        push_bytes(l, NAME);
        ffi::lua_setfield(l, -2, c"__name".as_ptr());
        ffi::lua_createtable(l, 0, methods.len() as c_int);
        for (name, method) in methods {
            ffi::lua_pushvalue(l, -2);
            ffi::lua_createtable(l, 0, 0);
            context.push_function(l, method, 2);
            ffi::lua_setfield(l, -2, name.as_ptr());
        }
        if context.waits {
            waits::make_patient(l);
        }
        hooks::wrap_flush(l);
        ffi::lua_setfield(l, -2, c"__index".as_ptr());
    }
}

/// Pushes the `con` of the exchange that is being answered.
///
/// # Safety
/// `l` is below a fence; the metatable is at `metatable`.
pub(super) unsafe fn push(l: *mut lua_State, context: &StateContext, metatable: c_int) {
    // SAFETY: as promised by the caller; the block has the size of the value that is written to it, and is aligned for any
    // type.
    unsafe {
        ffi::lua_newuserdata(l, size_of::<Handle>()).cast::<Handle>().write(context.serial.get());
        ffi::lua_pushvalue(l, metatable);
        ffi::lua_setmetatable(l, -2);
    }
}

/// Returns the state's context, and the exchange of the `con` on which a method was called. Raises an error if the method was
/// called on anything else, or on the `con` of an earlier request.
///
/// # Safety
/// `l` runs a method of `con`, below a fence; the caller's frame holds nothing to be dropped.
unsafe fn of<'a>(l: *mut lua_State) -> (&'a StateContext, &'a Exchange<'a>) {
    // SAFETY: as promised by the caller. Only `push` makes userdata with this metatable, so the block holds a `Handle`.
    unsafe {
        let context: &'a StateContext = StateContext::of_running(l);
        let is_con = ffi::lua_type(l, 1) == ffi::LUA_TUSERDATA
            && ffi::lua_getmetatable(l, 1) != 0
            && ffi::lua_rawequal(l, -1, ffi::lua_upvalueindex(METATABLE)) != 0;
        if !is_con {
            raise(l, format_args!("a method of con was called with a {}: con:puts(text), not con.puts(text)", type_name(l, 1)));
        }
        ffi::lua_settop(l, -2);
        match context.exchange() {
            Some(exchange) if ffi::lua_touserdata(l, 1).cast::<Handle>().read() == context.serial.get() => (context, exchange),
            _ => raise(l, format_args!("this con belongs to a request that has been answered")),
        }
    }
}

/// Ensures that there is a string at `index`: converts a number, and raises an error for anything else.
///
/// # Safety
/// As for [`of`].
unsafe fn want_text(l: *mut lua_State, index: c_int) {
    // SAFETY: as promised by the caller.
    unsafe {
        if bytes_at(l, index).is_none() {
            raise(l, format_args!("bad argument #{} (string expected, got {})", index - 1, type_name(l, index)));
        }
    }
}

/// The string at `index`, which [`want_text`] has ensured.
fn text<'q>(quiet: &Quiet<'q>, index: c_int) -> &'q [u8] {
    quiet.string(index).unwrap_or_default()
}

/// Calls `add` to extend the script's answer by `more` bytes. Raises an error instead if the answer would exceed the memory
/// limit of a state.
///
/// # Safety
/// As for [`of`]. Nothing else borrows the answer, and `add` calls no Lua function.
unsafe fn add<R: Copy>(
    l: *mut lua_State,
    context: &StateContext,
    exchange: &Exchange<'_>,
    more: usize,
    add: impl FnOnce(&mut LuafcgidAnswer) -> R,
) -> R {
    let limit = exchange.settings.state_memory.unwrap_or(u64::MAX);
    // SAFETY: as promised by the caller.
    unsafe {
        if ((*context.luafcgid_answer.get()).size() + more) as u64 > limit {
            raise(l, format_args!("more is put than a state may use of memory: flush now and then, or reset"));
        }
        let done = context.contain(|| add(&mut *context.luafcgid_answer.get()));
        unless_panicked(l, done)
    }
}

/// Returns the result of `contain`; raises an error if it is `None`, which means that there was a panic.
///
/// # Safety
/// As for [`of`].
unsafe fn unless_panicked<R: Copy>(l: *mut lua_State, result: Option<R>) -> R {
    // SAFETY: as promised by the caller.
    unsafe { result.unwrap_or_else(|| raise(l, format_args!("the request cannot be answered"))) }
}

/// `con:puts(text)`: adds to the body, which is sent at the end or by `flush`, or at once without buffering.
unsafe extern "C-unwind" fn puts(l: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this below a fence, on a method of `con`, and this frame holds nothing to be dropped. Only one method
    // runs at a time, so nothing else borrows the answer.
    unsafe {
        let (context, exchange) = of(l);
        if ffi::lua_gettop(l) < 2 {
            return 0;
        }
        want_text(l, 2);
        let mut stack = Stack::of(l);
        let text = text(&stack.quiet(), 2);
        add(l, context, exchange, text.len(), |answer| {
            answer.body.extend_from_slice(text);
            if !answer.buffered {
                send(answer, exchange);
            }
        });
        0
    }
}

/// `con:gets()`: the next part of the content, up to a mebibyte or `maxpost`; `nil` at its end.
unsafe extern "C-unwind" fn gets(l: *mut lua_State) -> c_int {
    // SAFETY: as for `puts`.
    unsafe {
        let (_, exchange) = of(l);
        push_next(l, exchange, &exchange.request.content, &exchange.taken)
    }
}

/// `con:data()`: like `gets`, for the data that the script shall filter for a web server; `nil` at its end, and in any other
/// role.
unsafe extern "C-unwind" fn data(l: *mut lua_State) -> c_int {
    // SAFETY: as for `puts`.
    unsafe {
        let (_, exchange) = of(l);
        push_next(l, exchange, &exchange.data().unwrap_or(Content::None), &exchange.data_taken)
    }
}

/// Pushes the part of `content` that follows the first `taken` bytes, and adds its length to `taken`. Pushes `nil` at the end.
///
/// # Safety
/// As for [`of`].
unsafe fn push_next(l: *mut lua_State, exchange: &Exchange<'_>, content: &Content<'_>, taken: &Cell<u64>) -> c_int {
    // SAFETY: as promised by the caller. When `raise` leaves this frame, the `io::Error` need not be dropped: errors of
    // `Excerpt::open` own no memory.
    unsafe {
        let most = match configured(exchange, b"maxpost") {
            Some(ConfigValue::Integer(bytes)) => *bytes as f64,
            Some(ConfigValue::Number(bytes)) => *bytes,
            _ => GETS_BYTES,
        };
        match content::Excerpt::open(content, taken.get(), most.max(1.0) as u64) {
            Ok(part) if part.length() == 0 => ffi::lua_pushnil(l),
            Ok(part) => {
                taken.set(taken.get() + part.length());
                part.push(l, false);
            }
            Err(error) => raise(l, format_args!("the content cannot be read: {}", error.kind())),
        }
        1
    }
}

/// `con:header(name, value)`, or `con:header("Name: value")`.
unsafe extern "C-unwind" fn header(l: *mut lua_State) -> c_int {
    // SAFETY: as for `puts`.
    unsafe {
        let (context, exchange) = of(l);
        let count = ffi::lua_gettop(l);
        if count < 2 {
            return 0;
        }
        want_text(l, 2);
        if count >= 3 {
            want_text(l, 3);
        }
        refuse_late(l, exchange, "a header");
        let mut stack = Stack::of(l);
        let quiet = stack.quiet();
        let name = text(&quiet, 2);
        let value = if count >= 3 { Some(text(&quiet, 3)) } else { None };
        let fits = add(l, context, exchange, name.len() + value.map_or(0, <[u8]>::len), |answer| match value {
            Some(value) => answer.set_field(name, value),
            None => answer.set_lines(name),
        });
        if !fits {
            raise(l, format_args!("\"{}\" is no header", name.escape_ascii()));
        }
        0
    }
}

/// `con:status(404)`, or `con:status("404 Not Found")`.
unsafe extern "C-unwind" fn status(l: *mut lua_State) -> c_int {
    // SAFETY: as for `puts`.
    unsafe {
        let (context, exchange) = of(l);
        want_text(l, 2);
        refuse_late(l, exchange, "a status");
        let mut stack = Stack::of(l);
        let line = text(&stack.quiet(), 2);
        if !(*context.luafcgid_answer.get()).set_status(line) {
            raise(l, format_args!("\"{}\" is no status of a response", line.escape_ascii()));
        }
        0
    }
}

/// `con:content_type("text/plain")`.
unsafe extern "C-unwind" fn content_type(l: *mut lua_State) -> c_int {
    // SAFETY: as for `puts`.
    unsafe {
        let (context, exchange) = of(l);
        want_text(l, 2);
        refuse_late(l, exchange, "a content type");
        let mut stack = Stack::of(l);
        let value = text(&stack.quiet(), 2);
        add(l, context, exchange, value.len(), |answer| answer.set_content_type(value));
        0
    }
}

/// Raises an error if the head has been sent already: ignoring a later change of it would hide the mistake.
unsafe fn refuse_late(l: *mut lua_State, exchange: &Exchange<'_>, what: &str) {
    if exchange.progress() != Progress::Nothing {
        // SAFETY: as for `of`.
        unsafe { raise(l, format_args!("{what} comes too late: the head of the response has been sent")) }
    }
}

/// `con:flush()`: sends the answer so far.
unsafe extern "C-unwind" fn flush(l: *mut lua_State) -> c_int {
    // SAFETY: as for `puts`.
    unsafe {
        let (context, exchange) = of(l);
        unless_panicked(l, context.contain(|| send(&mut *context.luafcgid_answer.get(), exchange)));
        0
    }
}

/// Sends the head, if it has not been sent, and the buffered body. If the client has gone, does nothing.
fn send(answer: &mut LuafcgidAnswer, exchange: &Exchange<'_>) {
    let goes_on = match exchange.progress() {
        Progress::Nothing => answer.with_head(|head, _| exchange.start(head)),
        Progress::Started => true,
        Progress::Done => false,
    };
    if goes_on && !answer.body.is_empty() {
        exchange.write(&answer.body);
    }
    answer.body.clear();
}

/// `con:reset()`: drops the answer that has not been flushed.
unsafe extern "C-unwind" fn reset(l: *mut lua_State) -> c_int {
    // SAFETY: as for `puts`.
    unsafe {
        let (context, _) = of(l);
        (*context.luafcgid_answer.get()).body.clear();
        0
    }
}

/// `con:log(text)`: writes the text to the log.
unsafe extern "C-unwind" fn log(l: *mut lua_State) -> c_int {
    // SAFETY: as for `puts`.
    unsafe {
        let (context, exchange) = of(l);
        if ffi::lua_gettop(l) >= 2 {
            want_text(l, 2);
            let mut stack = Stack::of(l);
            let text = text(&stack.quiet(), 2);
            unless_panicked(l, context.contain(|| exchange.report(text)));
        }
        0
    }
}

/// `con:config(name)` returns a value of the configuration. `con:config(name, value)` changes it for the state of this script;
/// a change of `buffering` takes effect for the current request.
unsafe extern "C-unwind" fn config(l: *mut lua_State) -> c_int {
    // SAFETY: as for `puts`.
    unsafe {
        let (context, exchange) = of(l);
        want_text(l, 2);
        let mut stack = Stack::of(l);
        if ffi::lua_gettop(l) >= 3 {
            if text(&stack.quiet(), 2) == b"buffering" {
                (*context.luafcgid_answer.get()).buffered = ffi::lua_toboolean(l, 3) != 0;
            }
            ffi::lua_settop(l, 3);
            ffi::lua_rawset(l, ffi::lua_upvalueindex(CHANGED));
            return 0;
        }
        ffi::lua_settop(l, 2);
        ffi::lua_pushvalue(l, 2);
        ffi::lua_rawget(l, ffi::lua_upvalueindex(CHANGED));
        if ffi::lua_type(l, -1) == ffi::LUA_TNIL {
            match configured(exchange, text(&stack.quiet(), 2)) {
                Some(ConfigValue::Boolean(value)) => ffi::lua_pushboolean(l, c_int::from(*value)),
                Some(ConfigValue::Integer(value)) => ffi::lua_pushinteger(l, *value as ffi::lua_Integer),
                Some(ConfigValue::Number(value)) => ffi::lua_pushnumber(l, *value),
                Some(ConfigValue::Text(value)) => push_bytes(l, value),
                None => ffi::lua_pushnil(l),
            }
        }
        1
    }
}

fn configured<'a>(exchange: &Exchange<'a>, name: &[u8]) -> Option<&'a ConfigValue> {
    exchange.settings.configuration.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, value)| value)
}
