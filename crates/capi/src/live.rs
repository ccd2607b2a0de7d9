//! Connections that stay open without the app, for hosts.
#![allow(unsafe_code)]

use crate::fence::{fence, outcome};
use crate::reply::with;
use crate::types::{OribiLane, OribiRequest, bytes};
use oribi_host::ExchangeId;
use oribi_live::Offer;
use std::ffi::{c_char, c_int};

/// Whether connections may stay open without the app, so that [`oribi_command`] has an effect.
///
/// # Safety
/// `lane` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_has_live_connections(lane: *const OribiLane) -> c_int {
    // SAFETY: the caller's promise; null becomes None.
    let outlet = unsafe { lane.as_ref() }.and_then(OribiLane::outlet);
    outlet.map_or(0, |outlet| fence(0, || outlet.has_live_connections().into()))
}

/// Gives commands for the connection of an exchange.
///
/// # Safety
/// `lane` is valid; `commands` points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_command(lane: *const OribiLane, exchange: u64, commands: *const c_char, size: usize) -> i32 {
    // SAFETY: the caller's promise.
    let commands = unsafe { bytes(commands, size) };
    // SAFETY: the caller's promise covers the lane.
    unsafe { with(lane, |outlet| outcome(outlet.command(ExchangeId(exchange), commands))) }
}

/// The form in which the connection of a request may stay open: 0 for none, 1 for a WebSocket, 2 for a stream of events.
///
/// # Safety
/// `lane` is valid; `request` is the one of the callback `answer`, which has not returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_live_offer(lane: *const OribiLane, request: *const OribiRequest) -> c_int {
    // SAFETY: the caller's promise.
    if unsafe { oribi_has_live_connections(lane) } == 0 {
        return 0;
    }
    // SAFETY: the caller's promise; null becomes None.
    let described = unsafe { request.as_ref().and_then(|request| request.described()) };
    described.map_or(0, |request| {
        fence(0, || match Offer::of(request) {
            None => 0,
            Some(Offer::WebSocket) => 1,
            Some(Offer::EventStream) => 2,
        })
    })
}
