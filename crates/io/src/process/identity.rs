//! The user and the groups that a process runs as.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;

/// Room for an entry of the user or group database. Only an entry with thousands of members is longer.
const ENTRY_BYTES: usize = 1 << 20;

/// Groups that a user may be in: NGROUPS_MAX of Linux.
const MOST_GROUPS: usize = 65536;

/// A user with its groups, as numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    user: u32,
    group: u32,
    /// All groups, including `group`.
    groups: Vec<u32>,
}

impl Identity {
    /// The identity of this process.
    #[must_use]
    pub fn present() -> Self {
        let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Self { user, group, groups: vec![group] }
    }

    /// Returns the identity of the named user with all groups of that user. The named group takes the place of the user's
    /// primary group. A part that is not named is that of this process. Either name may be a numeric id.
    ///
    /// # Errors
    /// There is no such user or group, or the user is in too many groups: the reason, in words that follow the name of a
    /// setting.
    pub fn named(user: Option<&str>, group: Option<&str>) -> Result<Self, String> {
        let mut identity = Self::present();
        let mut name = None;
        if let Some(text) = user {
            let entry = find_user(text).ok_or_else(|| format!("there is no user `{}`", text.escape_debug()))?;
            (identity.user, identity.group) = (entry.user, entry.group);
            name = Some(entry.name);
        }
        if let Some(text) = group {
            identity.group = find_group(text).ok_or_else(|| format!("there is no group `{}`", text.escape_debug()))?;
        }
        identity.groups = match name {
            Some(name) => groups_of(&name, identity.group)?,
            None => vec![identity.group],
        };
        Ok(identity)
    }

    /// The user id.
    #[must_use]
    pub const fn user(&self) -> u32 {
        self.user
    }

    /// The id of the primary group.
    #[must_use]
    pub const fn group(&self) -> u32 {
        self.group
    }

    /// Whether this process already has this user and this primary group, as real and as effective ids. Other groups are not
    /// compared.
    #[must_use]
    pub fn is_present(&self) -> bool {
        let user = rustix::process::geteuid().as_raw() == self.user && rustix::process::getuid().as_raw() == self.user;
        user && rustix::process::getegid().as_raw() == self.group && rustix::process::getgid().as_raw() == self.group
    }

    /// Gives this process the identity irrevocably. Only root may do this, and only with a single thread.
    ///
    /// # Errors
    /// An error of the system. Then the process must end, because its identity may have changed in part.
    pub fn assume(&self) -> io::Result<()> {
        let done = |outcome: c_int| if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
        // SAFETY: the list has the given length and is only read; the other calls take numbers.
        unsafe {
            done(libc::setgroups(self.groups.len(), self.groups.as_ptr()))?;
            done(libc::setresgid(self.group, self.group, self.group))?;
            done(libc::setresuid(self.user, self.user, self.user))?;
            // If the kernel allowed a way back, the change would protect nothing.
            if self.user != 0 && libc::setuid(0) == 0 {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
        }
        Ok(())
    }

    /// Makes programs that `command` runs from now on start with this identity.
    pub fn give_to(&self, command: &mut Command) {
        let identity = self.clone();
        // SAFETY: the closure runs in the child between fork and exec. It allocates nothing and takes no lock that another
        // thread could hold: it makes system calls with ids that were found before, and an error of the system is a plain
        // number.
        unsafe { command.pre_exec(move || identity.assume()) };
    }
}

/// Forbids this process, and everything that it starts, to gain rights by executing a program: set-user-ID bits and file
/// capabilities have no effect from now on (prctl(2), PR_SET_NO_NEW_PRIVS). This cannot be undone.
///
/// # Errors
/// An error of the system.
pub fn forbid_new_privileges() -> io::Result<()> {
    Ok(rustix::thread::set_no_new_privs(true)?)
}

/// Sets no_new_privs, as [`forbid_new_privileges`] does, for the programs that `command` runs from now on.
pub fn forbid_new_privileges_of(command: &mut Command) {
    // SAFETY: the closure runs between fork and exec. It makes one system call, and an error of the system is a number.
    unsafe { command.pre_exec(forbid_new_privileges) };
}

/// Keeps other processes of the same user from tracing this process and from reading its memory, and keeps the system from
/// writing that memory to a core dump (prctl(2), PR_SET_DUMPABLE). Only root can still trace this process and read its memory.
///
/// # Errors
/// An error of the system.
pub fn hide_memory() -> io::Result<()> {
    Ok(rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?)
}

/// A user of the database.
struct User {
    name: CString,
    user: u32,
    group: u32,
}

fn find_user(text: &str) -> Option<User> {
    let name = CString::new(text).ok()?;
    let mut entry = MaybeUninit::<libc::passwd>::uninit();
    let mut buffer = vec![0 as c_char; ENTRY_BYTES];
    let mut found = ptr::null_mut();
    // SAFETY: all pointers are valid for the call, and the buffer has the given length.
    unsafe {
        libc::getpwnam_r(name.as_ptr(), entry.as_mut_ptr(), buffer.as_mut_ptr(), buffer.len(), &raw mut found);
        if found.is_null() {
            let number = number(text)?;
            libc::getpwuid_r(number, entry.as_mut_ptr(), buffer.as_mut_ptr(), buffer.len(), &raw mut found);
        }
    }
    if found.is_null() {
        return None;
    }
    // SAFETY: a pointer that is not null points to `entry`, which has been filled in, and whose strings are in `buffer`.
    let (entry, name) = unsafe { (entry.assume_init_ref(), CStr::from_ptr(entry.assume_init_ref().pw_name)) };
    Some(User { name: name.to_owned(), user: entry.pw_uid, group: entry.pw_gid })
}

fn find_group(text: &str) -> Option<u32> {
    let name = CString::new(text).ok()?;
    let mut entry = MaybeUninit::<libc::group>::uninit();
    let mut buffer = vec![0 as c_char; ENTRY_BYTES];
    let mut found = ptr::null_mut();
    // SAFETY: as in `find_user`.
    unsafe { libc::getgrnam_r(name.as_ptr(), entry.as_mut_ptr(), buffer.as_mut_ptr(), buffer.len(), &raw mut found) };
    if found.is_null() {
        // A group needs no entry in the database, because only its id is used.
        return number(text);
    }
    // SAFETY: as in `find_user`.
    Some(unsafe { entry.assume_init_ref() }.gr_gid)
}

/// Parses the id of a user or of a group. The highest number means "no change" to the system, so it is excluded.
fn number(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|&number| digits && number < u32::MAX)
}

/// The groups that a user is in, including `group`.
fn groups_of(user: &CStr, group: u32) -> Result<Vec<u32>, String> {
    let mut groups = vec![0; MOST_GROUPS];
    let mut count = c_int::try_from(groups.len()).unwrap_or(c_int::MAX);
    // SAFETY: the name ends with a NUL, and the list has room for the given count.
    if unsafe { libc::getgrouplist(user.as_ptr(), group, groups.as_mut_ptr(), &raw mut count) } < 0 {
        return Err(format!("the user `{}` is in more groups than the system allows", user.to_string_lossy()));
    }
    groups.truncate(usize::try_from(count).unwrap_or(0));
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::Identity;

    #[test]
    fn users_and_groups_are_found_by_name_and_number() {
        let nobody = Identity::named(Some("nobody"), None).expect("every system has that user");
        assert_eq!(Identity::named(Some(&nobody.user().to_string()), None), Ok(nobody.clone()));
        assert!(nobody.groups.contains(&nobody.group()));
        let both = Identity::named(Some("nobody"), Some("daemon")).expect("and that group");
        assert_eq!(both.user(), nobody.user());
        assert!(both.groups.contains(&both.group()) && both.group() != nobody.group());
        assert_eq!(Identity::named(None, Some("4711")).map(|identity| identity.group()), Ok(4711));
        assert_eq!(Identity::named(Some("no such\n"), None), Err("there is no user `no such\\n`".to_owned()));
        assert!(Identity::named(None, Some("no such")).is_err());
        for number in ["4294967295", "-1", "+1", ""] {
            assert!(Identity::named(Some(number), None).is_err(), "{number:?}");
        }
        assert!(Identity::present().is_present());
    }
}
