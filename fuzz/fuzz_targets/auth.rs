//! Files of users, and values of Authorization.
#![no_main]

#[path = "../bodies/auth.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::check(data));
