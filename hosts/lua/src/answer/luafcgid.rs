//! The answer of a script in the style of luafcgid that has not been sent yet.

use super::status::status_of;
use crate::LuaSettings;
use oribi_message::{FieldPair, ResponseHead};
use std::ops::Range;

/// A larger buffer is not kept for the next request.
const KEPT_BYTES: usize = 64 << 10;
/// A longer list is not kept, either.
const KEPT_FIELDS: usize = 256;

/// Status, fields and body. The memory is kept from request to request.
#[derive(Debug)]
pub(crate) struct LuafcgidAnswer {
    /// The status; `None` until the script sets one.
    status: Option<u16>,
    default_status: u16,
    content_type: Range<usize>,
    /// Names and values, as ranges of `text`.
    fields: Vec<(Range<usize>, Range<usize>)>,
    text: Vec<u8>,
    /// Whether the body is buffered until it is flushed.
    pub(crate) buffered: bool,
    /// The part of the body that has not been flushed.
    pub(crate) body: Vec<u8>,
}

impl Default for LuafcgidAnswer {
    fn default() -> Self {
        Self {
            status: None,
            default_status: 200,
            content_type: 0..0,
            fields: Vec::new(),
            text: Vec::new(),
            buffered: true,
            body: Vec::new(),
        }
    }
}

impl LuafcgidAnswer {
    /// Sets the defaults for a new reply.
    pub(crate) fn begin(&mut self, settings: &LuaSettings) {
        self.status = None;
        self.default_status = status_of(settings.status.as_bytes()).unwrap_or(200);
        self.fields.clear();
        self.text.clear();
        self.body.clear();
        self.buffered = settings.buffering;
        self.content_type = self.keep(settings.content_type.as_bytes());
        for (name, value) in &settings.fields {
            self.add_field(name.as_bytes(), value.as_bytes());
        }
    }

    /// Clears the answer at the end of the request.
    pub(crate) fn end(&mut self) {
        self.body.clear();
        self.body.shrink_to(KEPT_BYTES);
        self.text.clear();
        self.text.shrink_to(KEPT_BYTES);
        self.fields.clear();
        self.fields.shrink_to(KEPT_FIELDS);
    }

    /// The number of unsent bytes. A field counts as two ranges, even if it is empty.
    pub(crate) fn size(&self) -> usize {
        self.body.len() + self.text.len() + self.fields.len() * size_of::<(Range<usize>, Range<usize>)>()
    }

    fn keep(&mut self, part: &[u8]) -> Range<usize> {
        let start = self.text.len();
        self.text.extend_from_slice(part);
        start..self.text.len()
    }

    /// Sets the status from a line like "404 Not Found". Returns `false` if it is not a status line.
    pub(crate) fn set_status(&mut self, line: &[u8]) -> bool {
        let status = status_of(line);
        if status.is_some() {
            self.status = status;
        }
        status.is_some()
    }

    pub(crate) fn set_content_type(&mut self, value: &[u8]) {
        self.content_type = self.keep(value);
    }

    fn add_field(&mut self, name: &[u8], value: &[u8]) {
        let (name, value) = (self.keep(name), self.keep(value));
        self.fields.push((name, value));
    }

    /// Adds a field; a field named Status or Content-Type replaces the earlier value. Returns `false` if it is an invalid
    /// Status.
    pub(crate) fn set_field(&mut self, name: &[u8], value: &[u8]) -> bool {
        if name.eq_ignore_ascii_case(b"Status") {
            return self.set_status(value);
        }
        if name.eq_ignore_ascii_case(b"Content-Type") {
            self.set_content_type(value);
        } else {
            if name.eq_ignore_ascii_case(b"Location") && self.status.is_none() {
                // A script that sets only a location redirects (RFC 3875, section 6.2.3).
                self.status = Some(302);
            }
            self.add_field(name, value);
        }
        true
    }

    /// Adds fields from lines like `Name: value`. Returns `false` if a line is not a field.
    pub(crate) fn set_lines(&mut self, text: &[u8]) -> bool {
        for line in text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty()) {
            let Some(colon) = memchr::memchr(b':', line) else { return false };
            if !self.set_field(line[..colon].trim_ascii_end(), line[colon + 1..].trim_ascii_start()) {
                return false;
            }
        }
        true
    }

    /// Calls `work` with the head and the body.
    pub(crate) fn with_head<R>(&self, work: impl FnOnce(ResponseHead<'_>, &[u8]) -> R) -> R {
        let mut fields: Vec<FieldPair<'_>> = Vec::with_capacity(1 + self.fields.len());
        if !self.content_type.is_empty() {
            fields.push((b"Content-Type", &self.text[self.content_type.clone()]));
        }
        fields.extend(self.fields.iter().map(|(name, value)| (&self.text[name.clone()], &self.text[value.clone()])));
        work(ResponseHead { status: self.status.unwrap_or(self.default_status), fields: &fields }, &self.body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script_path::ScriptSource;

    fn answer() -> LuafcgidAnswer {
        let mut settings = LuaSettings::new(ScriptSource::Gateway { root: None });
        settings.fields.push(("X-Powered-By".to_owned(), "Lua".to_owned()));
        let mut answer = LuafcgidAnswer::default();
        answer.begin(&settings);
        answer
    }

    fn head(answer: &LuafcgidAnswer) -> (u16, String) {
        answer.with_head(|head, _| {
            let line = |(name, value): &FieldPair<'_>| {
                format!("{}: {}", String::from_utf8_lossy(name), String::from_utf8_lossy(value))
            };
            (head.status, head.fields.iter().map(line).collect::<Vec<_>>().join("; "))
        })
    }

    #[test]
    fn a_script_that_says_nothing_gets_the_defaults() {
        assert_eq!(head(&answer()), (200, "Content-Type: text/html; X-Powered-By: Lua".to_owned()));
    }

    #[test]
    fn status_and_content_type_are_replaced_and_other_fields_added() {
        let mut answer = answer();
        assert!(answer.set_field(b"content-type", b"text/css"));
        assert!(answer.set_field(b"STATUS", b"404 Gone away"));
        assert!(answer.set_lines(b"Set-Cookie: a=1\r\nSet-Cookie:b=2\r\n\r\n"));
        let fields = "Content-Type: text/css; X-Powered-By: Lua; Set-Cookie: a=1; Set-Cookie: b=2";
        assert_eq!(head(&answer), (404, fields.to_owned()));
        for (name, value) in [("Status", "99"), ("Status", "2000"), ("Status", "ok")] {
            assert!(!answer.set_field(name.as_bytes(), value.as_bytes()), "{value}");
        }
        assert!(!answer.set_lines(b"no field"));
    }

    #[test]
    fn a_location_redirects_unless_a_status_is_said() {
        let mut one = answer();
        assert!(one.set_lines(b"Location: /elsewhere"));
        assert_eq!(head(&one).0, 302);
        let mut other = answer();
        assert!(other.set_status(b"201") && other.set_lines(b"Location: /made"));
        assert_eq!(head(&other).0, 201);
    }

    #[test]
    fn the_next_request_starts_afresh_and_a_large_buffer_is_given_back() {
        let mut answer = answer();
        answer.body.resize(1 << 20, b'x');
        assert!(answer.set_status(b"500"));
        assert!((0..4096).all(|_| answer.set_field(b"Name", &[b'x'; 64])));
        assert!(answer.size() > (1 << 20) + 4096 * 64);
        answer.end();
        assert!(answer.body.capacity() <= KEPT_BYTES && answer.text.capacity() <= KEPT_BYTES);
        assert!(answer.fields.capacity() <= KEPT_FIELDS && answer.size() == 0);
        answer.begin(&LuaSettings::new(ScriptSource::Gateway { root: None }));
        assert_eq!(head(&answer), (200, "Content-Type: text/html".to_owned()));
    }
}
