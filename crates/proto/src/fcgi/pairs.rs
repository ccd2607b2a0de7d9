//! Name-value pairs (FastCGI 1.0, section 3.4).

use oribi_message::Span;

/// The bytes end within a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut;

/// A name and a value.
pub(super) struct Pair<'a> {
    /// The bytes of the name.
    pub(super) text: &'a [u8],
    /// The place of the name.
    pub(super) name: Span,
    /// The place of the value.
    pub(super) value: Span,
}

/// Reads the pair that starts at `pos`; moves `pos` after it. `None` at the end.
#[inline]
pub(super) fn next<'a>(bytes: &'a [u8], pos: &mut usize) -> Result<Option<Pair<'a>>, Cut> {
    let (start, name, value, behind) = match bytes.get(*pos..) {
        None | Some([]) => return Ok(None),
        Some(&[name @ ..0x80, value @ ..0x80, ref behind @ ..]) => (*pos + 2, usize::from(name), usize::from(value), behind),
        Some(_) => long(bytes, *pos)?,
    };
    let (name_end, end) = (start + name, start + name + value);
    let Some(text) = behind.get(..name).filter(|_| end <= bytes.len()) else { return Err(Cut) };
    *pos = end;
    Ok(Some(Pair { text, name: Span::new(start, name_end), value: Span::new(name_end, end) }))
}

/// Reads the lengths of a pair, of which at least one takes four bytes. Returns the start of the name, both lengths, and all
/// bytes from the name on.
#[cold]
fn long(bytes: &[u8], mut pos: usize) -> Result<(usize, usize, usize, &[u8]), Cut> {
    let mut length = || {
        let size = if *bytes.get(pos).ok_or(Cut)? < 0x80 { 1 } else { 4 };
        let digits = bytes.get(pos..pos + size).ok_or(Cut)?;
        pos += size;
        // The highest bit of the four bytes is a flag. A length beyond the input must not overflow when it is added.
        let number = digits.iter().fold(0, |number: u32, &digit| number << 8 | u32::from(digit)) & 0x7fff_ffff;
        usize::try_from(number).ok().filter(|&number| number <= bytes.len()).ok_or(Cut)
    };
    let (name, value) = (length()?, length()?);
    Ok((pos, name, value, bytes.get(pos..).ok_or(Cut)?))
}
