//! HTTP/2: blocks of compressed fields, and the fields of responses.
#![no_main]

#[path = "../bodies/h2_fields.rs"]
mod body;
#[path = "../../crates/proto/tests/frames/mod.rs"]
mod frames;
#[path = "../../crates/proto/tests/http2_transcript/mod.rs"]
mod http2_transcript;

libfuzzer_sys::fuzz_target!(|data: &[u8]| drop(body::check(data)));
