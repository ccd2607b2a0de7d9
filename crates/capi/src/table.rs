//! The tables of functions that a host passes: [`OribiHost`], and [`OribiLock`] if its threads share a lock.
#![allow(unsafe_code)]

use crate::crew::OribiCrew;
use crate::types::{OribiLane, OribiRequest};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::{MaybeUninit, offset_of};
use std::ptr;

/// `oribi_host`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs, reason = "the header documents them")]
pub struct OribiHost {
    pub size: usize,
    pub name: *const c_char,
    pub data: *mut c_void,
    pub raw_path: c_int,
    pub open: Option<unsafe extern "C" fn(data: *mut c_void, own: c_int) -> *mut c_void>,
    pub enter: Option<unsafe extern "C" fn(context: *mut c_void)>,
    pub leave: Option<unsafe extern "C" fn(context: *mut c_void)>,
    pub close: Option<unsafe extern "C" fn(context: *mut c_void)>,
    pub answer: Option<
        unsafe extern "C" fn(context: *mut c_void, lane: *const OribiLane, exchange: u64, request: *const OribiRequest) -> u32,
    >,
    pub run_deferred: Option<unsafe extern "C" fn(context: *mut c_void) -> u32>,
    pub before_fork: Option<unsafe extern "C" fn(data: *mut c_void, worker: u32)>,
    pub worker_started: Option<unsafe extern "C" fn(data: *mut c_void, worker: u32)>,
    pub worker_stopping: Option<unsafe extern "C" fn(data: *mut c_void, worker: u32)>,
    pub server_ready: Option<unsafe extern "C" fn(data: *mut c_void)>,
    pub fork: Option<unsafe extern "C" fn(data: *mut c_void) -> c_int>,
    pub retired: [*const c_void; 4],
    pub begin: Option<unsafe extern "C" fn(context: *mut c_void, lane: *const OribiLane)>,
    pub attend: Option<unsafe extern "C" fn(context: *mut c_void) -> u32>,
    pub end: Option<unsafe extern "C" fn(data: *mut c_void, status: c_int)>,
    pub set_title: Option<unsafe extern "C" fn(data: *mut c_void, title: *const c_char, size: usize)>,
    pub lock: *const OribiLock,
    pub interrupt: Option<OribiInterruptFn>,
    pub trace: Option<OribiTraceFn>,
    pub trace_unnoticed: c_int,
    pub run_loop: Option<unsafe extern "C" fn(context: *mut c_void, descriptor: c_int, milliseconds: i64) -> u32>,
}

/// `oribi_host.trace`
pub type OribiTraceFn = unsafe extern "C" fn(data: *mut c_void, question: u32);

/// `oribi_interrupt_fn`; the order is an `oribi_order`.
pub type OribiInterruptFn = unsafe extern "C" fn(context: *mut c_void, exchange: u64, order: c_uint, milliseconds: u64);

impl OribiHost {
    /// Reads a host's table, which may be larger or smaller than this type, because the host was built with a newer or older
    /// header. Returns `None` if the table ends before the functions that every host has, or sets one of the `retired` fields.
    ///
    /// # Safety
    /// `host` points to as many bytes as the field `size` says. They are the beginning of an `oribi_host`.
    pub(crate) unsafe fn read(host: *const Self) -> Option<Self> {
        // SAFETY: the caller's promise. Zeros are valid for each field: a zero is a missing function, a null pointer, or a flag
        // that is not set.
        let table = unsafe { read_table(host, offset_of!(Self, run_deferred)) }?;
        // A host that sets these fields runs its threads itself, by functions of the server that no longer exist.
        table.retired.iter().all(|field| field.is_null()).then_some(table)
    }

    /// Reads the table of the host's lock. Returns `Ok(None)` if the host has none.
    ///
    /// # Errors
    /// The table ends before the functions that every lock has.
    ///
    /// # Safety
    /// `lock` is null, or points to as many bytes as the field `size` says. They are the beginning of an `oribi_lock`.
    pub(crate) unsafe fn read_lock(&self) -> Result<Option<OribiLock>, ()> {
        if self.lock.is_null() {
            return Ok(None);
        }
        // SAFETY: as in `read`.
        unsafe { read_table(self.lock, offset_of!(OribiLock, see_to_interrupts)) }.map(Some).ok_or(())
    }
}

/// Copies a table that begins with its own size in bytes: the part that fits into a `T`, with zeros for the rest. Returns
/// `None` if the size is less than `least`.
///
/// # Safety
/// `table` points to as many bytes as its first field, a `usize`, says. Zeros are a valid `T`.
unsafe fn read_table<T>(table: *const T, least: usize) -> Option<T> {
    // SAFETY: the caller's promise.
    let size = unsafe { table.cast::<usize>().read() };
    if size < least {
        return None;
    }
    let mut copy = MaybeUninit::<T>::zeroed();
    // SAFETY: the caller promises `size` bytes at `table`, and that zeros are a valid `T`. No more bytes are copied than `copy`
    // has room for.
    unsafe {
        ptr::copy_nonoverlapping(table.cast::<u8>(), copy.as_mut_ptr().cast::<u8>(), size.min(size_of::<T>()));
        Some(copy.assume_init())
    }
}

/// `oribi_lock`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs, reason = "the header documents them")]
pub struct OribiLock {
    pub size: usize,
    pub begin: Option<unsafe extern "C" fn(data: *mut c_void, crew: *const OribiCrew, most: u32)>,
    pub end: Option<unsafe extern "C" fn(data: *mut c_void)>,
    pub without_lock:
        Option<unsafe extern "C" fn(data: *mut c_void, wait: Step, interrupt: Step, argument: *mut c_void) -> c_int>,
    pub start_thread: Option<unsafe extern "C" fn(data: *mut c_void, crew: *const OribiCrew) -> c_int>,
    pub see_to_interrupts: Option<unsafe extern "C" fn(data: *mut c_void) -> c_int>,
    pub rest_main: Option<unsafe extern "C" fn(data: *mut c_void) -> c_int>,
    pub wake_main: Option<unsafe extern "C" fn(data: *mut c_void)>,
    pub tells_before_unlocking: c_int,
}

/// The type of the functions that `oribi_lock.without_lock` gets.
pub type Step = unsafe extern "C" fn(argument: *mut c_void);

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn moment(_data: *mut c_void, _worker: u32) {}

    unsafe extern "C" fn set_title(_data: *mut c_void, _title: *const c_char, _size: usize) {}

    fn table(size: usize) -> OribiHost {
        // SAFETY: zeros are a valid table without functions.
        let empty = unsafe { MaybeUninit::<OribiHost>::zeroed().assume_init() };
        OribiHost { size, worker_stopping: Some(moment), set_title: Some(set_title), ..empty }
    }

    fn read(size: usize) -> Option<OribiHost> {
        // SAFETY: the whole table exists, for any size that it claims.
        unsafe { OribiHost::read(&raw const *Box::new(table(size))) }
    }

    #[test]
    fn functions_behind_the_end_of_an_older_table_are_missing() {
        let whole = read(size_of::<OribiHost>()).expect("it is whole");
        assert!(whole.worker_stopping.is_some() && whole.set_title.is_some());
        let older = read(offset_of!(OribiHost, set_title)).expect("it has what every host has");
        assert!(older.worker_stopping.is_some() && older.set_title.is_none());
    }

    #[test]
    fn a_newer_table_is_read_as_far_as_it_is_known() {
        let newer = read(size_of::<OribiHost>() + 64).expect("it has what every host has");
        assert!(newer.set_title.is_some());
    }

    #[test]
    fn what_is_too_small_for_a_host_is_refused() {
        // The first field of an early header was a version of the interface, not a size.
        assert!(read(4).is_none());
    }

    #[test]
    fn a_host_that_led_its_threads_itself_is_refused() {
        let mut older = table(offset_of!(OribiHost, begin));
        older.retired[0] = (&raw const older).cast();
        // SAFETY: the whole table exists.
        assert!(unsafe { OribiHost::read(&raw const older) }.is_none());
    }

    #[test]
    fn a_lock_without_what_every_lock_has_is_refused() {
        // SAFETY: zeros are a valid table without functions.
        let mut lock = unsafe { MaybeUninit::<OribiLock>::zeroed().assume_init() };
        let mut host = table(size_of::<OribiHost>());
        // SAFETY: the host has no lock at first, and then a lock that exists as a whole, for any size that it claims.
        unsafe {
            assert!(matches!(host.read_lock(), Ok(None)));
            host.lock = &raw const lock;
            assert!(host.read_lock().is_err());
        }
        lock.size = offset_of!(OribiLock, rest_main);
        host.lock = &raw const lock;
        // SAFETY: as above.
        assert!(matches!(unsafe { host.read_lock() }, Ok(Some(_))));
    }
}
