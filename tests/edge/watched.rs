//! A server all of whose workers are stuck can be inspected like any other: no report on it needs their help.

use crate::connection::Connection;
use crate::language::Language;
use crate::scrape::{MetricsAddress, Scrape};
use crate::steered::Steered;
use crate::turn;
use serde_json::Value;
use std::process::Command;

crate::in_every_language!(everything_that_tells_of_a_server_answers_while_all_workers_are_stuck);

/// Returns the targets at which an app gets stuck, each with the value of `trace` that `oribi ctl backtrace` must report for
/// it.
fn kinds(language: Language) -> [(&'static str, &'static str); 3] {
    // Ruby leaves its own `sleep` for a question.
    let asleep = if language == Language::Ruby { "told" } else { "waits" };
    [("/stuck?N", "told"), ("/sleep?N&60", asleep), ("/c?N", "silent")]
}

fn everything_that_tells_of_a_server_answers_while_all_workers_are_stuck(language: Language) {
    let _turn = turn::beside_others();
    for (target, trace) in kinds(language) {
        let server = Steered::start(language, &["--workers", "2", "--metrics", "0", "--dashboard", "on"]);
        let mut clients = [1, 2].map(|_| Connection::open(server.site.address));
        for (client, number) in clients.iter_mut().zip(1..) {
            client.ask(&target.replace('N', &number.to_string()));
        }
        let stuck = [1, 2].map(|number| server.site.wait_inside(number));
        let path = target.split('?').next().expect("a path");

        let status: Value = serde_json::from_str(&server.well(&["status", "--json"])).expect("JSON");
        assert_eq!((status["state"].as_str(), status["workers"].as_u64()), (Some("serving"), Some(2)), "{path}: {status}");
        let requests = server.list("requests", "requests");
        let has_it = |pid: &u32| requests.iter().any(|one| one["state"] == "running" && one["pid"] == *pid);
        assert!(stuck.iter().all(has_it), "{path}: {stuck:?}: {requests:?}");

        // The kind of its hang is known at once.
        crate::server::wait_until("both are told as what they are", || {
            let workers = server.list("backtrace", "workers");
            assert_eq!(workers.len(), 2, "{path}: {workers:?}");
            let with_request = |worker: &&Value| worker["requests"].as_array().is_some_and(|requests| requests.len() == 1);
            assert_eq!(workers.iter().filter(with_request).count(), 2, "{path}: {workers:?}");
            workers.iter().all(|worker| worker["trace"] == trace)
        });

        let place = MetricsAddress::said_in(&server.site.server.log());
        let scrape = Scrape::of(&place);
        assert_eq!((scrape.get("oribi_workers{state=\"ready\"}"), scrape.get("oribi_requests_running")), (2.0, 2.0), "{path}");
        let page = place.request("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("</html>"), "{path}: {page}");
        let event = place.beginning("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n", "event: now\ndata: ");
        assert!(event.contains("Content-Type: text/event-stream"), "{path}: {event}");

        let mut probe = Connection::open(server.site.address);
        let probed = probe.get("/healthz");
        // When all have been stuck for five seconds, it answers 503: another server is to get the requests.
        let said = String::from_utf8_lossy(&probed.content);
        assert!(
            matches!(probed.status, 200 | 503) && said.contains("\"workers\":2,\"waiting_workers\":0"),
            "{path}: {probed:?}"
        );
        let top = server.once();
        for part in ["2 of 2 threads busy", "\nworker 1 ", "\nworker 2 ", &format!("GET {path}")] {
            assert!(top.contains(part), "{path}: {part:?} is not in {top}");
        }
        assert_eq!(stuck.map(|pid| server.site.workers().contains(&pid)), [true, true], "{path}: nobody was ended for it");
    }
}

impl Steered {
    /// The output of `oribi top --once`.
    fn once(&self) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oribi"));
        let output = command.args(["top", "--once", "--interval", "0.1", "--control"]).arg(self.control()).output();
        String::from_utf8(output.expect("it was built").stdout).expect("text")
    }
}
