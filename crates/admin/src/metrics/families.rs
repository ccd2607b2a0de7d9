//! The families of metrics.
//!
//! The names of families begin with `oribi_`, and contain a base unit: seconds, bytes. The families of counters are made from
//! the rows of `oribi_stats::totals`.

use super::of_apps;
use super::routes::routes;
use super::text::{Format, Kind, Text, seconds};
use crate::control::{ProcessReport, Report};
use oribi_config::Bound;
use oribi_control_api::{AppState, Generation};
use oribi_stats::app_metrics::AppMetrics;
use oribi_stats::scoreboard::Holdings;
use oribi_stats::totals::{COUNTER_ROWS, Counter, Counts, LIMITS_HIT, RequestPhase, Unit};
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

/// The memory of a worker.
#[derive(Clone, Debug)]
pub(super) struct WorkerMemory {
    /// The app; `None` if there is only one.
    pub(super) app: Option<String>,
    pub(super) generation: Option<u64>,
    pub(super) number: usize,
    /// In bytes.
    pub(super) bytes: u64,
}

/// A sample of the state of a server.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) report: Report,
    pub(super) processes: Vec<ProcessReport>,
    pub(super) traffic: Traffic,
    /// The memory of each worker.
    pub(super) memory: Vec<WorkerMemory>,
    /// The start of the first process.
    pub(super) began: SystemTime,
    /// The bounds of buckets in histograms.
    pub(super) bounds: Vec<Bound>,
    /// The names of the routes by which requests are counted; empty without routes.
    pub(super) routes: Vec<String>,
}

/// The number of requests in the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The number of requests in the queue, and the time that the oldest of them has waited; `None` without a queue.
    pub queue: Option<(usize, Duration)>,
    /// The number of requests that workers have; `None` if apps are not watched.
    pub running: Option<usize>,
}

/// The counters of limits that have families of their own, and the settings of these limits.
const LIMITS_ELSEWHERE: [(Counter, &str); 5] = [
    (Counter::QueueRefused, "queue-limit"),
    (Counter::QueueTimeouts, "queue-timeout"),
    (Counter::RequestTimeouts, "request-timeout"),
    (Counter::HeadTimeouts, "header-timeout"),
    (Counter::ContentTimeouts, "body-timeout"),
];

/// The names and help texts of the histograms.
const HISTOGRAMS: [(RequestPhase, &str, &str); 4] = [
    (RequestPhase::Queue, "oribi_request_queue_seconds", "How long requests have waited for a worker."),
    (RequestPhase::App, "oribi_request_app_seconds", "How long apps have taken, from when a worker took the request."),
    (
        RequestPhase::Send,
        "oribi_request_send_seconds",
        "How long clients have taken for the rest of a response when its app had ended.",
    ),
    (RequestPhase::Total, "oribi_request_seconds", "How long requests have taken, from when they were complete."),
];

/// The states of workers.
const STATES: [&str; 4] = ["starting", "ready", "retiring", "finishing"];

/// Writes all metrics in a format.
pub(super) fn render(sample: &Sample, app_metrics: &AppMetrics, format: Format) -> Vec<u8> {
    let Sample { report, processes, traffic, memory, began, bounds, routes: names } = sample;
    let mut text = Text::new(format);
    text.family(Kind::Info, "oribi_build", "The version of the program.");
    text.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    let mut gauge = |name: &str, help: &str, value: String| {
        text.family(Kind::Gauge, name, help);
        text.sample(&[], value);
    };
    let since_epoch = began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    gauge("oribi_start_time_seconds", "When this program of the server began, in seconds since 1970.", seconds(since_epoch));
    generations(&mut text, report);
    let mut gauge = |name: &str, help: &str, value: String| {
        text.family(Kind::Gauge, name, help);
        text.sample(&[], value);
    };
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
    text.family(Kind::Gauge, "oribi_connections_by_state", "Connections of clients that are open, by what they wait for.");
    for (state, number) in report.connections.by_state() {
        text.sample(&[("state", state)], number);
    }
    text.family(Kind::Gauge, "oribi_connections_by_protocol", "Connections of clients that are open, by their protocol.");
    for (protocol, number) in report.connections.by_protocol() {
        text.sample(&[("protocol", protocol)], number);
    }
    let Holdings { body_memory, body_files, response_memory, response_files } = report.connections.held;
    text.family(Kind::Gauge, "oribi_held_bytes", "Bytes of unfinished requests and of waiting responses that clients hold.");
    for (of, place, bytes) in
        [("bodies", "memory", body_memory), ("responses", "memory", response_memory), ("responses", "files", response_files)]
    {
        text.sample(&[("of", of), ("in", place)], bytes);
    }
    text.family(Kind::Gauge, "oribi_held_files", "Open files with bodies of requests.");
    text.sample(&[], body_files);
    if !report.certificates.is_empty() {
        text.family(Kind::Gauge, "oribi_certificate_expiry_seconds", "When a certificate ends, in seconds since 1970.");
    }
    for (name, expires) in &report.certificates {
        text.sample(&[("name", name)], expires);
    }
    text.family(Kind::Gauge, "oribi_workers", "Workers that run, by their state.");
    for state in STATES {
        let number = workers.iter().filter(|worker| worker.row.state == state).count();
        text.sample(&[("state", state)], number);
    }
    if !memory.is_empty() {
        text.family(Kind::Gauge, "oribi_worker_memory_bytes", "Memory of a worker, of which shared pages count in part (PSS).");
    }
    for WorkerMemory { app, generation, number, bytes } in memory {
        let (generation, number) = (generation.map(|generation| generation.to_string()), number.to_string());
        let app = app.iter().map(|app| ("app", app.as_str()));
        let generation = generation.iter().map(|generation| ("generation", generation.as_str()));
        text.sample(&app.chain(generation).chain([("worker", number.as_str())]).collect::<Vec<_>>(), bytes);
    }
    counters(&mut text, &report.counted.0);
    histograms(&mut text, &report.counted.0, bounds);
    routes(&mut text, names, &report.counted.0.routes, bounds);
    of_apps::write(&mut text, app_metrics);
    text.end()
}

/// Writes the generation that serves, and the state of each app if there are several.
fn generations(text: &mut Text, report: &Report) {
    let serving: Vec<&Generation> = report.generations.iter().filter(|generation| generation.state == "serving").collect();
    let apps: BTreeSet<Option<&str>> = serving.iter().map(|generation| generation.app.as_deref()).collect();
    if !serving.is_empty() {
        text.family(Kind::Gauge, "oribi_generation", "The number of the generation that serves.");
    }
    for app in apps {
        let of_app = serving.iter().filter(|generation| generation.app.as_deref() == app);
        let number = of_app.map(|generation| generation.number).max().unwrap_or_default();
        text.sample(&app.map(|app| ("app", app)).into_iter().collect::<Vec<_>>(), number);
    }
    if !report.apps.is_empty() {
        text.family(
            Kind::Gauge,
            "oribi_app_serves",
            "Whether an app serves: 0 while it loads, sleeps, is stopped or cannot be loaded.",
        );
    }
    for AppState { name, state, .. } in &report.apps {
        text.sample(&[("app", name)], u8::from(state == "serving"));
    }
    if !report.apps.is_empty() {
        text.family(Kind::Gauge, "oribi_app_asleep", "Whether an app has no process until its next request (--workers 0:MAX).");
    }
    for AppState { name, state, .. } in &report.apps {
        text.sample(&[("app", name)], u8::from(state == "asleep"));
    }
    if !report.apps.is_empty() {
        text.family(Kind::Gauge, "oribi_app_workers_wanted", "Workers that there should be of an app; 0 while it sleeps.");
    }
    for AppState { name, workers, .. } in &report.apps {
        text.sample(&[("app", name)], *workers);
    }
}

fn counters(text: &mut Text, counts: &Counts) {
    let mut present = "";
    for row in &COUNTER_ROWS {
        let (counter, family) = (row.counter, row.family());
        if family != present {
            present = family;
            let kind = if counter.unit() == Unit::Longest { Kind::Gauge } else { Kind::Counter };
            text.family(kind, &format!("oribi_{family}"), &row.help());
            if family == LIMITS_HIT.name {
                for (counter, setting) in LIMITS_ELSEWHERE {
                    text.sample(&[("limit", setting)], counts.of(counter));
                }
            }
        }
        let number = counts.of(counter);
        let value = match counter.unit() {
            Unit::Count => number.to_string(),
            Unit::Time | Unit::Longest => seconds(Duration::from_micros(number)),
        };
        text.sample(row.labels(), value);
    }
}

fn histograms(text: &mut Text, counts: &Counts, bounds: &[Bound]) {
    for (part, name, help) in HISTOGRAMS {
        let histogram = counts.times.of(part);
        text.family(Kind::Histogram, name, help);
        text.times(&[], histogram, bounds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_io::process::SharedLine;
    use oribi_stats::scoreboard::{Connections, Row};
    use oribi_stats::totals::{Account, ROUTE_LINES, Tally};
    use std::collections::HashSet;

    fn process(
        kind: &'static str,
        generation: Option<u64>,
        number: usize,
        state: &'static str,
        connections: u32,
    ) -> ProcessReport {
        let row = Row {
            number,
            pid: 77,
            state,
            age: Duration::ZERO,
            connections,
            idle: 0,
            requests: 3,
            gauges: Connections::default(),
        };
        ProcessReport { kind, app: None, generation, row }
    }

    fn sample() -> Sample {
        let lines = Vec::leak((0..2 * ROUTE_LINES).map(|_| SharedLine::default()).collect());
        let account = Account::unshared().with_routes(lines);
        account.add(Counter::Responses2xx, 7);
        account.add(Counter::QueueWait, 1_500_001);
        account.raise(Counter::QueueLongestWait, 900_000);
        account.count(Counter::EndedByMemory);
        account.add(Counter::LimitHeaderSize, 2);
        account.add(Counter::QueueRefused, 4);
        account.add(Counter::Tls13Resumed, 5);
        let tally = Tally::of_only_lane(account);
        [4_000_000, 5_000_000, 6_000_000].into_iter().for_each(|time| tally.timed_one(RequestPhase::App, time));
        [(404, 4_000_000), (204, 6_000_000)].into_iter().for_each(|(status, time)| tally.routed(1, status, time));
        let generation = |number, state: &'static str| Generation { number, state: state.into(), ..Generation::default() };
        let report = Report {
            app: "shop".to_owned(),
            state: "serving",
            uptime: Duration::from_secs(9),
            addresses: Vec::new(),
            generations: vec![generation(4, "serving"), generation(5, "loading"), generation(3, "finishing")],
            apps: Vec::new(),
            edges: 1,
            workers: 2,
            threads: 3,
            connections: Connections {
                reading: 2,
                idle: 9,
                sending: 1,
                http2: 4,
                held: Holdings { body_memory: 21, body_files: 22, response_memory: 23, response_files: 24 },
                ..Connections::default()
            },
            certificates: vec![("example.org".to_owned(), 1_900_000_000), ("a \"b\".crt".to_owned(), 7)],
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
            memory: vec![
                WorkerMemory { app: Some("shop".to_owned()), generation: Some(4), number: 1, bytes: 5_000_000 },
                WorkerMemory { app: None, generation: None, number: 2, bytes: 7 },
            ],
            began: SystemTime::UNIX_EPOCH + Duration::from_micros(1_700_000_000_000_009),
            bounds: [5, 1000].into_iter().filter_map(|time| Bound::at(Duration::from_millis(time)).ok()).collect(),
            routes: ["other", "/shop"].map(str::to_owned).to_vec(),
        }
    }

    fn render(sample: &Sample, format: Format) -> String {
        String::from_utf8(super::render(sample, &AppMetrics::default(), format)).expect("it is text")
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
            "oribi_connections_by_state{state=\"idle\"} 9",
            "oribi_connections_by_state{state=\"lingering\"} 0",
            "oribi_connections_by_protocol{protocol=\"http1\"} 8",
            "oribi_connections_by_protocol{protocol=\"http2\"} 4",
            "oribi_held_bytes{of=\"bodies\",in=\"memory\"} 21",
            "oribi_held_bytes{of=\"responses\",in=\"memory\"} 23",
            "oribi_held_bytes{of=\"responses\",in=\"files\"} 24",
            "oribi_held_files 22",
            "oribi_certificate_expiry_seconds{name=\"example.org\"} 1900000000",
            "oribi_certificate_expiry_seconds{name=\"a \\\"b\\\".crt\"} 7",
            "oribi_limits_hit_total{limit=\"max-header-size\"} 2",
            "oribi_limits_hit_total{limit=\"queue-limit\"} 4",
            "oribi_queue_refused_total 4",
            "oribi_tls_handshakes_total{version=\"1.3\",kind=\"resumed\"} 5",
            "oribi_queue_length 4",
            "oribi_queue_oldest_wait_seconds 1.250000",
            "oribi_requests_running 6",
            "oribi_workers{state=\"starting\"} 1",
            "oribi_workers{state=\"ready\"} 2",
            "oribi_workers{state=\"finishing\"} 0",
            "oribi_worker_memory_bytes{app=\"shop\",generation=\"4\",worker=\"1\"} 5000000",
            "oribi_worker_memory_bytes{worker=\"2\"} 7",
            "# TYPE oribi_responses_total counter",
            "oribi_responses_total{class=\"2xx\"} 7",
            "oribi_responses_total{class=\"5xx\"} 0",
            "oribi_queue_wait_seconds_total 1.500001",
            "# TYPE oribi_queue_longest_wait_seconds gauge",
            "oribi_queue_longest_wait_seconds 0.900000",
            "oribi_workers_ended_total{reason=\"memory\"} 1",
            "oribi_upgrades_total 0",
            "# TYPE oribi_request_app_seconds histogram",
            "oribi_request_app_seconds_bucket{le=\"0.005\"} 2",
            "oribi_request_app_seconds_bucket{le=\"1.0\"} 3",
            "oribi_request_app_seconds_bucket{le=\"+Inf\"} 3",
            "oribi_request_app_seconds_sum 0.015000",
            "oribi_request_app_seconds_count 3",
            "oribi_request_seconds_count 0",
            "oribi_route_responses_total{route=\"other\",class=\"2xx\"} 0",
            "oribi_route_responses_total{route=\"/shop\",class=\"2xx\"} 1",
            "oribi_route_responses_total{route=\"/shop\",class=\"4xx\"} 1",
            "oribi_route_request_seconds_bucket{route=\"/shop\",le=\"0.005\"} 1",
            "oribi_route_request_seconds_bucket{route=\"/shop\",le=\"+Inf\"} 2",
            "oribi_route_request_seconds_sum{route=\"/shop\"} 0.010000",
            "oribi_route_request_seconds_count{route=\"other\"} 0",
        ] {
            has(&text, line);
        }
        let mut alone = sample();
        (alone.report.edges, alone.traffic, alone.report.generations) = (0, Traffic::default(), Vec::new());
        alone.routes.clear();
        let text = render(&alone, Format::Open);
        has(&text, "oribi_connections 2");
        has(&text, "# TYPE oribi_responses counter");
        for name in ["oribi_queue_length", "oribi_requests_running", "oribi_generation", "# TYPE oribi_route_responses"] {
            assert!(!text.lines().any(|line| line.starts_with(&format!("{name} "))), "{name}:\n{text}");
        }
    }

    /// Checks a text strictly against the specification of its format.
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
                let of_histogram = ["_bucket", "_sum", "_count"].iter().any(|end| name.strip_suffix(end) == Some(family));
                assert!(name == expected || (kind == "histogram" && of_histogram), "{name} is in another family");
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
    fn the_binary_format_has_the_same_families() {
        let plain = render(&sample(), Format::Plain);
        let binary = super::render(&sample(), &AppMetrics::default(), Format::Binary);
        let holds = |name: &str| {
            let field = [&[0x0a, name.len() as u8], name.as_bytes(), &[0x12]].concat();
            binary.windows(field.len()).any(|window| window == field)
        };
        for name in plain.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()) {
            assert!(holds(name), "{name}");
        }
        assert!(!holds("oribi_missing"));
    }

    #[test]
    fn every_counter_has_a_sample() {
        let text = render(&sample(), Format::Plain);
        let of_counters = text.split_once("# HELP oribi_responses_total").expect("they come last").1;
        let of_counters = of_counters.split_once("# HELP oribi_request_queue_seconds ").expect("histograms follow").0;
        let samples = of_counters.lines().filter(|line| line.starts_with("oribi_")).count();
        assert_eq!(samples, COUNTER_ROWS.len() + LIMITS_ELSEWHERE.len());
        // Each limit has either a row or an entry here.
        for (_, setting) in LIMITS_ELSEWHERE {
            assert!(!COUNTER_ROWS.iter().any(|row| row.labels().contains(&("limit", setting))), "{setting}");
        }
    }

    #[test]
    fn every_family_is_explained() {
        let read = |page: &str| {
            std::fs::read_to_string(format!("{}/../../docs/{page}", env!("CARGO_MANIFEST_DIR")))
                .expect("it is in the repository")
        };
        let docs = read("observe.md");
        let text = render(&sample(), Format::Plain);
        for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            let name = line.split(' ').next().expect("a name");
            let of_counter =
                |row: &&oribi_stats::totals::CounterRow| name.trim_end_matches("_total") == format!("oribi_{}", row.family());
            if COUNTER_ROWS.iter().any(|row| of_counter(&row)) {
                continue;
            }
            let rows = docs.lines().filter(|row| row.starts_with("| `") && row.contains(&format!("`{name}")));
            let exact = rows.filter(|row| {
                let names = row.split('|').nth(1).unwrap_or_default();
                names.split('`').any(|told| told == name || told.strip_prefix(name).is_some_and(|rest| rest.starts_with('{')))
            });
            assert_eq!(exact.count(), 1, "{name} in docs/observe.md");
        }
    }
}
