//! Name-value pairs (FastCGI 1.0, section 3.4).

use oribi_message::Span;

/// The bytes end within a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut;

/// The pair that starts at `pos`, which is moved behind it; `None` at the end.
#[inline]
pub(super) fn next(bytes: &[u8], pos: &mut usize) -> Result<Option<(Span, Span)>, Cut> {
    if *pos == bytes.len() {
        return Ok(None);
    }
    let (name, value) = (length(bytes, pos)?, length(bytes, pos)?);
    let name_end = pos.checked_add(name).ok_or(Cut)?;
    let end = name_end.checked_add(value).filter(|&end| end <= bytes.len()).ok_or(Cut)?;
    let pair = (Span::new(*pos, name_end), Span::new(name_end, end));
    *pos = end;
    Ok(Some(pair))
}

/// One byte below 128, or four without their highest bit.
#[inline]
fn length(bytes: &[u8], pos: &mut usize) -> Result<usize, Cut> {
    match *bytes.get(*pos).ok_or(Cut)? {
        short @ ..0x80 => {
            *pos += 1;
            Ok(usize::from(short))
        }
        _ => {
            let long = bytes.get(*pos..).and_then(|rest| rest.first_chunk()).ok_or(Cut)?;
            *pos += 4;
            Ok((u32::from_be_bytes(*long) & 0x7fff_ffff) as usize)
        }
    }
}
