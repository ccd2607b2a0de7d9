//! A summary of a request for the inspection of a pool, read from a copy of the first bytes of its slot. These bytes are not
//! trusted.

use super::Malformed;
use super::request::{LINE, NUMBER, NUMBERS};

/// A summary of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestSummary<'a> {
    /// The method of the request.
    pub method: &'a [u8],
    /// The target up to its query: a query may hold secrets that the inspection must not show.
    pub target: &'a [u8],
    /// Whether the target has a query.
    pub has_query: bool,
    /// The client's address and port; empty if unknown.
    pub client: [&'a [u8]; 2],
}

/// Returns the number of bytes of a slot that [`summarize`] needs. `start` are the first bytes of the slot. The bytes that are
/// needed end before the content.
///
/// # Errors
/// The bytes are not a request, or are too few.
pub fn size_for_summary(start: &[u8]) -> Result<usize, Malformed> {
    let numbers = Numbers::of(start)?;
    let size = numbers.text()?.checked_add(numbers.at(14) as usize).ok_or(Malformed)?;
    size.checked_add(numbers.at(16) as usize).and_then(|size| size.checked_add(numbers.at(17) as usize)).ok_or(Malformed)
}

/// Reads the summary of a request.
///
/// # Errors
/// The bytes are not a request, or are too few.
pub fn summarize(bytes: &[u8]) -> Result<RequestSummary<'_>, Malformed> {
    let numbers = Numbers::of(bytes)?;
    let start = numbers.text()?;
    let mut rest = bytes.get(start..).ok_or(Malformed)?;
    let mut take = |number: usize| {
        let (part, left) = rest.split_at_checked(numbers.at(number) as usize).ok_or(Malformed)?;
        rest = left;
        Ok(part)
    };
    let (text, client) = (take(14)?, [take(16)?, take(17)?]);
    let part = |number: usize| text.get(numbers.at(number) as usize..numbers.at(number + 1) as usize).ok_or(Malformed);
    let (method, target) = (part(2)?, part(4)?);
    let query = target.iter().position(|byte| *byte == b'?');
    Ok(RequestSummary { method, target: &target[..query.unwrap_or(target.len())], has_query: query.is_some(), client })
}

/// The numbers at the start of a request: see [`super::request`].
struct Numbers([u32; NUMBERS]);

impl Numbers {
    fn of(bytes: &[u8]) -> Result<Self, Malformed> {
        let bytes = bytes.first_chunk::<{ NUMBERS * NUMBER }>().ok_or(Malformed)?;
        let mut numbers = [0; NUMBERS];
        for (number, bytes) in numbers.iter_mut().zip(bytes.as_chunks().0) {
            *number = u32::from_ne_bytes(*bytes);
        }
        Ok(Self(numbers))
    }

    fn at(&self, number: usize) -> u32 {
        self.0[number]
    }

    /// The offset of the text.
    fn text(&self) -> Result<usize, Malformed> {
        let lines = (self.at(12) as usize).checked_add(self.at(13) as usize).and_then(|lines| lines.checked_mul(LINE));
        lines.and_then(|lines| lines.checked_add(NUMBERS * NUMBER)).ok_or(Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::encode_request;
    use oribi_host::{Content, Endpoint, Request};
    use oribi_message::{HeadLayout, RequestHead};
    use oribi_proto::h1;

    /// The bytes of a slot with a request whose content is `secret`.
    fn slot(head: &str) -> Vec<u8> {
        let (mut layout, mut room) = (HeadLayout::default(), [0; 4096]);
        h1::Machine::new().handle_input(head.as_bytes(), &mut layout, &h1::Limits::default());
        let request = Request {
            head: RequestHead::new(head.as_bytes(), &layout),
            content: Content::Memory(b"secret"),
            trailers: None,
            remote: Endpoint { address: b"192.0.2.7", port: b"4711" },
            server: Endpoint { address: b"localhost", port: b"80" },
            forwarded_port: false,
            chosen_name: false,
            https: false,
            underscores: false,
            gateway: None,
        };
        let size = encode_request(&request, &[(b"X-Request-Start", b"t=1")], &mut room).expect("room");
        room[..size].to_vec()
    }

    #[test]
    fn a_request_is_told_without_its_query_and_its_content() {
        let bytes = slot("GET /a/b?token=secret?x HTTP/1.1\r\nHost: a\r\nAuthorization: secret\r\n\r\n");
        let size = size_for_summary(&bytes).expect("a request");
        assert!(size < bytes.len());
        let seen = summarize(&bytes[..size]).expect("so many bytes are enough");
        let expected = RequestSummary { method: b"GET", target: b"/a/b", has_query: true, client: [b"192.0.2.7", b"4711"] };
        assert_eq!(seen, expected);
        assert_eq!(summarize(&bytes), Ok(expected));
        for less in 0..size {
            assert_eq!(summarize(&bytes[..less]), Err(Malformed), "{less} of {size}");
        }
        let bytes = slot("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n");
        let seen = summarize(&bytes).expect("a request");
        assert_eq!((seen.method, seen.target, seen.has_query), (&b"OPTIONS"[..], &b"*"[..], false));
    }

    #[test]
    fn nothing_that_stands_in_a_slot_makes_a_reader_panic() {
        let mut bytes = slot("GET /a/b?c HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut refused = 0;
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            refused += usize::from(summarize(&bytes).is_err());
            let _ = size_for_summary(&bytes);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(refused > 100, "{refused}");
        for byte in [0, 1, 0x7f, 0xff] {
            let _ = (summarize(&[byte; 4096]), size_for_summary(&[byte; 4096]));
        }
    }
}
