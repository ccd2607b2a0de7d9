//! Fields of responses and requests that a cache reads.
#![no_main]

#[path = "../bodies/cache_fields.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    body::check(data);
});
