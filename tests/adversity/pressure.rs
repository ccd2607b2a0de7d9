//! Clients that have the server answer all the time, on kept and on short connections.

use crate::client::{self, Manner};
use crate::load::{self, Question, Report};
use crate::site::{Edge, Site};

/// Clients at work.
pub struct Pressure {
    /// With edges: sixteen connections that must never close. Every byte is checked.
    kept: Option<load::Load>,
    /// Without edges: four clients that keep their connections as long as the server does.
    polite: Option<client::Load>,
    short: client::Load,
}

impl Pressure {
    pub fn on(site: &Site, edge: Edge) -> Self {
        let plan = load::Plan { connections: 16, pace: None, requests: None, question: Question::fast };
        let kept = (edge == Edge::On).then(|| load::Load::start(site.address, plan));
        let polite = (edge == Edge::Off).then(|| client::Load::start(&site.target(), 4, Manner::KeepAlive));
        let short = client::Load::start(&site.target(), 2, Manner::ConnectionPerRequest);
        let pressure = Self { kept, polite, short };
        pressure.go_on();
        pressure
    }

    /// Waits for more answers on each kind of connection.
    pub fn go_on(&self) {
        self.kept.iter().for_each(|load| load.wait_for_more(50));
        self.polite.iter().for_each(|load| load.wait_for_more(50));
        self.short.wait_for_more(10);
    }

    /// Checks that every request got the expected answer, and that no kept connection was closed.
    pub fn must_have_been_perfect(self, what: &str) {
        let (kept, lost) = self.stop();
        if let Some(report) = kept {
            report.must_be_perfect(what);
        }
        assert_eq!(lost, [""; 0], "{what}");
    }

    /// Checks the same, but permits that requests were lost together with the workers that were answering them. With an edge
    /// such a request gets a 502; without one, the connection ends without an answer.
    pub fn must_have_lost_only_what_workers_had(self, what: &str) {
        let (kept, lost) = self.stop();
        if let Some(report) = kept {
            report.must_be_without_faults(what);
            assert!(report.statuses.keys().all(|status| [200, 502].contains(status)), "{what}: {:?}", report.statuses);
            assert!(lost.iter().all(|lost| lost.starts_with("HTTP/1.1 502")), "{what}: {lost:?}");
        }
    }

    fn stop(self) -> (Option<Report>, Vec<String>) {
        let lost = self.polite.into_iter().chain([self.short]).flat_map(client::Load::stop).collect();
        (self.kept.map(load::Load::stop), lost)
    }
}
