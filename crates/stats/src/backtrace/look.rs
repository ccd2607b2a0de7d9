//! Reads the state of the threads of another process from /proc. The kernel hides parts of it from processes of other users
//! or in other containers.

use oribi_io::process::asking::name_of_call;
use std::fs;

/// The most threads of a process that are reported.
const MOST_THREADS: usize = 64;
/// The most bytes read from a file in /proc.
const SHOWN: usize = 64;

/// A thread according to /proc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemThread {
    /// The kernel's id of the thread.
    pub thread: u32,
    /// The name of the thread.
    pub name: String,
    /// `running`, `sleeping`, `uninterruptible`, `stopped`, `ended`, or the kernel's letter.
    pub state: String,
    /// The system call in which the thread waits. `None` if it waits in none, or if the kernel hides the call.
    pub call: Option<String>,
    /// The kernel function in which the thread waits. `None` if the kernel hides it.
    pub place: Option<String>,
}

/// Returns the threads of a process, and the number of omitted threads. Empty if the process has ended.
pub fn threads_of(process: u32) -> (Vec<SystemThread>, usize) {
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/task")) else { return (Vec::new(), 0) };
    let number = |entry: Result<fs::DirEntry, _>| entry.ok()?.file_name().to_str()?.parse::<u32>().ok();
    let mut all: Vec<u32> = entries.filter_map(number).collect();
    all.sort_unstable();
    let more = all.len().saturating_sub(MOST_THREADS);
    (all.into_iter().take(MOST_THREADS).filter_map(|thread| look(process, thread)).collect(), more)
}

/// Returns the letter for the state of a thread (proc_pid_stat(5)). `None` if it cannot be read, usually because the thread
/// has ended.
pub fn state_of(process: u32, thread: u32) -> Option<char> {
    name_and_state(&stat(process, thread)?).map(|(_, state)| state)
}

/// Whether a thread with this letter for its state runs, so that it does not wait in a system call.
pub const fn is_running(state: char) -> bool {
    state == 'R'
}

fn stat(process: u32, thread: u32) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{process}/task/{thread}/stat")).ok()
}

/// Returns the name and the state in the contents of a file `stat`. The name is everything between the first and the last
/// parenthesis.
fn name_and_state(stat: &[u8]) -> Option<(String, char)> {
    let begin = stat.iter().position(|byte| *byte == b'(')? + 1;
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let name = String::from_utf8_lossy(stat.get(begin..end)?).into_owned();
    Some((name, char::from(*stat.get(end + 2)?)))
}

fn look(process: u32, thread: u32) -> Option<SystemThread> {
    let (name, state) = name_and_state(&stat(process, thread)?)?;
    let text = |file: &str| {
        let text = fs::read_to_string(format!("/proc/{process}/task/{thread}/{file}")).ok()?;
        Some(text.trim().chars().take(SHOWN).collect::<String>())
    };
    let waits = !is_running(state);
    let call = text("syscall").filter(|_| waits).and_then(|text| call_in(&text));
    let place = text("wchan").filter(|place| waits && !place.is_empty() && place != "0");
    let state = match state {
        'R' => "running".to_owned(),
        'S' | 'I' => "sleeping".to_owned(),
        'D' => "uninterruptible".to_owned(),
        'T' | 't' => "stopped".to_owned(),
        'Z' | 'X' => "ended".to_owned(),
        other => other.to_string(),
    };
    Some(SystemThread { thread, name, state, call, place })
}

/// Returns the name of the system call in the contents of a file `syscall`: "202 0x..." is a system call, "running" and "-1"
/// are none.
fn call_in(text: &str) -> Option<String> {
    let number: i64 = text.split(' ').next()?.parse().ok()?;
    (number >= 0).then(|| name_of_call(number).map_or_else(|| format!("system call {number}"), str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_told_with_what_they_wait_for() {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let waiting = std::thread::Builder::new().name("a (b) c".to_owned());
        let waiting = waiting.spawn(move || stopped.recv()).expect("a thread may be started");
        let found = |threads: &[SystemThread]| threads.iter().find(|thread| thread.name == "a (b) c").cloned();
        let start = std::time::Instant::now();
        let seen = loop {
            let (threads, _) = threads_of(std::process::id());
            if let Some(thread) = found(&threads).filter(|thread| thread.state == "sleeping") {
                break thread;
            }
            assert!(start.elapsed().as_secs() < 60, "{threads:?}");
            std::thread::yield_now();
        };
        assert!(seen.call.is_none_or(|call| call == "futex"));
        assert_eq!(state_of(std::process::id(), seen.thread), Some('S'));
        drop(stop);
        let _ = waiting.join();
        assert_eq!(threads_of(u32::MAX), (Vec::new(), 0));
    }

    #[test]
    fn what_the_system_writes_is_understood() {
        assert_eq!(name_and_state(b"7 (a) R) S 1 2"), Some(("a) R".to_owned(), 'S')));
        assert_eq!(name_and_state(b"7 ("), None);
        assert_eq!(call_in("running"), None);
        assert_eq!(call_in("-1 0x7f 0x0"), None);
        assert_eq!(call_in("99999 0x7f"), Some("system call 99999".to_owned()));
    }
}
