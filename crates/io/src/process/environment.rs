//! The environment of this process.
#![allow(unsafe_code)]

use std::ffi::OsString;

/// The value of a variable that is for this process alone. Nothing in this process and no program that it executes finds it from now
/// on. It stays where it is if the process has other threads, which may be reading the environment.
#[must_use]
pub fn take_variable(name: &str) -> Option<OsString> {
    let value = std::env::var_os(name)?;
    if std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1) {
        // SAFETY: the calling thread is the only one, as was just counted, so nobody else reads or writes the environment.
        unsafe { std::env::remove_var(name) };
    }
    Some(value)
}
