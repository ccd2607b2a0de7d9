//! The texts around the messages that a subscriber gets, so that one message can reach subscribers who each know a channel by
//! another name.

/// The most bytes of an envelope.
pub const LARGEST_ENVELOPE: usize = 8 << 10;

/// Two texts, before and after each message of text to a channel. Other kinds of messages are sent without them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// UTF-8.
    pub prefix: &'a [u8],
    /// UTF-8.
    pub suffix: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// The number of bytes of both texts.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.prefix.len() + self.suffix.len()
    }

    /// Appends it: the size of the prefix in two big-endian bytes, the prefix, and the suffix.
    pub fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&(self.prefix.len() as u16).to_be_bytes());
        bytes.extend_from_slice(self.prefix);
        bytes.extend_from_slice(self.suffix);
    }

    /// Reads it; `None` if the bytes are none.
    #[must_use]
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let (size, rest) = bytes.split_first_chunk::<2>()?;
        let (prefix, suffix) = rest.split_at_checked(usize::from(u16::from_be_bytes(*size)))?;
        Some(Self { prefix, suffix })
    }

    /// Returns a message between both texts.
    #[must_use]
    pub fn around(&self, message: &[u8]) -> Vec<u8> {
        [self.prefix, message, self.suffix].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::Envelope;

    #[test]
    fn it_is_read_as_it_was_written() {
        for envelope in [Envelope::default(), Envelope { prefix: b"<", suffix: b"/>" }, Envelope { prefix: b"", suffix: b"." }]
        {
            let mut bytes = Vec::new();
            envelope.write(&mut bytes);
            assert_eq!(Envelope::read(&bytes), Some(envelope));
        }
        assert_eq!(Envelope::read(b"\0"), None);
        assert_eq!(Envelope::read(b"\0\x03ab"), None);
        assert_eq!(Envelope { prefix: b"<", suffix: b"/>" }.around(b"a"), b"<a/>");
    }
}
