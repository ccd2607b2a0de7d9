//! The types of the header.
#![allow(unsafe_code)]

use crate::crew::OribiCrew;
use oribi_host::{Content, Outlet};
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::AsRawFd;
use std::{ptr, slice};

/// `oribi_bytes`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct OribiBytes {
    /// The first byte; may be null when `size` is 0.
    pub data: *const c_char,
    /// How many there are.
    pub size: usize,
}

impl OribiBytes {
    pub(crate) const fn of(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr().cast(), size: bytes.len() }
    }

    /// # Safety
    /// `data` points to `size` readable bytes (or `size` is 0) that live and do not change during `'a`.
    #[inline]
    pub(crate) const unsafe fn get<'a>(self) -> &'a [u8] {
        // SAFETY: the caller's promise is that of `bytes`.
        unsafe { bytes(self.data, self.size) }
    }
}

/// # Safety
/// `data` points to `size` readable bytes (or `size` is 0) that live and do not change during `'a`.
#[inline]
pub(crate) const unsafe fn bytes<'a>(data: *const c_char, size: usize) -> &'a [u8] {
    if size == 0 {
        return &[];
    }
    // SAFETY: the caller promises the bytes; the size is not 0, so the pointer is not null.
    unsafe { slice::from_raw_parts(data.cast(), size) }
}

/// # Safety
/// `data` points to `count` values (or `count` is 0) that live and do not change during `'a`.
#[inline]
pub(crate) const unsafe fn array<'a, T>(data: *const T, count: usize) -> &'a [T] {
    if count == 0 {
        return &[];
    }
    // SAFETY: the caller promises the values; the count is not 0, so the pointer is not null.
    unsafe { slice::from_raw_parts(data, count) }
}

/// `oribi_field`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct OribiField {
    /// The name.
    pub name: OribiBytes,
    /// The value.
    pub value: OribiBytes,
}

/// `oribi_variable`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct OribiVariable {
    /// The name.
    pub name: OribiBytes,
    /// The value.
    pub value: OribiBytes,
    /// The name's number.
    pub key: u32,
}

/// `oribi_content`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct OribiContent {
    /// The bytes in memory, or null.
    pub memory: *const c_char,
    /// The size.
    pub size: u64,
    /// The descriptor of the file, or -1.
    pub file: c_int,
}

impl OribiContent {
    pub(crate) fn of(content: &Content<'_>) -> Self {
        match *content {
            Content::None => Self { memory: ptr::null(), size: 0, file: -1 },
            Content::Memory(bytes) => Self { memory: bytes.as_ptr().cast(), size: bytes.len() as u64, file: -1 },
            Content::File { file, size } => Self { memory: ptr::null(), size, file: file.as_raw_fd() },
        }
    }
}

/// `oribi_request`
#[derive(Debug)]
#[repr(C)]
pub struct OribiRequest {
    /// The CGI-style variables.
    pub variables: *const OribiVariable,
    /// How many there are.
    pub variable_count: usize,
    /// The content.
    pub content: OribiContent,
    /// The file to filter, or null.
    pub data: *const OribiContent,
    /// Whether the connection is encrypted.
    pub https: c_int,
    /// Whether the request came through a web server.
    pub gateway: c_int,
}

/// `oribi_lane`: the destination of a context's replies while a thread uses the context.
#[derive(Default)]
pub struct OribiLane {
    outlet: Cell<Option<*const dyn Outlet>>,
}

impl OribiLane {
    /// Connects the lane with `outlet` until [`OribiLane::close`].
    ///
    /// # Safety `outlet` must not move until `close`.
    #[inline]
    pub(crate) unsafe fn open(&self, outlet: &dyn Outlet) {
        // SAFETY: this only erases the lifetime, which the caller promises to be long enough.
        let outlet = unsafe { std::mem::transmute::<*const (dyn Outlet + '_), *const (dyn Outlet + 'static)>(outlet) };
        self.outlet.set(Some(outlet));
    }

    pub(crate) fn close(&self) {
        self.outlet.set(None);
    }

    #[inline]
    pub(crate) fn outlet(&self) -> Option<&dyn Outlet> {
        // SAFETY: `open` was promised that the outlet stays in place until `close`, which removes the pointer.
        self.outlet.get().map(|outlet| unsafe { &*outlet })
    }
}

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
    pub work: Option<unsafe extern "C" fn(data: *mut c_void, crew: *const OribiCrew, least: u32, most: u32)>,
    pub pause: Option<unsafe extern "C" fn(data: *mut c_void, milliseconds: c_int) -> c_int>,
    pub resume: Option<unsafe extern "C" fn(data: *mut c_void)>,
    pub summon: Option<unsafe extern "C" fn(data: *mut c_void)>,
    pub begin: Option<unsafe extern "C" fn(context: *mut c_void, lane: *const OribiLane)>,
    pub attend: Option<unsafe extern "C" fn(context: *mut c_void) -> u32>,
    pub end: Option<unsafe extern "C" fn(data: *mut c_void, status: c_int)>,
    pub set_title: Option<unsafe extern "C" fn(data: *mut c_void, title: *const c_char, size: usize)>,
}

impl OribiHost {
    /// Reads a table, which may be older and smaller than this one, or newer. `None`: it lacks fields that every host has.
    ///
    /// # Safety `host` points to as many bytes as its first field says; they are the beginning of a table as in the header.
    pub(crate) unsafe fn read(host: *const Self) -> Option<Self> {
        // SAFETY: the caller's promise; every table has the first field.
        let size = unsafe { (&raw const (*host).size).read() };
        if size < offset_of!(Self, run_deferred) {
            return None;
        }
        let mut table = MaybeUninit::<Self>::zeroed();
        // SAFETY: the caller promises `size` bytes at `host`, and no more than fit are copied. Zeros are valid for each field
        // that was not copied: they mean a missing function.
        unsafe {
            ptr::copy_nonoverlapping(host.cast::<u8>(), table.as_mut_ptr().cast::<u8>(), size.min(size_of::<Self>()));
            Some(table.assume_init())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn moment(_data: *mut c_void, _worker: u32) {}

    unsafe extern "C" fn summon(_data: *mut c_void) {}

    fn table(size: usize) -> OribiHost {
        // SAFETY: zeros are a valid table without functions.
        let empty = unsafe { MaybeUninit::<OribiHost>::zeroed().assume_init() };
        OribiHost { size, worker_stopping: Some(moment), summon: Some(summon), ..empty }
    }

    fn read(size: usize) -> Option<OribiHost> {
        // SAFETY: the whole table exists, whichever part of it counts.
        unsafe { OribiHost::read(&raw const *Box::new(table(size))) }
    }

    #[test]
    fn functions_behind_the_end_of_an_older_table_are_missing() {
        let whole = read(size_of::<OribiHost>()).expect("it is whole");
        assert!(whole.worker_stopping.is_some() && whole.summon.is_some());
        let older = read(offset_of!(OribiHost, summon)).expect("it has what every host has");
        assert!(older.worker_stopping.is_some() && older.summon.is_none());
    }

    #[test]
    fn a_newer_table_is_read_as_far_as_it_is_known() {
        let newer = read(size_of::<OribiHost>() + 64).expect("it has what every host has");
        assert!(newer.summon.is_some());
    }

    #[test]
    fn what_is_too_small_for_a_host_is_refused() {
        // Older tables began with a version number, which is too small for a size.
        assert!(read(4).is_none());
    }
}
