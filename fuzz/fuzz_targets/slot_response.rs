//! Heads of responses in the memory of a pool, written by a worker or by a stranger.
#![no_main]

#[path = "../bodies/slot_response.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    body::check(data);
});
