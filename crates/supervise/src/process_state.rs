//! Describes a process that is about to be killed: the reason why it has not ended is lost with it.

use rustix::process::Pid;
use std::fs;

/// Returns, for instance, `sleeps in ep_poll, after 0.4 s of CPU time`. `None` if the system tells nothing about the process.
pub(super) fn of(pid: Pid) -> Option<String> {
    let read = |name: &str| fs::read_to_string(format!("/proc/{}/{name}", pid.as_raw_nonzero()));
    let (state, ticks) = parse(&read("stat").ok()?)?;
    let seconds = ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
    // Without the right to see it, the function of the kernel is 0.
    let function = read("wchan").ok().filter(|function| function != "0").map(|function| format!(" in {function}"));
    Some(format!("{state}{}, after {seconds:.1} s of CPU time", function.unwrap_or_default()))
}

/// Returns the state and the ticks of CPU time (proc(5), stat). The name of the program, in parentheses, may have any bytes.
fn parse(stat: &str) -> Option<(&'static str, u64)> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = match fields.next()? {
        "R" => "runs",
        "S" => "sleeps",
        "D" => "waits for a device",
        "T" | "t" => "was stopped",
        "Z" | "X" => "has ended",
        _ => "is in another state",
    };
    let mut times = fields.skip(10).map(str::parse::<u64>);
    Some((state, times.next()?.ok()? + times.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_and_the_time_are_read_behind_the_name() {
        let stat = "12 (a) R (b)) S 1 12 12 0 -1 4194560 1 2 3 4 30 12 0 0 20 0 1 0 5 6 7\n";
        assert_eq!(parse(stat), Some(("sleeps", 42)));
        assert_eq!(parse("12 (a) S 1"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn this_process_runs() {
        let said = of(rustix::process::getpid()).expect("it is there");
        assert!(said.ends_with(" s of CPU time"), "{said}");
        assert_eq!(of(Pid::from_raw(i32::MAX).expect("a number")), None);
    }
}
