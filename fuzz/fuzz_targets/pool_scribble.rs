//! Memory of a pool in which a stranger writes anything.
#![no_main]

#[path = "../bodies/pool_scribble.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    body::check(data);
});
