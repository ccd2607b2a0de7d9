//! The report on the requests in the server.

use super::json::{Array, Object};
use oribi_ipc::slot::RequestSummary;
use oribi_log::append_quoted;
use std::time::Duration;

/// The most reported requests. A longer table is of no use, and each request costs a read of memory.
pub const MOST: usize = 200;

/// The number of bytes to which a target is cut.
const TARGET_BYTES: usize = 200;

/// A request that waits for an answer, or whose app still runs.
#[derive(Clone, Debug)]
pub struct RequestReport {
    /// `queued`, `running`, `answering`, `sending`, `interrupted`, `abandoned`.
    pub state: &'static str,
    /// The edge, counted from 1; `None` without edges.
    pub edge: Option<usize>,
    /// The position in the queue, counted from 1; `None` if it is not queued.
    pub position: Option<usize>,
    /// The client, the method and the target.
    pub about: About,
    /// The time since it was complete.
    pub age: Duration,
    /// The time since its app began or last made progress.
    pub quiet: Option<Duration>,
    /// The time after which it leaves the queue, or after which its app is interrupted or its worker stopped.
    pub deadline: Option<Duration>,
    /// The worker that has taken the request, if any.
    pub worker: Option<WorkerOfRequest>,
}

/// The worker that has taken a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerOfRequest {
    /// The process id of the worker.
    pub pid: u32,
    /// The number of the worker; `None` if the process is not a worker of this server.
    pub number: Option<usize>,
    /// The number of its generation.
    pub generation: Option<u64>,
}

/// The summary of a request, with all control characters escaped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    pub(crate) method: String,
    /// The target, escaped and cut.
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
    /// Summarizes a request from its beginning, method and target, as a worker publishes it. With `more`, the text may have
    /// been cut.
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

/// The requests in the server.
#[derive(Debug)]
pub struct Requests {
    /// The requests, the oldest first.
    pub listed: Vec<RequestReport>,
    /// The number of omitted requests.
    pub more: usize,
}

impl Requests {
    /// Returns the answer with these requests.
    pub(crate) fn answer(&self) -> String {
        let Self { listed, more } = self;
        Object::well().raw("requests", Array::of(listed.iter().map(RequestReport::object))).raw("more", more).end()
    }
}

impl RequestReport {
    pub(super) fn object(&self) -> String {
        let About { method, target, client } = &self.about;
        let mut object = Object::new().text("state", self.state);
        for (name, number) in [("edge", self.edge), ("position", self.position)] {
            if let Some(number) = number {
                object = object.raw(name, number);
            }
        }
        object = object.text("method", method).text("target", target);
        if !client.is_empty() {
            object = object.text("client", client);
        }
        object = object.seconds("age", self.age);
        for (name, time) in [("quiet", self.quiet), ("deadline", self.deadline)] {
            if let Some(time) = time {
                object = object.seconds(name, time);
            }
        }
        if let Some(WorkerOfRequest { pid, number, generation }) = self.worker {
            object = object.raw("pid", pid);
            if let Some(number) = number {
                object = object.raw("worker", number);
            }
            if let Some(generation) = generation {
                object = object.raw("generation", generation);
            }
        }
        object.end()
    }
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

    #[test]
    fn what_is_unknown_is_left_out() {
        let queued = RequestReport {
            state: "queued",
            edge: Some(1),
            position: Some(2),
            about: About { method: "GET".to_owned(), target: "/".to_owned(), client: String::new() },
            age: Duration::from_millis(1500),
            quiet: None,
            deadline: None,
            worker: None,
        };
        let worker = Some(WorkerOfRequest { pid: 77, number: Some(3), generation: None });
        let second = Some(Duration::from_secs(1));
        let running = RequestReport { state: "running", position: None, quiet: second, worker, ..queued.clone() };
        assert_eq!(
            Requests { listed: vec![queued, running], more: 5 }.answer(),
            "{\"ok\":true,\"requests\":[{\"state\":\"queued\",\"edge\":1,\"position\":2,\"method\":\"GET\",\"target\":\"/\",\
             \"age\":1.500},{\"state\":\"running\",\"edge\":1,\"method\":\"GET\",\"target\":\"/\",\"age\":1.500,\"quiet\":1.000,\
             \"pid\":77,\"worker\":3}],\"more\":5}"
        );
    }
}
