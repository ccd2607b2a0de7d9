//! The wall clock jumps, because it is set, or because it was wrong until the network came up. Nothing that waits may depend on
//! the wall clock.
//!
//! The clock of the machine does not change. Instead, a library that is loaded before all others changes the time that the C
//! library reports to the server, its apps and their languages.

use crate::connection::Connection;
use crate::pressure::Pressure;
use crate::server::{send, wait_until};
use crate::site::{Edge, Language, Plan, Site};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

crate::everywhere!(a_clock_that_jumps_ends_nothing_and_delays_nothing);

/// The library, built once for all tests.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("wall_clock-{}.so", std::process::id()));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/adversity/wall_clock.c");
        let built = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&path).args([source, "-ldl"]).status();
        assert!(built.expect("there is a C compiler").success());
        path
    })
}

/// Moves the clock that the server sees by `seconds`.
fn jump(clock: &Path, seconds: i64) {
    // The library has mapped it: the same file, and eight bytes at once.
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().write(true).open(clock).expect("it is there");
    file.write_all_at(&seconds.to_ne_bytes(), 0).expect("it is ours");
}

/// Returns the number of seconds by which the clock of an app differs from the clock of the machine.
fn shift(site: &Site) -> i64 {
    let told: i64 = site.get("/time?0").and_then(|text| text.trim().parse().ok()).expect("it is a number");
    told - SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later").as_secs() as i64
}

/// Whether the time stamps in this log differ by hours, more than any test takes.
fn stamps_differ_by_hours(log: &str) -> bool {
    let hours: Vec<u32> = log.lines().filter_map(|line| line.split_once('T')?.1.split_once(':')?.0.parse().ok()).collect();
    hours.iter().any(|hour| hour.abs_diff(hours[0]) > 1)
}

fn a_clock_that_jumps_ends_nothing_and_delays_nothing(language: Language, edge: Edge) {
    let limits = ["--max-lifetime", "1h", "--request-timeout", "1s", "--keepalive-timeout", "10m", "--queue-timeout", "30s"];
    let mut plan = Plan::new(language, edge, &limits);
    let clock = plan.folder.file("clock");
    std::fs::write(&clock, 0_i64.to_ne_bytes()).expect("the folder is writable");
    plan.command.env("LD_PRELOAD", library()).env("ORIBI_TEST_CLOCK", &clock);
    let site = plan.start();
    let pressure = Pressure::on(&site, edge);
    assert!(shift(&site).abs() < 60);
    for hours in [6, -12] {
        let workers = site.titled("worker");
        let mut client = Connection::open(site.address);
        client.ask("/nap?50");
        wait_until("the app begins", || site.folder.file("napping").exists());
        let begun = Instant::now();
        jump(&clock, hours * 3600);
        // Deadlines are neither early nor late.
        let answer = client.response(false).expect("there is an answer");
        assert_eq!(answer.status, 504);
        assert!(begun.elapsed() >= Duration::from_millis(700), "{:?}", begun.elapsed());
        std::fs::remove_file(site.folder.file("napping")).expect("it is there");
        let seen = shift(&site);
        assert!((seen - hours * 3600).abs() < 60, "the app sees a clock that is off by {seen} s");
        assert_eq!(site.titled("worker"), workers, "nobody is older");
        pressure.go_on();
        // Workers that end are replaced at once, and new workers start.
        site.reload();
        site.wait_for_others(&workers);
        pressure.go_on();
    }
    pressure.must_have_been_perfect("while the clock jumped");
    let victim = site.titled("worker").into_iter().next().expect("there are two");
    send(victim, Signal::KILL);
    wait_until("another worker", || site.titled("worker").len() == 2 && !site.titled("worker").contains(&victim));
    assert!(site.get("/fast?1").is_some());
    assert!(stamps_differ_by_hours(&site.server.log()), "the log tells the time of the wall: {}", site.server.log());
    site.stop();
}
