//! The field with the id of a request.

use oribi_message::{KnownField, RequestHead};
use std::fmt;

/// The usual name, in proxies and frameworks as well.
const USUAL: &str = "X-Request-Id";
/// The longest name: no field in use comes near it.
const NAME_BYTES: usize = 64;

/// The name of the field with the id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestIdField {
    name: String,
    known: Option<KnownField>,
}

impl Default for RequestIdField {
    fn default() -> Self {
        Self { name: USUAL.to_owned(), known: Some(KnownField::XRequestId) }
    }
}

impl RequestIdField {
    /// Parses a name, or `on` for the usual one.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if ["on", "true", "yes"].iter().any(|word| text.eq_ignore_ascii_case(word)) {
            return Ok(Self::default());
        }
        // 1 is not a name either: for a switch it means `on`.
        let is_name = text.starts_with(|first: char| first.is_ascii_alphabetic())
            && text.len() <= NAME_BYTES
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !is_name {
            return Err(format!("expected the name of a field, of at most {NAME_BYTES} letters, digits and hyphens, or off"));
        }
        let known = KnownField::lookup(text.as_bytes());
        if !matches!(known, None | Some(KnownField::XRequestId)) || text.eq_ignore_ascii_case("server") {
            return Err(format!("{text} has a meaning of its own; expected the name of another field, such as {USUAL}"));
        }
        Ok(Self { name: text.to_owned(), known })
    }

    /// The name of the field.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The well-known field with this name, if there is one.
    #[must_use]
    pub const fn known(&self) -> Option<KnownField> {
        self.known
    }

    /// Whether a field of a request is the one with the id.
    #[must_use]
    pub fn is(&self, known: Option<KnownField>, name: &[u8]) -> bool {
        known == self.known && (known.is_some() || name.eq_ignore_ascii_case(self.name.as_bytes()))
    }

    /// Returns the value of the first field with this name in a request, if any.
    #[must_use]
    pub fn of<'a>(&self, head: &RequestHead<'a>) -> Option<&'a [u8]> {
        head.fields().find(|(known, name, _)| self.is(*known, name)).map(|(_, _, value)| value)
    }
}

impl fmt::Display for RequestIdField {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::RequestIdField;

    #[test]
    fn names() {
        let name = |text: &str| RequestIdField::parse(text).map(|field| field.to_string());
        assert_eq!(name("on"), Ok("X-Request-Id".to_owned()));
        assert_eq!(name(" X-Correlation-ID "), Ok("X-Correlation-ID".to_owned()));
        let long = "x".repeat(65);
        for wrong in
            ["", "X_Request_Id", "X-Request-Id:", "a b", "-a", "9", "a\r\nb", "Host", "cookie", "Server", "Date", &long]
        {
            assert!(name(wrong).is_err(), "{wrong:?}");
        }
    }
}
