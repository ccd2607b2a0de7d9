//! PROXY headers.
#![no_main]

#[path = "../bodies/proxy_protocol.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::check(data));
