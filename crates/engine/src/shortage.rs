//! Errors and messages for clients and operators when the system has no free descriptor, no room on its disk, or a limit of
//! this process is reached.

use oribi_config::value::show_size;
use oribi_proto::h1::Refusal;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::error::Error;
use std::io;

/// The refusal of a request whose content could not be stored. Descriptors become free again within moments, so the client
/// may retry. Everything else, such as a full disk or a directory without permission, needs an operator.
pub fn refusal(error: &io::Error) -> Refusal {
    if is_of_descriptors(error) { Refusal::DESCRIPTORS } else { Refusal::STORAGE }
}

/// Whether this process, or the system, may open no more files now. `TOOMANYREFS` means that it may send no more descriptors to
/// other processes.
pub fn is_of_descriptors(error: &io::Error) -> bool {
    // An error that names its file contains the error of the system call.
    let inner = || error.source().and_then(|source| source.downcast_ref::<io::Error>()).and_then(Errno::from_io_error);
    matches!(Errno::from_io_error(error).or_else(inner), Some(Errno::MFILE | Errno::NFILE | Errno::TOOMANYREFS))
}

/// Describes the error, with the limit of this process that may be the cause, in the names of a shell and of systemd.
pub fn explain(error: &io::Error) -> String {
    match Errno::from_io_error(error).and_then(|errno| limit(errno, |resource| getrlimit(resource).current)) {
        Some(limit) => format!("{error} ({limit})"),
        None => error.to_string(),
    }
}

fn limit(errno: Errno, limit_of: impl Fn(Resource) -> Option<u64>) -> Option<String> {
    let (resource, shell, unit) = match errno {
        Errno::FBIG => (Resource::Fsize, "-f", "LimitFSIZE"),
        Errno::NOMEM => (Resource::As, "-v", "LimitAS"),
        Errno::MFILE => (Resource::Nofile, "-n", "LimitNOFILE"),
        Errno::AGAIN => (Resource::Nproc, "-u", "LimitNPROC, TasksMax"),
        _ => return None,
    };
    let Some(limit) = limit_of(resource) else {
        // Control groups and the system have other limits.
        let elsewhere =
            "there may be no more processes here: raise TasksMax= in systemd, or the limit of pids of the container";
        return (errno == Errno::AGAIN).then(|| elsewhere.to_owned());
    };
    let what = match resource {
        Resource::Fsize => format!("a file may have {} here, memory that processes share included", show_size(limit)),
        Resource::As => format!("a process may have {} of address space here", show_size(limit)),
        Resource::Nofile => format!("a process may open {limit} files here"),
        _ => format!("this user may have {limit} processes here"),
    };
    Some(format!("{what}: raise this limit by ulimit {shell} in a shell, or {unit}= in systemd"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_behind_an_error_is_named() {
        let limited = |errno| limit(errno, |_| Some(1 << 20)).unwrap_or_default();
        for (errno, number, shell, unit) in [
            (Errno::FBIG, "1MiB", "ulimit -f ", "LimitFSIZE="),
            (Errno::NOMEM, "1MiB", "ulimit -v ", "LimitAS="),
            (Errno::MFILE, "1048576 files", "ulimit -n ", "LimitNOFILE="),
            (Errno::AGAIN, "1048576 processes", "ulimit -u ", "TasksMax="),
        ] {
            let text = limited(errno);
            assert!(text.contains(number) && text.contains(shell) && text.contains(unit), "{text}");
        }
        assert_eq!(limit(Errno::NOMEM, |_| None), None, "there is no limit: the memory is used up");
        assert_eq!(limited(Errno::NOENT), "");
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
