//! Access log formats of users, in the language of Apache's mod_log_config or with the names of uWSGI.

mod directive;

use directive::{directive, named};

/// A format of the access log: the parts of a line, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessPattern {
    text: String,
    /// The parts of a line, in order.
    pub parts: Vec<AccessPart>,
    /// The names of the logged fields of responses, in lower case; [`AccessItem::ResponseField`] has indices of this list.
    pub response_fields: Vec<Vec<u8>>,
}

/// A part of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessPart {
    /// A text that is the same in each line.
    Text(Vec<u8>),
    /// An item that depends on the request. With a condition, lines of responses whose status does not fulfil it have `-`
    /// instead.
    Item(AccessItem, Option<Statuses>),
}

/// An item that may differ from line to line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessItem {
    /// The address of the client.
    Client,
    /// The port of the client.
    ClientPort,
    /// The peer of the connection: the client, or a proxy.
    Peer,
    /// The user of the request, if the server or a web server in front has checked who it is.
    User,
    /// The method, the target and the version.
    RequestLine,
    /// The method of the request.
    Method,
    /// The path without its query.
    Path,
    /// The query with its question mark.
    Query,
    /// The target as received.
    PathAndQuery,
    /// The version of HTTP.
    Version,
    /// The host of the request, or the name of the listener.
    Host,
    /// The name of the listener.
    ServerName,
    /// The port of the listener.
    ServerPort,
    /// A field of the request.
    RequestField(Vec<u8>),
    /// A cookie of the request.
    Cookie(Vec<u8>),
    /// A field of the response, by its index in [`AccessPattern::response_fields`].
    ResponseField(usize),
    /// The status of the response.
    Status,
    /// The bytes of the content.
    Bytes,
    /// The bytes of the content, or `-` if there are none.
    BytesOrDash,
    /// The duration of the request.
    Duration(Unit),
    /// A named part of the duration of the request.
    Part(&'static str, Unit),
    /// A time stamp of the request.
    Time(Instant, TimeForm),
    /// The id of the process.
    Process,
    /// The id of the thread.
    Thread(Radix),
    /// The number of earlier requests on the connection.
    Earlier,
    /// The state of the connection after the response.
    Ending,
    /// The id of the request.
    RequestId,
    /// The id of the trace.
    Trace,
    /// The id of the span.
    Span,
}

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// One second.
    Seconds,
    /// One thousandth of a second.
    Milliseconds,
    /// One millionth of a second.
    Microseconds,
}

/// The base in which a number is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Radix {
    /// Base 10.
    Decimal,
    /// Base 16.
    Hexadecimal,
}

/// The event of a time stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instant {
    /// The arrival of the request.
    Begin,
    /// The end of the response.
    End,
}

/// The format of a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimeForm {
    /// `[21/Nov/2026:03:00:00 +0000]`.
    Common,
    /// The time since 1970.
    Since(Unit),
    /// The fraction of the second.
    Fraction(Unit),
    /// A format for strftime.
    Calendar(String),
}

/// A condition on the status of the response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statuses {
    /// Whether the condition holds for all statuses that are not listed, instead of those that are.
    pub(crate) others: bool,
    pub(crate) listed: Vec<u16>,
}

impl Statuses {
    /// Whether the condition holds for a response with this status.
    pub fn include(&self, status: u16) -> bool {
        self.listed.contains(&status) != self.others
    }
}

impl AccessPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// The part that is not understood and the expected form, or the first control character of `text`.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(control) = text.chars().find(|character| character.is_control()) {
            return Err(format!("a line of the log has no {control:?}; write \\t for a tab"));
        }
        let mut pattern = Self { text: text.to_owned(), parts: Vec::new(), response_fields: Vec::new() };
        let mut literal = Vec::new();
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            let (plain, after) = match (character, rest.as_bytes().get(1)) {
                ('%', Some(b'%')) => ("%", &rest[2..]),
                ('\\', Some(b't')) => ("\t", &rest[2..]),
                ('\\', Some(b'"' | b'\\')) => (&rest[1..2], &rest[2..]),
                ('%', _) => {
                    let read = if rest.starts_with("%(") { named(rest) } else { directive(rest) };
                    let (found, after) = read?;
                    pattern.add_text(&mut literal);
                    pattern.add(found);
                    rest = after;
                    continue;
                }
                _ => rest.split_at(character.len_utf8()),
            };
            literal.extend_from_slice(plain.as_bytes());
            rest = after;
        }
        pattern.add_text(&mut literal);
        Ok(pattern)
    }

    /// The text of the user.
    #[must_use]
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    fn add_text(&mut self, literal: &mut Vec<u8>) {
        if !literal.is_empty() {
            self.parts.push(AccessPart::Text(std::mem::take(literal)));
        }
    }

    fn add(&mut self, found: Found) {
        let part = match found {
            Found::Nothing => AccessPart::Text(b"-".to_vec()),
            Found::Item(item, statuses) => AccessPart::Item(item, statuses),
            Found::ResponseField(name, statuses) => {
                let number = self.response_fields.iter().position(|known| *known == name).unwrap_or_else(|| {
                    self.response_fields.push(name);
                    self.response_fields.len() - 1
                });
                AccessPart::Item(AccessItem::ResponseField(number), statuses)
            }
        };
        self.parts.push(part);
    }
}

/// The meaning of a directive.
enum Found {
    /// A value that this server never knows: `-` in every line.
    Nothing,
    Item(AccessItem, Option<Statuses>),
    /// A field of the response, by its name.
    ResponseField(Vec<u8>, Option<Statuses>),
}

#[cfg(test)]
mod tests;
