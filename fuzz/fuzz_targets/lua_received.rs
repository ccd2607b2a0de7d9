//! Answers of other servers to Lua scripts.
#![no_main]

#[path = "../bodies/lua_received.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    body::check(data);
});
