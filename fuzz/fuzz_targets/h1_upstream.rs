//! Responses of upstreams, cut into packets in every way.
#![no_main]

#[path = "../bodies/h1_upstream.rs"]
mod body;
#[path = "../../crates/proto/tests/upstream_transcript/mod.rs"]
mod upstream_transcript;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::check(data));
