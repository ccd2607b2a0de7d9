//! Distinguished names as text (RFC 4514), as nginx, Apache and OpenSSL write them: the last part first, and everything but
//! printable ASCII escaped byte by byte, so that an app can put them anywhere.

use crate::der::{IDENTIFIER, SEQUENCE, SET, TEXT, element, expect};
use std::fmt::Write;

/// Names of attribute types (RFC 4519, and OpenSSL's own), by the content of their identifiers.
const TYPES: &[(&[u8], &str)] = &[
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 4], "SN"),
    (&[0x55, 4, 5], "serialNumber"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 9], "street"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (&[0x55, 4, 12], "title"),
    (&[0x55, 4, 13], "description"),
    (&[0x55, 4, 17], "postalCode"),
    (&[0x55, 4, 41], "name"),
    (&[0x55, 4, 42], "GN"),
    (&[0x55, 4, 43], "initials"),
    (&[0x55, 4, 44], "generationQualifier"),
    (&[0x55, 4, 46], "dnQualifier"),
    (&[0x55, 4, 65], "pseudonym"),
    (&[0x55, 4, 97], "organizationIdentifier"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1], "emailAddress"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1], "UID"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25], "DC"),
];

const NUMERIC: u8 = 0x12;
const PRINTABLE: u8 = 0x13;
const LATIN: u8 = 0x14;
const ASCII: u8 = 0x16;
const UNIVERSAL: u8 = 0x1c;
const BMP: u8 = 0x1e;

/// The text of a name, from the content of its sequence. `None` if the bytes are not a name.
pub(crate) fn distinguished_name(mut name: &[u8]) -> Option<String> {
    let mut parts = Vec::new();
    while !name.is_empty() {
        let (mut set, behind) = expect(SET, name)?;
        name = behind;
        let mut part = String::new();
        while !set.is_empty() {
            let (attribute, behind) = expect(SEQUENCE, set)?;
            set = behind;
            if !part.is_empty() {
                part.push('+');
            }
            write_attribute(attribute, &mut part)?;
        }
        parts.push(part);
    }
    parts.reverse();
    Some(parts.join(","))
}

fn write_attribute(attribute: &[u8], out: &mut String) -> Option<()> {
    let (identifier, value) = expect(IDENTIFIER, attribute)?;
    let (tag, content, behind) = element(value)?;
    if !behind.is_empty() {
        return None;
    }
    let known = TYPES.iter().find(|(bytes, _)| *bytes == identifier);
    let text = known.and_then(|_| text(tag, content));
    match known {
        Some((_, name)) => out.push_str(name),
        None => write_identifier(identifier, out)?,
    }
    out.push('=');
    match text {
        Some(text) => write_escaped(&text, out),
        // RFC 4514, section 2.4: a value that is not a text, or of an unknown type, is written in hexadecimal.
        None => {
            out.push('#');
            for byte in value {
                let _ = write!(out, "{byte:02X}");
            }
        }
    }
    Some(())
}

/// The bytes of a text; known encodings become UTF-8. Invalid bytes are kept, because they get escaped later.
fn text(tag: u8, content: &[u8]) -> Option<Vec<u8>> {
    let in_utf8 = |characters: &mut dyn Iterator<Item = char>| characters.collect::<String>().into_bytes();
    match tag {
        TEXT | NUMERIC | PRINTABLE | ASCII => Some(content.to_vec()),
        LATIN => Some(in_utf8(&mut content.iter().map(|byte| char::from(*byte)))),
        BMP if content.len().is_multiple_of(2) => {
            let units = content.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
            Some(in_utf8(&mut char::decode_utf16(units).map(|found| found.unwrap_or(char::REPLACEMENT_CHARACTER))))
        }
        UNIVERSAL if content.len().is_multiple_of(4) => {
            let units = content.chunks_exact(4).map(|four| u32::from_be_bytes([four[0], four[1], four[2], four[3]]));
            Some(in_utf8(&mut units.map(|unit| char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER))))
        }
        _ => None,
    }
}

fn write_escaped(text: &[u8], out: &mut String) {
    for (place, &byte) in text.iter().enumerate() {
        let is_special = match byte {
            b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' => true,
            b' ' => place == 0 || place + 1 == text.len(),
            b'#' => place == 0,
            _ => false,
        };
        if !(0x20..0x7f).contains(&byte) {
            let _ = write!(out, "\\{byte:02X}");
            continue;
        }
        if is_special {
            out.push('\\');
        }
        out.push(char::from(byte));
    }
}

/// Writes an identifier as numbers with dots between them (X.690, section 8.19).
fn write_identifier(bytes: &[u8], out: &mut String) -> Option<()> {
    let (mut number, mut is_first) = (0_u64, true);
    for &byte in bytes {
        number = number.checked_mul(128)?.checked_add(u64::from(byte & 0x7f))?;
        if byte & 0x80 != 0 {
            continue;
        }
        if is_first {
            let top = (number / 40).min(2);
            let _ = write!(out, "{top}.{}", number - top * 40);
        } else {
            let _ = write!(out, ".{number}");
        }
        (number, is_first) = (0, false);
    }
    (!is_first && bytes.last().is_some_and(|byte| byte & 0x80 == 0)).then_some(())
}

#[cfg(test)]
mod tests;
