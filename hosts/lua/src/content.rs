//! Reads the content of a request.
//!
//! Content that becomes a Lua string is copied once, from memory or from the file. A small part of a file is read into the
//! stack frame, and a large one is mapped: neither allocates memory beside the string, which counts against the state's limit.

use crate::vm::stack::push_bytes;
use mlua::ffi::{self, lua_State};
use oribi_host::Content;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::raw::c_int;
use std::ptr;

/// The number of bytes of a file that are searched at once for the end of a line. Also the longest part of a file that is read:
/// longer parts are mapped, which costs two system calls and a page fault for each page.
const STEP: usize = 8 << 10;

/// Offsets of mappings are multiples of this; no page is larger (arm64 has pages of 64 KiB).
const PAGE: u64 = 64 << 10;

/// An excerpt of the content that will become a string.
#[expect(clippy::large_enum_variant, reason = "what is read stands in the frame, since an error of Lua's may pass it by")]
pub(crate) enum Excerpt<'a> {
    Memory(&'a [u8]),
    Read { room: [u8; STEP], length: usize },
    Mapped(Mapping),
}

/// A mapped part of a file. It has no destructor, because a Lua error may skip it: its owner must unmap it.
#[derive(Clone, Copy)]
pub(crate) struct Mapping {
    start: *mut c_void,
    size: usize,
    /// The offset of the part within the mapping.
    skipped: usize,
}

impl<'a> Excerpt<'a> {
    /// Returns the bytes of `content` from `at` on: `most` bytes, or fewer if the content ends before. [`Excerpt::push`] must
    /// follow, because it unmaps a mapped part.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn open(content: &Content<'a>, at: u64, most: u64) -> io::Result<Self> {
        let size = content.size().unwrap_or(0);
        let length = most.min(size.saturating_sub(at));
        match *content {
            Content::None => Ok(Self::Memory(&[])),
            Content::Memory(bytes) => Ok(Self::Memory(&bytes[at.min(size) as usize..][..length as usize])),
            Content::File { .. } if length == 0 => Ok(Self::Memory(&[])),
            Content::File { file, .. } if length <= STEP as u64 => {
                let mut room = [0; STEP];
                read_exactly(file, &mut room[..length as usize], at)?;
                Ok(Self::Read { room, length: length as usize })
            }
            Content::File { file, .. } => {
                let skipped = (at % PAGE) as usize;
                let size = skipped + usize::try_from(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
                let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
                // SAFETY: a new mapping overlaps nothing. Only the server uses the file, and does not shorten it.
                let start = unsafe { mmap(ptr::null_mut(), size, ProtFlags::READ, flags, file, at - skipped as u64)? };
                Ok(Self::Mapped(Mapping { start, size, skipped }))
            }
        }
    }

    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Read { length, .. } => *length as u64,
            Self::Mapped(mapping) => (mapping.size - mapping.skipped) as u64,
        }
    }

    /// Pushes the excerpt as a string, and unmaps it if it is mapped. With `cut`, the string has no line end. Call it once.
    ///
    /// # Safety
    /// `l` is below a fence, with room for three values, and no frame up to the fence holds anything to be dropped. A mapped
    /// excerpt has not been pushed before.
    pub(crate) unsafe fn push(&self, l: *mut lua_State, cut: bool) {
        // SAFETY: as promised by the caller. None of these bytes are Lua's.
        unsafe {
            match self {
                Self::Memory(bytes) => push_bytes(l, shown(bytes, cut)),
                Self::Read { room, length } => push_bytes(l, shown(&room[..*length], cut)),
                Self::Mapped(mapping) => mapping.push(l, cut),
            }
        }
    }
}

fn shown(bytes: &[u8], cut: bool) -> &[u8] {
    if cut { bytes.strip_suffix(b"\n").unwrap_or(bytes) } else { bytes }
}

impl Mapping {
    /// # Safety
    /// The part is still mapped.
    unsafe fn bytes<'m>(self) -> &'m [u8] {
        // SAFETY: as promised by the caller.
        unsafe { std::slice::from_raw_parts(self.start.cast::<u8>().add(self.skipped), self.size - self.skipped) }
    }

    /// Pushes the part as a string, and unmaps it even if there is no memory for the string.
    ///
    /// # Safety
    /// As for [`Excerpt::push`]; the part is mapped before this call, and not afterwards.
    unsafe fn push(self, l: *mut lua_State, cut: bool) {
        // SAFETY: as promised by the caller. `push_part` gets the address of `part`, which lives until `lua_pcall` returns.
        let status = unsafe {
            let part = shown(self.bytes(), cut);
            ffi::lua_pushcfunction(l, push_part);
            ffi::lua_pushlightuserdata(l, ptr::from_ref(&part).cast_mut().cast());
            ffi::lua_pcall(l, 1, 1, 0)
        };
        // SAFETY: the string is a copy. Unmapping an existing mapping does not fail.
        let _ = unsafe { munmap(self.start, self.size) };
        if status != ffi::LUA_OK {
            // SAFETY: the error object is on top.
            unsafe { ffi::lua_error(l) };
        }
    }
}

/// A Lua function: takes the address of a slice, and returns the bytes of the slice as a string.
unsafe extern "C-unwind" fn push_part(l: *mut lua_State) -> c_int {
    // SAFETY: `Mapping::push` calls this with such an address.
    unsafe {
        let part: &[u8] = *ffi::lua_touserdata(l, 1).cast::<&[u8]>();
        push_bytes(l, part);
        1
    }
}

fn read_exactly(file: BorrowedFd<'_>, room: &mut [u8], at: u64) -> io::Result<()> {
    let mut filled = 0;
    while filled < room.len() {
        match rustix::io::pread(file, &mut room[filled..], at + filled as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The number of bytes from `at` up to and including the next line end, or up to the end of the content.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn line_length(content: &Content<'_>, at: u64) -> io::Result<u64> {
    let size = content.size().unwrap_or(0);
    let rest = size.saturating_sub(at);
    match *content {
        Content::None => Ok(0),
        Content::Memory(bytes) => {
            let bytes = bytes.get(at as usize..).unwrap_or_default();
            Ok(memchr::memchr(b'\n', bytes).map_or(rest, |place| place as u64 + 1))
        }
        Content::File { file, .. } => {
            let mut room = [0; STEP];
            let mut looked_at = 0;
            while looked_at < rest {
                let part = &mut room[..(rest - looked_at).min(STEP as u64) as usize];
                read_exactly(file, part, at + looked_at)?;
                if let Some(place) = memchr::memchr(b'\n', part) {
                    return Ok(looked_at + place as u64 + 1);
                }
                looked_at += part.len() as u64;
            }
            Ok(rest)
        }
    }
}
