//! Parses form data with files: `multipart/form-data` (RFC 7578, RFC 2046 section 5.1).
//!
//! The content is in memory as a whole and is not copied: parts are slices of it. The server's `max-body-size` limits its
//! size; the number of parts and the size of their heads are limited here.

use percent_encoding::percent_decode;
use std::borrow::Cow;

/// The most parts: PHP's default for form fields (`max_input_vars`).
pub const PARTS: usize = 1000;
/// The most bytes of a part's head; a browser sends three short lines.
pub const HEAD_BYTES: usize = 16 << 10;
/// The longest boundary: RFC 2046, section 5.1.1.
const BOUNDARY_BYTES: usize = 70;

/// One part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormPart<'a> {
    /// The name of the form's field.
    pub name: Cow<'a, [u8]>,
    /// The name of the file as the browser sent it; `None` if the part is no file. The name may contain slashes: do not use it
    /// as a path.
    pub filename: Option<Cow<'a, [u8]>>,
    /// The fields of the part's head in order, with their names as sent.
    pub fields: Vec<(&'a [u8], &'a [u8])>,
    /// The content of the part.
    pub content: &'a [u8],
}

impl<'a> FormPart<'a> {
    /// The value of a field.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&'a [u8]> {
        field(&self.fields, name)
    }
}

/// Parses the content of a request according to its Content-Type.
///
/// # Errors
/// A message with the reason: the content is not multipart content, is damaged, or exceeds a limit.
pub fn parse<'a>(content: &'a [u8], content_type: &[u8]) -> Result<Vec<FormPart<'a>>, &'static str> {
    let boundary = boundary(content_type)?;
    let delimiter = [b"\r\n--", &*boundary].concat();
    let finder = memchr::memmem::Finder::new(&delimiter);
    // The first delimiter may be at the very start, without a line end before it.
    let first = content.starts_with(&delimiter[2..]).then_some(0);
    let mut next = match first {
        Some(_) => Some((0, delimiter.len() - 2)),
        None => finder.find(content).map(|at| (at, at + delimiter.len())),
    };
    let mut parts = Vec::new();
    let mut begun: Option<usize> = None;
    while let Some((at, behind)) = next {
        match what_follows(&content[behind..]) {
            Follows::Other => {}
            follows => {
                if let Some(start) = begun {
                    if parts.len() == PARTS {
                        return Err("too many parts");
                    }
                    // The content of an empty part would end within the line end of its own delimiter.
                    parts.push(part(&content[start..at.max(start)])?);
                }
                match follows {
                    Follows::Part(length) => begun = Some(behind + length),
                    _ => return Ok(parts),
                }
            }
        }
        // The line end of a delimiter may also belong to the next one.
        let from = begun.map_or(behind, |start| behind.max(start - 2));
        next = finder.find(&content[from..]).map(|at| (from + at, from + at + delimiter.len()));
    }
    Err(if begun.is_some() { "the last part does not end" } else { "the boundary does not occur" })
}

/// The meaning of the bytes after a delimiter.
enum Follows {
    /// A part, which starts after this many bytes.
    Part(usize),
    /// The end: it was the last delimiter.
    End,
    /// Not a delimiter, but text that begins like one.
    Other,
}

fn what_follows(rest: &[u8]) -> Follows {
    if rest.starts_with(b"--") {
        return Follows::End;
    }
    // RFC 2046, section 5.1.1: transport-padding.
    let padding = rest.iter().take_while(|&&byte| byte == b' ' || byte == b'\t').count();
    if rest[padding..].starts_with(b"\r\n") { Follows::Part(padding + 2) } else { Follows::Other }
}

/// Parses the bytes between two delimiters.
fn part(bytes: &[u8]) -> Result<FormPart<'_>, &'static str> {
    let window = &bytes[..bytes.len().min(HEAD_BYTES)];
    let (head, content) = if let Some(content) = bytes.strip_prefix(b"\r\n") {
        (&b""[..], content)
    } else if let Some(end) = memchr::memmem::find(window, b"\r\n\r\n") {
        (&bytes[..end], &bytes[end + 4..])
    } else if window.len() == bytes.len() && bytes.ends_with(b"\r\n") {
        // A part without content: the empty line after its head is the line end of the delimiter.
        (bytes, &b""[..])
    } else {
        return Err("the head of a part does not end, or is too large");
    };
    let mut fields = Vec::new();
    let mut rest = head;
    while !rest.is_empty() {
        let end = memchr::memmem::find(rest, b"\r\n").unwrap_or(rest.len());
        let line = &rest[..end];
        rest = rest.get(end + 2..).unwrap_or_default();
        let colon = memchr::memchr(b':', line).ok_or("a line in the head of a part is no field")?;
        fields.push((line[..colon].trim_ascii(), line[colon + 1..].trim_ascii()));
    }
    let disposition = field(&fields, "Content-Disposition").ok_or("a part has no Content-Disposition")?;
    let mut parameters = Parameters::of(disposition);
    if !parameters.value.eq_ignore_ascii_case(b"form-data") {
        return Err("a part is not form-data");
    }
    let (mut name, mut filename, mut extended) = (None, None, None);
    for (parameter, value) in &mut parameters {
        match parameter.to_ascii_lowercase().as_slice() {
            b"name" => name = name.or(Some(unquoted(value))),
            b"filename" => filename = filename.or(Some(unquoted(value))),
            b"filename*" => extended = extended.or_else(|| decode_extended(&value)),
            _ => {}
        }
    }
    // RFC 6266, section 4.3: the extended form has precedence.
    Ok(FormPart { name: name.ok_or("a part has no name")?, filename: extended.or(filename), fields, content })
}

fn field<'a>(fields: &[(&'a [u8], &'a [u8])], name: &str) -> Option<&'a [u8]> {
    fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| *value)
}

/// The boundary that a Content-Type names.
fn boundary(content_type: &[u8]) -> Result<Cow<'_, [u8]>, &'static str> {
    let mut parameters = Parameters::of(content_type);
    if !parameters.value.eq_ignore_ascii_case(b"multipart/form-data") {
        return Err("the content is not multipart/form-data");
    }
    let found = parameters.find(|(name, _)| name.eq_ignore_ascii_case(b"boundary")).map(|(_, value)| value);
    let boundary = found.ok_or("the Content-Type has no boundary")?;
    // RFC 2046, section 5.1.1: bchars.
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(byte);
    if boundary.is_empty() || boundary.len() > BOUNDARY_BYTES || !boundary.iter().all(fits) || boundary.ends_with(b" ") {
        return Err("the boundary is malformed");
    }
    Ok(boundary)
}

/// A value with parameters, as in `form-data; name="a"; filename="b"`.
struct Parameters<'a> {
    value: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Parameters<'a> {
    fn of(text: &'a [u8]) -> Self {
        let end = memchr::memchr(b';', text).unwrap_or(text.len());
        Self { value: text[..end].trim_ascii(), rest: &text[end..] }
    }
}

impl<'a> Iterator for Parameters<'a> {
    type Item = (&'a [u8], Cow<'a, [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let rest = self.rest.strip_prefix(b";")?;
            let end = memchr::memchr2(b'=', b';', rest).unwrap_or(rest.len());
            let name = rest[..end].trim_ascii();
            let Some(value) = rest[end..].strip_prefix(b"=").map(<[u8]>::trim_ascii_start) else {
                // A name without a value is ignored.
                self.rest = &rest[end..];
                continue;
            };
            if let Some(quoted) = value.strip_prefix(b"\"") {
                let (value, length) = quoted_string(quoted);
                let behind = &quoted[length..];
                self.rest = memchr::memchr(b';', behind).map_or(b"", |at| &behind[at..]);
                return Some((name, value));
            }
            let end = memchr::memchr(b';', value).unwrap_or(value.len());
            self.rest = &value[end..];
            return Some((name, Cow::Borrowed(value[..end].trim_ascii_end())));
        }
    }
}

/// Returns the text up to the closing quote, unescaped, and the number of bytes up to and including this quote. Only `\"` and
/// `\\` count as escapes, because some browsers send the path of a file with unescaped backslashes.
fn quoted_string(text: &[u8]) -> (Cow<'_, [u8]>, usize) {
    let end = memchr::memchr2(b'"', b'\\', text).unwrap_or(text.len());
    if text.get(end) != Some(&b'\\') {
        return (Cow::Borrowed(&text[..end]), (end + 1).min(text.len()));
    }
    let mut value = text[..end].to_vec();
    let mut at = end;
    while let Some(&byte) = text.get(at) {
        at += 1;
        match (byte, text.get(at)) {
            (b'"', _) => return (Cow::Owned(value), at),
            (b'\\', Some(&escaped @ (b'"' | b'\\'))) => {
                value.push(escaped);
                at += 1;
            }
            (byte, _) => value.push(byte),
        }
    }
    (Cow::Owned(value), at)
}

/// Decodes `%22`, by which browsers write a quote within a name (WHATWG HTML, "multipart/form-data encoding algorithm").
/// Browsers write line ends in a similar way, as `%0D%0A`; these are not decoded, because a name should not contain line ends.
fn unquoted(value: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    if memchr::memmem::find(&value, b"%22").is_none() {
        return value;
    }
    let mut plain = Vec::with_capacity(value.len());
    let mut rest = &*value;
    while let Some(at) = memchr::memmem::find(rest, b"%22") {
        plain.extend_from_slice(&rest[..at]);
        plain.push(b'"');
        rest = &rest[at + 3..];
    }
    plain.extend_from_slice(rest);
    Cow::Owned(plain)
}

/// A value in the extended form, `UTF-8''%e2%82%ac.txt` (RFC 8187, section 3.2.1). Other charsets are ignored.
fn decode_extended<'a>(value: &[u8]) -> Option<Cow<'a, [u8]>> {
    let mut pieces = value.splitn(3, |&byte| byte == b'\'');
    let (charset, _language, text) = (pieces.next()?, pieces.next()?, pieces.next()?);
    let decoded: Vec<u8> = percent_decode(text).collect();
    (charset.eq_ignore_ascii_case(b"utf-8") && std::str::from_utf8(&decoded).is_ok()).then_some(Cow::Owned(decoded))
}

#[cfg(test)]
mod tests;
