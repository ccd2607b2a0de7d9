//! Configurations of other servers.
#![no_main]

#[path = "../bodies/import.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    body::check(data);
});
