//! A program started in a process group of its own, and ended with everything it started, however the bench itself ends.

use crate::{interrupt, process_tree};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The time that a group may take to end after the request to end. After it, the group is killed.
const GRACE: Duration = Duration::from_secs(5);

/// The time that the kernel may take to end killed processes. It ends them at once, unless a process hangs in a system call.
const KILL_PATIENCE: Duration = Duration::from_secs(2);

/// A running program and its descendants. Dropping it ends them all.
#[derive(Debug)]
pub struct Group {
    child: Child,
    output: PathBuf,
}

impl Group {
    /// Starts the program `words` on some CPUs. Its output goes to the file `output`.
    ///
    /// # Errors
    /// The file cannot be created, or the program cannot be started.
    pub fn start(words: &[String], cpus: &[usize], output: &Path) -> Result<Group, String> {
        let file = create(output)?;
        let errors = file.try_clone().map_err(|e| format!("{}: {e}", output.display()))?;
        let mut command = pinned(words, cpus);
        command.stdin(Stdio::null()).stdout(file).stderr(errors);
        Ok(Group { child: spawn(&mut command, words)?, output: output.to_owned() })
    }

    /// Like [`Group::start`], for a program that is controlled by its standard input and output. Only its standard error goes
    /// to the file `output`.
    ///
    /// # Errors
    /// The file cannot be created, or the program cannot be started.
    pub fn converse(words: &[String], cpus: &[usize], output: &Path) -> Result<(Group, ChildStdin, ChildStdout), String> {
        let mut command = pinned(words, cpus);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(create(output)?);
        let mut child = spawn(&mut command, words)?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(input), Some(answers)) => Ok((Group { child, output: output.to_owned() }, input, answers)),
            _ => Err(format!("no pipes to {}", words.join(" "))),
        }
    }

    /// Returns the process id of the first process, which is also the id of the process group.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap_or(i32::MAX)
    }

    /// Returns the exit status of the first process, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Everything it has printed.
    pub fn output(&self) -> String {
        std::fs::read(&self.output).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// Returns the last lines of the output after its first `start` bytes, to show why something went wrong.
    pub fn last_words(&self, start: usize) -> String {
        let output = self.output();
        let output = output.get(start..).unwrap_or_default();
        let lines: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(5)..].join(" | ")
    }

    /// Waits until the first process ends by itself, at most `limit`.
    ///
    /// # Errors
    /// The process takes longer or fails, or the user wants to stop.
    pub fn finish(&mut self, limit: Duration) -> Result<(), String> {
        let end = Instant::now() + limit;
        loop {
            match self.ended() {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("ended with {status}: {}", self.last_words(0))),
                None if Instant::now() > end => return Err(format!("did not end within {} s", limit.as_secs())),
                None => interrupt::sleep(interrupt::STEP)?,
            }
        }
    }

    /// Signals the first process only.
    pub fn signal_leader(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid()) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Ends all processes: asks them to end, waits up to `grace`, and kills those that remain. Returns whether none had to be
    /// killed.
    pub fn end(&mut self, grace: Duration) -> bool {
        let Some(group) = Pid::from_raw(self.pid()) else { return true };
        // Noted before the first process is gone: afterwards nothing would show that its children were ours.
        let members = process_tree::members(self.pid());
        let gone = |child: &mut Child| {
            let first = child.try_wait().is_ok_and(|status| status.is_some());
            first && !members.iter().any(|member| member.is_alive())
        };
        if gone(&mut self.child) {
            return true;
        }
        let _ = kill_process_group(group, Signal::TERM);
        let end = Instant::now() + grace;
        while Instant::now() < end {
            if gone(&mut self.child) {
                return true;
            }
            // Not the interruptible sleep: after Ctrl-C the grace still holds.
            std::thread::sleep(interrupt::STEP);
        }
        let _ = kill_process_group(group, Signal::KILL);
        for member in members.iter().filter(|member| member.is_alive()) {
            if let Some(pid) = Pid::from_raw(member.pid) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        let end = Instant::now() + KILL_PATIENCE;
        while Instant::now() < end && !gone(&mut self.child) {
            std::thread::sleep(interrupt::STEP);
        }
        false
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end(GRACE);
    }
}

fn create(output: &Path) -> Result<File, String> {
    File::create(output).map_err(|e| format!("{}: {e}", output.display()))
}

/// Returns the command for `words`, which runs in a process group of its own.
fn pinned(words: &[String], cpus: &[usize]) -> Command {
    let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
    // The parent-death signal covers the one end that cannot be caught here: the bench itself being killed.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "taskset", "-c", &cpus.join(",")]).args(words).process_group(0);
    command
}

fn spawn(command: &mut Command, words: &[String]) -> Result<Child, String> {
    command.spawn().map_err(|e| format!("cannot start {}: {e}", words.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(name: &str, script: &str) -> Group {
        let output = std::env::temp_dir().join(format!("oribi-bench-{}-{name}", std::process::id()));
        let words = ["sh", "-c", script].map(str::to_owned);
        Group::start(&words, &crate::machine::allowed_cpus()[..1], &output).expect("sh starts")
    }

    fn wait_for(group: &Group, text: &str) {
        let end = Instant::now() + Duration::from_secs(10);
        while !group.output().contains(text) {
            assert!(Instant::now() < end, "no {text:?} in {:?}", group.output());
            std::thread::sleep(interrupt::STEP);
        }
    }

    #[test]
    fn dropping_ends_the_children_too() {
        let group = shell("children", "sleep 300 & sleep 300 & echo started; wait");
        wait_for(&group, "started");
        let members = process_tree::members(group.pid());
        assert!(members.len() >= 3, "{members:?}");
        let output = group.output.clone();
        drop(group);
        assert!(!members.iter().any(|member| member.is_alive()));
        std::fs::remove_file(output).expect("the output file");
    }

    #[test]
    fn what_ignores_the_request_is_killed() {
        let mut group = shell("stubborn", "trap '' TERM; echo started; while :; do sleep 300; done");
        wait_for(&group, "started");
        let members = process_tree::members(group.pid());
        assert!(!group.end(Duration::from_millis(100)));
        assert!(!members.iter().any(|member| member.is_alive()));
        std::fs::remove_file(&group.output).expect("the output file");
    }

    #[test]
    fn a_conversation_has_two_sides() {
        use std::io::{BufRead, BufReader, Write};
        let output = std::env::temp_dir().join(format!("oribi-bench-{}-talk", std::process::id()));
        let words = ["sh", "-c", "read word; echo \"heard $word\"; echo complaint >&2"].map(str::to_owned);
        let cpus = crate::machine::allowed_cpus();
        let (mut group, mut input, answers) = Group::converse(&words, &cpus, &output).expect("sh starts");
        input.write_all(b"this\n").expect("it reads");
        let mut line = String::new();
        BufReader::new(answers).read_line(&mut line).expect("it writes");
        assert_eq!(line, "heard this\n");
        group.finish(Duration::from_secs(10)).expect("it ends");
        assert_eq!(group.output(), "complaint\n");
        std::fs::remove_file(&output).expect("the output file");
    }

    #[test]
    fn a_failure_says_what_was_printed() {
        let mut group = shell("failure", "echo no such app >&2; exit 3");
        let error = group.finish(Duration::from_secs(10)).expect_err("status 3");
        assert!(error.contains("no such app"), "{error}");
        std::fs::remove_file(&group.output).expect("the output file");
    }
}
