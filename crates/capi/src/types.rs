//! The types of the header.
#![allow(unsafe_code)]

use oribi_host::environment::Key;
use oribi_host::{Content, Outlet, Request};
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::os::fd::AsRawFd;
use std::{ptr, slice};

/// `oribi_bytes`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct OribiBytes {
    /// A pointer to the first byte; may be null when `size` is 0.
    pub data: *const c_char,
    /// The number of bytes.
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

impl OribiField {
    pub(crate) const fn of(name: &[u8], value: &[u8]) -> Self {
        Self { name: OribiBytes::of(name), value: OribiBytes::of(value) }
    }
}

/// `oribi_variable`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct OribiVariable {
    /// The name.
    pub name: OribiBytes,
    /// The value.
    pub value: OribiBytes,
    /// The key of the name.
    pub key: u32,
}

impl OribiVariable {
    #[inline]
    pub(crate) const fn of(key: Key, name: &[u8], value: &[u8]) -> Self {
        Self { name: OribiBytes::of(name), value: OribiBytes::of(value), key: key.0 }
    }
}

/// `oribi_content`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct OribiContent {
    /// The bytes in memory, or null.
    pub memory: *const c_char,
    /// The size of the content in bytes.
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
    /// The CGI-style variables, with the fixed ones first.
    pub variables: *const OribiVariable,
    /// The number of variables.
    pub variable_count: usize,
    /// The content, in memory or in a file.
    pub content: OribiContent,
    /// The file to filter, or null.
    pub data: *const OribiContent,
    /// Whether the connection is encrypted.
    pub https: c_int,
    /// Whether the request came through a web server.
    pub gateway: c_int,
    /// The trailer fields, with names in lower case.
    pub trailers: *const OribiField,
    /// The number of trailers.
    pub trailer_count: usize,
    /// The queue time in seconds; negative: the app does not get it.
    pub queue_time: f64,
    /// The [`Request`] itself, for the functions that ask about it.
    pub request: *const c_void,
}

impl OribiRequest {
    /// The request that this one describes.
    ///
    /// # Safety
    /// `request` is the one that the host got in its callback `answer`, which has not returned.
    pub(crate) const unsafe fn described<'a>(&self) -> Option<&'a Request<'a>> {
        // SAFETY: `CHost::answer` has put it there, and borrows it until the callback returns.
        unsafe { self.request.cast::<Request<'a>>().as_ref() }
    }
}

/// `oribi_lane`: leads from a context to the outlet of its replies. An own lane has an outlet only while a thread uses the
/// context.
#[derive(Default)]
pub struct OribiLane {
    outlet: Cell<Option<*const dyn Outlet>>,
}

impl OribiLane {
    /// Connects the lane with `outlet` until [`OribiLane::close`].
    ///
    /// # Safety
    /// `outlet` must not move until `close`.
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
        // SAFETY: `open` was promised that the outlet does not move until `close`, which removes the pointer.
        self.outlet.get().map(|outlet| unsafe { &*outlet })
    }
}
