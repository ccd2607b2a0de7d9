//! The field lines that the server adds to every response, rendered once a second.

use httpdate::HttpDate;
use oribi_config::Settings;
use oribi_message::{FieldPair, PreparedFields};
use oribi_proto::h1::Preset;
use oribi_proto::h2::compress_preset;
use std::io::Write;
use std::time::{Duration, SystemTime};

/// Date, Server and Strict-Transport-Security, ready to be sent.
#[derive(Debug)]
pub(super) struct Stamp {
    date: Vec<u8>,
    dated: bool,
    server: Vec<u8>,
    /// For responses over https; empty: none.
    policy: Vec<u8>,
    /// The beginning of most responses of HTTP/1.
    ok: Vec<u8>,
    /// Date and Server for HTTP/2.
    compressed: Vec<u8>,
    until_close: bool,
    second: Option<u64>,
}

impl Stamp {
    /// Renders the fields of the settings.
    pub(super) fn new(settings: &Settings) -> Self {
        let server = match settings.server_header.as_str() {
            "" => Vec::new(),
            name => format!("Server: {name}\r\n").into_bytes(),
        };
        let policy = settings.transport_security.as_ref();
        let policy = policy.map_or_else(Vec::new, |policy| format!("Strict-Transport-Security: {policy}\r\n").into_bytes());
        Self {
            date: Vec::new(),
            dated: settings.date,
            server,
            policy,
            ok: Vec::new(),
            compressed: Vec::new(),
            until_close: !settings.chunked_transfer,
            second: None,
        }
    }

    /// Renders the date anew when the second has changed; `wall_clock` is called only then.
    #[inline]
    pub(super) fn update(&mut self, now: Duration, wall_clock: impl FnOnce() -> Duration) {
        if self.second == Some(now.as_secs()) {
            return;
        }
        self.second = Some(now.as_secs());
        self.date.clear();
        if self.dated {
            // Writing into a vector cannot fail.
            let _ = write!(self.date, "Date: {}\r\n", HttpDate::from(SystemTime::UNIX_EPOCH + wall_clock()));
        }
        self.ok.clear();
        [&b"HTTP/1.1 200 OK\r\n"[..], &self.date, &self.server].iter().for_each(|part| self.ok.extend_from_slice(part));
        self.compressed.clear();
        compress_preset(&Preset { date: &self.date, server: &self.server, ..Preset::default() }, &mut self.compressed);
    }

    /// Whether responses over https get Strict-Transport-Security.
    #[inline]
    pub(super) const fn has_policy(&self) -> bool {
        !self.policy.is_empty()
    }

    /// Returns these lines, prepared fields, the id of the request, and its times. `https`: the response is delivered over
    /// https.
    #[inline]
    pub(super) fn preset<'a>(
        &'a self,
        prepared: Option<&'a PreparedFields>,
        https: bool,
        id: Option<FieldPair<'a>>,
        timing: &'a [u8],
    ) -> Preset<'a> {
        let policy: &[u8] = if https { &self.policy } else { &[] };
        Preset {
            date: &self.date,
            server: &self.server,
            policy,
            ok: &self.ok,
            compressed: &self.compressed,
            prepared,
            id,
            timing,
            until_close: self.until_close,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_that_jumps_is_shown_with_the_next_second() {
        let mut stamp = Stamp::new(&Settings::default());
        let wall = Duration::from_secs(784_111_777);
        for (now, shift, shown) in [
            (1000, Duration::ZERO, "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"),
            (1999, Duration::from_secs(6 * 3600), "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"),
            (2000, Duration::from_secs(6 * 3600), "Date: Sun, 06 Nov 1994 14:49:37 GMT\r\n"),
            (3000, Duration::ZERO, "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"),
        ] {
            stamp.update(Duration::from_millis(now), || wall + shift);
            assert_eq!(String::from_utf8_lossy(&stamp.date), shown, "{now} ms");
        }
    }
}
