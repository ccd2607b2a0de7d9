//! Makes a reply of a handler's return values.
//!
//! The strings of an answer are sent from Lua's memory without a copy. So the answer is collected and sent while no Lua code
//! runs ([`Quiet`]). If the body is an iterator, Lua code runs in between: then the head is copied before the first call of the
//! iterator.

#![expect(
    clippy::result_large_err,
    clippy::large_enum_variant,
    reason = "a message stands in the frame, since an error of Lua's may pass it by; it is rare, and not copied otherwise"
)]

use crate::answer::{AnswerRoom, KeptHead, Numbers, emptied, emptied_fields, final_status, status_of};
use crate::error_page::Fault;
use crate::exchange::{Exchange, Progress};
use crate::state_context::StateContext;
use crate::vm::stack::Message;
use crate::vm::{Quiet, Stack};
use mlua::ffi::{self, lua_State};
use oribi_message::{FieldPair, ResponseHead};
use std::os::raw::c_int;

/// The field of a text without fields.
const PLAIN_TEXT: FieldPair<'static> = (b"Content-Type", b"text/plain; charset=utf-8");

/// The indices of a handler's results.
const STATUS: c_int = 1;
const FIELDS: c_int = 2;
const BODY: c_int = 3;

/// The forms in which a handler may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `status, fields, body`; `status, body`; `body`.
    Oribi,
    /// `status, fields, body`, where the status may be a string like "404 Not Found".
    Wsapi,
}

/// An answer while no Lua code runs.
struct Answer<'q> {
    status: u16,
    fields: Vec<FieldPair<'q>>,
    slices: Vec<&'q [u8]>,
}

/// The part of the work that is left for a body.
enum Body {
    /// Nothing: the answer has been sent.
    Sent,
    /// The pieces of the body: they come from the iterator at this stack index.
    Streams(c_int),
}

/// Answers with a handler's results: the three values at the bottom of the stack.
///
/// # Safety
/// `l` runs the function that answers requests, below a fence, and no frame up to the fence holds anything to be dropped.
#[inline]
pub(crate) unsafe fn answer(l: *mut lua_State, context: &StateContext, shape: Shape) -> c_int {
    context.fault.set(Fault::Response);
    let Some(exchange) = context.exchange() else { return 0 };
    // SAFETY: as promised by the caller. Values borrowed from the stack, and the `AnswerRoom`, are used only inside `contain`.
    // No Lua code runs there, so nothing else borrows them.
    unsafe {
        let mut stack = Stack::of(l);
        if let Some(iterator) = send_answer(&mut stack, context, exchange, shape) {
            stream(&mut stack, context, exchange, iterator);
        }
    }
    0
}

/// Sends an answer. Returns the stack index of the iterator, if the body is one.
///
/// # Safety
/// As for [`answer`].
#[inline]
unsafe fn send_answer(stack: &mut Stack, context: &StateContext, exchange: &Exchange<'_>, shape: Shape) -> Option<c_int> {
    // SAFETY: as promised by the caller; the `AnswerRoom` is borrowed only while no Lua code runs.
    unsafe {
        if exchange.progress() != Progress::Nothing {
            stack.raise(&Message::new(format_args!("the request has been answered")));
        }
        match context.contain(|| collect_and_send(&stack.quiet(), context.answer_room(), exchange, shape)) {
            Some(Ok(Body::Sent)) => None,
            Some(Ok(Body::Streams(iterator))) => Some(iterator),
            Some(Err(())) => {
                let trouble = context.answer_room().trouble.take();
                stack.raise(&trouble.unwrap_or_else(|| Message::new(format_args!("the handler has returned no answer"))))
            }
            None => stack.raise(&Message::new(format_args!("the response cannot be sent"))),
        }
    }
}

/// Pushes the functions that answer with a handler's results if handlers may wait: one that takes the results and returns an
/// iterator if the body is one, and one that takes the results of the iterator and returns whether more may follow.
///
/// # Safety
/// `l` is below a fence.
pub(crate) unsafe fn push_answering(l: *mut lua_State, context: &StateContext, shape: Shape) {
    let first = match shape {
        Shape::Oribi => answer_oribi,
        Shape::Wsapi => answer_wsapi,
    };
    // SAFETY: as promised by the caller.
    unsafe {
        context.push_function(l, first, 0);
        context.push_function(l, continue_answer, 0);
    }
}

unsafe extern "C-unwind" fn answer_oribi(l: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this below a fence, and this frame holds nothing.
    unsafe { begin_answer(l, Shape::Oribi) }
}

unsafe extern "C-unwind" fn answer_wsapi(l: *mut lua_State) -> c_int {
    // SAFETY: as above.
    unsafe { begin_answer(l, Shape::Wsapi) }
}

/// Like [`answer`], but returns the iterator.
///
/// # Safety
/// As for [`answer`].
unsafe fn begin_answer(l: *mut lua_State, shape: Shape) -> c_int {
    // SAFETY: as for `answer`.
    unsafe {
        let context = StateContext::of_running(l);
        context.fault.set(Fault::Response);
        let Some(exchange) = context.exchange() else { return 0 };
        ffi::lua_settop(l, BODY);
        let mut stack = Stack::of(l);
        let iterator = send_answer(&mut stack, context, exchange, shape);
        context.fault.set(Fault::Runtime);
        ffi::lua_settop(l, iterator.unwrap_or_default());
        c_int::from(iterator.is_some())
    }
}

unsafe extern "C-unwind" fn continue_answer(l: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this below a fence, and this frame holds nothing. The `AnswerRoom` is borrowed while no Lua code runs.
    unsafe {
        let context = StateContext::of_running(l);
        context.fault.set(Fault::Response);
        let Some(exchange) = context.exchange() else { return 0 };
        // A piece; or nil, and next to it the trailers.
        ffi::lua_settop(l, 2);
        let mut stack = Stack::of(l);
        let more = send_next(&mut stack, context, exchange);
        context.fault.set(Fault::Runtime);
        ffi::lua_settop(l, 0);
        ffi::lua_pushboolean(l, c_int::from(more));
        1
    }
}

/// Sends a whole answer. If its body is an iterator, only copies its head.
///
/// # Errors
/// The handler's results are not a valid answer.
#[inline]
fn collect_and_send(quiet: &Quiet<'_>, room: &mut AnswerRoom, exchange: &Exchange<'_>, shape: Shape) -> Result<Body, ()> {
    let AnswerRoom { fields, slices, field_numbers, slice_numbers, head, trouble } = room;
    field_numbers.clear();
    slice_numbers.clear();
    let mut answer =
        Answer { status: 200, fields: emptied_fields(std::mem::take(fields)), slices: emptied(std::mem::take(slices)) };
    let body = match collect(quiet, &mut answer, field_numbers, slice_numbers, shape) {
        Ok(body) => body,
        Err(message) => {
            *trouble = Some(message);
            return Err(());
        }
    };
    field_numbers.put(|place, text| answer.fields[place].1 = text);
    slice_numbers.put(|place, text| answer.slices[place] = text);
    let whole = ResponseHead { status: answer.status, fields: &answer.fields };
    let outcome = match body {
        Some(iterator) => {
            head.keep(&whole);
            Body::Streams(iterator)
        }
        None => {
            exchange.respond(whole, &answer.slices);
            Body::Sent
        }
    };
    *fields = emptied_fields(answer.fields);
    *slices = emptied(answer.slices);
    room.shrink();
    Ok(outcome)
}

/// Collects an answer from the stack. Returns the stack index of the iterator, if the body is one. Numbers are written as text
/// into `field_numbers` and `slice_numbers`; in `answer` they are empty texts until all of them are known.
#[inline]
fn collect<'q>(
    quiet: &Quiet<'q>,
    answer: &mut Answer<'q>,
    field_numbers: &mut Numbers,
    slice_numbers: &mut Numbers,
    shape: Shape,
) -> Result<Option<c_int>, Message> {
    let mut body = BODY;
    match quiet.kind(STATUS) {
        ffi::LUA_TNUMBER => {
            let status = quiet.number(STATUS);
            answer.status = final_status(status)
                .ok_or_else(|| Message::new(format_args!("{status} is no status of a response: 200 to 599 are")))?;
            if shape == Shape::Oribi && quiet.kind(FIELDS) != ffi::LUA_TTABLE && quiet.kind(BODY) == ffi::LUA_TNIL {
                body = FIELDS;
            }
        }
        ffi::LUA_TSTRING if shape == Shape::Wsapi => answer.status = status_line(quiet)?,
        ffi::LUA_TSTRING if shape == Shape::Oribi && is_status_or_more(quiet) => return Err(no_status(quiet)),
        ffi::LUA_TSTRING | ffi::LUA_TFUNCTION if shape == Shape::Oribi => body = STATUS,
        _ => return Err(unexpected(quiet, STATUS, "its status is")),
    }
    if body == BODY {
        match quiet.kind(FIELDS) {
            ffi::LUA_TTABLE => collect_fields(quiet, FIELDS, &mut answer.fields, field_numbers)?,
            ffi::LUA_TNIL => {}
            _ => return Err(unexpected(quiet, FIELDS, "its fields are")),
        }
    }
    let plain = quiet.kind(FIELDS) != ffi::LUA_TTABLE && shape == Shape::Oribi;
    if plain && quiet.kind(body) != ffi::LUA_TNIL {
        answer.fields.push(PLAIN_TEXT);
    }
    match quiet.kind(body) {
        ffi::LUA_TSTRING | ffi::LUA_TNUMBER => {
            let text = text(quiet, body, slice_numbers, 0);
            answer.slices.extend(text);
        }
        ffi::LUA_TNIL => {}
        ffi::LUA_TTABLE => collect_list(quiet, &mut answer.slices, slice_numbers, body)?,
        ffi::LUA_TFUNCTION => return Ok(Some(body)),
        _ => return Err(unexpected(quiet, body, "its body is")),
    }
    Ok(None)
}

/// Whether the first result, which is a string, is meant as a status. It is if the second result is a table of fields or an
/// iterator, or if the string begins with a status and the second result is a text. Other texts and numbers after a string are
/// additional results without a meaning here, such as those of `string.gsub` and `require`.
fn is_status_or_more(quiet: &Quiet<'_>) -> bool {
    match quiet.kind(FIELDS) {
        ffi::LUA_TTABLE | ffi::LUA_TFUNCTION => true,
        ffi::LUA_TSTRING => quiet.string(STATUS).is_some_and(|text| status_of(text).is_some()),
        _ => false,
    }
}

/// The error for a text in front of fields or of a body.
#[cold]
fn no_status(quiet: &Quiet<'_>) -> Message {
    let text = quiet.string(STATUS).unwrap_or_default();
    match status_of(text) {
        Some(status) => {
            Message::new(format_args!("the handler has returned its status as a string: return the number {status}"))
        }
        None => {
            Message::new(format_args!("the handler has returned a string where its status is expected: return a number first"))
        }
    }
}

#[cold]
fn unexpected(quiet: &Quiet<'_>, index: c_int, what: &str) -> Message {
    let hint = if what == "its body is" { ": a string, a list of strings or an iterator" } else { "" };
    Message::new(format_args!("the handler has returned a {} where {what} expected{hint}", quiet.kind_name(index)))
}

/// The text of the value at `index`: a string, or a number, which belongs to `place` of its list. `None` for other types.
#[inline]
fn text<'q>(quiet: &Quiet<'q>, index: c_int, numbers: &mut Numbers, place: usize) -> Option<&'q [u8]> {
    match quiet.kind(index) {
        ffi::LUA_TSTRING => quiet.string(index),
        ffi::LUA_TNUMBER => {
            numbers.add(quiet, index, place);
            Some(b"")
        }
        _ => None,
    }
}

/// Returns the value of a field, which is on top of the stack. A float with an integral value is written as an integer, because
/// no field has a value like `5.0` for a length or an age.
#[inline]
fn field_value<'q>(quiet: &Quiet<'q>, numbers: &mut Numbers, place: usize) -> Option<&'q [u8]> {
    if quiet.kind(-1) == ffi::LUA_TNUMBER {
        numbers.add_for_field(quiet, -1, place);
        return Some(b"");
    }
    text(quiet, -1, numbers, place)
}

/// The status at the beginning of a string: "404 Not Found".
fn status_line(quiet: &Quiet<'_>) -> Result<u16, Message> {
    let line = quiet.string(STATUS).unwrap_or_default();
    status_of(line).ok_or_else(|| Message::new(format_args!("\"{}\" is no status of a response", line.escape_ascii())))
}

/// Collects the fields in the table at `index`: `name = value`, `name = {value, value}`, or `{name, value}` if order matters.
#[inline]
fn collect_fields<'q>(
    quiet: &Quiet<'q>,
    index: c_int,
    fields: &mut Vec<FieldPair<'q>>,
    numbers: &mut Numbers,
) -> Result<(), Message> {
    quiet.pairs(index, || {
        let Some(name) = quiet.string(-2) else { return collect_pair(quiet, fields, numbers) };
        match field_value(quiet, numbers, fields.len()) {
            Some(value) => {
                fields.push((name, value));
                Ok(())
            }
            None if quiet.kind(-1) == ffi::LUA_TTABLE => collect_values(quiet, fields, numbers, name),
            None => Err(no_value(quiet, name)),
        }
    })
}

/// Collects the values of a field from the list on top of the stack.
fn collect_values<'q>(
    quiet: &Quiet<'q>,
    fields: &mut Vec<FieldPair<'q>>,
    numbers: &mut Numbers,
    name: &'q [u8],
) -> Result<(), Message> {
    let list = quiet.height();
    for place in 1.. {
        quiet.push_element(list, place);
        if quiet.kind(-1) == ffi::LUA_TNIL {
            break;
        }
        let value = field_value(quiet, numbers, fields.len()).ok_or_else(|| no_value(quiet, name))?;
        fields.push((name, value));
        quiet.cut(list);
    }
    quiet.cut(list);
    Ok(())
}

/// Collects a field from a pair of name and value on top of the stack; its key is below.
fn collect_pair<'q>(quiet: &Quiet<'q>, fields: &mut Vec<FieldPair<'q>>, numbers: &mut Numbers) -> Result<(), Message> {
    if quiet.kind(-2) != ffi::LUA_TNUMBER || quiet.kind(-1) != ffi::LUA_TTABLE {
        let kind = quiet.kind_name(-1);
        return Err(Message::new(format_args!("the fields of the response contain a {kind} without a name")));
    }
    let pair = quiet.height();
    quiet.push_element(pair, 1);
    quiet.push_element(pair, 2);
    let name = quiet.string(-2);
    let value = field_value(quiet, numbers, fields.len());
    quiet.cut(pair);
    let (Some(name), Some(value)) = (name, value) else {
        return Err(Message::new(format_args!("the fields of the response contain a list that is not a name and a value")));
    };
    fields.push((name, value));
    Ok(())
}

/// The error for a field whose value, on top of the stack, cannot be sent.
#[cold]
fn no_value(quiet: &Quiet<'_>, name: &[u8]) -> Message {
    let (name, found) = (name.escape_ascii(), quiet.kind_name(-1));
    Message::new(format_args!(
        "the field {name} of the response is a {found}: a string, a number or a list of them is expected"
    ))
}

/// Collects a body that is a list of strings.
fn collect_list<'q>(quiet: &Quiet<'q>, slices: &mut Vec<&'q [u8]>, numbers: &mut Numbers, body: c_int) -> Result<(), Message> {
    let height = quiet.height();
    for place in 1.. {
        quiet.push_element(body, place);
        if quiet.kind(-1) == ffi::LUA_TNIL {
            break;
        }
        let slice = text(quiet, -1, numbers, slices.len()).ok_or_else(|| {
            Message::new(format_args!("element {place} of the body is a {}, not a string", quiet.kind_name(-1)))
        })?;
        slices.push(slice);
        quiet.cut(height);
    }
    quiet.cut(height);
    Ok(())
}

/// The result of calling an iterator.
enum Piece {
    /// A piece, which has been sent: more may follow.
    Sent,
    /// There is nothing more to send: the iterator has ended, or the client has gone.
    Last,
    /// The value is not a string.
    Wrong(Message),
}

/// Sends the pieces that an iterator returns. The head is sent with the first piece, so that the client gets an error page if
/// the iterator fails before.
///
/// # Safety
/// As for [`answer`]; the head has been kept.
unsafe fn stream(stack: &mut Stack, context: &StateContext, exchange: &Exchange<'_>, iterator: c_int) {
    // SAFETY: as promised by the caller; the `AnswerRoom` is borrowed only while no Lua code runs.
    unsafe {
        loop {
            context.fault.set(Fault::Runtime);
            // A piece; or nil, and next to it the trailers.
            stack.call(iterator, 2);
            context.fault.set(Fault::Response);
            if !send_next(stack, context, exchange) {
                return;
            }
        }
    }
}

/// Sends the piece on the stack; returns whether more may follow.
///
/// # Safety
/// As for [`stream`].
#[inline]
unsafe fn send_next(stack: &mut Stack, context: &StateContext, exchange: &Exchange<'_>) -> bool {
    // SAFETY: as promised by the caller; the `AnswerRoom` is borrowed only while no Lua code runs.
    unsafe {
        match context.contain(|| send_piece(&stack.quiet(), context.answer_room(), exchange)) {
            Some(Piece::Sent) => true,
            Some(Piece::Last) => false,
            Some(Piece::Wrong(message)) => stack.raise(&message),
            None => stack.raise(&Message::new(format_args!("the response cannot be sent"))),
        }
    }
}

/// The index of the piece among an iterator's results, from the top of the stack.
const PIECE: c_int = -2;

/// Sends the piece that an iterator has returned, and removes its results.
fn send_piece(quiet: &Quiet<'_>, room: &mut AnswerRoom, exchange: &Exchange<'_>) -> Piece {
    let AnswerRoom { fields, slice_numbers, head, .. } = room;
    slice_numbers.clear();
    let piece = match quiet.kind(PIECE) {
        ffi::LUA_TNIL => return end(quiet, room, exchange),
        ffi::LUA_TSTRING => quiet.string(PIECE).unwrap_or_default(),
        ffi::LUA_TNUMBER => {
            slice_numbers.add(quiet, PIECE, 0);
            slice_numbers.first()
        }
        _ => {
            let found = quiet.kind_name(PIECE);
            return Piece::Wrong(Message::new(format_args!("the body's iterator has returned a {found}, not a string")));
        }
    };
    let goes_on = match exchange.progress() {
        // An empty piece commits nothing, so that a later failure still has its own status.
        Progress::Nothing if piece.is_empty() => true,
        Progress::Nothing => with_head(fields, head, |whole| exchange.start(whole)),
        Progress::Started => true,
        Progress::Done => false,
    };
    let wanted = goes_on && (piece.is_empty() || exchange.write(piece));
    quiet.cut(quiet.height() + PIECE);
    if wanted { Piece::Sent } else { Piece::Last }
}

/// Ends an answer whose iterator has ended, with the trailers that it has returned.
fn end(quiet: &Quiet<'_>, room: &mut AnswerRoom, exchange: &Exchange<'_>) -> Piece {
    let AnswerRoom { fields, field_numbers, head, .. } = room;
    let (place, mut trailers) = (quiet.height(), Vec::new());
    field_numbers.clear();
    // Functions of Lua's libraries that are useful as iterators return other values next to nil.
    if quiet.kind(place) == ffi::LUA_TTABLE
        && let Err(message) = collect_fields(quiet, place, &mut trailers, field_numbers)
    {
        return Piece::Wrong(message);
    }
    field_numbers.put(|place, text| trailers[place].1 = text);
    match exchange.progress() {
        // An answer without pieces is complete.
        Progress::Nothing if trailers.is_empty() => with_head(fields, head, |whole| exchange.respond(whole, &[])),
        Progress::Nothing if !with_head(fields, head, |whole| exchange.start(whole)) => {}
        _ if trailers.is_empty() => exchange.finish(),
        _ => exchange.finish_with_trailers(&trailers),
    }
    Piece::Last
}

/// Calls `send` with the copied head.
fn with_head<T>(fields: &mut Vec<FieldPair<'static>>, head: &KeptHead, send: impl FnOnce(ResponseHead<'_>) -> T) -> T {
    let mut borrowed = emptied_fields(std::mem::take(fields));
    head.lend(&mut borrowed);
    let sent = send(ResponseHead { status: head.status(), fields: &borrowed });
    *fields = emptied_fields(borrowed);
    sent
}
