//! Small operations on a Lua stack.
//!
//! Everything that may raise a Lua error runs below a fence ([`protect`](crate::state_context::protect)). PUC Lua leaves frames
//! by longjmp, and LuaJIT unwinds them. So no frame between the error and the fence holds a value with a destructor.

use mlua::ffi::{self, lua_State};
use std::fmt::{self, Write};
use std::os::raw::c_int;

/// Returns the bytes of the string at `index`. A number there is converted to a string in place. `None` for other types.
///
/// # Safety
/// `l` is a live state below a fence. Lua owns the bytes, and they stay in place while the string is on a stack, or in a table
/// that is on a stack. The caller uses the bytes no longer than that.
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

/// Returns the name of the type of the value at `index`: `nil`, `number` ...
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

/// Pushes a string of at most `most` bytes. `fill` writes the bytes and returns their number; it must not call Lua.
///
/// The bytes are written into the stack frame or, if there are many, into memory of Lua. This memory counts against the state's
/// limit and is freed by Lua, and no finalizer that runs while Lua makes the string can change it.
///
/// # Safety
/// `l` is below a fence, with room for two values. No frame up to the fence, and no value in `fill`, must be dropped.
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

/// Raises an error with `message`, and with the position in the script that called the running function. `message` is formatted
/// before any Lua code runs.
///
/// # Safety
/// `l` is a live state below a fence, and no frame up to the fence holds anything that must be dropped.
pub(crate) unsafe fn raise(l: *mut lua_State, message: fmt::Arguments<'_>) -> ! {
    let message = Message::new(message);
    // SAFETY: as promised by the caller.
    unsafe { raise_message(l, &message) }
}

/// Like [`raise`], with a message that has been formatted.
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
