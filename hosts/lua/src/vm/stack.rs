//! Small things to do with a Lua stack.
//!
//! Whatever may raise a Lua error runs below a fence ([`protect`](super::fence::protect)), and no frame between the two holds
//! anything that must be dropped: PUC Lua leaves by longjmp, LuaJIT unwinds.

use mlua::ffi::{self, lua_State};
use std::fmt::{self, Write};
use std::os::raw::c_int;

/// The bytes of the string at `index`; a number there becomes a string, in its place. `None`: something else is there.
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

/// What a value of the type at `index` is called: `nil`, `number` ...
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

/// How long a message made by [`raise`] can be; what it says of a script's values is cut behind it.
const MESSAGE_BYTES: usize = 512;

/// A text of limited length that needs no drop.
struct Message {
    text: [u8; MESSAGE_BYTES],
    length: usize,
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

/// Raises an error, with the place in the script that called the running function.
///
/// # Safety
/// `l` is a live state below a fence, and no frame up to there holds anything that must be dropped.
pub(crate) unsafe fn raise(l: *mut lua_State, message: fmt::Arguments<'_>) -> ! {
    let mut text = Message { text: [0; MESSAGE_BYTES], length: 0 };
    // Writing into it does not fail; what does not fit is cut.
    let _ = text.write_fmt(message);
    // SAFETY: as promised by the caller.
    unsafe {
        ffi::luaL_where(l, 1);
        push_bytes(l, &text.text[..text.length]);
        ffi::lua_concat(l, 2);
        ffi::lua_error(l)
    }
}
