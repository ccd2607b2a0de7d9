//! A test program that plays several roles. Without a role, it runs the tests. These start the program again in a role, each
//! time in a process with a single thread.

use crate::server::Server;
use std::process::Command;

const ROLE: &str = "ORIBI_TEST_ROLE";

/// The role that this process was started in.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// Returns the command that runs this program in another role.
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

/// Runs the tests that the command line selects, reports their results, and ends the process. The syntax and the format are
/// those of other test programs.
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
