//! WebSockets that the old edge hands over, as the next one reads them.
#![no_main]

#[path = "../bodies/live_record.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    body::check(data);
});
