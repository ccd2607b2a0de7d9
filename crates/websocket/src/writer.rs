//! Frames of a server: unmasked, each of them a whole message.

use crate::head::CONTROL_PAYLOAD;
use crate::status;

/// The most bytes in the payload of a close frame: 2 of the code, 123 of the reason.
pub const CLOSE_PAYLOAD: usize = CONTROL_PAYLOAD;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A message in UTF-8.
    Text,
    /// A message of any bytes.
    Binary,
    /// The end of the connection; its payload is that of [`close`].
    Close,
    /// A question that the peer answers with a pong of the same payload, of at most 125 bytes.
    Ping,
    /// The answer to a ping, of at most 125 bytes.
    Pong,
}

impl Kind {
    pub(crate) const fn opcode(self) -> u8 {
        match self {
            Self::Text => 1,
            Self::Binary => 2,
            Self::Close => 8,
            Self::Ping => 9,
            Self::Pong => 10,
        }
    }
}

/// Writes the head of a frame with a payload of `size` bytes into `head`, and returns the length of the head: 2, 4 or 10. The
/// payload follows it. `compressed`: the payload is that of [`Deflater::compress`](crate::Deflater::compress).
pub fn frame(kind: Kind, size: usize, compressed: bool, head: &mut [u8; 10]) -> usize {
    head[0] = 0x80 | u8::from(compressed) << 6 | kind.opcode();
    match (u8::try_from(size), u16::try_from(size)) {
        (Ok(size @ ..=125), _) => {
            head[1] = size;
            2
        }
        (_, Ok(size)) => {
            head[1] = 126;
            head[2..4].copy_from_slice(&size.to_be_bytes());
            4
        }
        _ => {
            head[1] = 127;
            head[2..].copy_from_slice(&(size as u64).to_be_bytes());
            10
        }
    }
}

/// Writes the payload of a close frame and returns its length. It is empty if no close frame may have `code` (such as 1005 or
/// 1006); a `reason` of more than 123 bytes is cut off before the character that would exceed them.
pub fn close(code: u16, reason: &str, payload: &mut [u8; CLOSE_PAYLOAD]) -> usize {
    if !status::is_valid(code) {
        return 0;
    }
    payload[..2].copy_from_slice(&code.to_be_bytes());
    let mut length = reason.len().min(CLOSE_PAYLOAD - 2);
    while !reason.is_char_boundary(length) {
        length -= 1;
    }
    payload[2..2 + length].copy_from_slice(&reason.as_bytes()[..length]);
    2 + length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_has_the_shortest_length() {
        for (size, expected) in [
            (0, &[0x82, 0][..]),
            (125, &[0x82, 125]),
            (126, &[0x82, 126, 0, 126]),
            (255, &[0x82, 126, 0, 255]),
            (256, &[0x82, 126, 1, 0]),
            (65_535, &[0x82, 126, 255, 255]),
            (65_536, &[0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let mut head = [0; 10];
            let length = frame(Kind::Binary, size, false, &mut head);
            assert_eq!(&head[..length], expected, "{size}");
        }
    }

    #[test]
    fn the_examples_of_the_standard() {
        // RFC 6455, section 5.7, and RFC 7692, section 7.2.3.1.
        let mut head = [0; 10];
        for (kind, size, compressed, expected) in [
            (Kind::Text, 5, false, [0x81, 0x05]),
            (Kind::Ping, 5, false, [0x89, 0x05]),
            (Kind::Pong, 5, false, [0x8a, 0x05]),
            (Kind::Text, 7, true, [0xc1, 0x07]),
        ] {
            assert_eq!(frame(kind, size, compressed, &mut head), 2);
            assert_eq!(head[..2], expected);
        }
        assert_eq!(frame(Kind::Binary, 256, false, &mut head), 4);
        assert_eq!(head[..4], [0x82, 0x7e, 0x01, 0x00]);
        assert_eq!(frame(Kind::Binary, 65_536, false, &mut head), 10);
        assert_eq!(head, [0x82, 0x7f, 0, 0, 0, 0, 0, 1, 0, 0]);
    }

    #[test]
    fn a_close_has_a_valid_code_and_a_reason_that_fits() {
        let mut payload = [0; CLOSE_PAYLOAD];
        assert_eq!(close(1000, "bye", &mut payload), 5);
        assert_eq!(payload[..5], *b"\x03\xe8bye");
        for code in [0, 999, 1004, 1005, 1006, 1015, 2999, 5000, u16::MAX] {
            assert_eq!(close(code, "bye", &mut payload), 0, "{code}");
        }
        assert_eq!(close(1000, &"a".repeat(123), &mut payload), 125);
        assert_eq!(close(1000, &"a".repeat(124), &mut payload), 125);
        // Two bytes each, so the 62nd would end at byte 124.
        assert_eq!(close(1000, &"é".repeat(70), &mut payload), 124);
        assert_eq!(std::str::from_utf8(&payload[2..124]), Ok(&*"é".repeat(61)));
    }
}
