//! Events of connections, as requests to their apps: the request that has opened the connection, once more, with fields that no
//! client can send, because a slash is no character of a field name (RFC 9110, section 5.6.2), and with content: the size of the
//! data of the connection in four big-endian bytes, the data, and the payload of the event.

/// The field with the kind of the event.
pub const EVENT: &str = "oribi/event";

/// The field with the name of the connection, in 16 hexadecimal digits.
pub const CONNECTION: &str = "oribi/connection";

/// The field with the number of messages to a client that have not been sent completely, if its connection wants
/// [`EventKind::Drained`] and there are any.
pub const PENDING: &str = "oribi/pending";

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A message of text; its payload is UTF-8.
    Text,
    /// A message of bytes.
    Binary,
    /// The connection has ended. The payload is the status code in two big-endian bytes (1005: the client gave none; 1006: it has
    /// left without a word), and the reason.
    Close,
    /// All messages to the client have been sent. There is no payload. Only connections that want this event have it
    /// ([`Command::Want`](crate::Command::Want)).
    Drained,
    /// The connection is about to end, because the server does. There is no payload. Only connections that want this event have
    /// it.
    Shutdown,
}

impl EventKind {
    /// The value of [`EVENT`].
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Binary => "binary",
            Self::Close => "close",
            Self::Drained => "drained",
            Self::Shutdown => "shutdown",
        }
    }

    /// Whether it is a message of the client.
    #[must_use]
    pub const fn is_message(self) -> bool {
        matches!(self, Self::Text | Self::Binary)
    }
}

/// Returns the content of an event.
#[must_use]
pub fn content(data: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut content = Vec::with_capacity(4 + data.len() + payload.len());
    content.extend_from_slice(&(data.len() as u32).to_be_bytes());
    content.extend_from_slice(data);
    content.extend_from_slice(payload);
    content
}

/// Splits the content of an event into data and payload; `None` if it is none.
#[must_use]
pub fn split(content: &[u8]) -> Option<(&[u8], &[u8])> {
    let (size, rest) = content.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_be_bytes(*size) as usize)
}

#[cfg(test)]
mod tests {
    use super::{content, split};

    #[test]
    fn data_and_payload_come_back() {
        for (data, payload) in [(&b""[..], &b""[..]), (b"mine", b""), (b"", b"hello"), (b"a\0", b"\0b")] {
            assert_eq!(split(&content(data, payload)), Some((data, payload)));
        }
        assert_eq!(split(b"\0\0\0"), None);
        assert_eq!(split(b"\0\0\0\x02x"), None);
    }
}
