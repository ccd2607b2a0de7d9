//! The fields of a request that select a representation.

use oribi_message::KnownField;

/// The preconditions, the range and the codings of a request.
#[derive(Clone, Debug, Default)]
pub struct Selection<'a> {
    /// The first Accept-Encoding: most requests have one, few have two.
    accept_encoding: Option<&'a [u8]>,
    /// All other lines.
    lines: Vec<(KnownField, &'a [u8])>,
}

impl<'a> Selection<'a> {
    /// Collects the relevant fields.
    #[inline]
    pub fn of(fields: impl Iterator<Item = (KnownField, &'a [u8])>) -> Self {
        let mut selection = Self::default();
        for (known, value) in fields {
            if known == KnownField::AcceptEncoding && selection.accept_encoding.is_none() {
                selection.accept_encoding = Some(value);
            } else if Self::concerns(known) {
                selection.lines.push((known, value));
            }
        }
        selection
    }

    /// Whether a field is relevant.
    #[inline]
    #[must_use]
    pub const fn concerns(known: KnownField) -> bool {
        use KnownField as F;
        let condition = matches!(known, F::IfMatch | F::IfNoneMatch | F::IfModifiedSince | F::IfUnmodifiedSince);
        condition || matches!(known, F::IfRange | F::Range | F::AcceptEncoding)
    }

    /// Whether the request may have a condition or a range. `false` is certain; a second Accept-Encoding also makes this
    /// `true`.
    #[inline]
    #[must_use]
    pub fn is_particular(&self) -> bool {
        !self.lines.is_empty()
    }

    /// Each line of a field, in the order sent.
    pub fn lines(&self, wanted: KnownField) -> impl Iterator<Item = &'a [u8]> {
        let first = self.accept_encoding.filter(|_| wanted == KnownField::AcceptEncoding);
        first.into_iter().chain(self.lines.iter().filter(move |(known, _)| *known == wanted).map(|(_, value)| *value))
    }

    /// Whether the request has a field.
    #[must_use]
    pub fn has(&self, wanted: KnownField) -> bool {
        self.lines(wanted).next().is_some()
    }

    /// The value of a field that is not a list; if it occurs twice, it is ignored (RFC 9110, section 5.3).
    #[must_use]
    pub fn single(&self, wanted: KnownField) -> Option<&'a [u8]> {
        let mut lines = self.lines(wanted);
        lines.next().filter(|_| lines.next().is_none())
    }

    /// Whether Accept-Encoding may contain weights: only a weight can exclude the unencoded file.
    #[inline]
    pub(crate) fn weighs_codings(&self) -> bool {
        self.accept_encoding.is_some_and(|value| memchr::memchr(b';', value).is_some()) || !self.lines.is_empty()
    }
}
