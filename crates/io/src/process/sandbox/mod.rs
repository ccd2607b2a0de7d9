//! A sandbox for a process that executes no program and runs no app: restricts the files that the process may open, and its
//! system calls.
//!
//! Two parts of the kernel enforce the sandbox, and each covers the gap of the other: Landlock (`files`) checks paths, but only
//! in some calls; seccomp (`calls`) checks every call and its numeric arguments, but not the memory that an argument points to.
//! Open descriptors stay open and usable. All threads and processes that the process starts from then on are in the same
//! sandbox, and nothing can leave it.

mod calls;
mod files;

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

/// The kernel's support for the two parts.
#[derive(Debug)]
pub struct Offer {
    /// The version of Landlock.
    files: io::Result<u32>,
    calls: io::Result<()>,
}

impl Offer {
    /// Asks the kernel.
    #[must_use]
    pub fn of_kernel() -> Self {
        Self { files: files::version(), calls: calls::are_filtered() }
    }

    /// Describes the parts that the kernel lacks, each with the reason and its requirements. `None` if the kernel has both
    /// parts.
    #[must_use]
    pub fn missing(&self) -> Option<String> {
        let files = self.files.as_ref().err().map(|error| {
            format!(
                "no Landlock ({error}), which needs Linux 5.13, CONFIG_SECURITY_LANDLOCK, and \"landlock\" in the list lsm="
            )
        });
        let calls =
            self.calls.as_ref().err().map(|error| format!("no filters of system calls ({error}; CONFIG_SECCOMP_FILTER)"));
        let missing: Vec<String> = files.into_iter().chain(calls).collect();
        (!missing.is_empty()).then(|| missing.join(", "))
    }

    /// Puts this process, which must have one thread, into the sandbox. From then on it may open files only beneath the
    /// directories `readable` and `writable`, and make only the system calls of an edge. If the kernel lacks one part, only the
    /// other part is enforced. Sets no_new_privs, too, which both parts require.
    ///
    /// # Errors
    /// An error of the system. The process must end then, because it may be restricted in part.
    pub fn take(&self, readable: &[BorrowedFd<'_>], writable: &[BorrowedFd<'_>]) -> io::Result<()> {
        super::forbid_new_privileges()?;
        if let Ok(version) = self.files {
            files::confine(version, readable, writable)?;
        }
        if self.calls.is_ok() { calls::confine() } else { Ok(()) }
    }
}

/// The supported parts: `Landlock (version 7) and a filter of system calls`.
impl fmt::Display for Offer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.files, &self.calls) {
            (Ok(version), Ok(())) => write!(formatter, "Landlock (version {version}) and a filter of system calls"),
            (Ok(version), Err(_)) => write!(formatter, "Landlock (version {version})"),
            (Err(_), Ok(())) => formatter.write_str("a filter of system calls"),
            (Err(_), Err(_)) => formatter.write_str("nothing"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Offer;
    use std::io;

    #[test]
    fn what_is_missing_is_named_with_its_reason() {
        let refused = || io::Error::from_raw_os_error(libc::ENOSYS);
        let whole = Offer { files: Ok(4), calls: Ok(()) };
        assert_eq!((whole.missing(), whole.to_string().as_str()), (None, "Landlock (version 4) and a filter of system calls"));
        let calls = Offer { files: Err(refused()), calls: Ok(()) };
        let missing = calls.missing().expect("something is");
        assert!(
            missing.starts_with("no Landlock (Function not implemented (os error 38)), which needs Linux 5.13"),
            "{missing}"
        );
        assert_eq!(calls.to_string(), "a filter of system calls");
        let nothing = Offer { files: Err(refused()), calls: Err(refused()) };
        assert!(nothing.missing().is_some_and(|text| text.contains(", no filters of system calls (Function not implemented")));
        assert_eq!(nothing.to_string(), "nothing");
    }
}
