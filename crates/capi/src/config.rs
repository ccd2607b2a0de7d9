//! Sets the settings of a server, one by one.
#![allow(unsafe_code)]

use crate::fence::{fence, remember};
use oribi_server::config::{Config, LoopChoice, Origin, SettingError, Timeouts};
use std::ffi::{CStr, c_char, c_int};
use std::ptr;

/// `oribi_setting_result`
const SET: i32 = 0;
const UNKNOWN: i32 = 1;
const BAD: i32 = 2;

/// `oribi_config`
#[derive(Debug)]
pub struct OribiConfig(pub(crate) Config);

/// Makes a config with the defaults and the values of the environment.
#[unsafe(no_mangle)]
pub extern "C" fn oribi_config_new() -> *mut OribiConfig {
    fence(ptr::null_mut(), || Box::into_raw(Box::new(OribiConfig(Config::new()))))
}

/// Frees a config.
///
/// # Safety
/// `config` is null or came from [`oribi_config_new`] and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_config_free(config: *mut OribiConfig) {
    if !config.is_null() {
        // SAFETY: the caller's promise: the pointer came from `Box::into_raw`, and is not used again.
        drop(unsafe { Box::from_raw(config) });
    }
}

/// Returns the value of `--loop`, and sets `can_loop` to 1 if an event loop can run in the workers. Null if the settings
/// contradict each other.
///
/// # Safety
/// `config` came from [`oribi_config_new`]; `can_loop` points to an integer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_config_loop(config: *const OribiConfig, can_loop: *mut c_int) -> *const c_char {
    // SAFETY: the caller's promise.
    let (config, can_loop) = unsafe { (&*config, &mut *can_loop) };
    fence(ptr::null(), || {
        let Ok(settings) = config.0.finish().inspect_err(|error| remember(&error.to_string())) else { return ptr::null() };
        *can_loop = settings.can_loop().into();
        let name = match settings.event_loop.choice {
            LoopChoice::Auto => c"auto",
            LoopChoice::None => c"none",
            LoopChoice::Ev => c"ev",
            LoopChoice::AnyEvent => c"anyevent",
            LoopChoice::IoAsync => c"ioasync",
            LoopChoice::Mojo => c"mojo",
        };
        name.as_ptr()
    })
}

/// Returns the value of `--max-io-threads`; 0 also if the settings contradict each other.
///
/// # Safety
/// `config` came from [`oribi_config_new`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_config_io_threads(config: *const OribiConfig) -> u32 {
    // SAFETY: the caller's promise.
    let config = unsafe { &*config };
    fence(0, || config.0.finish().map_or(0, |settings| u32::try_from(settings.io_threads).unwrap_or(u32::MAX)))
}

/// Returns the value of `--fibers`; 0 also if the settings contradict each other.
///
/// # Safety
/// `config` came from [`oribi_config_new`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_config_fibers(config: *const OribiConfig) -> u32 {
    // SAFETY: the caller's promise.
    let config = unsafe { &*config };
    fence(0, || config.0.finish().map_or(0, |settings| u32::try_from(settings.event_loop.fibers).unwrap_or(u32::MAX)))
}

/// Returns the value of `--request-timeout` in milliseconds; 0 if there is none, or if the settings contradict each other.
///
/// # Safety
/// `config` came from [`oribi_config_new`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_config_request_timeout(config: *const OribiConfig) -> u64 {
    // SAFETY: the caller's promise.
    let config = unsafe { &*config };
    fence(0, || {
        let timeout = config.0.finish().ok().map(|settings| settings.timeouts.request);
        timeout.filter(|time| *time < Timeouts::NEVER).map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    })
}

/// Sets one setting. Returns an `oribi_setting_result`.
///
/// # Safety
/// `config` came from [`oribi_config_new`]; the texts end with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_config_set(
    config: *mut OribiConfig,
    name: *const c_char,
    value: *const c_char,
    origin: *const c_char,
) -> i32 {
    // SAFETY: the caller's promise.
    let (config, name, value, origin) =
        unsafe { (&mut *config, CStr::from_ptr(name), CStr::from_ptr(value), CStr::from_ptr(origin)) };
    let (name, value, origin) = (name.to_string_lossy(), value.to_string_lossy(), origin.to_string_lossy());
    fence(BAD, || match config.0.set(&name, &value, Origin::named(&origin)) {
        Ok(()) => SET,
        Err(error) => {
            remember(&error.to_string());
            if matches!(error, SettingError::Unknown { .. }) { UNKNOWN } else { BAD }
        }
    })
}
