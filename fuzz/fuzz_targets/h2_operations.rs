//! HTTP/2: what clients send and callers do, in any order.
#![no_main]

#[path = "../bodies/h2_operations.rs"]
mod body;
#[path = "../../crates/proto/tests/frames/mod.rs"]
mod frames;


libfuzzer_sys::fuzz_target!(|data: &[u8]| body::check(data));
