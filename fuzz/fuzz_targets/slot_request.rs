//! Requests in the memory of a pool, as a worker and the process that reports them read them.
#![no_main]

#[path = "../bodies/slot_request.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    body::check(data);
});
