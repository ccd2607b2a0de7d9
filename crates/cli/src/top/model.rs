//! The data of the picture: the newest snapshot, and the differences of its numbers from earlier ones. It does no I/O.

use super::resources::Usage;
use super::snapshot::{Numbers, Process, Request, Snapshot};
use std::collections::{HashMap, VecDeque};

/// The spans over which numbers are compared, in seconds.
pub const SPANS: [f64; 3] = [1.0, 10.0, 60.0];

/// The time by which a sample may be shorter than its span, in seconds. Samples are not exact, because the server answers only
/// between two waits for events.
const SLACK: f64 = 0.1;

/// The numbers of the server over time.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// The newest snapshot; `None` before the first one.
    pub present: Option<Snapshot>,
    /// The usage of the processes, from /proc.
    pub usage: HashMap<u32, Usage>,
    /// The reason why the server currently cannot be queried, if any.
    pub trouble: Option<String>,
    /// The last backtrace; `None` before the first one.
    pub backtrace: Option<Backtrace>,
    /// The numbers of earlier snapshots and of the newest, the oldest first.
    history: VecDeque<Numbers>,
    /// For each process, samples of the time and of the number of its requests up to then: from about a second ago to the
    /// newest snapshot.
    requests: HashMap<u32, Vec<(f64, f64)>>,
}

/// The latest backtrace of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backtrace {
    pub pid: u32,
    /// The text, formatted for people.
    pub lines: Vec<String>,
    /// The reason why there is no newer backtrace; `None` if this one is up to date.
    pub trouble: Option<String>,
}

/// The growth of the numbers in a span.
#[derive(Clone, Debug, PartialEq)]
pub struct Growth {
    /// The length of the span in seconds, as measured.
    pub span: f64,
    pub by: Numbers,
}

impl Growth {
    /// Returns the growth of a number per second.
    pub fn rate(&self, of: impl Fn(&Numbers) -> f64) -> f64 {
        of(&self.by) / self.span
    }

    /// The mean queue time of the requests that were queued, in seconds; `None` without such requests.
    pub fn mean_wait(&self) -> Option<f64> {
        (self.by.queued > 0.0).then(|| self.by.waited / self.by.queued)
    }
}

/// A row of the table of processes.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessRow {
    pub process: Process,
    /// Requests per second; `None` if not yet known.
    pub rate: Option<f64>,
    pub usage: Usage,
    /// The oldest request of the process, and the number of its other requests.
    pub runs: Option<(Request, usize)>,
}

impl Model {
    /// Takes the newest snapshot, and the usage of its processes.
    pub fn take(&mut self, snapshot: Snapshot, usage: HashMap<u32, Usage>) {
        let now = snapshot.numbers.clone();
        // The counters have started again, because a new program could not read the old ones.
        if self.history.back().is_some_and(|last| shrunk(last, &now)) {
            self.history.clear();
            self.requests.clear();
        }
        // Two answers with the same time of the server would give no span.
        if self.history.back().is_none_or(|last| last.seconds < now.seconds) {
            self.history.push_back(now);
        }
        let oldest = snapshot.numbers.seconds - SPANS[SPANS.len() - 1] - SLACK;
        while self.history.get(1).is_some_and(|second| second.seconds <= oldest) {
            self.history.pop_front();
        }
        self.count_processes(&snapshot);
        self.present = Some(snapshot);
        self.usage = usage;
        self.trouble = None;
    }

    /// Takes the newest backtrace of a process, or the reason why there is none; then the earlier backtrace of that process
    /// stays.
    pub fn take_backtrace(&mut self, pid: u32, told: Result<Vec<String>, String>) {
        let before = self.backtrace.take().filter(|before| before.pid == pid);
        self.backtrace = Some(match told {
            Ok(lines) => Backtrace { pid, lines, trouble: None },
            Err(why) => Backtrace { pid, trouble: Some(why), ..before.unwrap_or_default() },
        });
    }

    fn count_processes(&mut self, snapshot: &Snapshot) {
        let now = snapshot.numbers.seconds;
        self.requests.retain(|pid, _| snapshot.processes.iter().any(|process| process.pid == *pid));
        for process in &snapshot.processes {
            let seen = self.requests.entry(process.pid).or_default();
            if seen.last().is_some_and(|(_, requests)| *requests > process.requests) {
                // Another process now has this id.
                seen.clear();
            }
            if seen.last().is_none_or(|(at, _)| *at < now) {
                seen.push((now, process.requests));
            }
            while seen.get(1).is_some_and(|(at, _)| *at <= now - SPANS[0] + SLACK) {
                seen.remove(0);
            }
        }
    }

    /// Returns the growth in each span; `None` for a span if the observation of the server is no longer than the span before.
    pub fn growth(&self) -> [Option<Growth>; SPANS.len()] {
        let mut shorter = 0.0;
        SPANS.map(|span| {
            let growth = self.growth_in(span)?;
            let longer = growth.span > shorter + SLACK;
            shorter = growth.span;
            longer.then_some(growth)
        })
    }

    /// Returns the growth since the newest snapshot that is at least `span` seconds old. Without such a snapshot, returns the
    /// growth since the oldest one.
    fn growth_in(&self, span: f64) -> Option<Growth> {
        let now = self.history.back()?;
        let earlier = self.history.iter().rev().skip(1);
        let long_enough = earlier.clone().find(|then| now.seconds - then.seconds >= span - SLACK);
        let then = long_enough.or_else(|| earlier.last())?;
        Some(Growth { span: now.seconds - then.seconds, by: difference(now, then) })
    }

    /// The processes in the order of the server's answer.
    pub fn processes(&self) -> Vec<ProcessRow> {
        let Some(present) = &self.present else { return Vec::new() };
        present.processes.iter().map(|process| self.row(present, process)).collect()
    }

    fn row(&self, present: &Snapshot, process: &Process) -> ProcessRow {
        let rate = self.requests.get(&process.pid).and_then(|seen| match seen.as_slice() {
            [(from, before), .., (to, after)] => Some((after - before) / (to - from)),
            _ => None,
        });
        let mut own = present.traffic.of(process.pid);
        let runs = own.next().cloned().map(|oldest| (oldest, own.count()));
        ProcessRow { process: process.clone(), rate, usage: self.usage.get(&process.pid).copied().unwrap_or_default(), runs }
    }
}

/// Whether the counters have started again from zero.
fn shrunk(before: &Numbers, now: &Numbers) -> bool {
    let sum = |numbers: &Numbers| numbers.responses.iter().sum::<f64>();
    now.seconds < before.seconds || sum(now) < sum(before) || now.accepted < before.accepted
}

fn difference(now: &Numbers, then: &Numbers) -> Numbers {
    let less = |of: fn(&Numbers) -> f64| (of(now) - of(then)).max(0.0);
    Numbers {
        seconds: less(|numbers| numbers.seconds),
        responses: std::array::from_fn(|class| (now.responses[class] - then.responses[class]).max(0.0)),
        received: less(|numbers| numbers.received),
        sent: less(|numbers| numbers.sent),
        accepted: less(|numbers| numbers.accepted),
        lost: less(|numbers| numbers.lost),
        timeouts: less(|numbers| numbers.timeouts),
        restarts: less(|numbers| numbers.restarts),
        queued: less(|numbers| numbers.queued),
        waited: less(|numbers| numbers.waited),
        times: now.times.since(&then.times),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::snapshot::Traffic;

    /// `requests` of 2xx after `seconds`, all by process 7.
    fn after(seconds: f64, requests: f64) -> Snapshot {
        let numbers = Numbers {
            seconds,
            responses: [0.0, requests, 0.0, 0.0, 0.0],
            queued: requests,
            waited: requests / 4.0,
            ..Numbers::default()
        };
        let process = Process { pid: 7, requests, ..Process::default() };
        Snapshot { numbers, processes: vec![process], ..Snapshot::default() }
    }

    fn of(samples: &[(f64, f64)]) -> Model {
        let mut model = Model::default();
        samples.iter().for_each(|(seconds, requests)| model.take(after(*seconds, *requests), HashMap::new()));
        model
    }

    fn rates(model: &Model) -> [Option<(f64, f64)>; 3] {
        model.growth().map(|growth| growth.map(|growth| (growth.span, growth.rate(|numbers| numbers.responses[1]))))
    }

    #[test]
    fn rates_are_those_of_their_spans() {
        let mut model = of(&[]);
        for second in 0..=200 {
            // A hundred requests a second on the average, but a thousand in the last one.
            let requests = f64::from(second) * 100.0 + if second == 200 { 900.0 } else { 0.0 };
            model.take(after(f64::from(second), requests), HashMap::new());
        }
        assert_eq!(rates(&model), [Some((1.0, 1000.0)), Some((10.0, 190.0)), Some((60.0, 115.0))]);
        assert_eq!(model.growth()[0].as_ref().and_then(Growth::mean_wait), Some(0.25));
        assert!(model.history.len() < 64, "what is older is forgotten: {}", model.history.len());
    }

    #[test]
    fn a_span_that_was_not_observed_is_unknown() {
        assert_eq!(rates(&of(&[(5.0, 50.0)])), [None, None, None]);
        assert_eq!(rates(&of(&[(5.0, 50.0), (6.0, 70.0)])), [Some((1.0, 20.0)), None, None]);
        // A long interval has no rate for a second: it is displayed with its own span.
        assert_eq!(rates(&of(&[(0.0, 0.0), (5.0, 50.0)])), [Some((5.0, 10.0)), None, None]);
        assert_eq!(rates(&of(&[(0.0, 0.0), (4.0, 40.0), (5.0, 60.0)])), [Some((1.0, 20.0)), Some((5.0, 12.0)), None]);
        // A sample that arrives a little early counts for its second.
        assert_eq!(rates(&of(&[(0.0, 0.0), (1.0, 10.0), (1.95, 29.0)]))[0].map(|(_, rate)| rate.round()), Some(20.0));
    }

    #[test]
    fn counters_that_begin_anew_are_not_compared_with_the_old_ones() {
        assert_eq!(rates(&of(&[(500.0, 9000.0), (1.0, 20.0)])), [None, None, None]);
        assert_eq!(rates(&of(&[(500.0, 9000.0), (501.0, 20.0), (502.0, 30.0)])), [Some((1.0, 10.0)), None, None]);
        assert_eq!(rates(&of(&[(5.0, 50.0), (5.0, 50.0)])), [None, None, None], "no span");
    }

    #[test]
    fn processes_have_rates_of_their_own() {
        let rate = |samples| of(samples).processes()[0].rate;
        assert_eq!(rate(&[(1.0, 10.0)]), None);
        assert_eq!(rate(&[(1.0, 10.0), (2.0, 30.0), (3.0, 70.0)]), Some(40.0));
        assert_eq!(rate(&[(1.0, 10.0), (1.5, 30.0), (2.0, 70.0)]), Some(60.0), "over a second");
        let mut model = of(&[(1.0, 100.0)]);
        let mut next = after(2.0, 200.0);
        next.processes[0].requests = 3.0;
        model.take(next, HashMap::new());
        assert_eq!(model.processes()[0].rate, None, "another process with the same number");
    }

    #[test]
    fn what_was_known_of_a_process_stays_when_it_cannot_be_asked() {
        let mut model = Model::default();
        let known =
            |model: &Model| model.backtrace.clone().map(|told| (told.pid, told.lines.len(), told.trouble)).expect("it came");
        model.take_backtrace(7, Err("why".to_owned()));
        assert_eq!(known(&model), (7, 0, Some("why".to_owned())));
        model.take_backtrace(7, Ok(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(known(&model), (7, 2, None));
        model.take_backtrace(7, Err("gone".to_owned()));
        assert_eq!(known(&model), (7, 2, Some("gone".to_owned())));
        model.take_backtrace(8, Err("gone".to_owned()));
        assert_eq!(known(&model), (8, 0, Some("gone".to_owned())), "those of another one are not its own");
    }

    #[test]
    fn a_process_shows_the_oldest_of_its_requests() {
        let running =
            |what: &str| Request { pid: Some(7), state: "running".to_owned(), what: what.to_owned(), ..Request::default() };
        let mut snapshot = after(1.0, 1.0);
        snapshot.traffic = Traffic::Known { requests: vec![running("GET /a"), running("GET /b")], more: 0 };
        let mut model = Model::default();
        model.take(snapshot, HashMap::new());
        let runs = model.processes()[0].runs.clone().expect("it runs something");
        assert_eq!((runs.0.what.as_str(), runs.1), ("GET /a", 1));
    }
}
