//! Every answer, byte by byte, as clients of other versions and scripts expect it.

use super::*;
use oribi_control_api::{Generation, Health, Request, Requests, WorkerTarget, to_json};
use oribi_log::append_json;
use oribi_stats::scoreboard::{Connections, Row};
use oribi_stats::totals::{Account, COUNTER_ROWS, Counter, RequestPhase, Tally};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use tempfile::TempDir;

/// Characters that end strings of JSON, control terminals, or change the direction of text.
const HOSTILE: &str = "a\u{1b}[2J\"\\/\r\n\t\u{8}\u{c}\0\u{7f}\u{9b}\u{202e}\u{2028}\u{e9}\u{1f980}";

/// The same in JSON.
const ESCAPED: &str = "a\\u001b[2J\\\"\\\\/\\r\\n\\t\\u0008\\u000c\\u0000\\u007f\\u009b\\u202e\\u2028\u{e9}\u{1f980}";

/// A process id beyond the kernel's largest one.
const NOBODY: u32 = 5_000_000;

const SECOND: Duration = Duration::from_secs(1);

/// A first process whose state never changes.
struct Fixed {
    control: Option<Control>,
    path: PathBuf,
    requests: Result<Requests, String>,
    progress: Progress,
    readiness: ReadinessProgress,
    /// The number of questions for the readiness.
    asked: u32,
    _directory: TempDir,
}

impl Fixed {
    fn new(requests: Result<Requests, String>, progress: Progress) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("control.sock");
        let settings = Settings { control: ControlChoice::At(path.clone()), ..Settings::default() };
        let control = Control::open(&settings, false).expect("the directory is writable");
        let readiness = ReadinessProgress::Known(Health::READY);
        Self { control, path, requests, progress, readiness, asked: 0, _directory: directory }
    }

    /// Sends a line; returns the answer, if the server has one.
    fn answer(&mut self, line: &str, end: Option<i32>) -> String {
        let mut client = UnixStream::connect(&self.path).expect("it listens");
        client.write_all(format!("{line}\n").as_bytes()).expect("it is open");
        client.set_nonblocking(true).expect("it is a socket");
        let (mut answer, begun) = (Vec::new(), Instant::now());
        while !answer.ends_with(b"\n") {
            steer(self);
            if let Some(status) = end {
                say_end(self, status);
            }
            match client.read_to_end(&mut answer) {
                Ok(_) => break,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            assert!(begun.elapsed() < SECOND * 60, "no answer to {line}");
            std::thread::yield_now();
        }
        String::from_utf8(answer).expect("it is text")
    }
}

fn process(kind: &'static str, generation: Option<u64>, requests: u64) -> ProcessReport {
    let gauges = Connections::default();
    let age = Duration::from_micros(61_000_600);
    let row = Row { number: 1, pid: NOBODY, state: "ready", age, connections: 3, idle: 0, requests, gauges };
    ProcessReport { kind, app: None, generation, row }
}

impl Fixed {
    /// The only app that may be named is `shop`.
    fn named(&self, app: Option<&str>) -> Result<(), String> {
        app.map_or(Ok(()), |app| if app == "shop" { Ok(()) } else { Err(format!("there is no app {app:?}")) })
    }
}

impl Steered for Fixed {
    fn control(&mut self) -> Option<&mut Control> {
        self.control.as_mut()
    }

    fn report(&self) -> Report {
        let account = Account::unshared();
        account.add(Counter::Responses2xx, 7);
        account.add(Counter::QueueWait, 1_500_400);
        let tally = Tally::of_only_lane(account);
        [5000, 4_000_000, 4_000_001, 200_000_000_000].into_iter().for_each(|time| tally.timed_one(RequestPhase::App, time));
        Report {
            app: HOSTILE.to_owned(),
            state: "serving",
            uptime: Duration::from_micros(1_999_600),
            addresses: vec!["http://127.0.0.1:5000".to_owned(), HOSTILE.to_owned()],
            generations: vec![Generation { app: None, number: 2, pid: 77, state: "serving".into(), age: SECOND.into() }],
            apps: Vec::new(),
            edges: 1,
            workers: 2,
            threads: 3,
            connections: Connections {
                reading: 1,
                answering: 2,
                sending: 3,
                idle: 4,
                lingering: 5,
                http2: 6,
                fastcgi: 7,
                ..Connections::default()
            },
            certificates: vec![(HOSTILE.to_owned(), u64::MAX)],
            counted: (account.read(), SECOND * 60),
        }
    }

    fn ask_readiness(&mut self) {
        self.asked += 1;
    }

    fn readiness(&self) -> ReadinessProgress {
        assert!(self.asked > 0, "edges answer when they are asked");
        self.readiness.clone()
    }

    fn processes(&self) -> Vec<ProcessReport> {
        vec![process("edge", None, 0), process("worker", Some(2), u64::MAX)]
    }

    fn requests(&self) -> Result<Requests, String> {
        self.requests.clone()
    }

    fn parent_process(&self, _: &ProcessReport) -> Option<u32> {
        None
    }

    fn backtraces(&self, _: &ProcessReport, _: usize) -> Vec<u8> {
        Vec::new()
    }

    fn begin_reload(&mut self, app: Option<&str>) -> Result<u64, String> {
        self.named(app).map(|()| 1)
    }

    fn stop_app(&mut self, app: &str) -> Result<(), String> {
        self.named(Some(app))
    }

    fn is_serving(&mut self, app: &str) -> Result<bool, String> {
        self.named(Some(app)).map(|()| true)
    }

    fn reload_progress(&self, _: u64) -> Progress {
        self.progress.clone()
    }

    fn begin_apply(&mut self, file: Option<PathBuf>, dry_run: bool) -> Result<u64, String> {
        if dry_run || file.is_some() { Err(HOSTILE.to_owned()) } else { Ok(1) }
    }

    fn apply_progress(&self, _: u64) -> Progress {
        self.progress.clone()
    }

    fn begin_purge(&mut self, app: Option<&str>, target: Option<&str>) -> Result<u64, String> {
        self.named(app)?;
        if target.is_some_and(|target| !target.contains('/')) { Err(HOSTILE.to_owned()) } else { Ok(1) }
    }

    fn purge_progress(&self, _: u64) -> Option<u64> {
        (self.progress != Progress::Pending).then_some(3)
    }

    fn begin_stop(&mut self) {}

    fn scale(&mut self, app: Option<&str>, target: WorkerTarget) -> Result<(usize, usize, u64), String> {
        let workers = if let WorkerTarget::Number(number) = target { number } else { 3 };
        self.named(app).map(|()| (2, workers, 1))
    }

    fn scale_progress(&self, _: u64) -> Progress {
        self.progress.clone()
    }

    fn reopen_all_logs(&mut self) {}

    fn begin_upgrade(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn upgrade_progress(&self) -> Progress {
        self.progress.clone()
    }
}

fn requests() -> Requests {
    let queued = Request {
        state: "queued".into(),
        edge: Some(1),
        position: Some(2),
        method: HOSTILE.to_owned(),
        target: HOSTILE.to_owned(),
        client: "192.0.2.1:9".to_owned(),
        age: Duration::from_millis(1500).into(),
        quiet: None,
        deadline: Some(Duration::from_millis(28_500).into()),
        pid: None,
        worker: None,
        generation: None,
        app: None,
    };
    let running = Request {
        state: "running".into(),
        position: None,
        client: String::new(),
        quiet: Some(SECOND.into()),
        pid: Some(NOBODY),
        worker: Some(1),
        generation: Some(2),
        ..queued.clone()
    };
    let alone = Request { edge: None, deadline: None, pid: Some(8), worker: None, generation: None, ..running.clone() };
    Requests { requests: vec![queued, running, alone], more: 5 }
}

fn fixed() -> Fixed {
    Fixed::new(Ok(requests()), Progress::Done(HOSTILE.to_owned()))
}

/// The second of [`requests`].
fn running() -> String {
    format!(
        "{{\"state\":\"running\",\"edge\":1,\"method\":\"{ESCAPED}\",\"target\":\"{ESCAPED}\",\"age\":1.500,\"quiet\":1.000,\
         \"deadline\":28.500,\"pid\":5000000,\"worker\":1,\"generation\":2}}"
    )
}

#[test]
fn the_answer_to_status() {
    let counters: Vec<String> = COUNTER_ROWS
        .iter()
        .map(|row| match row.name {
            "responses_2xx" => "\"responses_2xx\":7".to_owned(),
            "queue_wait_seconds" => "\"queue_wait_seconds\":1.500".to_owned(),
            name if name.ends_with("_seconds") => format!("\"{name}\":0.000"),
            name => format!("\"{name}\":0"),
        })
        .collect();
    let none = "{\"count\":0,\"seconds\":0.000,\"buckets\":[]}";
    assert_eq!(
        fixed().answer("status", None),
        format!(
            "{{\"ok\":true,\"version\":\"{}\",\"pid\":{},\"app\":\"{ESCAPED}\",\"state\":\"serving\",\"uptime\":2.000,\
             \"addresses\":[\"http://127.0.0.1:5000\",\"{ESCAPED}\"],\
             \"generations\":[{{\"number\":2,\"pid\":77,\"state\":\"serving\",\"age\":1.000}}],\
             \"edges\":1,\"workers\":2,\"threads\":3,\
             \"connections\":{{\"reading\":1,\"answering\":2,\"sending\":3,\"idle\":4,\"lingering\":5,\"http1\":2,\"http2\":6,\
             \"fastcgi\":7}},\
             \"certificates\":[{{\"name\":\"{ESCAPED}\",\"expires\":18446744073709551615}}],\
             \"requests\":7,\"workers_started\":0,\"workers_failed\":0,\
             \"counters\":{{\"seconds\":60.000,{}}},\
             \"times\":{{\"queue\":{none},\"app\":{{\"count\":4,\"seconds\":200.008,\
             \"buckets\":[[0.00001,1],[0.004,1],[0.005,1],[null,1]]}},\"send\":{none},\"total\":{none}}}}}\n",
            env!("CARGO_PKG_VERSION"),
            std::process::id(),
            counters.join(",")
        )
    );
}

#[test]
fn the_answer_to_health() {
    let mut server = fixed();
    assert_eq!(server.answer("health", None), "{\"ok\":true,\"ready\":true,\"state\":\"ready\"}\n");
    server.readiness = ReadinessProgress::Known(Health::not_ready("loading", HOSTILE));
    let answer = format!("{{\"ok\":true,\"ready\":false,\"state\":\"loading\",\"note\":\"{ESCAPED}\"}}\n");
    assert_eq!(server.answer("health", None), answer);
    server.readiness = ReadinessProgress::Pending("edge 1 (pid 7)".to_owned());
    let answer = server.answer("health", None);
    let expected = "{\"ok\":true,\"ready\":false,\"state\":\"hung\",\
                    \"note\":\"edge 1 (pid 7) has not answered within 1s\"}\n";
    assert_eq!(answer, expected);
    assert_eq!(server.answer("health", Some(0)), "{\"ok\":false,\"error\":\"the server has stopped\"}\n");
}

#[test]
fn the_answer_to_workers() {
    assert_eq!(
        fixed().answer("workers", None),
        "{\"ok\":true,\"processes\":[\
         {\"kind\":\"edge\",\"number\":1,\"pid\":5000000,\"state\":\"ready\",\"age\":61.001,\"connections\":3,\"requests\":0},\
         {\"kind\":\"worker\",\"number\":1,\"pid\":5000000,\"generation\":2,\"state\":\"ready\",\
         \"age\":61.001,\"connections\":3,\"requests\":18446744073709551615}]}\n"
    );
}

#[test]
fn the_answer_to_requests_with_every_field_and_with_the_fewest() {
    let running = running();
    let expected = format!(
        "{{\"ok\":true,\"requests\":[{{\"state\":\"queued\",\"edge\":1,\"position\":2,\"method\":\"{ESCAPED}\",\
         \"target\":\"{ESCAPED}\",\"client\":\"192.0.2.1:9\",\"age\":1.500,\"deadline\":28.500}},{running},\
         {{\"state\":\"running\",\"method\":\"{ESCAPED}\",\"target\":\"{ESCAPED}\",\"age\":1.500,\"quiet\":1.000,\"pid\":8}}],\
         \"more\":5}}\n"
    );
    assert_eq!(fixed().answer("requests", None), expected);
    let mut unknown = Fixed::new(Err(HOSTILE.to_owned()), Progress::Pending);
    assert_eq!(unknown.answer("requests", None), format!("{{\"ok\":false,\"error\":\"{ESCAPED}\"}}\n"));
}

#[test]
fn the_answer_to_backtrace_for_a_worker_that_has_ended() {
    let worker = "{\"ok\":true,\"workers\":[{\"number\":1,\"pid\":5000000,\"generation\":2,\"state\":\"ready\",\
                  \"trace\":\"gone\",\"note\":\"the process has ended\"";
    let running = running();
    let expected = format!("{worker},\"requests\":[{running}],\"threads\":[],\"more\":0}}]}}\n");
    assert_eq!(fixed().answer("backtrace", None), expected);
    assert_eq!(fixed().answer("backtrace 1", None), expected);
    let mut unknown = Fixed::new(Err("unknown".to_owned()), Progress::Pending);
    assert_eq!(unknown.answer("backtrace 5000000", None), format!("{worker},\"threads\":[],\"more\":0}}]}}\n"));
    assert_eq!(fixed().answer("backtrace 9", None), "{\"ok\":false,\"error\":\"there is no worker 9\"}\n");
}

#[test]
fn the_answers_to_orders_that_change_the_server() {
    let message = format!("{{\"ok\":true,\"message\":\"{ESCAPED}\"}}\n");
    assert_eq!([fixed().answer("reload", None), fixed().answer("upgrade", None)], [message.clone(), message]);
    assert_eq!(fixed().answer("scale 4", None), "{\"ok\":true,\"workers\":4,\"before\":2}\n");
    assert_eq!(fixed().answer("scale 5 no-wait", None), "{\"ok\":true,\"workers\":5,\"before\":2}\n");
    assert_eq!(fixed().answer("reopen-logs", None), "{\"ok\":true}\n");
    let message = |message: &str| format!("{{\"ok\":true,\"message\":\"{message}\"}}\n");
    assert_eq!(fixed().answer("app shop reload", None), message(ESCAPED));
    assert_eq!(fixed().answer("app shop restart", None), message(ESCAPED));
    assert_eq!(fixed().answer("app shop stop", None), message("shop is stopping"));
    assert_eq!(fixed().answer("app shop start", None), message("shop serves already"));
    assert_eq!(fixed().answer("app shop scale 4", None), "{\"ok\":true,\"workers\":4,\"before\":2}\n");
    assert_eq!(fixed().answer("purge app shop a.example/*", None), "{\"ok\":true,\"responses\":3}\n");
    assert_eq!(fixed().answer("stop", Some(1)), "{\"ok\":true,\"status\":1}\n");
}

#[test]
fn the_answers_to_orders_that_fail() {
    let failed = || Fixed::new(Ok(requests()), Progress::Failed(HOSTILE.to_owned()));
    for order in ["reload", "apply", "apply dry-run", "apply /new.toml", "upgrade", "scale 3"] {
        assert_eq!(failed().answer(order, None), format!("{{\"ok\":false,\"error\":\"{ESCAPED}\"}}\n"));
    }
    for order in ["reload", "restart", "stop", "start", "scale 2 no-wait"] {
        let answer = fixed().answer(&format!("app blog {order}"), None);
        assert_eq!(answer, "{\"ok\":false,\"error\":\"there is no app \\\"blog\\\"\"}\n", "{order}");
    }
    assert_eq!(fixed().answer("purge nonsense", None), failed().answer("reload", None));
    let mut pending = Fixed::new(Ok(requests()), Progress::Pending);
    assert_eq!(pending.answer("reload", Some(0)), "{\"ok\":false,\"error\":\"the server has stopped\"}\n");
    assert_eq!(fixed().answer("status now", None), "{\"ok\":false,\"error\":\"status: nothing may follow\"}\n");
    assert_eq!(
        fixed().answer("\u{1b}", None),
        "{\"ok\":false,\"error\":\"unknown order; the orders are: status, health, workers, requests, backtrace [WORKER], \
         reload, apply [dry-run] [/FILE], upgrade, stop, purge [app NAME] [TARGET], scale NUMBER|MIN:MAX|auto [no-wait], \
         reopen-logs, app NAME reload|restart|stop|start|scale NUMBER|MIN:MAX|auto [no-wait]\"}\n"
    );
}

#[test]
fn texts_have_the_escapes_of_the_log() {
    for character in (0..=0x10_ffff).filter_map(char::from_u32) {
        let text = format!("a{character}");
        let mut logged = Vec::new();
        append_json(text.as_bytes(), &mut logged);
        assert_eq!(to_json(&text), format!("\"{}\"", String::from_utf8(logged).expect("it is text")), "{character:?}");
    }
}
