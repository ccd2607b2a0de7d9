//! Changes of fields: some are removed, some replaced, some added.

use oribi_message::{FieldPair, is_same_variable};
use std::fmt;
use std::hash::{Hash, Hasher};

/// The fields by which messages are framed and connections kept: only the server writes them.
const OF_SERVER: &[&str] = &[
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// A name and a value.
type Field = (Box<str>, Box<str>);

/// Changes of the fields of a message. The default changes nothing.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct FieldChanges {
    /// The fields of these names are dropped.
    dropped: Vec<Box<str>>,
    /// Then these are appended.
    appended: Vec<Field>,
}

impl FieldChanges {
    /// Drops all fields with this name.
    ///
    /// # Errors
    /// The reason why no change can concern this field.
    pub fn remove(&mut self, name: &str) -> Result<(), &'static str> {
        check(name, "")?;
        self.dropped.push(name.into());
        Ok(())
    }

    /// Replaces all fields with this name by one with this value.
    ///
    /// # Errors
    /// The reason why no change can concern this field, or why it cannot have this value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        check(name, value)?;
        self.dropped.push(name.into());
        self.appended.push((name.into(), value.into()));
        Ok(())
    }

    /// Adds a field, and keeps others with its name.
    ///
    /// # Errors
    /// As [`FieldChanges::set`].
    pub fn add(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        check(name, value)?;
        self.appended.push((name.into(), value.into()));
        Ok(())
    }

    /// Whether nothing changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.dropped.is_empty() && self.appended.is_empty()
    }

    /// Whether a field with this name is dropped.
    #[must_use]
    pub fn drops(&self, name: &[u8]) -> bool {
        self.dropped.iter().any(|dropped| dropped.as_bytes().eq_ignore_ascii_case(name))
    }

    /// Like [`FieldChanges::drops`], for a request: apps get one variable for names that differ in `-` and `_` only.
    #[must_use]
    pub fn drops_of_request(&self, name: &[u8]) -> bool {
        self.dropped.iter().any(|dropped| is_same_variable(dropped.as_bytes(), name))
    }

    /// The fields that are appended.
    pub fn appended(&self) -> impl Iterator<Item = FieldPair<'_>> + Clone {
        self.appended.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()))
    }
}

/// Changes of the fields of a response. The default changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ResponseFields {
    /// The changes of every response.
    pub always: FieldChanges,
    /// Further changes of a response whose status is below 400.
    pub unless_error: FieldChanges,
}

impl ResponseFields {
    /// Whether nothing changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.always.is_empty() && self.unless_error.is_empty()
    }

    /// The changes of a response with this status, in their order.
    pub fn of(&self, status: u16) -> impl Iterator<Item = &FieldChanges> {
        let more = (status < 400).then_some(&self.unless_error);
        std::iter::once(&self.always).chain(more)
    }
}

impl From<FieldChanges> for ResponseFields {
    fn from(always: FieldChanges) -> Self {
        Self { always, ..Self::default() }
    }
}

/// With values, so that changed ones are noticed.
impl Hash for FieldChanges {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.dropped, &self.appended).hash(state);
    }
}

/// Without values: they may be secrets.
impl fmt::Debug for FieldChanges {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let appended: Vec<&str> = self.appended.iter().map(|(name, _)| &**name).collect();
        formatter.debug_struct("FieldChanges").field("dropped", &self.dropped).field("appended", &appended).finish()
    }
}

fn check(name: &str, value: &str) -> Result<(), &'static str> {
    if OF_SERVER.iter().any(|of_server| of_server.eq_ignore_ascii_case(name)) {
        return Err("only the server writes this field");
    }
    if !is_token(name) {
        return Err("a name has letters, digits, and `-` or `_`");
    }
    if value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
        return Err("a value has no control characters");
    }
    if value.trim_matches([' ', '\t']) != value {
        return Err("a value has no space around it");
    }
    Ok(())
}

/// Whether a text can be the name of a field (RFC 9110, section 5.6.2).
fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_without_case() {
        let mut changes = FieldChanges::default();
        assert!(changes.is_empty());
        changes.set("X-Frame-Options", "DENY").expect("valid");
        changes.remove("server-timing").expect("valid");
        changes.add("Link", "</a>; rel=preload").expect("valid");
        assert!(changes.drops(b"x-frame-options") && changes.drops(b"Server-Timing") && !changes.drops(b"Link"));
        let appended: Vec<_> = changes.appended().map(|(name, _)| name).collect();
        assert_eq!(appended, [&b"X-Frame-Options"[..], b"Link"]);
    }

    #[test]
    fn framing_and_line_ends_are_out_of_reach() {
        let mut changes = FieldChanges::default();
        for name in ["Content-Length", "transfer-encoding", "CONNECTION", "Host", "", "a b", "a:", "a\r\nb", "é"] {
            assert!(changes.set(name, "1").is_err(), "{name:?}");
            assert!(changes.remove(name).is_err(), "{name:?}");
        }
        for value in ["a\r\nX: b", "a\nb", "\0", " a", "a\t", "\x7f"] {
            assert!(changes.add("X-A", value).is_err(), "{value:?}");
        }
        assert!(changes.is_empty());
        changes.add("X-A", "").expect("an empty value is valid");
        changes.add("X-A", "ä").expect("obs-text is valid");
    }
}
