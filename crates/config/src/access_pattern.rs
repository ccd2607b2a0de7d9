//! Formats of the access log that users write themselves, in the language of Apache's mod_log_config or with the names of uWSGI.

mod directive;

use directive::{directive, named};

/// A format of the access log: what a line consists of, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessPattern {
    text: String,
    /// The parts of a line, in their order.
    pub parts: Vec<AccessPart>,
    /// The names of the fields of responses that it tells, in lower case; [`AccessItem::ResponseField`] numbers them.
    pub response_fields: Vec<Vec<u8>>,
}

/// A part of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessPart {
    /// The same in each line.
    Text(Vec<u8>),
    /// What differs. Where there are statuses, `-` is written for all responses but theirs.
    Item(AccessItem, Option<Statuses>),
}

/// What may differ from line to line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessItem {
    /// The client's address.
    Client,
    /// The client's port.
    ClientPort,
    /// The other end of the connection: the client, or a proxy.
    Peer,
    /// The method, the target and the version.
    RequestLine,
    /// The method.
    Method,
    /// The path without its query.
    Path,
    /// With its question mark.
    Query,
    /// The target as it came.
    PathAndQuery,
    /// The version of HTTP.
    Version,
    /// What the client calls the server, or the name of the listener.
    Host,
    /// The name of the listener.
    ServerName,
    /// The port of the listener.
    ServerPort,
    /// A field of the request.
    RequestField(Vec<u8>),
    /// A cookie of the request.
    Cookie(Vec<u8>),
    /// A field of the response, by its number among [`AccessPattern::response_fields`].
    ResponseField(usize),
    /// The status.
    Status,
    /// The bytes of the content.
    Bytes,
    /// The bytes of the content, or `-` if there are none.
    BytesOrDash,
    /// The time that the request took.
    Duration(Unit),
    /// A part of that time, by its name.
    Part(&'static str, Unit),
    /// A moment of the request.
    Time(Instant, TimeForm),
    /// The number of the process.
    Process,
    /// The number of the thread.
    Thread(Radix),
    /// How many requests came before on the connection.
    Earlier,
    /// What became of the connection.
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
    /// A second.
    Seconds,
    /// A thousandth of a second.
    Milliseconds,
    /// A millionth of a second.
    Microseconds,
}

/// How a number is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Radix {
    /// By tens.
    Decimal,
    /// By sixteens.
    Hexadecimal,
}

/// When a time was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instant {
    /// When the request had arrived.
    Begin,
    /// When the response was finished.
    End,
}

/// How a time is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimeForm {
    /// `[21/Nov/2026:03:00:00 +0000]`.
    Common,
    /// Since 1970.
    Since(Unit),
    /// The part behind the seconds.
    Fraction(Unit),
    /// By strftime's letters.
    Calendar(String),
}

/// Responses that something is told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statuses {
    /// All but these.
    pub(crate) others: bool,
    pub(crate) listed: Vec<u16>,
}

impl Statuses {
    /// Whether a response with this status is among them.
    pub fn include(&self, status: u16) -> bool {
        self.listed.contains(&status) != self.others
    }
}

impl AccessPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// Says which part is not understood, and what would be.
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

    /// As it was written.
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

/// What a directive stands for.
enum Found {
    /// Something that this server never knows: `-` in every line.
    Nothing,
    Item(AccessItem, Option<Statuses>),
    /// By the name of the field.
    ResponseField(Vec<u8>, Option<Statuses>),
}

#[cfg(test)]
mod tests;
