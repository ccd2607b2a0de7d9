//! Fields of the handshake of WebSocket.
#![no_main]

#[path = "../bodies/websocket_extensions.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    body::check(data);
});
