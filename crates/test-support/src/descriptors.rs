//! Tests that use up the descriptors of their process, which is therefore a process of its own.

use std::fs::File;
use std::process::Command;

/// Set in a process that has few descriptors.
const FEW: &str = "ORIBI_TEST_FEW_DESCRIPTORS";

/// Runs the test of this name in a new process that may open only few descriptors. Returns `false`, and starts no process, if
/// this is already that process.
///
/// # Panics
/// The test has failed in the new process.
pub fn run_with_few_descriptors(test: &str) -> bool {
    if std::env::var_os(FEW).is_some() {
        return false;
    }
    let _deadline = crate::deadline::waits_for("a process with few descriptors");
    let script = format!("ulimit -n 100; exec \"$0\" --exact {test}");
    let outcome =
        Command::new("sh").arg("-c").arg(script).arg(std::env::current_exe().expect("it runs")).env(FEW, "1").output();
    let outcome = outcome.expect("there is a shell");
    let output = String::from_utf8_lossy(&outcome.stdout);
    assert!(outcome.status.success() && output.contains(" 1 passed"), "{output}");
    true
}

/// All descriptors that the process may still open.
pub fn take_all_descriptors() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}
