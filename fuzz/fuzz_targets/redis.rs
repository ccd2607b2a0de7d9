//! Values and messages of a Redis.
#![no_main]

#[path = "../bodies/redis.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    body::check(data);
});
