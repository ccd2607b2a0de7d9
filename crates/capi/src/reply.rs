//! The functions with which a host answers.
#![allow(unsafe_code)]

use crate::fence::{FAILED, GONE, fence, outcome, remember};
use crate::types::{OribiBytes, OribiField, OribiLane, array, bytes};
use oribi_host::{ExchangeId, Outlet};
use oribi_message::{FieldPair, ResponseHead};
use std::ffi::{c_char, c_int};
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, IntoRawFd};
use std::slice;
use std::time::Duration;

/// Fields and parts up to this number are passed on without an allocation.
const FEW: usize = 32;

/// Calls `act` with the outlet of `lane` and returns its result: `GONE` if the lane is closed, `FAILED` if `act` panics.
///
/// # Safety
/// `lane` is null, or a lane that the host was given and whose context has not been closed.
pub(crate) unsafe fn with(lane: *const OribiLane, act: impl FnOnce(&dyn Outlet) -> i32) -> i32 {
    // SAFETY: the caller's promise; null becomes None.
    let outlet = unsafe { lane.as_ref() }.and_then(OribiLane::outlet);
    outlet.map_or(GONE, |outlet| fence(FAILED, || act(outlet)))
}

/// Calls `act` with C's fields as pairs of slices.
///
/// # Safety
/// `fields` points to `count` fields, and their names and values are valid during the call.
unsafe fn with_fields<T>(fields: *const OribiField, count: usize, act: impl FnOnce(&[FieldPair<'_>]) -> T) -> T {
    // SAFETY: the caller's promise.
    let fields = unsafe { array(fields, count) };
    // SAFETY: the caller's promise, for each of the fields.
    let pair = |field: &OribiField| unsafe { (field.name.get(), field.value.get()) };
    with_each(fields, pair, act)
}

/// Converts each of `items` by `value`, and passes the results to `act`. Up to `FEW` results are on the stack, in an array that
/// is not initialized first, because that would take longer than the conversion.
#[inline]
fn with_each<'a, I, V: Copy, T>(items: &'a [I], value: impl Fn(&'a I) -> V, act: impl FnOnce(&[V]) -> T) -> T {
    let mut room = [const { MaybeUninit::<V>::uninit() }; FEW];
    if items.len() > room.len() {
        return act(&items.iter().map(value).collect::<Vec<_>>());
    }
    for (place, item) in room.iter_mut().zip(items) {
        place.write(value(item));
    }
    // SAFETY: `room` is at least as long as `items`, and a result was written for each item. A `MaybeUninit` has the layout of
    // its value, and a `Copy` value need not be dropped.
    act(unsafe { slice::from_raw_parts(room.as_ptr().cast::<V>(), items.len()) })
}

/// Sends a whole response.
///
/// # Safety
/// As in the header: `lane` is valid, and the arrays and their contents are valid during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_respond(
    lane: *const OribiLane,
    exchange: u64,
    status: u16,
    fields: *const OribiField,
    field_count: usize,
    parts: *const OribiBytes,
    part_count: usize,
) -> i32 {
    // SAFETY: the caller's promise covers lane, fields and parts.
    unsafe {
        with(lane, |outlet| {
            with_fields(fields, field_count, |fields| {
                let head = ResponseHead { status, fields };
                let respond = |parts: &[&[u8]]| outcome(outlet.respond(ExchangeId(exchange), head, parts));
                with_each(array(parts, part_count), |part| part.get(), respond)
            })
        })
    }
}

/// Sends a whole response whose content is a part of a file.
///
/// # Safety
/// As [`oribi_respond`]; `file` is an open descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_respond_file(
    lane: *const OribiLane,
    exchange: u64,
    status: u16,
    fields: *const OribiField,
    field_count: usize,
    file: c_int,
    offset: u64,
    size: u64,
) -> i32 {
    // SAFETY: the caller's promise covers lane, fields and descriptor.
    unsafe {
        with(lane, |outlet| {
            let file = match BorrowedFd::borrow_raw(file).try_clone_to_owned() {
                Ok(copy) => File::from(copy),
                Err(error) => {
                    remember(&format!("cannot duplicate the descriptor of a response's file: {error}"));
                    return FAILED;
                }
            };
            with_fields(fields, field_count, |fields| {
                let head = ResponseHead { status, fields };
                outcome(outlet.respond_file(ExchangeId(exchange), head, file, offset, size))
            })
        })
    }
}

/// Checks a head that is to be sent later.
///
/// # Safety
/// As [`oribi_respond`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_check(
    lane: *const OribiLane,
    status: u16,
    fields: *const OribiField,
    field_count: usize,
) -> i32 {
    // SAFETY: the caller's promise covers lane and fields.
    unsafe {
        with(lane, |outlet| with_fields(fields, field_count, |fields| outcome(outlet.check(ResponseHead { status, fields }))))
    }
}

/// Begins a response whose content follows.
///
/// # Safety
/// As [`oribi_respond`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_start(
    lane: *const OribiLane,
    exchange: u64,
    status: u16,
    fields: *const OribiField,
    field_count: usize,
) -> i32 {
    // SAFETY: the caller's promise covers lane and fields.
    unsafe {
        with(lane, |outlet| {
            with_fields(fields, field_count, |fields| {
                outcome(outlet.start(ExchangeId(exchange), ResponseHead { status, fields }))
            })
        })
    }
}

/// Sends a piece of content.
///
/// # Safety
/// As [`oribi_respond`]; `data` points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_write(lane: *const OribiLane, exchange: u64, data: *const c_char, size: usize) -> i32 {
    // SAFETY: the caller's promise covers lane and bytes.
    unsafe { with(lane, |outlet| outcome(outlet.write(ExchangeId(exchange), bytes(data, size)))) }
}

/// Sends a piece of content without waiting for the client.
///
/// # Safety
/// As [`oribi_write`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_offer(lane: *const OribiLane, exchange: u64, data: *const c_char, size: usize) -> i32 {
    // SAFETY: the caller's promise covers lane and bytes.
    unsafe { with(lane, |outlet| outcome(outlet.offer(ExchangeId(exchange), bytes(data, size)).map(drop))) }
}

/// Whether there is room for content: 1 or 0, or -1 if no client waits for the response.
///
/// # Safety
/// `lane` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_has_room(lane: *const OribiLane, exchange: u64) -> c_int {
    // SAFETY: the caller's promise; null becomes None.
    let outlet = unsafe { lane.as_ref() }.and_then(OribiLane::outlet);
    outlet.map_or(-1, |outlet| fence(-1, || outlet.has_room(ExchangeId(exchange)).map_or(-1, c_int::from)))
}

/// Completes the response.
///
/// # Safety
/// `lane` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_finish(lane: *const OribiLane, exchange: u64) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { with(lane, |outlet| outcome(outlet.finish(ExchangeId(exchange)))) }
}

/// Completes the response, with trailers after the content.
///
/// # Safety
/// As [`oribi_respond`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_finish_with_trailers(
    lane: *const OribiLane,
    exchange: u64,
    trailers: *const OribiField,
    trailer_count: usize,
) -> i32 {
    // SAFETY: the caller's promise covers lane and trailers.
    unsafe {
        with(lane, |outlet| {
            with_fields(trailers, trailer_count, |trailers| {
                outcome(outlet.finish_with_trailers(ExchangeId(exchange), trailers))
            })
        })
    }
}

/// Gives an exchange up.
///
/// # Safety
/// `lane` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_abandon(lane: *const OribiLane, exchange: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        with(lane, |outlet| {
            outlet.abandon(ExchangeId(exchange));
            0
        });
    }
}

/// Gives an exchange up with the given status.
///
/// # Safety
/// `lane` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_fail(lane: *const OribiLane, exchange: u64, status: u16) {
    // SAFETY: the caller's promise.
    unsafe {
        with(lane, |outlet| {
            outlet.fail(ExchangeId(exchange), status);
            0
        });
    }
}

/// Whether the client can no longer receive the response.
///
/// # Safety
/// `lane` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_has_gone(lane: *const OribiLane, exchange: u64) -> c_int {
    // SAFETY: the caller's promise; null becomes None.
    let outlet = unsafe { lane.as_ref() }.and_then(OribiLane::outlet);
    outlet.map_or(1, |outlet| fence(1, || outlet.has_gone(ExchangeId(exchange)).into()))
}

/// Sends an informational response.
///
/// # Safety
/// As [`oribi_respond`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_inform(
    lane: *const OribiLane,
    exchange: u64,
    status: u16,
    fields: *const OribiField,
    field_count: usize,
) -> i32 {
    // SAFETY: the caller's promise covers lane and fields.
    unsafe {
        with(lane, |outlet| {
            with_fields(fields, field_count, |fields| outcome(outlet.inform(ExchangeId(exchange), status, fields)))
        })
    }
}

/// Whether apps have deadlines.
///
/// # Safety
/// `lane` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_has_deadlines(lane: *const OribiLane) -> c_int {
    // SAFETY: the caller's promise; null becomes None.
    let outlet = unsafe { lane.as_ref() }.and_then(OribiLane::outlet);
    outlet.map_or(0, |outlet| fence(0, || outlet.has_deadlines().into()))
}

/// Changes the deadline of an exchange whose app is running. If `milliseconds` is negative, the app has no deadline.
///
/// # Safety
/// `lane` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_extend_deadline(lane: *const OribiLane, exchange: u64, milliseconds: i64) {
    // SAFETY: the caller's promise; null becomes None.
    let outlet = unsafe { lane.as_ref() }.and_then(OribiLane::outlet);
    let time = u64::try_from(milliseconds).ok().map(Duration::from_millis);
    if let Some(outlet) = outlet {
        fence((), || outlet.extend_deadline(ExchangeId(exchange), time));
    }
}

/// Announces that the host will ask for the replacement of its context.
///
/// # Safety
/// `lane` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_retire(lane: *const OribiLane) {
    // SAFETY: the caller's promise; null becomes None.
    if let Some(outlet) = unsafe { lane.as_ref() }.and_then(OribiLane::outlet) {
        fence((), || outlet.retire());
    }
}

/// Returns 1 if the process is about to end, as soon as the open exchanges have been answered.
///
/// # Safety
/// `lane` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_stops(lane: *const OribiLane) -> c_int {
    // SAFETY: the caller's promise; null becomes None.
    let outlet = unsafe { lane.as_ref() }.and_then(OribiLane::outlet);
    outlet.map_or(0, |outlet| fence(0, || outlet.stops().into()))
}

/// Returns the number of complete requests that wait for an answer.
///
/// # Safety
/// `lane` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_waiting(lane: *const OribiLane) -> usize {
    // SAFETY: the caller's promise; null becomes None.
    let outlet = unsafe { lane.as_ref() }.and_then(OribiLane::outlet);
    outlet.map_or(0, |outlet| fence(0, || outlet.waiting()))
}

/// Passes a message on to the error log of the web server in front. Returns 0 if there is no web server, or the exchange has
/// been answered.
///
/// # Safety
/// `lane` is valid; `text` points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_report(lane: *const OribiLane, exchange: u64, text: *const c_char, size: usize) -> c_int {
    // SAFETY: the caller's promise; null becomes None.
    let outlet = unsafe { lane.as_ref() }.and_then(OribiLane::outlet);
    // SAFETY: the caller's promise.
    let text = unsafe { bytes(text, size) };
    outlet.map_or(0, |outlet| fence(0, || outlet.report(ExchangeId(exchange), text).into()))
}

/// Makes the connection of a descriptor of [`oribi_take_socket`] end by an abort when the descriptor is closed. 0: done, or
/// impossible. -1: a signal has arrived while this function waited for room; call it again.
///
/// # Safety
/// `descriptor` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_break_off(descriptor: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let socket = unsafe { BorrowedFd::borrow_raw(descriptor) };
    match oribi_server::break_off(socket).map_err(std::io::Error::from) {
        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => FAILED,
        _ => 0,
    }
}

/// Hijacks the connection: returns a new descriptor, or -1 if that is impossible.
///
/// # Safety
/// `lane` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_take_socket(lane: *const OribiLane, exchange: u64) -> c_int {
    let mut descriptor = -1;
    // SAFETY: the caller's promise.
    unsafe {
        with(lane, |outlet| match outlet.take_socket(ExchangeId(exchange)) {
            Ok(socket) => {
                descriptor = socket.into_raw_fd();
                0
            }
            Err(error) => {
                remember(&error.to_string());
                FAILED
            }
        });
    }
    descriptor
}
