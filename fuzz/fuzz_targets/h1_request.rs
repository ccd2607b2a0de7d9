//! Requests, cut into packets in every way.
#![no_main]

#[path = "../bodies/h1_request.rs"]
mod body;
#[path = "../bodies/second_opinion.rs"]
mod second_opinion;
#[path = "../../crates/proto/tests/transcript/mod.rs"]
mod transcript;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    for item in body::check(data) {
        second_opinion::check(&item);
    }
});
