//! Heads of frames (RFC 6455, section 5.2).

use crate::fault::Mistake;

/// The longest head of a client's frame: 2 bytes, 8 of length, 4 of mask.
pub(crate) const LONGEST: usize = 14;

/// The most bytes in the payload of a control frame (section 5.5).
pub(crate) const CONTROL_PAYLOAD: usize = 125;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opcode {
    Continuation,
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

impl Opcode {
    pub(crate) const fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }

    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Continuation => 0,
            Self::Text => 1,
            Self::Binary => 2,
            Self::Close => 8,
            Self::Ping => 9,
            Self::Pong => 10,
        }
    }

    pub(crate) fn of(byte: u8) -> Result<Self, Mistake> {
        Ok(match byte & 0x0f {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return Err(Mistake::UnknownOpcode),
        })
    }
}

/// The facts of a connection that decide which heads are valid.
#[derive(Clone, Copy)]
pub(crate) struct Expected {
    /// Whether permessage-deflate was agreed upon, so that RSV1 has a meaning (RFC 7692, section 6).
    pub(crate) deflate: bool,
    /// Whether a message has begun that is not finished.
    pub(crate) in_message: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) opcode: Opcode,
    /// Whether the frame is the last one of its message.
    pub(crate) last: bool,
    /// RSV1: the message that begins here is compressed.
    pub(crate) compressed: bool,
    pub(crate) mask: [u8; 4],
    /// The bytes of the payload.
    pub(crate) length: u64,
}

impl Head {
    /// Parses the head at the start of `bytes`, and returns it with its size. None: the head goes on after `bytes`. Each byte
    /// is checked as soon as it is there, so that pieces fail exactly where the whole does.
    pub(crate) fn parse(bytes: &[u8], expected: Expected) -> Result<Option<(Self, usize)>, Mistake> {
        let Some((&first, rest)) = bytes.split_first() else { return Ok(None) };
        let (last, compressed) = (first & 0x80 != 0, first & 0x40 != 0);
        let opcode = Opcode::of(first)?;
        let may_be_compressed = expected.deflate && matches!(opcode, Opcode::Text | Opcode::Binary);
        if first & 0x30 != 0 || compressed && !may_be_compressed {
            return Err(Mistake::ReservedBits);
        }
        match opcode {
            Opcode::Continuation if !expected.in_message => return Err(Mistake::NothingToContinue),
            Opcode::Text | Opcode::Binary if expected.in_message => return Err(Mistake::UnfinishedMessage),
            Opcode::Close | Opcode::Ping | Opcode::Pong if !last => return Err(Mistake::FragmentedControl),
            _ => {}
        }

        let Some((&second, rest)) = rest.split_first() else { return Ok(None) };
        if second & 0x80 == 0 {
            return Err(Mistake::NotMasked);
        }
        let short = second & 0x7f;
        if opcode.is_control() && usize::from(short) > CONTROL_PAYLOAD {
            return Err(Mistake::LongControl);
        }
        let (length, rest) = match short {
            126 => {
                let Some((length, rest)) = rest.split_first_chunk() else { return Ok(None) };
                let length = u64::from(u16::from_be_bytes(*length));
                if length < 126 {
                    return Err(Mistake::LongLength);
                }
                (length, rest)
            }
            127 => {
                // The highest bit is that of the first byte.
                if rest.first().is_some_and(|byte| byte & 0x80 != 0) {
                    return Err(Mistake::HugeLength);
                }
                let Some((length, rest)) = rest.split_first_chunk() else { return Ok(None) };
                let length = u64::from_be_bytes(*length);
                if length <= u64::from(u16::MAX) {
                    return Err(Mistake::LongLength);
                }
                (length, rest)
            }
            short => (u64::from(short), rest),
        };
        let Some((&mask, rest)) = rest.split_first_chunk() else { return Ok(None) };
        Ok(Some((Self { opcode, last, compressed, mask, length }, bytes.len() - rest.len())))
    }
}
