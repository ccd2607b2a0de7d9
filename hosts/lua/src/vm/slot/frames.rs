//! The frames of a state, from Lua's debug interface: no code of the script runs for this, and nothing is allocated in Lua.

use mlua::ffi::{self, lua_Debug, lua_State};
use std::ffi::{CStr, c_char, c_int};
use std::mem::MaybeUninit;

/// The most frames: as many as the server keeps.
const MOST: usize = 100;

/// The name of this host's own Lua code, whose frames are left out.
const OWN: &[u8] = b"=[oribi";

/// Frames, the innermost first.
#[derive(Debug, Default)]
pub(super) struct Frames {
    pub(super) told: Vec<Vec<u8>>,
    /// The number of frames that were left out.
    pub(super) more: usize,
}

impl Frames {
    /// Adds the frames of a coroutine.
    ///
    /// # Safety
    /// `l` is a live state of the calling thread. The thread runs in `l`, or in a coroutine that was resumed from `l`.
    pub(super) unsafe fn add(&mut self, l: *mut lua_State) {
        let mut level = 0;
        // SAFETY: as promised by the caller.
        while let Some(mut frame) = unsafe { frame(l, level) } {
            if self.told.len() == MOST {
                // SAFETY: as promised by the caller.
                self.more += unsafe { depth(l, level) } - level as usize;
                return;
            }
            // SAFETY: as promised by the caller; these letters neither push a value nor raise an error.
            unsafe {
                if ffi::lua_getinfo(l, c"nSl".as_ptr(), &raw mut frame) != 0 {
                    self.told.extend(text(&frame));
                }
            }
            level += 1;
        }
    }
}

/// # Safety
/// As for [`Frames::add`].
unsafe fn frame(l: *mut lua_State, level: c_int) -> Option<lua_Debug> {
    let mut frame = MaybeUninit::<lua_Debug>::zeroed();
    // SAFETY: as promised by the caller; all zeros are valid.
    unsafe { (ffi::lua_getstack(l, level, frame.as_mut_ptr()) != 0).then(|| frame.assume_init()) }
}

/// Returns the number of frames of `l`, at least `known` of which exist. Each look walks from the innermost frame to the
/// requested one, so this function doubles its guess and then halves the interval, to take few looks.
///
/// # Safety
/// As for [`Frames::add`].
unsafe fn depth(l: *mut lua_State, known: c_int) -> usize {
    // SAFETY: as promised by the caller.
    let is_there = |level: c_int| unsafe { frame(l, level) }.is_some();
    let (mut below, mut above) = (known, known.saturating_mul(2));
    while is_there(above) && above < c_int::MAX {
        (below, above) = (above, above.saturating_mul(2));
    }
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        if is_there(middle) { below = middle } else { above = middle }
    }
    above as usize
}

/// Returns the frame as "file:line in function"; `None` for a frame of this host's own code.
///
/// # Safety
/// Lua has just filled the frame.
unsafe fn text(frame: &lua_Debug) -> Option<Vec<u8>> {
    // SAFETY: as promised by the caller.
    let [what, source, name, quoted] =
        [frame.what, frame.source, frame.name, frame.short_src.as_ptr()].map(|text| unsafe { bytes(text) });
    if source.starts_with(OWN) {
        return None;
    }
    if what == b"C" {
        // The function of the server that has called the script has no name.
        return (!name.is_empty()).then(|| [b"[C] in ", name].concat());
    }
    let mut text = match source {
        [b'@' | b'=', file @ ..] => file,
        // A chunk without a file: the beginning of its text.
        _ => quoted,
    }
    .to_vec();
    if frame.currentline > 0 {
        text.extend(format!(":{}", frame.currentline).bytes());
    }
    text.extend_from_slice(b" in ");
    match name {
        _ if what == b"main" => text.extend_from_slice(b"main chunk"),
        b"" => text.extend(format!("function at line {}", frame.linedefined).bytes()),
        name => text.extend_from_slice(name),
    }
    Some(text)
}

/// # Safety
/// `text` is null, or points to a text that ends with a zero.
unsafe fn bytes<'a>(text: *const c_char) -> &'a [u8] {
    if text.is_null() {
        return b"";
    }
    // SAFETY: as promised by the caller.
    unsafe { CStr::from_ptr(text) }.to_bytes()
}
