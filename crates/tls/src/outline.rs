//! The parts of a certificate (RFC 5280, section 4.1).

use crate::der::{INTEGER, SEQUENCE, element, expect, numbered};

const VERSION: u8 = numbered(0);

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
