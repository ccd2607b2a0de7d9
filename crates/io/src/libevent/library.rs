//! The functions of libevent that the backend uses, and handles that free their objects.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_short, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{NonNull, null};
use std::rc::Rc;
use std::time::Duration;

/// Constants of event2/event.h. They are part of libevent 2.1's binary interface.
pub(super) const READ: c_short = 0x02;
pub(super) const WRITE: c_short = 0x04;
pub(super) const PERSIST: c_short = 0x10;
pub(super) const EDGE: c_short = 0x20;
pub(super) const CLOSED: c_short = 0x80;
const LOOP_ONCE: c_int = 0x01;
const LOOP_WITHOUT_WAITING: c_int = 0x02;
const LOOP_EVEN_IF_EMPTY: c_int = 0x04;
const NO_LOCKS: c_int = 0x01;
const FEATURE_EDGE: c_int = 0x01;
const FEATURE_CLOSED: c_int = 0x08;

/// A callback for libevent. Its arguments are the descriptor, the kind of event, and the pointer that was registered with it.
pub(super) type Callback = unsafe extern "C" fn(c_int, c_short, *mut c_void);

#[repr(C)]
struct Config {
    opaque: [u8; 0],
}
#[repr(C)]
struct EventBase {
    opaque: [u8; 0],
}
/// An event, known only by its address: its size is known only at run time.
#[repr(C)]
pub(super) struct RawEvent {
    opaque: [u8; 0],
}

unsafe extern "C" {
    fn event_config_new() -> *mut Config;
    fn event_config_free(config: *mut Config);
    fn event_config_set_flag(config: *mut Config, flag: c_int) -> c_int;
    fn event_config_avoid_method(config: *mut Config, method: *const c_char) -> c_int;
    fn event_base_new_with_config(config: *const Config) -> *mut EventBase;
    fn event_base_free(base: *mut EventBase);
    fn event_base_get_method(base: *const EventBase) -> *const c_char;
    fn event_base_get_features(base: *const EventBase) -> c_int;
    fn event_base_loop(base: *mut EventBase, flags: c_int) -> c_int;
    fn event_new(base: *mut EventBase, fd: c_int, what: c_short, callback: Callback, argument: *mut c_void) -> *mut RawEvent;
    fn event_free(event: *mut RawEvent);
    fn event_get_struct_event_size() -> usize;
    fn event_assign(
        event: *mut RawEvent,
        base: *mut EventBase,
        fd: c_int,
        what: c_short,
        callback: Callback,
        argument: *mut c_void,
    ) -> c_int;
    fn event_debug_unassign(event: *mut RawEvent);
    fn event_add(event: *mut RawEvent, timeout: *const libc::timeval) -> c_int;
    fn event_del(event: *mut RawEvent) -> c_int;
}

/// An event base. It stays in the thread that made it.
pub(super) struct Base(NonNull<EventBase>);

impl Base {
    /// Makes a base that does not use the methods `avoided` nor those that the environment forbids (`EVENT_NOEPOLL`).
    pub(super) fn new(avoided: &[&CStr]) -> io::Result<Self> {
        // SAFETY: a configuration is made, changed and freed here, the names end with a zero byte and are copied, and the base
        // keeps nothing of the configuration.
        unsafe {
            let config = event_config_new();
            if config.is_null() {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            let refused = |result: c_int| result != 0;
            let mut failed = refused(event_config_set_flag(config, NO_LOCKS));
            for method in avoided {
                failed |= refused(event_config_avoid_method(config, method.as_ptr()));
            }
            let base = if failed { std::ptr::null_mut() } else { event_base_new_with_config(config) };
            let error = io::Error::last_os_error();
            event_config_free(config);
            NonNull::new(base).map(Self).ok_or_else(|| io::Error::other(format!("libevent makes no event base: {error}")))
        }
    }

    /// The polling method: `epoll`, `poll`.
    pub(super) fn method(&self) -> &str {
        // SAFETY: the base is alive, and the name is a constant of the library.
        unsafe { CStr::from_ptr(event_base_get_method(self.0.as_ptr())) }.to_str().unwrap_or("?")
    }

    /// Whether the base reports changes, including ends, rather than states.
    pub(super) fn has_edges(&self) -> bool {
        let wanted = FEATURE_EDGE | FEATURE_CLOSED;
        // SAFETY: the base is alive.
        unsafe { event_base_get_features(self.0.as_ptr()) & wanted == wanted }
    }

    /// Makes an event, not added yet, in memory that the caller owns.
    ///
    /// # Safety
    /// `event` points to [`event_bytes`] bytes, aligned like those of malloc. The bytes, the base and the descriptor must exist
    /// until [`unmake`] ends the event. Until then `callback` must be sound with `argument`, and must not unwind.
    pub(super) unsafe fn make(
        &self,
        event: NonNull<RawEvent>,
        descriptor: BorrowedFd<'_>,
        what: c_short,
        callback: Callback,
        argument: *mut c_void,
    ) -> io::Result<()> {
        // SAFETY: the base is alive; the caller guarantees the rest.
        let result = unsafe { event_assign(event.as_ptr(), self.0.as_ptr(), descriptor.as_raw_fd(), what, callback, argument) };
        if result < 0 { Err(io::ErrorKind::InvalidInput.into()) } else { Ok(()) }
    }

    /// Calls the callbacks of all events that have occurred; with `wait`, waits until one has.
    ///
    /// Callbacks are called only from here.
    pub(super) fn run(&self, wait: bool) -> io::Result<()> {
        // Without ONCE it would loop as long as there is something to report, and a waiting connection is reported without
        // end.
        let flags = LOOP_EVEN_IF_EMPTY | LOOP_ONCE | if wait { 0 } else { LOOP_WITHOUT_WAITING };
        // SAFETY: the base is alive and belongs to this thread; callbacks keep the promises that were made when their
        // events were made.
        if unsafe { event_base_loop(self.0.as_ptr(), flags) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        // SAFETY: the base was made in `new` and is freed once. Every event is gone: a watch holds an `Rc` of the base, and
        // callers that make an event in memory of their own have promised to end it before.
        unsafe { event_base_free(self.0.as_ptr()) }
    }
}

/// The size of an event in bytes.
pub(super) fn event_bytes() -> usize {
    // SAFETY: it returns a constant.
    unsafe { event_get_struct_event_size() }
}

/// Adds an event, so that its callback is called; with a `timeout`, also when that time has passed.
///
/// # Safety
/// The event exists.
pub(super) unsafe fn add(event: NonNull<RawEvent>, timeout: Option<&libc::timeval>) -> io::Result<()> {
    // SAFETY: the event exists; the time, if there is one, is copied.
    let result = unsafe { event_add(event.as_ptr(), timeout.map_or(null(), |timeout| timeout)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Removes an event, so that its callback is no longer called. It can be added again.
///
/// # Safety
/// The event exists.
pub(super) unsafe fn remove(event: NonNull<RawEvent>) {
    // SAFETY: as above. Removing one that is not added does nothing.
    unsafe { event_del(event.as_ptr()) };
}

/// Ends an event that [`Base::make`] has made. After that the caller may use its memory for other things.
///
/// # Safety
/// The event exists, and is no longer used.
pub(super) unsafe fn unmake(event: NonNull<RawEvent>) {
    // SAFETY: as above. The base forgets an event that is removed. Only libevent's debug mode, which a program may have
    // enabled, must be notified that the event ends.
    unsafe {
        remove(event);
        event_debug_unassign(event.as_ptr());
    }
}

/// An event in memory that libevent owns: while it is added, the base calls its callback.
pub(super) struct Watch {
    event: NonNull<RawEvent>,
    // Freed after the event.
    _base: Rc<Base>,
}

impl Watch {
    /// Creates an event that is not added yet. A descriptor must stay open as long as the event exists; without one, the
    /// event is for timeouts only.
    ///
    /// # Safety
    /// `callback` must be sound with `argument` as long as the event exists, and must not unwind.
    pub(super) unsafe fn new(
        base: &Rc<Base>,
        descriptor: Option<BorrowedFd<'_>>,
        what: c_short,
        callback: Callback,
        argument: *mut c_void,
    ) -> io::Result<Self> {
        let number = descriptor.map_or(-1, |descriptor| descriptor.as_raw_fd());
        // SAFETY: the base is alive; the caller guarantees the callback.
        let event = unsafe { event_new(base.0.as_ptr(), number, what, callback, argument) };
        let event = NonNull::new(event).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { event, _base: base.clone() })
    }

    /// Adds the event, so that its callback is called.
    pub(super) fn add(&self) -> io::Result<()> {
        // SAFETY: the event is alive.
        unsafe { add(self.event, None) }
    }

    /// Adds the event, so that its callback is called when `time` has passed.
    pub(super) fn add_timeout(&self, time: Duration) -> io::Result<()> {
        // Rounded up. No deadline is longer than a day.
        let microseconds = time.min(Duration::from_secs(86_400)).as_nanos().div_ceil(1000) as i64;
        let time = libc::timeval { tv_sec: microseconds / 1_000_000, tv_usec: microseconds % 1_000_000 };
        // SAFETY: the event is alive.
        unsafe { add(self.event, Some(&time)) }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // SAFETY: the event was made in `new` and is freed once, which removes it from its base, which still exists.
        unsafe { event_free(self.event.as_ptr()) }
    }
}
