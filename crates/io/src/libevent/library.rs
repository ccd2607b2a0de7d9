//! What is used of libevent, and handles that free what they stand for.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_short, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{NonNull, null};
use std::rc::Rc;
use std::time::Duration;

/// The numbers of event2/event.h. They are part of libevent 2.1's binary interface.
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

/// What libevent calls: with the descriptor, what has happened to it, and the pointer that was given for that.
pub(super) type Callback = unsafe extern "C" fn(c_int, c_short, *mut c_void);

#[repr(C)]
struct Config {
    opaque: [u8; 0],
}
#[repr(C)]
struct EventBase {
    opaque: [u8; 0],
}
/// An event, of which only its address is known: how large it is, libevent tells at run time.
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
    /// Makes one that uses none of the methods `avoided`, nor those that the environment forbids (`EVENT_NOEPOLL`).
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

    /// How it asks the system: `epoll`, `poll`.
    pub(super) fn method(&self) -> &str {
        // SAFETY: the base is alive, and the name is a constant of the library.
        unsafe { CStr::from_ptr(event_base_get_method(self.0.as_ptr())) }.to_str().unwrap_or("?")
    }

    /// Whether it tells of changes, ends included, rather than of states.
    pub(super) fn has_edges(&self) -> bool {
        let wanted = FEATURE_EDGE | FEATURE_CLOSED;
        // SAFETY: the base is alive.
        unsafe { event_base_get_features(self.0.as_ptr()) & wanted == wanted }
    }

    /// Makes an event, yet to be added, in memory of the caller's.
    ///
    /// # Safety
    /// There are [`event_bytes`] at `event`, aligned as those of malloc, for as long as the event exists, which is until
    /// [`unmake`]; the base and the descriptor exist for as long, too. `callback` must be sound with `argument` then, and must
    /// not unwind.
    pub(super) unsafe fn make(
        &self,
        event: NonNull<RawEvent>,
        descriptor: BorrowedFd<'_>,
        what: c_short,
        callback: Callback,
        argument: *mut c_void,
    ) -> io::Result<()> {
        // SAFETY: the base is alive; the caller vouches for the rest.
        let result = unsafe { event_assign(event.as_ptr(), self.0.as_ptr(), descriptor.as_raw_fd(), what, callback, argument) };
        if result < 0 { Err(io::ErrorKind::InvalidInput.into()) } else { Ok(()) }
    }

    /// Calls back for what has happened; waits until something has if it is to `wait`.
    ///
    /// Callbacks are called from in here and from nowhere else.
    pub(super) fn run(&self, wait: bool) -> io::Result<()> {
        // Without ONCE it would go on for as long as there is something to tell, and a waiting connection is told of for ever.
        let flags = LOOP_EVEN_IF_EMPTY | LOOP_ONCE | if wait { 0 } else { LOOP_WITHOUT_WAITING };
        // SAFETY: the base is alive and belongs to this thread; callbacks keep what was promised for them when their
        // events were made.
        if unsafe { event_base_loop(self.0.as_ptr(), flags) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        // SAFETY: made in `new` and freed once; every event is gone: a watch holds an `Rc` of this, and whoever makes an event in
        // his own memory has promised it.
        unsafe { event_base_free(self.0.as_ptr()) }
    }
}

/// Bytes that an event takes.
pub(super) fn event_bytes() -> usize {
    // SAFETY: it tells a constant.
    unsafe { event_get_struct_event_size() }
}

/// Has an event told of; with a `timeout`, also when so much time has passed.
///
/// # Safety
/// The event exists.
pub(super) unsafe fn add(event: NonNull<RawEvent>, timeout: Option<&libc::timeval>) -> io::Result<()> {
    // SAFETY: the event exists; the time, if there is one, is copied.
    let result = unsafe { event_add(event.as_ptr(), timeout.map_or(null(), |timeout| timeout)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// No more of it. It can be added again.
///
/// # Safety
/// The event exists.
pub(super) unsafe fn remove(event: NonNull<RawEvent>) {
    // SAFETY: as above. Removing one that is not added does nothing.
    unsafe { event_del(event.as_ptr()) };
}

/// Ends an event that [`Base::make`] has made. Its memory is the caller's own again.
///
/// # Safety
/// The event exists, and is not used any more.
pub(super) unsafe fn unmake(event: NonNull<RawEvent>) {
    // SAFETY: as above. The base forgets an event that is removed; only libevent's check of its callers, which a program may
    // have switched on, needs to be told.
    unsafe {
        remove(event);
        event_debug_unassign(event.as_ptr());
    }
}

/// An event in memory of libevent's: something that a base tells of while it is added.
pub(super) struct Watch {
    event: NonNull<RawEvent>,
    // Freed after the event.
    _base: Rc<Base>,
}

impl Watch {
    /// An event that is yet to be added: of a descriptor, which is to stay open for as long, or with none of time only.
    ///
    /// # Safety
    /// `callback` must be sound with `argument` for as long as this exists, and must not unwind.
    pub(super) unsafe fn new(
        base: &Rc<Base>,
        descriptor: Option<BorrowedFd<'_>>,
        what: c_short,
        callback: Callback,
        argument: *mut c_void,
    ) -> io::Result<Self> {
        let number = descriptor.map_or(-1, |descriptor| descriptor.as_raw_fd());
        // SAFETY: the base is alive; for the callback, the caller vouches.
        let event = unsafe { event_new(base.0.as_ptr(), number, what, callback, argument) };
        let event = NonNull::new(event).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { event, _base: base.clone() })
    }

    /// Has it told of.
    pub(super) fn add(&self) -> io::Result<()> {
        // SAFETY: the event is alive.
        unsafe { add(self.event, None) }
    }

    /// Has it told of when so much time has passed.
    pub(super) fn add_timeout(&self, time: Duration) -> io::Result<()> {
        // Rounded up, and no deadline is longer than a day.
        let microseconds = time.min(Duration::from_secs(86_400)).as_nanos().div_ceil(1000) as i64;
        let time = libc::timeval { tv_sec: microseconds / 1_000_000, tv_usec: microseconds % 1_000_000 };
        // SAFETY: the event is alive.
        unsafe { add(self.event, Some(&time)) }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // SAFETY: made in `new` and freed once, which removes it from its base, which is still there.
        unsafe { event_free(self.event.as_ptr()) }
    }
}
