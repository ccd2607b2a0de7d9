//! What a client is told when the system has no descriptor, or no room on its disk, for the content of a request; and what helps when
//! it has no process.

use oribi_proto::h1::Refusal;
use rustix::io::Errno;
use std::error::Error;
use std::io;

/// The refusal of a request whose content could not be kept. Descriptors become free again within moments, so its client may
/// come back. Everything else, such as a full disk or a directory that may not be written to, somebody must see to first.
pub(crate) fn refusal(error: &io::Error) -> Refusal {
    if is_of_descriptors(error) { Refusal::DESCRIPTORS } else { Refusal::STORAGE }
}

/// Whether this process, or the system, may open no more files now. `TOOMANYREFS`: it may send no more of them to others.
pub(crate) fn is_of_descriptors(error: &io::Error) -> bool {
    // An error that names its file has the system's error inside.
    let inner = || error.source().and_then(|source| source.downcast_ref::<io::Error>()).and_then(Errno::from_io_error);
    matches!(Errno::from_io_error(error).or_else(inner), Some(Errno::MFILE | Errno::NFILE | Errno::TOOMANYREFS))
}

/// Why no process could be started, with what helps if there may be no more of them.
pub(crate) fn of_processes(error: &io::Error) -> String {
    if Errno::from_io_error(error) == Some(Errno::AGAIN) {
        format!(
            "{error}: there may be no more processes (see ulimit -u, TasksMax of systemd, the limit of pids of a container)"
        )
    } else {
        error.to_string()
    }
}

/// Tests that use up the descriptors of their process, which is therefore a process of its own.
#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::fs::File;
    use std::process::Command;

    /// Set in a process that has few descriptors.
    const FEW: &str = "ORIBI_TEST_FEW_DESCRIPTORS";

    /// Runs the test of that name in a process with few descriptors; `false`: this is that process.
    pub(crate) fn run_with_few_descriptors(test: &str) -> bool {
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
    pub(crate) fn take_all_descriptors() -> Vec<File> {
        std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
    }

    #[test]
    fn an_error_that_names_its_file_is_understood() {
        let error = || io::Error::from(Errno::MFILE);
        #[derive(Debug)]
        struct Named(io::Error);
        impl std::fmt::Display for Named {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(formatter, "{} at /tmp", self.0)
            }
        }
        impl Error for Named {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&self.0)
            }
        }
        assert_eq!(refusal(&error()), Refusal::DESCRIPTORS);
        assert_eq!(refusal(&io::Error::new(error().kind(), Named(error()))), Refusal::DESCRIPTORS);
        assert_eq!(refusal(&Errno::NOSPC.into()), Refusal::STORAGE);
        assert_eq!(refusal(&io::ErrorKind::NotFound.into()), Refusal::STORAGE);
    }
}
