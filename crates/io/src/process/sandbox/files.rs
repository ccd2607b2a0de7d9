//! Landlock: restricts the files that a process may open (landlock(7)). The C library has no functions for its three system
//! calls.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_long};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

/// `LANDLOCK_CREATE_RULESET_VERSION`: the call returns the version of Landlock, and creates nothing.
const ASK_VERSION: u32 = 1;
/// `LANDLOCK_RULE_PATH_BENEATH`.
const PATH_BENEATH: c_int = 1;

/// `LANDLOCK_ACCESS_FS_*`.
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIRECTORY: u64 = 1 << 3;
const REMOVE_FILE: u64 = 1 << 5;
const MAKE_FILE: u64 = 1 << 8;

/// The number of kinds of access to files that each version of Landlock knows, from version 1 on. Each kind is a bit, from the
/// lowest on: version 1 has the kinds from executing to making symbolic links, version 2 adds linking into other directories,
/// version 3 truncating, version 4 nothing, and version 5 requests to devices (ioctl).
const KINDS: [u32; 5] = [13, 14, 15, 15, 16];

/// The first version with TCP, and its `LANDLOCK_ACCESS_NET_BIND_TCP` and `LANDLOCK_ACCESS_NET_CONNECT_TCP`.
const VERSION_WITH_TCP: u32 = 4;
const BIND_AND_CONNECT: u64 = 0b11;

/// The first version with scopes, and its `LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET` and `LANDLOCK_SCOPE_SIGNAL`.
const VERSION_WITH_SCOPES: u32 = 6;
const SOCKETS_AND_SIGNALS: u64 = 0b11;

/// The accesses that are allowed beneath a directory to read from.
const READING: u64 = READ_FILE | READ_DIRECTORY;
/// The accesses that are allowed beneath a directory for temporary files. If the file system supports it, temporary files have
/// no name (`O_TMPFILE`); otherwise each is made with a name that is removed at once.
const WRITING: u64 = READ_FILE | WRITE_FILE | MAKE_FILE | REMOVE_FILE;

/// `struct landlock_ruleset_attr`: the accesses that are forbidden unless a rule allows them. A kernel that knows only the
/// first of these fields accepts the structure if the others are zero.
#[repr(C)]
#[derive(Debug, Default, PartialEq, Eq)]
struct Forbidden {
    files: u64,
    network: u64,
    scopes: u64,
}

impl Forbidden {
    /// Everything that `version` can forbid.
    fn by(version: u32) -> Self {
        let known = KINDS[(version as usize).clamp(1, KINDS.len()) - 1];
        Self {
            files: (1 << known) - 1,
            network: if version >= VERSION_WITH_TCP { BIND_AND_CONNECT } else { 0 },
            scopes: if version >= VERSION_WITH_SCOPES { SOCKETS_AND_SIGNALS } else { 0 },
        }
    }
}

/// `struct landlock_path_beneath_attr`.
#[repr(C, packed)]
struct Beneath {
    allowed: u64,
    directory: c_int,
}

fn outcome(result: c_long) -> io::Result<c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Returns the version of the kernel's Landlock.
///
/// # Errors
/// The kernel has no Landlock, or Landlock is turned off.
pub(super) fn version() -> io::Result<u32> {
    // SAFETY: with this flag the call takes no structure, and only returns a number.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, ptr::null::<Forbidden>(), 0usize, ASK_VERSION) };
    outcome(version).map(|version| u32::try_from(version).unwrap_or(u32::MAX))
}

/// Forbids this thread, and the threads and processes that it starts from now on, every access that this version of Landlock
/// can forbid. Two exceptions remain: reading beneath the directories `readable`, and the use of temporary files beneath the
/// directories `writable`.
///
/// # Errors
/// An error of the system.
pub(super) fn confine(version: u32, readable: &[BorrowedFd<'_>], writable: &[BorrowedFd<'_>]) -> io::Result<()> {
    let forbidden = Forbidden::by(version);
    // SAFETY: the structure has the given size, and the call only reads it.
    let rules = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, &raw const forbidden, size_of::<Forbidden>(), 0u32) };
    let rules = c_int::try_from(outcome(rules)?).map_err(io::Error::other)?;
    // SAFETY: the call has made this descriptor, and no other code has it.
    let rules = unsafe { OwnedFd::from_raw_fd(rules) };
    let allow = |directory: &BorrowedFd<'_>, allowed| {
        let rule = Beneath { allowed, directory: directory.as_raw_fd() };
        // SAFETY: the structure is of the named kind, and the call only reads it; both descriptors are open.
        let added =
            unsafe { libc::syscall(libc::SYS_landlock_add_rule, rules.as_raw_fd(), PATH_BENEATH, &raw const rule, 0u32) };
        outcome(added).map(drop)
    };
    readable.iter().try_for_each(|directory| allow(directory, READING))?;
    writable.iter().try_for_each(|directory| allow(directory, WRITING))?;
    // SAFETY: the call takes a descriptor, which is open.
    outcome(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0u32) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::Forbidden;

    #[test]
    fn each_version_is_asked_for_what_it_knows() {
        let of = |version| {
            let Forbidden { files, network, scopes } = Forbidden::by(version);
            (files, network, scopes)
        };
        assert_eq!(of(1), (0x1fff, 0, 0));
        assert_eq!(of(2), (0x3fff, 0, 0));
        assert_eq!(of(3), (0x7fff, 0, 0));
        assert_eq!(of(4), (0x7fff, 3, 0));
        assert_eq!(of(5), (0xffff, 3, 0));
        assert_eq!(of(6), (0xffff, 3, 3));
        assert_eq!(of(70), (0xffff, 3, 3));
    }
}
