//! What a request says of the representation that it wants.

use oribi_message::KnownField;

/// The preconditions, the range and the codings of a request.
#[derive(Clone, Debug, Default)]
pub struct Wishes<'a> {
    /// The first Accept-Encoding, which most requests have and none but a few have twice.
    accept_encoding: Option<&'a [u8]>,
    /// All others.
    lines: Vec<(KnownField, &'a [u8])>,
}

impl<'a> Wishes<'a> {
    /// Takes note of those fields that matter.
    #[inline]
    pub fn of(fields: impl Iterator<Item = (KnownField, &'a [u8])>) -> Self {
        let mut wishes = Self::default();
        for (known, value) in fields {
            if known == KnownField::AcceptEncoding && wishes.accept_encoding.is_none() {
                wishes.accept_encoding = Some(value);
            } else if Self::concern(known) {
                wishes.lines.push((known, value));
            }
        }
        wishes
    }

    /// Whether a field is one of those.
    #[inline]
    #[must_use]
    pub const fn concern(known: KnownField) -> bool {
        use KnownField as F;
        let condition = matches!(known, F::IfMatch | F::IfNoneMatch | F::IfModifiedSince | F::IfUnmodifiedSince);
        condition || matches!(known, F::IfRange | F::Range | F::AcceptEncoding)
    }

    /// Whether there is any condition or range.
    #[inline]
    #[must_use]
    pub fn are_particular(&self) -> bool {
        !self.lines.is_empty()
    }

    /// Each line of a field, in the order sent.
    pub fn lines(&self, wanted: KnownField) -> impl Iterator<Item = &'a [u8]> {
        let first = self.accept_encoding.filter(|_| wanted == KnownField::AcceptEncoding);
        first.into_iter().chain(self.lines.iter().filter(move |(known, _)| *known == wanted).map(|(_, value)| *value))
    }

    /// Whether the request has a field.
    #[must_use]
    pub fn have(&self, wanted: KnownField) -> bool {
        self.lines(wanted).next().is_some()
    }

    /// The value of a field that is no list: one that stands twice says nothing (RFC 9110, section 5.3).
    #[must_use]
    pub fn single(&self, wanted: KnownField) -> Option<&'a [u8]> {
        let mut lines = self.lines(wanted);
        lines.next().filter(|_| lines.next().is_none())
    }

    /// Whether there may be more to Accept-Encoding than names: only a weight can speak against a file as it is.
    #[inline]
    pub(crate) fn weigh_codings(&self) -> bool {
        self.accept_encoding.is_some_and(|value| memchr::memchr(b';', value).is_some()) || !self.lines.is_empty()
    }
}
