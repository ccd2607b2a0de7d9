//! Reading the content of a request.

use oribi_host::Content;
use std::io;

/// How much of a file is looked at for the end of a line.
const LINE_STEP: u64 = 8 << 10;

/// The bytes of `content` from `at` on, at most `most`; fewer only at its end.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn read<'a>(content: &Content<'a>, at: u64, most: u64, scratch: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
    let size = content.size().unwrap_or(0);
    let length = most.min(size.saturating_sub(at));
    match *content {
        Content::None => Ok(&[]),
        Content::Memory(bytes) => Ok(&bytes[at.min(size) as usize..][..length as usize]),
        Content::File { file, .. } => {
            scratch.clear();
            scratch.resize(length as usize, 0);
            let mut filled = 0;
            while filled < scratch.len() {
                match rustix::io::pread(file, &mut scratch[filled..], at + filled as u64) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(count) => filled += count,
                    Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(scratch)
        }
    }
}

/// How many bytes there are from `at` up to and with the next line end, or to the end of the content.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn line_length(content: &Content<'_>, at: u64, scratch: &mut Vec<u8>) -> io::Result<u64> {
    let size = content.size().unwrap_or(0);
    let mut end = at.min(size);
    while end < size {
        let step = if matches!(content, Content::Memory(_)) { size } else { LINE_STEP };
        let part = read(content, end, step, scratch)?;
        if let Some(place) = memchr::memchr(b'\n', part) {
            return Ok(end - at + place as u64 + 1);
        }
        end += part.len() as u64;
    }
    Ok(end - at)
}
