//! Conditions of requests: the cache answers with 304 if the client has the response (RFC 9110, section 13).

use crate::control::elements;
use crate::date;
use oribi_message::{FieldPair, KnownField, RequestHead};

/// The conditions of a request that a cache evaluates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// The values of If-None-Match, joined by commas; `None` without the field.
    none_match: Option<Box<[u8]>>,
    /// If-Modified-Since, in seconds since 1970.
    modified_since: Option<u64>,
}

impl Conditions {
    /// Reads the conditions of a request.
    #[must_use]
    pub fn of(head: &RequestHead<'_>) -> Self {
        let mut conditions = Self::default();
        for (known, _, value) in head.fields() {
            match known {
                Some(KnownField::IfNoneMatch) => {
                    let joined = conditions.none_match.take().map_or_else(|| value.into(), |one| [&one, value].join(&b','));
                    conditions.none_match = Some(joined.into());
                }
                Some(KnownField::IfModifiedSince) => conditions.modified_since = date::parse(value),
                _ => {}
            }
        }
        conditions
    }

    /// Whether there is no condition.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.none_match.is_none() && self.modified_since.is_none()
    }

    /// Whether the client has the response with these fields already.
    pub fn are_met<'f>(&self, status: u16, fields: &(impl Iterator<Item = FieldPair<'f>> + Clone)) -> bool {
        if status != 200 {
            return false;
        }
        let value = |wanted: &[u8]| fields.clone().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value);
        if let Some(tags) = &self.none_match {
            let own = value(b"etag");
            return elements(tags).any(|tag| tag == b"*" || own.is_some_and(|own| opaque(own) == opaque(tag)));
        }
        let changed = value(b"last-modified").and_then(date::parse);
        self.modified_since.zip(changed).is_some_and(|(since, changed)| changed <= since)
    }
}

/// Returns an entity tag without the mark of a weak one (the weak comparison, RFC 9110, section 8.8.3.2).
fn opaque(tag: &[u8]) -> &[u8] {
    let tag = tag.trim_ascii();
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(conditions: &Conditions, status: u16, fields: &[FieldPair<'_>]) -> bool {
        conditions.are_met(status, &fields.iter().copied())
    }

    #[test]
    fn tags_are_compared_weakly_and_before_dates() {
        let of = |tags: &str| Conditions { none_match: Some(tags.as_bytes().into()), modified_since: Some(u64::MAX) };
        let own: &[FieldPair<'_>] = &[(b"ETag", b"\"a\""), (b"Last-Modified", b"Sun, 06 Nov 1994 08:49:37 GMT")];
        for tags in ["\"a\"", "W/\"a\"", "\"b\", \"a\"", "*", "\"x,y\",W/\"a\""] {
            assert!(met(&of(tags), 200, own), "{tags}");
        }
        for tags in ["\"b\"", "a", "\"b,\"a\"\"", "", "\"A\""] {
            assert!(!met(&of(tags), 200, own), "{tags}");
        }
        assert!(!met(&of("\"a\""), 404, own), "only a 200 is confirmed");
        assert!(!met(&of("\"a\""), 200, &[]));
    }

    #[test]
    fn a_response_is_confirmed_that_has_not_changed_since() {
        let since = |modified_since| Conditions { none_match: None, modified_since };
        let own: &[FieldPair<'_>] = &[(b"Last-Modified", b"Sun, 06 Nov 1994 08:49:37 GMT")];
        assert!(met(&since(Some(784_111_777)), 200, own) && met(&since(Some(784_111_778)), 200, own));
        assert!(!met(&since(Some(784_111_776)), 200, own) && !met(&since(None), 200, own) && !met(&since(Some(9)), 200, &[]));
    }
}
