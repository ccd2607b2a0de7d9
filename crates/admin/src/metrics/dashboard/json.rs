//! Writes JSON (RFC 8259). All names are the server's own and need no escapes; texts are escaped.

use oribi_log::append_json;
use std::fmt::{Display, Write as _};

/// An object being written.
#[derive(Debug)]
pub(super) struct Object(String);

impl Object {
    pub(super) fn new() -> Self {
        Self("{".to_owned())
    }

    /// Adds a number, or any other value that is already JSON.
    pub(super) fn raw(mut self, name: &str, value: impl Display) -> Self {
        let comma = if self.0.len() > 1 { "," } else { "" };
        // Writing to a String cannot fail.
        let _ = write!(self.0, "{comma}\"{name}\":{value}");
        self
    }

    pub(super) fn text(self, name: &str, text: &str) -> Self {
        let text = quoted(text.as_bytes());
        self.raw(name, text)
    }

    /// Adds a time in seconds, with three decimal places.
    pub(super) fn seconds(self, name: &str, time: std::time::Duration) -> Self {
        self.raw(name, format_args!("{:.3}", time.as_secs_f64()))
    }

    pub(super) fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

/// An array being written.
#[derive(Debug, Default)]
pub(super) struct Array(String);

impl Array {
    /// Adds a value that is already JSON.
    pub(super) fn push(&mut self, value: &str) {
        if !self.0.is_empty() {
            self.0.push(',');
        }
        self.0.push_str(value);
    }

    pub(super) fn of(values: impl Iterator<Item = String>) -> String {
        let mut array = Self::default();
        values.for_each(|value| array.push(&value));
        array.end()
    }

    pub(super) fn end(self) -> String {
        format!("[{}]", self.0)
    }
}

/// Returns bytes as a JSON string. Invalid UTF-8 becomes U+FFFD.
pub(super) fn quoted(bytes: &[u8]) -> String {
    let mut text = vec![b'"'];
    append_json(bytes, &mut text);
    text.push(b'"');
    String::from_utf8(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn objects_and_arrays_are_json_whatever_the_texts_are() {
        let inner = Object::new().text("a\u{e9}", "\"\\\n\u{1}").end();
        let numbers = Array::of([1, 2].iter().map(ToString::to_string));
        let object =
            Object::new().raw("numbers", numbers).raw("inner", inner).seconds("age", Duration::from_millis(1500)).end();
        assert_eq!(object, "{\"numbers\":[1,2],\"inner\":{\"a\u{e9}\":\"\\\"\\\\\\n\\u0001\"},\"age\":1.500}");
        assert_eq!(quoted(b"\xff"), "\"\u{fffd}\"");
        assert_eq!(Object::new().end(), "{}");
    }
}
