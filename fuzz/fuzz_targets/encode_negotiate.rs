//! Values of Accept-Encoding, and fields of responses.
#![no_main]

#[path = "../bodies/encode_negotiate.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    body::check(data);
});
