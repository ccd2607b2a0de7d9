//! Responses over FastCGI, good and bad.
#![no_main]

#[path = "../bodies/fcgi_response.rs"]
mod body;
#[path = "../../crates/proto/tests/records/mod.rs"]
mod records;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::check(data));
