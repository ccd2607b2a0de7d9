//! Configuration files: oribi.toml and the files that it includes.
#![no_main]

#[path = "../bodies/config_file.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    body::check(data);
});
