//! Trailers: fields after content (RFC 9110, section 6.5).

use crate::{FieldPair, Span};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The trailers of a request, kept for the app, or of a response, kept for the client. Trailers are never merged into the
/// fields of a head (RFC 9110, section 6.5.1). Names are in lower case, as HTTP/2 sends them, so they do not depend on the
/// protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trailers {
    text: Vec<u8>,
    /// The spans of names and values in the text.
    places: Vec<(Span, Span)>,
}

impl Trailers {
    /// Copies these fields; `None` if there are none.
    #[must_use]
    pub fn of<'a>(fields: impl IntoIterator<Item = FieldPair<'a>>) -> Option<Box<Self>> {
        let (mut text, mut places) = (Vec::new(), Vec::new());
        for (name, value) in fields {
            let start = text.len();
            text.extend_from_slice(name);
            text[start..].make_ascii_lowercase();
            let between = text.len();
            text.extend_from_slice(value);
            places.push((Span::new(start, between), Span::new(between, text.len())));
        }
        (!places.is_empty()).then(|| Box::new(Self { text, places }))
    }

    /// The fields in the order sent. A name may occur several times.
    #[inline]
    pub fn fields(&self) -> impl ExactSizeIterator<Item = FieldPair<'_>> + Clone {
        self.places.iter().map(|(name, value)| (name.of(&self.text), value.of(&self.text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_told_again_with_names_in_lower_case() {
        let fields: [FieldPair<'_>; 4] = [(b"Grpc-Status", b"0"), (b"x", b""), (b"X", b"A: b"), (b"x-\xc4_Y", b"\xe9")];
        let trailers = Trailers::of(fields).expect("some");
        let expected: [FieldPair<'_>; 4] = [(b"grpc-status", b"0"), (b"x", b""), (b"x", b"A: b"), (b"x-\xc4_y", b"\xe9")];
        assert!(trailers.fields().eq(expected));
        assert_eq!(trailers.fields().len(), 4);
        assert_eq!(Trailers::of([]), None);
    }
}
