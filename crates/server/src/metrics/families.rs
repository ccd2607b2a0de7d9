//! Which metrics there are.
//!
//! Their names begin with `oribi_`, and say the unit, which is a base unit: seconds, bytes. Every counter of the server is told by the
//! name that `oribi ctl status --json` has for it; counters that are parts of a whole are one family with a label.

use super::text::{Format, Kind, Text};
use crate::control::{GenerationReport, ProcessReport, Report};
use crate::totals::{Counts, NAMES, Unit};
use std::time::{Duration, SystemTime};

/// What is told of a server at one moment.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) report: Report,
    pub(super) processes: Vec<ProcessReport>,
    pub(super) traffic: Traffic,
    /// For each worker its generation, its number and its memory in bytes.
    pub(super) memory: Vec<(Option<u64>, usize, u64)>,
    /// When the first process began.
    pub(super) began: SystemTime,
}

/// The requests that are in the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    /// Those that wait for a worker, and for how long the oldest has; `None`: there is no queue.
    pub(crate) queue: Option<(usize, Duration)>,
    /// Those that a worker has; `None`: nobody looks.
    pub(crate) running: Option<usize>,
}

/// Counters that are parts of a whole: the beginning of their names, the family's name, and its label.
const WHOLES: [(&str, &str, &str); 2] = [("responses_", "responses", "class"), ("workers_ended_", "workers_ended", "reason")];

/// What the counters count, by the names of their families.
const COUNTERS: [(&str, &str); 29] = [
    ("responses", "Final responses that have begun, by the class of their status."),
    ("bytes_received", "Bytes received on the connections of clients."),
    ("bytes_sent", "Bytes sent on the connections of clients."),
    ("connections_accepted", "Connections of clients that were accepted."),
    ("connections_closed", "Connections of clients that have ended."),
    ("connections_handed_over", "Connections that an edge has given to one of the next program."),
    ("connections_taken_over", "Connections that an edge has taken from one of the program before."),
    ("connections_displaced", "Idle connections that were closed to make room for new ones."),
    ("connections_refused", "Connections that came from none of the --fastcgi-clients."),
    ("accepting_pauses", "How often nothing more was accepted for a while, because there was no room."),
    ("requests_queued", "Requests that edges have put into the queue."),
    ("queue_wait_seconds", "How long requests have waited for a worker, all together."),
    ("queue_longest_wait_seconds", "The longest time that a request has waited for a worker."),
    ("queue_refused", "Requests that got a 503 because of --queue-limit."),
    ("queue_timeouts", "Requests that got a 503 because of --queue-timeout."),
    ("request_timeouts", "Requests whose apps took longer than --request-timeout."),
    ("head_timeouts", "Requests that got a 408 because of --head-timeout."),
    ("content_timeouts", "Requests that got a 408 because of --content-timeout."),
    ("requests_lost", "Requests whose workers have died, and that were not tried again."),
    ("requests_retried", "Requests whose workers have died, and that were tried again."),
    ("workers_started", "Workers that were started."),
    ("workers_failed", "Workers that ended as they should not."),
    ("workers_ended", "Workers that have ended, by the reason."),
    ("edges_started", "Edges that were started."),
    ("edges_failed", "Edges that ended as they should not."),
    ("generations_loaded", "How often the app was loaded, or all workers were replaced."),
    ("generations_failed", "How often that has failed."),
    ("upgrades", "New programs that have taken over."),
    ("upgrades_failed", "New programs that could not take over."),
];

/// The states of workers.
const STATES: [&str; 4] = ["starting", "ready", "retiring", "finishing"];

/// The text that tells of it.
pub(super) fn render(sample: &Sample, format: Format) -> String {
    let Sample { report, processes, traffic, memory, began } = sample;
    let mut text = Text::new(format);
    text.family(Kind::Info, "oribi_build", "The version of the program.");
    text.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    let mut gauge = |name: &str, help: &str, value: String| {
        text.family(Kind::Gauge, name, help);
        text.sample(&[], value);
    };
    let since_epoch = began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    gauge("oribi_start_time_seconds", "When this program of the server began, in seconds since 1970.", seconds(since_epoch));
    let serves = report.generations.iter().filter(|generation| generation.state == "serving");
    if let Some(GenerationReport { number, .. }) = serves.max_by_key(|generation| generation.number) {
        gauge("oribi_generation", "The number of the generation that serves.", number.to_string());
    }
    let (edges, workers): (Vec<_>, Vec<_>) = processes.iter().partition(|process| process.kind == "edge");
    gauge("oribi_edges", "Edges that run.", edges.len().to_string());
    gauge("oribi_workers_wanted", "Workers that there should be.", report.workers.to_string());
    let ready = workers.iter().filter(|worker| worker.row.state == "ready").count();
    let threads = ready.saturating_mul(report.threads);
    gauge(
        "oribi_threads",
        "Threads of all workers that are ready, of which each answers a request at a time.",
        threads.to_string(),
    );
    let owners = if report.edges > 0 { &edges } else { &workers };
    let connections: u64 = owners.iter().map(|process| u64::from(process.row.connections)).sum();
    gauge("oribi_connections", "Connections of clients that are open.", connections.to_string());
    if let Some((length, oldest)) = traffic.queue {
        gauge("oribi_queue_length", "Requests that wait for a worker.", length.to_string());
        gauge("oribi_queue_oldest_wait_seconds", "How long the first of them has waited.", seconds(oldest));
    }
    if let Some(running) = traffic.running {
        gauge("oribi_requests_running", "Requests that a worker has.", running.to_string());
    }
    text.family(Kind::Gauge, "oribi_workers", "Workers that run, by their state.");
    for state in STATES {
        let number = workers.iter().filter(|worker| worker.row.state == state).count();
        text.sample(&[("state", state)], number);
    }
    if !memory.is_empty() {
        text.family(Kind::Gauge, "oribi_worker_memory_bytes", "Memory of a worker, of which shared pages count in part (PSS).");
    }
    for (generation, number, bytes) in memory {
        let (generation, number) = (generation.map(|generation| generation.to_string()), number.to_string());
        let labels =
            generation.iter().map(|generation| ("generation", generation.as_str())).chain([("worker", number.as_str())]);
        text.sample(&labels.collect::<Vec<_>>(), bytes);
    }
    counters(&mut text, &report.counted.0);
    text.end()
}

fn counters(text: &mut Text, counts: &Counts) {
    let mut present = "";
    for &(counter, name) in &NAMES {
        let whole = WHOLES.iter().find_map(|(start, family, label)| Some((*family, *label, name.strip_prefix(start)?)));
        let family = whole.map_or(name, |(family, ..)| family);
        if family != present {
            present = family;
            let kind = if counter.unit() == Unit::Longest { Kind::Gauge } else { Kind::Counter };
            let help = COUNTERS.iter().find(|(named, _)| *named == family).map_or("", |(_, help)| *help);
            text.family(kind, &format!("oribi_{family}"), help);
        }
        let number = counts.of(counter);
        let value = match counter.unit() {
            Unit::Count => number.to_string(),
            Unit::Time | Unit::Longest => seconds(Duration::from_micros(number)),
        };
        match whole {
            Some((_, label, part)) => text.sample(&[(label, part)], value),
            None => text.sample(&[], value),
        }
    }
}

fn seconds(time: Duration) -> String {
    format!("{}.{:06}", time.as_secs(), time.subsec_micros())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scoreboard::Row;
    use crate::totals::{Account, Counter};
    use std::collections::HashSet;

    fn process(
        kind: &'static str,
        generation: Option<u64>,
        number: usize,
        state: &'static str,
        connections: u32,
    ) -> ProcessReport {
        let row = Row { number, pid: 77, state, age: Duration::ZERO, connections, requests: 3 };
        ProcessReport { kind, generation, row }
    }

    fn sample() -> Sample {
        let account = Account::unshared();
        account.add(Counter::Responses2xx, 7);
        account.add(Counter::QueueWait, 1_500_001);
        account.raise(Counter::QueueLongestWait, 900_000);
        account.count(Counter::EndedByMemory);
        let generation = |number, state| GenerationReport { number, pid: 1, state, age: Duration::ZERO };
        let report = Report {
            app: "shop".to_owned(),
            state: "serving",
            uptime: Duration::from_secs(9),
            addresses: Vec::new(),
            generations: vec![generation(4, "serving"), generation(5, "loading"), generation(3, "finishing")],
            edges: 1,
            workers: 2,
            threads: 3,
            counted: (account.read(), Duration::from_secs(60)),
        };
        Sample {
            report,
            processes: vec![
                process("edge", None, 1, "ready", 12),
                process("worker", Some(4), 1, "ready", 1),
                process("worker", Some(4), 2, "ready", 1),
                process("worker", Some(5), 1, "starting", 0),
            ],
            traffic: Traffic { queue: Some((4, Duration::from_millis(1250))), running: Some(6) },
            memory: vec![(Some(4), 1, 5_000_000), (None, 2, 7)],
            began: SystemTime::UNIX_EPOCH + Duration::from_micros(1_700_000_000_000_009),
        }
    }

    fn has(text: &str, line: &str) {
        assert!(text.lines().any(|present| present == line), "{line} is missing:\n{text}");
    }

    #[test]
    fn everything_is_told_in_base_units() {
        let text = render(&sample(), Format::Plain);
        for line in [
            &format!("oribi_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION")),
            "oribi_start_time_seconds 1700000000.000009",
            "oribi_generation 4",
            "oribi_edges 1",
            "oribi_workers_wanted 2",
            "oribi_threads 6",
            "oribi_connections 12",
            "oribi_queue_length 4",
            "oribi_queue_oldest_wait_seconds 1.250000",
            "oribi_requests_running 6",
            "oribi_workers{state=\"starting\"} 1",
            "oribi_workers{state=\"ready\"} 2",
            "oribi_workers{state=\"finishing\"} 0",
            "oribi_worker_memory_bytes{generation=\"4\",worker=\"1\"} 5000000",
            "oribi_worker_memory_bytes{worker=\"2\"} 7",
            "# TYPE oribi_responses_total counter",
            "oribi_responses_total{class=\"2xx\"} 7",
            "oribi_responses_total{class=\"5xx\"} 0",
            "oribi_queue_wait_seconds_total 1.500001",
            "# TYPE oribi_queue_longest_wait_seconds gauge",
            "oribi_queue_longest_wait_seconds 0.900000",
            "oribi_workers_ended_total{reason=\"memory\"} 1",
            "oribi_upgrades_total 0",
        ] {
            has(&text, line);
        }
        let mut alone = sample();
        (alone.report.edges, alone.traffic, alone.report.generations) = (0, Traffic::default(), Vec::new());
        let text = render(&alone, Format::Open);
        has(&text, "oribi_connections 2");
        has(&text, "# TYPE oribi_responses counter");
        for name in ["oribi_queue_length", "oribi_requests_running", "oribi_generation"] {
            assert!(!text.lines().any(|line| line.starts_with(&format!("{name} "))), "{name}:\n{text}");
        }
    }

    /// Reads a text as strictly as the formats are written down.
    fn check(text: &str, format: Format) {
        let (mut families, mut series) = (HashSet::new(), HashSet::new());
        let mut family: Option<(&str, &str)> = None;
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            if *line == "# EOF" {
                assert!(format == Format::Open && index + 1 == lines.len(), "{text}");
            } else if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').expect("a name and a text");
                assert!(help.len() > 5 && help.ends_with('.'), "{line}");
                assert!(families.insert(name), "{name} is there twice");
                let kind = lines[index + 1].strip_prefix(&format!("# TYPE {name} ")).expect("its type follows");
                family = Some((name, kind));
            } else if line.starts_with("# TYPE ") {
                assert!(lines[index - 1].starts_with("# HELP "), "{line}");
            } else {
                let (named, value) = line.rsplit_once(' ').expect("a name and a value");
                assert!(series.insert(named), "{named} is there twice");
                let value: f64 = value.parse().expect("a number");
                assert!(value >= 0.0, "{line}");
                let name = named.split('{').next().expect("it is first");
                let (family, kind) = family.expect("a family");
                let expected = match (format, kind) {
                    (Format::Open, "counter") => format!("{family}_total"),
                    (Format::Open, "info") => format!("{family}_info"),
                    _ => family.to_owned(),
                };
                assert_eq!(name, expected, "it is in another family");
                assert!(name.starts_with("oribi_"), "{name}");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{name} is a {kind}");
            }
        }
        assert_eq!(lines.last() == Some(&"# EOF"), format == Format::Open);
        assert!(text.ends_with('\n') && families.len() > 30);
    }

    #[test]
    fn both_formats_are_well_formed() {
        check(&render(&sample(), Format::Plain), Format::Plain);
        check(&render(&sample(), Format::Open), Format::Open);
    }

    #[test]
    fn every_counter_is_told_and_every_help_is_used() {
        let text = render(&sample(), Format::Plain);
        for (family, _) in COUNTERS {
            assert!(text.contains(&format!("\n# TYPE oribi_{family}")), "{family}");
        }
        let of_counters = text.split_once("# HELP oribi_responses_total").expect("they come last").1;
        let samples = of_counters.lines().filter(|line| line.starts_with("oribi_")).count();
        assert_eq!(samples, NAMES.len());
    }

    #[test]
    fn every_family_is_explained() {
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/observe.md");
        let docs = std::fs::read_to_string(docs).expect("it is in the repository");
        let text = render(&sample(), Format::Plain);
        for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            let name = line.split(' ').next().expect("a name");
            let rows = docs.lines().filter(|row| row.starts_with("| `") && row.contains(&format!("`{name}")));
            let exact = rows.filter(|row| {
                let names = row.split('|').nth(1).unwrap_or_default();
                names.split('`').any(|told| told == name || told.strip_prefix(name).is_some_and(|rest| rest.starts_with('{')))
            });
            assert_eq!(exact.count(), 1, "{name} in docs/observe.md");
        }
    }
}
