//! Small operations on a Lua stack.
//!
//! Everything that may raise a Lua error runs below a fence ([`protect`](crate::state_context::protect)), and no frame between
//! the two holds a value with a destructor: PUC Lua leaves by longjmp, LuaJIT unwinds.

use mlua::ffi::{self, lua_State};
use std::fmt::{self, Write};
use std::os::raw::c_int;

/// The bytes of the string at `index`; a number there is converted to a string in place. `None` for other types.
///
/// # Safety
/// `l` is a live state below a fence. Lua owns the bytes: they stay where they are as long as the string is on a stack or in a
/// table that is, and must not be used for longer.
#[inline]
pub(crate) unsafe fn bytes_at<'a>(l: *mut lua_State, index: c_int) -> Option<&'a [u8]> {
    let mut length = 0;
    // SAFETY: as promised by the caller.
    unsafe {
        let start = ffi::lua_tolstring(l, index, &raw mut length);
        if start.is_null() { None } else { Some(std::slice::from_raw_parts(start.cast(), length)) }
    }
}

/// Pushes a string.
///
/// # Safety
/// `l` is a live state below a fence, with room for a value.
#[inline]
pub(crate) unsafe fn push_bytes(l: *mut lua_State, bytes: &[u8]) {
    // SAFETY: Lua copies the bytes.
    unsafe { ffi::lua_pushlstring(l, bytes.as_ptr().cast(), bytes.len()) };
}

/// The name of the type of the value at `index`: `nil`, `number` ...
///
/// # Safety
/// `l` is a live state.
pub(crate) unsafe fn type_name(l: *mut lua_State, index: c_int) -> &'static str {
    // SAFETY: lua_typename returns constants.
    unsafe {
        let name = ffi::lua_typename(l, ffi::lua_type(l, index));
        std::ffi::CStr::from_ptr(name).to_str().unwrap_or("value")
    }
}

/// The most bytes that a function keeps in its own frame; larger texts are made in Lua's memory.
const ROOM: usize = 512;

/// Pushes a string of at most `most` bytes that `fill` writes; `fill` returns the length, and must not call Lua.
///
/// The bytes are in the frame or, if there are many, in Lua's memory. That counts against the state's limit, is freed by Lua,
/// and cannot be changed by a finalizer that runs while Lua copies them.
///
/// # Safety
/// `l` is below a fence, with room for two values, and no frame up to there holds anything that must be dropped; nor does
/// `fill`.
pub(crate) unsafe fn push_written(l: *mut lua_State, most: usize, fill: impl FnOnce(&mut [u8]) -> usize) {
    if most <= ROOM {
        let mut room = [0; ROOM];
        let length = fill(&mut room[..most]);
        // SAFETY: as promised by the caller.
        return unsafe { push_bytes(l, &room[..length]) };
    }
    // SAFETY: as promised by the caller; the block has `most` bytes, and lives while it is on the stack.
    unsafe {
        let start = ffi::lua_newuserdata(l, most).cast::<u8>();
        start.write_bytes(0, most);
        let room = std::slice::from_raw_parts_mut(start, most);
        let length = fill(room);
        push_bytes(l, &room[..length]);
        ffi::lua_remove(l, -2);
    }
}

/// The longest [`Message`]; longer quotes of a script's values are cut.
const MESSAGE_BYTES: usize = 512;

/// A text of limited length that needs no drop.
#[derive(Debug)]
pub(crate) struct Message {
    text: [u8; MESSAGE_BYTES],
    length: usize,
}

impl Message {
    /// Formats a text. Writing does not fail; text beyond the limit is cut.
    #[cold]
    pub(crate) fn new(text: fmt::Arguments<'_>) -> Self {
        let mut message = Self { text: [0; MESSAGE_BYTES], length: 0 };
        let _ = message.write_fmt(text);
        message
    }
}

impl Write for Message {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let room = &mut self.text[self.length..];
        let length = part.len().min(room.len());
        room[..length].copy_from_slice(&part.as_bytes()[..length]);
        self.length += length;
        Ok(())
    }
}

/// Raises an error, with the position in the script that called the running function. The text is written before any Lua code
/// runs.
///
/// # Safety
/// `l` is a live state below a fence, and no frame up to there holds anything that must be dropped.
pub(crate) unsafe fn raise(l: *mut lua_State, message: fmt::Arguments<'_>) -> ! {
    let message = Message::new(message);
    // SAFETY: as promised by the caller.
    unsafe { raise_message(l, &message) }
}

/// The same with a finished text.
///
/// # Safety
/// As for [`raise`].
pub(crate) unsafe fn raise_message(l: *mut lua_State, message: &Message) -> ! {
    // SAFETY: as promised by the caller.
    unsafe {
        ffi::luaL_where(l, 1);
        push_bytes(l, &message.text[..message.length]);
        ffi::lua_concat(l, 2);
        ffi::lua_error(l)
    }
}
