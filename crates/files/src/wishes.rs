//! What a request says of the representation that it wants.

use oribi_message::KnownField;

/// The lines of one field, in the order sent.
#[derive(Clone, Debug, Default)]
pub struct Lines<'a> {
    first: Option<&'a [u8]>,
    /// Hardly any request repeats one of these fields.
    #[expect(clippy::box_collection, reason = "seven of these are made for each request")]
    more: Option<Box<Vec<&'a [u8]>>>,
}

impl<'a> Lines<'a> {
    fn add(&mut self, value: &'a [u8]) {
        match self.first {
            None => self.first = Some(value),
            Some(_) => self.more.get_or_insert_default().push(value),
        }
    }

    /// Whether the request has the field.
    #[must_use]
    pub fn are_there(&self) -> bool {
        self.first.is_some()
    }

    /// Each line.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> {
        self.first.into_iter().chain(self.more.iter().flat_map(|more| more.iter().copied()))
    }

    /// The value of a field that is no list: one that stands twice says nothing (RFC 9110, section 5.3).
    #[must_use]
    pub fn single(&self) -> Option<&'a [u8]> {
        if self.more.is_some() { None } else { self.first }
    }
}

/// The preconditions, the range and the codings of a request.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "each is the field that it is named for")]
pub struct Wishes<'a> {
    pub if_match: Lines<'a>,
    pub if_none_match: Lines<'a>,
    pub if_modified_since: Lines<'a>,
    pub if_unmodified_since: Lines<'a>,
    pub if_range: Lines<'a>,
    pub range: Lines<'a>,
    pub accept_encoding: Lines<'a>,
    /// Whether any of them but `accept_encoding` is there.
    pub any: bool,
}

impl<'a> Wishes<'a> {
    /// Takes note of those fields that matter.
    pub fn of(fields: impl Iterator<Item = (KnownField, &'a [u8])>) -> Self {
        let mut wishes = Self::default();
        for (known, value) in fields {
            let lines = match known {
                KnownField::AcceptEncoding => {
                    wishes.accept_encoding.add(value);
                    continue;
                }
                KnownField::IfMatch => &mut wishes.if_match,
                KnownField::IfNoneMatch => &mut wishes.if_none_match,
                KnownField::IfModifiedSince => &mut wishes.if_modified_since,
                KnownField::IfUnmodifiedSince => &mut wishes.if_unmodified_since,
                KnownField::IfRange => &mut wishes.if_range,
                KnownField::Range => &mut wishes.range,
                _ => continue,
            };
            lines.add(value);
            wishes.any = true;
        }
        wishes
    }

    /// Whether a field is one of those.
    #[must_use]
    pub const fn concern(known: KnownField) -> bool {
        use KnownField as F;
        let condition = matches!(known, F::IfMatch | F::IfNoneMatch | F::IfModifiedSince | F::IfUnmodifiedSince);
        condition || matches!(known, F::IfRange | F::Range | F::AcceptEncoding)
    }
}
