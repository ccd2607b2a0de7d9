//! Vary: the request fields on which a response depends (RFC 9111, section 4.1).

use crate::control::elements;
use oribi_message::{FieldPair, is_same_variable};

/// The most names of fields. A response that depends on more is not stored.
const MOST_NAMES: usize = 16;

/// The names in Vary, in small letters, in order, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vary(Box<[Box<[u8]>]>);

impl Vary {
    /// Reads the lines of Vary among the fields of a response. `None`: no other request gets this response.
    pub fn of<'f>(fields: impl Iterator<Item = FieldPair<'f>>) -> Option<Self> {
        let mut names: Vec<Box<[u8]>> = Vec::new();
        for (_, value) in fields.filter(|(name, _)| name.eq_ignore_ascii_case(b"vary")) {
            for name in elements(value) {
                if name == b"*" {
                    return None;
                }
                names.push(name.to_ascii_lowercase().into());
            }
        }
        names.sort_unstable();
        names.dedup();
        (names.len() <= MOST_NAMES).then(|| Self(names.into()))
    }

    /// Whether all requests get the same response.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The memory in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.0.iter().map(|name| name.len() + size_of::<Box<[u8]>>()).sum()
    }
}

/// Appends the values of the fields that `vary` names to `key`. Requests with the same key get the same response.
///
/// White space around commas does not matter, and several lines are as one. An absent field is not an empty one.
pub fn secondary_key<'f>(vary: &Vary, fields: &(impl Iterator<Item = FieldPair<'f>> + Clone), key: &mut Vec<u8>) {
    for wanted in &vary.0 {
        let mut present = false;
        for (_, value) in fields.clone().filter(|(name, _)| is_same_variable(name, wanted)) {
            for element in elements(value) {
                // No value has a line end.
                key.extend_from_slice(if present { b"," } else { b"+" });
                key.extend_from_slice(element);
                present = true;
            }
            if !present {
                key.push(b'+');
                present = true;
            }
        }
        key.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vary(lines: &[&str]) -> Option<Vary> {
        Vary::of(lines.iter().map(|line| (&b"Vary"[..], line.as_bytes())))
    }

    fn key(names: &str, fields: &[FieldPair<'_>]) -> String {
        let mut key = Vec::new();
        secondary_key(&vary(&[names]).expect("no star"), &fields.iter().copied(), &mut key);
        String::from_utf8(key).expect("ASCII")
    }

    #[test]
    fn names_are_sorted_and_a_star_matches_nothing() {
        assert_eq!(vary(&["B, a", "A,,"]), vary(&["a, b"]));
        assert!(vary(&[]).is_some_and(|vary| vary.is_empty()));
        assert!(vary(&["a, *"]).is_none() && vary(&["a", "*"]).is_none());
        let many: Vec<String> = (0..17).map(|number| format!("x-{number}")).collect();
        assert!(vary(&[&many.join(",")]).is_none() && vary(&[&many[..16].join(",")]).is_some());
    }

    #[test]
    fn values_are_equal_whatever_their_white_space_and_lines() {
        let one = key("accept", &[(b"Accept", b"a,  b ,c")]);
        assert_eq!(one, key("accept", &[(b"ACCEPT", b"a"), (b"X", b"y"), (b"accept", b"b,c")]));
        assert_ne!(one, key("accept", &[(b"Accept", b"a, c, b")]));
        assert_ne!(key("accept", &[]), key("accept", &[(b"Accept", b"")]));
        assert_eq!(key("accept", &[(b"Accept", b"")]), key("accept", &[(b"Accept", b"  ")]));
        // The value of one field cannot look like those of two.
        assert_ne!(key("a, b", &[(b"a", b"1")]), key("a, b", &[(b"b", b"1")]));
    }
}
