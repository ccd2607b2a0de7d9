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

/// Runs the tests whose name contains the first argument of the command line, says how they went as other test programs do,
/// and ends the process.
pub fn run(tests: &[Test]) -> ! {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let (mut passed, mut failed) = (0, 0);
    for (name, test) in tests.iter().filter(|(name, _)| name.contains(&wanted)) {
        let well = std::panic::catch_unwind(test).is_ok();
        println!("test {name} ... {}", if well { "ok" } else { "FAILED" });
        *(if well { &mut passed } else { &mut failed }) += 1;
    }
    println!("\ntest result: {}. {passed} passed; {failed} failed; 0 ignored", if failed == 0 { "ok" } else { "FAILED" });
    std::process::exit(i32::from(failed > 0));
}
