//! Runs the server, and implements the functions that belong to no exchange.
#![allow(unsafe_code)]

use crate::config::OribiConfig;
use crate::fence::{fence, remember};
use crate::host::CRuntime;
use crate::table::OribiHost;
use crate::types::{OribiBytes, bytes};
use oribi_host::environment::Key;
use oribi_server::{log, process};
use std::ffi::{c_char, c_int};

/// Serves until a signal stops the server; returns the exit status of the process.
///
/// # Safety
/// `config` came from [`crate::oribi_config_new`], and `host` points to a table whose functions conform to the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_run(config: *const OribiConfig, host: *const OribiHost) -> c_int {
    // SAFETY: the caller's promise.
    let (config, table) = unsafe { (&*config, OribiHost::read(host)) };
    fence(1, || {
        // SAFETY: the caller's promise.
        let tables = table.and_then(|table| unsafe { table.read_lock() }.ok().map(|lock| (table, lock)));
        let Some((table, lock)) = tables else {
            return failed("the language host was built with another oribi.h: build it again for this version of the server");
        };
        let settings = match config.0.finish() {
            Ok(settings) => settings,
            Err(error) => return failed(&error.to_string()),
        };
        if let Err(error) = log::prepare(&settings) {
            if !process::has_master() {
                return failed(&error);
            }
            // A service that works must not end because of its log, and a user of one of several apps may not open the log of the
            // server. Standard error is still that of the master.
            ::log::error!("{error}; continuing without it");
        }
        // SAFETY: the caller's promise.
        let runtime = unsafe { CRuntime::new(table, lock) };
        process::supervise(&settings, &runtime)
    })
}

/// Hides the descriptors and environment variables that the parent process has left for the server, so that programs which the
/// app starts while it loads do not get them.
#[unsafe(no_mangle)]
pub extern "C" fn oribi_prepare() {
    fence((), process::claim_inheritance);
}

/// Reports to the master, if there is one, why the app cannot be loaded.
///
/// # Safety
/// `text` points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_load_failed(text: *const c_char, size: usize) {
    // SAFETY: the caller's promise.
    let text = unsafe { bytes(text, size) };
    fence((), || process::report_load_failure(&String::from_utf8_lossy(text)));
}

/// Prints the message, because no log exists yet, and keeps it for `oribi_last_error`. Returns the exit status 1.
fn failed(message: &str) -> c_int {
    eprintln!("oribi: {message}");
    remember(message);
    1
}

/// Returns the number of interned keys.
#[unsafe(no_mangle)]
pub extern "C" fn oribi_key_count() -> u32 {
    Key::count()
}

/// Returns the name of a key; empty if there is no such key.
#[unsafe(no_mangle)]
pub extern "C" fn oribi_key_name(key: u32) -> OribiBytes {
    OribiBytes::of(Key(key).name().unwrap_or_default().as_bytes())
}

/// Writes a line to the error log.
///
/// # Safety
/// `text` points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_log(level: c_int, text: *const c_char, size: usize) {
    let level = match level {
        1 => ::log::Level::Error,
        2 => ::log::Level::Warn,
        3 => ::log::Level::Info,
        _ => ::log::Level::Debug,
    };
    // SAFETY: the caller's promise.
    let text = unsafe { bytes(text, size) };
    fence((), || ::log::log!(level, "{}", String::from_utf8_lossy(text).trim_end()));
}

/// Returns the version of the server, NUL-terminated.
#[unsafe(no_mangle)]
pub extern "C" fn oribi_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
