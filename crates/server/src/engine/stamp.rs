//! The field lines that the server adds to every response, rendered once a second.

use httpdate::HttpDate;
use oribi_proto::h1::Preset;
use std::io::Write;
use std::time::{Duration, SystemTime};

/// Date and Server, ready to be sent.
#[derive(Debug)]
pub(super) struct Stamp {
    date: Vec<u8>,
    server: Vec<u8>,
    until_close: bool,
    second: Option<u64>,
}

impl Stamp {
    /// `server` is the value of the Server field; empty for none. `until_close`: see [`Preset`].
    pub(super) fn new(server: &str, until_close: bool) -> Self {
        let server = if server.is_empty() { Vec::new() } else { format!("Server: {server}\r\n").into_bytes() };
        Self { date: Vec::new(), server, until_close, second: None }
    }

    /// Renders the date anew when the second has changed; `wall_clock` is asked only then.
    #[inline]
    pub(super) fn update(&mut self, now: Duration, wall_clock: impl FnOnce() -> Duration) {
        if self.second == Some(now.as_secs()) {
            return;
        }
        self.second = Some(now.as_secs());
        self.date.clear();
        // Writing into a vector cannot fail.
        let _ = write!(self.date, "Date: {}\r\n", HttpDate::from(SystemTime::UNIX_EPOCH + wall_clock()));
    }

    pub(super) fn preset(&self) -> Preset<'_> {
        Preset { date: &self.date, server: &self.server, until_close: self.until_close }
    }
}
