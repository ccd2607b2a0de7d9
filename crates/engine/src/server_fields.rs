//! The fields that the server adds to responses: Date and Server, rendered once a second; Strict-Transport-Security over
//! https; the id of the request; Server-Timing. A field for every response belongs in this list.

use super::answer::Answer;
use super::request_id::{RequestId, RequestIds};
use httpdate::HttpDate;
use oribi_config::Settings;
use oribi_message::PreparedFields;
use oribi_proto::h1::Preset;
use oribi_proto::h2::compress_preset;
use std::io::Write;
use std::time::{Duration, SystemTime};

/// The fields of the server, ready to be sent.
#[derive(Debug)]
pub(super) struct ServerFields<'a> {
    date: Vec<u8>,
    dated: bool,
    server: Vec<u8>,
    /// For responses over https; empty for none.
    policy: Vec<u8>,
    /// The beginning of most responses of HTTP/1.
    ok: Vec<u8>,
    /// Date and Server for HTTP/2.
    compressed: Vec<u8>,
    until_close: bool,
    second: Option<u64>,
    /// The ids of requests, if requests have ids.
    pub(super) ids: Option<RequestIds<'a>>,
    /// The Server-Timing of the response that is being written; `None` without this field.
    timing: Option<Vec<u8>>,
}

impl<'a> ServerFields<'a> {
    /// The fields that the settings require.
    pub(super) fn new(settings: &'a Settings) -> Self {
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
            ids: settings.request_id.as_ref().map(RequestIds::new),
            timing: settings.server_timing.then(Vec::new),
        }
    }

    /// Renders the date again when the second has changed; `wall_clock` is called only then.
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

    /// The fields of the response to a request with this id: those of the server, and the `prepared` ones of the app.
    /// Server-Timing covers the time until `now`.
    #[inline]
    pub(super) fn of_response<'b>(
        &'b mut self,
        prepared: Option<&'b PreparedFields>,
        answer: &Answer,
        id: Option<&'b RequestId>,
        now: Duration,
    ) -> Preset<'b> {
        if let Some(timing) = &mut self.timing {
            answer.timings.write_timing(now, timing);
        }
        Preset { prepared, timing: self.timing.as_deref().unwrap_or_default(), ..self.of_refusal(answer.https, id) }
    }

    /// The fields of a response with which the server refuses a request. `https` if the client uses https.
    #[inline]
    pub(super) fn of_refusal<'b>(&'b self, https: bool, id: Option<&'b RequestId>) -> Preset<'b> {
        Preset {
            date: &self.date,
            server: &self.server,
            policy: if https { &self.policy } else { &[] },
            ok: &self.ok,
            compressed: &self.compressed,
            prepared: None,
            id: self.ids.as_ref().zip(id).map(|(ids, id)| ids.pair(id)),
            timing: &[],
            until_close: self.until_close,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_that_jumps_is_shown_with_the_next_second() {
        let settings = Settings::default();
        let mut fields = ServerFields::new(&settings);
        let wall = Duration::from_secs(784_111_777);
        for (now, shift, shown) in [
            (1000, Duration::ZERO, "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"),
            (1999, Duration::from_secs(6 * 3600), "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"),
            (2000, Duration::from_secs(6 * 3600), "Date: Sun, 06 Nov 1994 14:49:37 GMT\r\n"),
            (3000, Duration::ZERO, "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"),
        ] {
            fields.update(Duration::from_millis(now), || wall + shift);
            assert_eq!(String::from_utf8_lossy(&fields.date), shown, "{now} ms");
        }
    }
}
