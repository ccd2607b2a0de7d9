//! The reasons why io_uring is not available here, in words for the server's operator.

use std::fmt;
use std::io;

/// The reason why io_uring cannot be used.
#[derive(Debug)]
pub enum Refusal {
    /// The system call does not exist.
    Missing,
    /// An administrator has turned it off for this process or for all.
    Disabled,
    /// A sandbox forbids it.
    Forbidden,
    /// No memory could be locked for it.
    Memory(io::Error),
    /// The kernel's io_uring lacks something that the backend needs.
    Old(&'static str),
    /// The kernel refused for another reason.
    Other(io::Error),
}

impl Refusal {
    /// The meaning of `error` from the creation of a ring.
    pub(super) fn of(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ENOSYS) => Self::Missing,
            Some(libc::EPERM | libc::EACCES) if is_disabled() => Self::Disabled,
            Some(libc::EPERM | libc::EACCES) => Self::Forbidden,
            Some(libc::ENOMEM) => Self::Memory(error),
            Some(libc::EINVAL) => Self::Old("deferred task work"),
            _ => Self::Other(error),
        }
    }
}

/// Whether the sysctl kernel.io_uring_disabled is not 0. 0: all processes may create rings, 1: members of a group, 2: none.
fn is_disabled() -> bool {
    std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").is_ok_and(|value| value.trim() != "0")
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("this kernel or sandbox has no io_uring (ENOSYS)"),
            Self::Disabled => {
                f.write_str("io_uring is turned off here (EPERM): set the sysctl kernel.io_uring_disabled to 0 to allow it")
            }
            Self::Forbidden => f.write_str(
                "a sandbox forbids io_uring (EPERM), as containers do by default: allow io_uring_setup, io_uring_enter and \
                 io_uring_register in its seccomp profile",
            ),
            Self::Memory(error) => {
                write!(f, "there is no memory for a ring ({error}): raise the limit of locked memory (ulimit -l, LimitMEMLOCK)")
            }
            Self::Old(what) => write!(f, "the io_uring of this kernel lacks {what}: Linux 6.1 or newer is needed"),
            Self::Other(error) => write!(f, "io_uring cannot be used: {error}"),
        }
    }
}

impl std::error::Error for Refusal {}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        let kind = match &refusal {
            Refusal::Missing | Refusal::Old(_) => io::ErrorKind::Unsupported,
            Refusal::Disabled | Refusal::Forbidden => io::ErrorKind::PermissionDenied,
            Refusal::Memory(_) => io::ErrorKind::OutOfMemory,
            Refusal::Other(error) => error.kind(),
        };
        Self::new(kind, refusal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_says_what_to_do_or_what_is_missing() {
        for (code, words) in [
            (libc::ENOSYS, "no io_uring"),
            (libc::ENOMEM, "LimitMEMLOCK"),
            (libc::EINVAL, "Linux 6.1"),
            (libc::EMFILE, "cannot be used"),
        ] {
            let text = Refusal::of(io::Error::from_raw_os_error(code)).to_string();
            assert!(text.contains(words), "{text}");
        }
        let text = Refusal::of(io::Error::from_raw_os_error(libc::EPERM)).to_string();
        assert!(text.contains(if is_disabled() { "kernel.io_uring_disabled" } else { "seccomp" }), "{text}");
    }
}
