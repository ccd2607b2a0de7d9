//! Conditions, ranges, codings and paths of requests for files.
#![no_main]

#[path = "../bodies/file_request.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    body::check(data);
});
