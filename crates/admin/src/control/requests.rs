//! Summaries of the requests in the server.

use oribi_ipc::slot::RequestSummary;
use oribi_log::append_quoted;

/// The most requests that are reported. A longer table is of no use, and each request costs a read of another process's
/// memory.
pub const MOST: usize = 200;

/// The number of bytes to which a target is cut.
const TARGET_BYTES: usize = 200;

/// The summary of a request, with all control characters escaped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The method, escaped and cut.
    pub method: String,
    /// The target without its query, escaped and cut.
    pub target: String,
    /// Address and port of the client; empty if unknown.
    pub client: String,
}

impl About {
    /// Summarizes a request in a slot.
    pub fn of(summary: &RequestSummary<'_>) -> Self {
        let [address, port] = summary.client.map(harmless);
        let client = match (address.is_empty(), address.contains(':')) {
            (true, _) => String::new(),
            (false, true) => format!("[{address}]:{port}"),
            (false, false) => format!("{address}:{port}"),
        };
        let cut = &summary.target[..summary.target.len().min(TARGET_BYTES)];
        let more = match (cut.len() < summary.target.len(), summary.has_query) {
            (true, _) => "...",
            (false, true) => "?...",
            (false, false) => "",
        };
        let method = &summary.method[..summary.method.len().min(TARGET_BYTES)];
        Self { method: harmless(method), target: format!("{}{more}", harmless(cut)), client }
    }
}

impl About {
    /// Summarizes a request from its method and the beginning of its target, as a worker publishes them. `more`: whether the
    /// text may have been cut.
    pub fn of_text(text: &[u8], more: bool) -> Self {
        let mut parts = text.splitn(2, |byte| *byte == b' ');
        let (method, target) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let query = target.iter().position(|byte| *byte == b'?');
        let mark = match (query, more) {
            (Some(_), _) => "?...",
            (None, true) => "...",
            (None, false) => "",
        };
        let target = format!("{}{mark}", harmless(&target[..query.unwrap_or(target.len())]));
        Self { method: harmless(method), target, client: String::new() }
    }
}

/// Escapes bytes as the access log does.
pub(super) fn harmless(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    append_quoted(bytes, &mut text);
    String::from_utf8(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_told_without_its_query_and_without_control_characters() {
        let summary = |target, has_query, client| About::of(&RequestSummary { method: b"G\x1bT", target, has_query, client });
        let about = summary(b"/a\x1b[2J\"\xff", true, [b"::1", b"80"]);
        assert_eq!((&about.method[..], &about.target[..]), ("G\\x1bT", "/a\\x1b[2J\\\"\\xff?..."));
        assert_eq!(about.client, "[::1]:80");
        let about = summary(&[b'/'; 1000], true, [b"192.0.2.1", b"9"]);
        assert_eq!((about.target.len(), &about.client[..]), (203, "192.0.2.1:9"));
        assert_eq!(summary(b"/a", false, [b"", b""]), About { target: "/a".to_owned(), client: String::new(), ..about });
    }

    #[test]
    fn a_text_is_told_in_the_same_way() {
        let told = |text: &[u8], more| {
            let About { method, target, .. } = About::of_text(text, more);
            format!("{method}|{target}")
        };
        assert_eq!(told(b"GET /a?secret", true), "GET|/a?...");
        assert_eq!(told(b"GET /a\x1b", true), "GET|/a\\x1b...");
        assert_eq!(told(b"GET /a b", false), "GET|/a b");
        assert_eq!(told(b"", false), "|");
    }
}
