//! The parts of a certificate (X.690, section 8; RFC 5280, section 4.1).

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const IDENTIFIER: u8 = 0x06;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;
const VERSION: u8 = 0xa0;

/// Slices of a certificate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outline<'a> {
    pub(crate) serial: &'a [u8],
    pub(crate) issuer: &'a [u8],
    /// The time from which it is valid, and the time of its end.
    pub(crate) times: &'a [u8],
    pub(crate) subject: &'a [u8],
}

impl<'a> Outline<'a> {
    /// `None` if the bytes are not a certificate.
    pub(crate) fn of(certificate: &'a [u8]) -> Option<Self> {
        let signed = expect(SEQUENCE, expect(SEQUENCE, certificate)?.0)?.0;
        let rest = match element(signed)? {
            (VERSION, _, behind) => behind,
            _ => signed,
        };
        let (serial, rest) = expect(INTEGER, rest)?;
        let (_algorithm, rest) = expect(SEQUENCE, rest)?;
        let (issuer, rest) = expect(SEQUENCE, rest)?;
        let (times, rest) = expect(SEQUENCE, rest)?;
        let (subject, _) = expect(SEQUENCE, rest)?;
        Some(Self { serial, issuer, times, subject })
    }
}

/// The content of the first element, if it has this tag, and the bytes after it.
pub(crate) fn expect(tag: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    element(bytes).filter(|(found, _, _)| *found == tag).map(|(_, content, behind)| (content, behind))
}

/// The first element: its tag, its content, and the bytes after it.
pub(crate) fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = bytes.split_first_chunk::<2>()?;
    let (size, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |size, &digit| size << 8 | usize::from(digit)), rest)
        }
        _ => return None,
    };
    let (content, behind) = rest.split_at_checked(size)?;
    Some((tag, content, behind))
}
