//! Uploads for Lua scripts.
#![no_main]

#[path = "../bodies/lua_multipart.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    body::check(data);
});
