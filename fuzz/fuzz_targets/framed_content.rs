//! Content with chunked framing that apps have written themselves.
#![no_main]

#[path = "../bodies/framed_content.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::check(data));
