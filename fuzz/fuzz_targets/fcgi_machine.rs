//! FastCGI connections, cut into packets in every way.
#![no_main]

#[path = "../bodies/fcgi_machine.rs"]
mod body;
#[path = "../../crates/proto/tests/fastcgi_transcript/mod.rs"]
mod fastcgi_transcript;
#[path = "../../crates/proto/tests/records/mod.rs"]
mod records;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::check(data));
