//! Frames of a client of WebSocket.
#![no_main]

#[path = "../bodies/websocket_reader.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    body::check(data);
});
