//! Fields of a response that is sent repeatedly; checked and rendered once.

use crate::{FieldPair, KnownField, Span};
use alloc::vec::Vec;

/// Fields that are valid in any response. None of them concerns the connection, the length of the content or the status, and
/// none is a field that the server adds itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreparedFields {
    lines: Vec<u8>,
    /// The spans of names and values in the lines.
    places: Vec<(Span, Span)>,
}

impl PreparedFields {
    /// Checks and renders `fields`. `None` if a field is invalid, or is one that only the server may set.
    #[must_use]
    pub fn new(fields: &[FieldPair<'_>]) -> Option<Self> {
        let (mut lines, mut places) = (Vec::new(), Vec::new());
        for (name, value) in fields {
            if name.is_empty()
                || !name.iter().all(|byte| is_token(*byte))
                || is_for_server(name)
                || !value.iter().all(|byte| fits(*byte))
            {
                return None;
            }
            let mut add = |part: &[u8]| {
                let start = lines.len();
                lines.extend_from_slice(part);
                Span::new(start, lines.len())
            };
            let name = add(name);
            add(b": ");
            places.push((name, add(value)));
            add(b"\r\n");
        }
        Some(Self { lines, places })
    }

    /// The fields as lines, each with its CR LF.
    #[inline]
    #[must_use]
    pub fn lines(&self) -> &[u8] {
        &self.lines
    }

    /// The fields themselves.
    #[inline]
    pub fn pairs(&self) -> impl ExactSizeIterator<Item = FieldPair<'_>> + Clone {
        self.places.iter().map(|(name, value)| (name.of(&self.lines), value.of(&self.lines)))
    }
}

/// Whether a name may contain `byte` (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Whether a value may contain `byte` (RFC 9110, section 5.5): no control bytes but the tab.
fn fits(byte: u8) -> bool {
    byte == b'\t' || !byte.is_ascii_control()
}

fn is_for_server(name: &[u8]) -> bool {
    use KnownField as F;
    let known = KnownField::lookup(name);
    let of_connection = matches!(known, Some(F::Connection | F::KeepAlive | F::ProxyConnection | F::Upgrade));
    let of_content = matches!(known, Some(F::ContentLength | F::TransferEncoding | F::Trailer));
    // Web servers in front treat this field as the status line (RFC 3875, section 6.3.3).
    let of_status = name.eq_ignore_ascii_case(b"status");
    of_connection || of_content || of_status || known == Some(F::Date) || name.eq_ignore_ascii_case(b"server")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read_again() {
        let fields: [FieldPair<'_>; 4] =
            [(b"ETag", b"\"a: b\""), (b"X", b""), (b"Vary", b"Accept-Encoding"), (b"Vary", b"\xe9\t")];
        let prepared = PreparedFields::new(&fields).expect("they are valid");
        assert_eq!(prepared.lines(), b"ETag: \"a: b\"\r\nX: \r\nVary: Accept-Encoding\r\nVary: \xe9\t\r\n");
        assert!(prepared.pairs().eq(fields));
        assert_eq!(PreparedFields::new(&[]), Some(PreparedFields::default()));
        assert_eq!(PreparedFields::default().pairs().count(), 0);
    }

    #[test]
    fn nothing_else_is_written() {
        for (name, value) in [
            ("", "a"),
            ("a b", "c"),
            ("a:", "b"),
            ("a\r\nb", "c"),
            ("a", "b\r\nc: d"),
            ("a", "b\0"),
            ("a", "\x7f"),
            ("Content-Length", "1"),
            ("connection", "close"),
            ("Transfer-Encoding", "chunked"),
            ("date", "now"),
            ("SERVER", "x"),
            ("Status", "404"),
            ("Upgrade", "x"),
            ("Keep-Alive", "x"),
            ("Trailer", "x"),
            ("Proxy-Connection", "x"),
        ] {
            assert_eq!(PreparedFields::new(&[(name.as_bytes(), value.as_bytes())]), None, "{name:?}: {value:?}");
        }
    }
}
