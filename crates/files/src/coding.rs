//! Chooses the coding of a file that a client gets (RFC 9110, section 12.5.3).

use crate::list::{elements, trim};
use crate::selection::Selection;
use oribi_message::KnownField::AcceptEncoding;
use oribi_message::weight;

/// A content coding of stored files; the first one mostly makes the smallest files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// Brotli (RFC 7932).
    Brotli,
    /// Zstandard (RFC 8878).
    Zstandard,
    /// Gzip (RFC 1952).
    Gzip,
}

impl Coding {
    /// All codings; a client that likes several equally gets the first of these.
    pub const ALL: [Self; 3] = [Self::Brotli, Self::Zstandard, Self::Gzip];

    /// The name as in Content-Encoding.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Zstandard => "zstd",
            Self::Gzip => "gzip",
        }
    }

    /// The suffix of the name of a file that is stored in this coding.
    #[must_use]
    pub const fn ending(self) -> &'static str {
        match self {
            Self::Brotli => ".br",
            Self::Zstandard => ".zst",
            Self::Gzip => ".gz",
        }
    }

    fn is(self, name: &[u8]) -> bool {
        // A recipient takes x-gzip for gzip (section 8.4.1.3).
        name.eq_ignore_ascii_case(self.name().as_bytes()) || (self == Self::Gzip && name.eq_ignore_ascii_case(b"x-gzip"))
    }
}

/// The variant to send to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The unencoded file.
    Identity,
    /// A compressed variant of the file.
    Coded(Coding),
    /// The client accepts no existing variant.
    None,
}

/// Chooses among the file itself and its variants.
#[must_use]
pub fn choose(selection: &Selection<'_>, is_there: impl Fn(Coding) -> bool) -> Choice {
    if !selection.has(AcceptEncoding) {
        // The RFC allows any coding here; but such clients are mostly too simple to decode any.
        return Choice::Identity;
    }
    let accepted = Accepted::read(selection.lines(AcceptEncoding));
    let mut best = (Choice::None, 0);
    for (index, coding) in Coding::ALL.into_iter().enumerate() {
        let weight = accepted.coded[index].or(accepted.any).unwrap_or(0);
        if weight > best.1 && is_there(coding) {
            best = (Choice::Coded(coding), weight);
        }
    }
    // If the field does not mention identity, the unencoded file is acceptable, but any coding that the client names is
    // better.
    let identity = match accepted.identity {
        Some(weight) => weight,
        None if accepted.any == Some(0) => 0,
        None => 1,
    };
    if identity > best.1 { Choice::Identity } else { best.0 }
}

/// The accepted codings with their weights, in thousandths.
#[derive(Default)]
struct Accepted {
    coded: [Option<u16>; Coding::ALL.len()],
    identity: Option<u16>,
    any: Option<u16>,
}

impl Accepted {
    fn read<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut accepted = Self::default();
        for element in lines.flat_map(elements) {
            let mut parts = element.split(|byte| *byte == b';').map(trim);
            let name = parts.next().unwrap_or_default();
            // An element whose weight is invalid is ignored.
            let Some(weight) = parts.next().map_or(Some(1000), weight) else { continue };
            let place = if name == b"*" {
                &mut accepted.any
            } else if name.eq_ignore_ascii_case(b"identity") {
                &mut accepted.identity
            } else if let Some(index) = Coding::ALL.iter().position(|coding| coding.is(name)) {
                &mut accepted.coded[index]
            } else {
                continue;
            };
            *place = Some(weight);
        }
        accepted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Choice::{Coded, Identity, None as Nothing};
    use Coding::{Brotli, Gzip, Zstandard};

    fn chosen(values: &[&str], there: &[Coding]) -> Choice {
        let selection = Selection::of(values.iter().map(|value| (AcceptEncoding, value.as_bytes())));
        choose(&selection, |coding| there.contains(&coding))
    }

    #[test]
    fn the_best_that_is_accepted() {
        for (value, expected) in [
            ("gzip, deflate, br, zstd", Coded(Brotli)),
            ("gzip, deflate, zstd", Coded(Zstandard)),
            ("gzip", Coded(Gzip)),
            ("X-GZIP", Coded(Gzip)),
            ("gzip;q=1.0, br;q=0.9", Coded(Gzip)),
            ("br;q=0.5, gzip;q=0.500, identity;q=0.2", Coded(Brotli)),
            ("gzip;q=0.001", Coded(Gzip)),
            ("identity, gzip;q=0.5", Identity),
            ("gzip; q=0.5, identity; q=0.500", Coded(Gzip)),
            ("gzip;q=0", Identity),
            ("br;q=0, gzip;q=0, zstd;q=0", Identity),
            ("deflate", Identity),
            ("", Identity),
            ("*", Coded(Brotli)),
            ("*;q=0.1, br;q=0", Coded(Zstandard)),
            ("br;q=0, *", Coded(Zstandard)),
            ("compress, gzip;q=2", Identity),
            ("gzip;q=1.001", Identity),
            ("gzip;level=9", Identity),
            ("identity;q=0", Nothing),
            ("identity;q=0, gzip", Coded(Gzip)),
            ("*;q=0", Nothing),
            ("*;q=0, identity", Identity),
            ("*;q=0, gzip", Coded(Gzip)),
            ("br, identity;q=0, *;q=0", Coded(Brotli)),
        ] {
            assert_eq!(chosen(&[value], &Coding::ALL), expected, "{value}");
        }
        assert_eq!(chosen(&[], &Coding::ALL), Identity, "without the field");
        assert_eq!(chosen(&["br", "gzip;q=0.5"], &[Gzip]), Coded(Gzip), "lines add up");
    }

    #[test]
    fn only_what_is_there() {
        assert_eq!(chosen(&["br, gzip"], &[]), Identity);
        assert_eq!(chosen(&["br, gzip;q=0.1"], &[Gzip]), Coded(Gzip));
        assert_eq!(chosen(&["br, identity;q=0"], &[Gzip]), Nothing);
        assert_eq!(chosen(&["*"], &[]), Identity);
    }
}
