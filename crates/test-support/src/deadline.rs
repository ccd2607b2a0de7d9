//! A deadline for tests that wait for threads, sockets or shared memory. If a test hangs, the deadline ends the process with
//! all of its tests, and prints the name of the test and the condition that it waited for. Without it, a test runner would wait
//! for ever and print nothing.

use std::io::Write;
use std::panic::Location;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// Far more than any of these tests takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The variable that is set in a process whose test hangs on purpose, to test the deadline.
const HANGS: &str = "ORIBI_TEST_HANGS";

/// The deadline of a test. Dropping this cancels it.
pub struct Deadline {
    _end: Sender<()>,
}

/// Gives the calling test a deadline. `what` names the condition that the test waits for.
///
/// # Panics
/// The system cannot start a thread.
#[track_caller]
pub fn waits_for(what: &'static str) -> Deadline {
    let patience = if std::env::var_os(HANGS).is_some() { Duration::from_millis(100) } else { PATIENCE };
    // A test runs on a thread of its name.
    let test = thread::current().name().unwrap_or("a test").to_owned();
    let place = Location::caller();
    let (end, ended) = channel::<()>();
    let watch = move || {
        if ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
            let text = format!("{test} has waited {patience:?} for {what} ({place}). Threads:\n{}", threads());
            // Not by a macro: what those print is kept until the test ends.
            let _ = std::io::stderr().write_all(text.as_bytes());
            std::process::abort();
        }
    };
    thread::Builder::new().name("deadline".to_owned()).spawn(watch).expect("a thread is to be had");
    Deadline { _end: end }
}

/// Describes the threads of this process: the name, the state, and the system call in which the thread waits.
fn threads() -> String {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return String::new() };
    let read = |task: &std::path::Path, name: &str| std::fs::read_to_string(task.join(name)).unwrap_or_default();
    let line = |task: std::path::PathBuf| {
        let status = read(&task, "status");
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map_or("", str::trim).to_owned();
        format!(
            "  {}: {}, {}, system call {}",
            field("Name:"),
            field("State:"),
            read(&task, "wchan"),
            read(&task, "syscall").trim()
        )
    };
    tasks.flatten().map(|task| line(task.path()) + "\n").collect()
}

#[test]
fn a_test_that_hangs_ends_with_its_name() {
    if std::env::var_os(HANGS).is_some() {
        let _deadline = waits_for("a word that nobody says");
        thread::park_timeout(PATIENCE);
        return;
    }
    let name = "deadline::a_test_that_hangs_ends_with_its_name";
    let mut again = std::process::Command::new(std::env::current_exe().expect("it runs"));
    let outcome = again.args(["--exact", name]).env(HANGS, "1").output().expect("it can be started");
    let said = String::from_utf8_lossy(&outcome.stderr);
    assert!(!outcome.status.success(), "{said}");
    assert!(
        said.contains(&format!("{name} has waited"))
            && said.contains("for a word that nobody says (crates/test-support/src/deadline.rs:"),
        "{said}"
    );
    assert!(said.contains("deadline::a_tes: S"), "threads are named as far as the kernel keeps names: {said}");
}
