//! Reads the memory use of a process from /proc.

use std::fs;
use std::io;

/// Returns the resident memory in bytes, including all shared memory. The kernel keeps this number, so reading it costs little.
/// It is never less than [`proportional`].
///
/// # Errors
/// The process does not exist.
pub(super) fn resident(process: u32) -> io::Result<u64> {
    pages(process).map(|[resident, _]| resident)
}

/// Returns the resident memory in bytes without files and shared memory: an estimate for systems that refuse [`proportional`].
/// Pages that a forked process has in common with its parent count fully.
///
/// # Errors
/// The process does not exist.
pub(super) fn resident_of_its_own(process: u32) -> io::Result<u64> {
    pages(process).map(|[resident, shared]| resident.saturating_sub(shared))
}

/// Returns the proportional set size (PSS) in bytes: each shared page counts divided by the number of processes that use it.
/// The kernel walks through all pages, which takes about ten milliseconds for a gigabyte.
///
/// # Errors
/// The process does not exist. Or the system refuses, because the process runs as another user and this process has no right to
/// inspect it (CAP_SYS_PTRACE).
pub(super) fn proportional(process: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kibibytes = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kibibytes.map(|number| number << 10).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Returns the memory in bytes for display: [`proportional`], or else [`resident_of_its_own`]. `None` if the process does not
/// exist.
pub(super) fn of(process: u32) -> Option<u64> {
    proportional(process).or_else(|_| resident_of_its_own(process)).ok()
}

/// Returns the resident memory, and the part of that memory that belongs to files or is shared, in bytes (proc(5), statm).
fn pages(process: u32) -> io::Result<[u64; 2]> {
    let text = fs::read_to_string(format!("/proc/{process}/statm"))?;
    let mut numbers = text.split(' ').skip(1).map(|number| number.parse::<u64>().ok());
    let size = rustix::param::page_size() as u64;
    let mut next = || numbers.next().flatten().map(|number| number * size).ok_or(io::ErrorKind::InvalidData);
    Ok([next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    #[test]
    fn memory_that_is_used_is_counted() {
        // Other tests allocate and free memory in this process at the same time, so only the ballast has a known size.
        let ballast = vec![7_u8; 64 << 20];
        let own = std::process::id();
        let (whole, part) = (resident_of_its_own(own).expect("it is here"), proportional(own).expect("it is here"));
        assert!(whole >= 60 << 20 && part >= 60 << 20, "{whole} {part} {}", ballast[12345]);
        let mut small = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it is everywhere");
        let (mut input, mut output) = small.stdin.take().zip(small.stdout.take()).expect("both are pipes");
        // When it answers, it has loaded its code and data.
        input.write_all(b"a").and_then(|()| output.read_exact(&mut [0])).expect("it answers");
        let (part, whole) = (proportional(small.id()).expect("it is here"), resident(small.id()).expect("it is here"));
        drop(input);
        small.wait().expect("it is a child");
        assert!(whole < 60 << 20 && part >= 10 << 10 && part <= whole, "{whole} {part}");
        assert!(resident(u32::MAX).is_err() && proportional(u32::MAX).is_err());
    }
}
