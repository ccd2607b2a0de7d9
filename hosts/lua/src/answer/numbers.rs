//! Numbers of an answer as text.
//!
//! Lua itself would convert them to Lua strings. But making a Lua string may start a garbage collection, and that runs
//! finalizers.

use crate::vm::Quiet;
#[cfg(not(feature = "luajit"))]
use std::io::Write;
use std::ops::Range;
use std::os::raw::c_int;

/// Numbers as text, each with its index in a list.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    text: Vec<u8>,
    places: Vec<(usize, Range<usize>)>,
}

/// Beyond this many bytes, or numbers, the memory is not kept for the next request.
const KEPT: usize = 4 << 10;

impl Numbers {
    #[inline]
    pub(crate) fn clear(&mut self) {
        if !self.places.is_empty() {
            self.text.clear();
            self.text.shrink_to(KEPT);
            self.places.clear();
            self.places.shrink_to(KEPT);
        }
    }

    /// Adds the number at `index`, for `place`.
    #[cold]
    pub(crate) fn add(&mut self, quiet: &Quiet<'_>, index: c_int, place: usize) {
        let start = self.text.len();
        write(&mut self.text, quiet, index);
        self.places.push((place, start..self.text.len()));
    }

    /// Adds the number at `index` as the value of a field: an integral float gets the text of an integer.
    #[cold]
    pub(crate) fn add_for_field(&mut self, quiet: &Quiet<'_>, index: c_int, place: usize) {
        self.add(quiet, index, place);
        if let Some((_, range)) = self.places.last_mut()
            && self.text[range.clone()].ends_with(b".0")
        {
            range.end -= 2;
        }
    }

    /// The text of the number that was added first.
    pub(crate) fn first(&self) -> &[u8] {
        self.places.first().map(|(_, range)| &self.text[range.clone()]).unwrap_or_default()
    }

    /// Passes each text with its place to `set`.
    #[inline]
    pub(crate) fn put<'a>(&'a self, mut set: impl FnMut(usize, &'a [u8])) {
        for (place, range) in &self.places {
            set(*place, &self.text[range.clone()]);
        }
    }
}

/// Writes a number as Lua's `tostring` does.
fn write(out: &mut Vec<u8>, quiet: &Quiet<'_>, index: c_int) {
    // Writing into memory does not fail.
    #[cfg(not(feature = "luajit"))]
    if let Some(integer) = quiet.integer(index) {
        let _ = write!(out, "{integer}");
        return;
    }
    write_float(out, quiet.number(index));
}

/// Writes a float in Lua's format, `%.14g`. If the text would look like an integer, Lua 5.4 appends `.0`.
fn write_float(out: &mut Vec<u8>, number: f64) {
    let mut text = [0_u8; 32];
    // SAFETY: the buffer has that size, and the longest text, with sign, point and exponent, has 22 bytes.
    let length = unsafe { libc::snprintf(text.as_mut_ptr().cast(), text.len(), c"%.14g".as_ptr(), number) };
    let text = &text[..usize::try_from(length).unwrap_or_default().min(text.len())];
    out.extend_from_slice(text);
    if cfg!(not(feature = "luajit")) && text.iter().all(|&byte| byte == b'-' || byte.is_ascii_digit()) {
        out.extend_from_slice(b".0");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::Stack;
    use mlua::{Lua, Value};

    #[test]
    fn a_number_reads_as_in_lua() {
        let lua = Lua::new();
        for text in
            ["0", "7", "-12", "2.5", "-0.125", "1e15", "1e14", "2^53", "1/3", "1e100", "-1e-7", "2^31", "10/2", "1/0", "-1/0"]
        {
            let value: Value = lua.load(text).eval().expect("a number");
            let expected: String = lua.load("return tostring((...))").call(value.clone()).expect("a text");
            let mut out = Vec::new();
            // SAFETY: below mlua's fence, which calls this with the value as its only argument.
            unsafe {
                lua.exec_raw::<()>(value, |l| write(&mut out, &Stack::of(l).quiet(), -1)).expect("no error");
            }
            assert_eq!(String::from_utf8_lossy(&out), expected, "{text}");
        }
    }
}
