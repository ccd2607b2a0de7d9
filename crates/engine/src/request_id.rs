//! Ids of requests (`--request-id`): each request has one id, which is the same for its app, its client, the logs and the
//! servers around this one.
//!
//! A client or a proxy may already have given the request an id. That id is kept if it is the only value of its field, its
//! bytes are harmless in a log line, a field or a shell command, and the peer's statements about clients are not removed
//! (`--trusted-proxies`). Otherwise a new id replaces all values of the field.
//!
//! An id that arrived with the request stays in its place. A new id is a field that the head does not have, so the head is
//! copied, and the field is appended to the copy. The engine writes the field of the response (`h1::Preset`), so an edge and
//! its workers do not both write it.

use super::unique::Numbers;
use oribi_config::{Forwarding, RequestIdField};
use oribi_message::{FieldLayout, FieldPair, HeadLayout, RequestHead, Span};

/// The most bytes of an id that arrived with a request.
const LONGEST: usize = 128;

/// The id of a request whose response has not begun.
#[derive(Clone, Debug)]
pub(super) struct RequestId {
    length: u8,
    bytes: [u8; LONGEST],
}

impl RequestId {
    /// `id` is at most [`LONGEST`] bytes long.
    fn of(id: &[u8]) -> Box<Self> {
        let mut bytes = [0; LONGEST];
        let length = id.len().min(LONGEST);
        bytes[..length].copy_from_slice(&id[..length]);
        Box::new(Self { length: length as u8, bytes })
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// Gives requests their ids.
#[derive(Debug)]
pub(super) struct RequestIds<'a> {
    field: &'a RequestIdField,
    numbers: Numbers,
}

impl<'a> RequestIds<'a> {
    /// Creates the ids of one process. It must run in the process that uses them: after a fork, both processes would give the
    /// same ids.
    pub(super) fn new(field: &'a RequestIdField) -> Self {
        Self { field, numbers: Numbers::seeded() }
    }

    pub(super) fn pair<'b>(&self, id: &'b RequestId) -> FieldPair<'b>
    where
        'a: 'b,
    {
        (self.field.name().as_bytes(), id.as_bytes())
    }

    /// The id of a request that has an id.
    pub(super) fn of<'b>(&self, head: &RequestHead<'b>) -> Option<&'b [u8]> {
        self.field.of(head)
    }

    /// Returns the id of a request whose head is in `input`. For a new id, copies the head to `text`, and appends the field
    /// with the id to the copy.
    pub(super) fn identify(
        &mut self,
        layout: &mut HeadLayout,
        input: &[u8],
        text: &mut Vec<u8>,
        forwarding: Forwarding,
    ) -> Box<RequestId> {
        match self.given(RequestHead::new(input, layout), forwarding) {
            Some(given) => RequestId::of(given),
            None => {
                text.clear();
                text.extend_from_slice(input);
                self.replace(layout, text)
            }
        }
    }

    /// Like [`RequestIds::identify`], for a head in memory of its own: a new id is appended to `bytes`.
    pub(super) fn identify_in(
        &mut self,
        layout: &mut HeadLayout,
        bytes: &mut Vec<u8>,
        forwarding: Forwarding,
    ) -> Box<RequestId> {
        match self.given(RequestHead::new(bytes, layout), forwarding) {
            Some(given) => RequestId::of(given),
            None => self.replace(layout, bytes),
        }
    }

    /// The id that arrived with a request, if it is kept.
    fn given<'b>(&self, head: RequestHead<'b>, forwarding: Forwarding) -> Option<&'b [u8]> {
        if forwarding == Forwarding::Removed {
            return None;
        }
        let mut values = head.fields().filter(|(known, name, _)| self.field.is(*known, name)).map(|(_, _, value)| value);
        let only = values.next().filter(|_| values.next().is_none());
        only.filter(|value| is_harmless(value))
    }

    /// Replaces the id fields of a request by a new id.
    fn replace(&mut self, layout: &mut HeadLayout, bytes: &mut Vec<u8>) -> Box<RequestId> {
        let field = self.field;
        layout.fields.retain(|line| !field.is(line.known, line.name.of(bytes)));
        let id = self.numbers.digits();
        let start = bytes.len();
        bytes.extend_from_slice(field.name().as_bytes());
        let between = bytes.len();
        bytes.extend_from_slice(&id);
        let (name, value) = (Span::new(start, between), Span::new(between, bytes.len()));
        layout.fields.push(FieldLayout { name, value, known: field.known() });
        RequestId::of(&id)
    }
}

/// Whether an id is safe everywhere: it cannot end a line, a word, a quoted text or an item of a list.
fn is_harmless(id: &[u8]) -> bool {
    (1..=LONGEST).contains(&id.len()) && id.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._:/+=-".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_proto::h1;

    /// The number of hexadecimal digits of a new id.
    const DIGITS: usize = 32;

    /// The values of the field after a request with these lines has been given its id, and that id.
    fn identified(name: &str, lines: &str, forwarding: Forwarding) -> (Vec<String>, String) {
        let field = RequestIdField::default();
        let mut ids = RequestIds::new(&field);
        let bytes = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}Accept: b\r\n\r\n");
        let (mut layout, mut copy) = (HeadLayout::default(), Vec::new());
        h1::Machine::new().handle_input(bytes.as_bytes(), &mut layout, &h1::Limits::default());
        let id = ids.identify(&mut layout, bytes.as_bytes(), &mut copy, forwarding);
        let head = RequestHead::new(if copy.is_empty() { bytes.as_bytes() } else { &copy }, &layout);
        assert_eq!((head.method(), head.target()), (&b"GET"[..], &b"/"[..]));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let values = head.fields().filter(|(_, found, _)| found.eq_ignore_ascii_case(name.as_bytes()));
        let id = text(id.as_bytes());
        assert_eq!(ids.of(&head).map(text).as_ref(), Some(&id));
        (values.map(|(_, _, value)| text(value)).collect(), id)
    }

    #[test]
    fn an_id_that_can_do_no_harm_is_kept_and_any_other_replaced() {
        for id in ["a", "4b1c-Z.9_:/+=", "0af7651916cd43dd8448eb211c80319c", &"x".repeat(128)] {
            let lines = format!("x-request-ID: {id}\r\n");
            let expected = (vec![id.to_owned()], id.to_owned());
            assert_eq!(identified("X-Request-Id", &lines, Forwarding::Kept), expected);
            assert_eq!(identified("X-Request-Id", &lines, Forwarding::Believed), expected);
            let (values, new) = identified("X-Request-Id", &lines, Forwarding::Removed);
            assert!(values == [new.clone()] && new != id, "{values:?}");
        }
        let long = "x".repeat(129);
        for wrong in ["", "a b", "a,b", "a\"b", "a\\b", "%0a", "\u{e9}", "a;b", "$(b)", "<b>", "a\tb", "\u{1b}[2J", &long] {
            let (values, new) = identified("X-Request-Id", &format!("X-Request-Id: {wrong}\r\n"), Forwarding::Kept);
            assert_eq!(values, std::slice::from_ref(&new), "{wrong:?}");
            assert!(new.len() == DIGITS && new.bytes().all(|byte| byte.is_ascii_hexdigit()), "{new}");
        }
        let twice = "X-Request-Id: a\r\nx-request-id: a\r\n";
        let (values, new) = identified("X-Request-Id", twice, Forwarding::Believed);
        assert!(values == [new.clone()] && new.len() == DIGITS, "two are not one: {values:?}");
        let (values, new) = identified("X-Request-Id", "", Forwarding::Kept);
        assert_eq!(values, [new]);
    }

    #[test]
    fn every_byte_but_the_listed_ones_is_refused() {
        let allowed: Vec<u8> = (0..=255).filter(|byte| is_harmless(&[*byte])).collect();
        assert_eq!(String::from_utf8_lossy(&allowed).len(), 26 * 2 + 10 + b"._:/+=-".len());
        assert!(allowed.iter().all(u8::is_ascii_graphic));
    }
}
