//! The first bytes of a client (RFC 9113, section 3.4).

/// The first bytes of every HTTP/2 connection. To an HTTP/1 parser they are a request of version 2.0, which it refuses, so look
/// for them before such a refusal is sent.
pub(super) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The protocol that the first bytes of a connection show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// The client speaks HTTP/2.
    Http2,
    /// The client speaks another protocol.
    Other,
    /// There are too few bytes to decide. No request of HTTP/1 but one with the method PRI begins like this.
    Unclear,
}

/// Decides from the first bytes of a connection whether the client speaks HTTP/2 (with prior knowledge: section 3.3).
///
/// The first line decides: `PRI * HTTP/2.0` cannot be the beginning of a request that HTTP/1 has an answer for.
#[inline]
#[must_use]
pub fn opening(input: &[u8]) -> Opening {
    const LINE: usize = 16;
    let known = input.len().min(LINE);
    match input[..known] == PREFACE[..known] {
        true if known == LINE => Opening::Http2,
        true => Opening::Unclear,
        false => Opening::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_decides() {
        for length in 0..=PREFACE.len() {
            let wanted = if length < 16 { Opening::Unclear } else { Opening::Http2 };
            assert_eq!(opening(&PREFACE[..length]), wanted);
        }
        for other in ["GET / HTTP/1.1\r\n", "PRI / HTTP/2.0\r\n", "PRI * HTTP/2.1\r\n", "PRO", "\r\nPRI * HTTP/2.0\r\n"] {
            assert_eq!(opening(other.as_bytes()), Opening::Other, "{other:?}");
        }
    }
}
