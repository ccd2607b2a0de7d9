//! Responses, good and bad.
#![no_main]

#[path = "../bodies/h1_response.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::check(data));
