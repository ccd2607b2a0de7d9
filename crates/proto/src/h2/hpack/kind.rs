//! Classifies fields by their names, and decides whether a message may have them (RFC 9113, sections 8.2 and 8.3).

use super::super::error::Malformed;
use crate::h1::target::is_authority;
use crate::h1::{grammar, names};
use oribi_message::{KnownField, Span};

/// The kind of a field. The dynamic table keeps it, so that a field that is sent by its index is not classified again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::h2) enum Kind {
    Method,
    Scheme,
    /// `valid`: the value is a host with an optional port.
    Authority {
        valid: bool,
    },
    Path,
    Protocol,
    /// An ordinary field, and its well-known name if it has one.
    Regular(Option<KnownField>),
    /// A message that has this field is malformed.
    Malformed(Malformed),
}

impl Kind {
    /// The kind of a field with this name and this value.
    #[cfg(test)]
    pub(super) fn of(name: &[u8], value: &[u8]) -> Self {
        Self::of_name(name).with_value(value)
    }

    /// The kind of a field with this name, if its value is valid.
    pub(super) fn of_name(name: &[u8]) -> Self {
        if name.first() == Some(&b':') {
            return match name {
                b":method" => Self::Method,
                b":scheme" => Self::Scheme,
                b":authority" => Self::Authority { valid: false },
                b":path" => Self::Path,
                b":protocol" => Self::Protocol,
                _ => Self::Malformed(Malformed::PseudoUnknown),
            };
        }
        if name.is_empty() {
            return Self::Malformed(Malformed::NameEmpty);
        }
        for &byte in name {
            if !NAME[usize::from(byte)] {
                let upper = byte.is_ascii_uppercase();
                return Self::Malformed(if upper { Malformed::NameUpperCase } else { Malformed::Name });
            }
        }
        Self::of_known(names::find(name).or_else(|| KnownField::lookup(name)))
    }

    /// The kind of an ordinary field.
    pub(super) const fn of_known(known: Option<KnownField>) -> Self {
        use KnownField as F;
        match known {
            // RFC 9113, section 8.2.2.
            Some(F::Connection | F::KeepAlive | F::ProxyConnection | F::TransferEncoding | F::Upgrade) => {
                Self::Malformed(Malformed::ConnectionField)
            }
            known => Self::Regular(known),
        }
    }

    /// Adjusts the kind to the value.
    #[inline]
    pub(super) fn with_value(self, value: &[u8]) -> Self {
        match (self, value) {
            (Self::Malformed(_), _) => self,
            (_, [b' ' | b'\t', ..] | [.., b' ' | b'\t']) => Self::Malformed(Malformed::ValueSpace),
            (Self::Regular(Some(KnownField::Te)), value) if value != b"trailers" => Self::Malformed(Malformed::Te),
            _ if !grammar::is_value(value) => Self::Malformed(Malformed::Value),
            (Self::Authority { .. }, value) => Self::Authority { valid: is_authority(value, Span::new(0, value.len())) },
            _ => self,
        }
    }
}

/// The bytes that a name may have: those of a token except capital letters.
static NAME: [bool; 256] = {
    let mut table = [false; 256];
    let mut index = 0;
    while index < 256 {
        let byte = index as u8;
        table[index] = byte.is_ascii_lowercase() || byte.is_ascii_digit();
        index += 1;
    }
    let others = b"!#$%&'*+-.^_`|~";
    let mut index = 0;
    while index < others.len() {
        table[others[index] as usize] = true;
        index += 1;
    }
    table
};
