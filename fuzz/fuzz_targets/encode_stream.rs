//! Streams of encoders.
#![no_main]

#[path = "../bodies/encode_stream.rs"]
mod body;
#[path = "../../crates/encode/tests/decoder/mod.rs"]
mod decoder;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    body::check(data);
});
