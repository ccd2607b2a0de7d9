//! Form data and cookies for Lua scripts.
#![no_main]

#[path = "../bodies/lua_form.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    body::check(data);
});
