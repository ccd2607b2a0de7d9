//! A test program that plays several roles, each in a process of its own with a single thread: without a role it runs the
//! tests, which start it again with one.

use crate::server::Server;
use std::process::Command;

const ROLE: &str = "ORIBI_TEST_ROLE";

/// The role that this process was started in.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// This program in another role.
pub fn program(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("it is running"));
    command.env(ROLE, role);
    command
}

/// Starts this program in another role, with `variables` in its environment.
pub fn start(role: &str, variables: &[(&str, &str)]) -> Server {
    Server::run(program(role).envs(variables.iter().copied()))
}

/// A test and its name.
pub type Test = (&'static str, fn());

/// Runs the tests that the command line selects in the syntax of other test programs, reports their results in the same format,
/// and ends the process.
pub fn run(tests: &[Test]) -> ! {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let exactly = arguments.iter().any(|argument| argument == "--exact");
    let names: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let is_wanted =
        |test: &str| names.is_empty() || names.iter().any(|name| if exactly { test == *name } else { test.contains(*name) });
    let mut passed = 0;
    let mut failures = Vec::new();
    for (name, test) in tests.iter().filter(|(name, _)| is_wanted(name)) {
        let well = std::panic::catch_unwind(test).is_ok();
        println!("test {name} ... {}", if well { "ok" } else { "FAILED" });
        if well {
            passed += 1;
        } else {
            failures.push(*name);
        }
    }
    if !failures.is_empty() {
        println!("\nfailures:\n    {}", failures.join("\n    "));
    }
    let result = if failures.is_empty() { "ok" } else { "FAILED" };
    println!("\ntest result: {result}. {passed} passed; {} failed; 0 ignored", failures.len());
    std::process::exit(i32::from(!failures.is_empty()));
}
