//! Rules of a configuration, and requests that they are for.
#![no_main]

#[path = "../bodies/route.rs"]
mod body;
#[path = "../../crates/route/tests/reference/mod.rs"]
mod reference;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    body::check(data);
});
