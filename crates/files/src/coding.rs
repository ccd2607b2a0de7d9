//! Chooses the coding of a file that a client gets (RFC 9110, section 12.5.3).

use crate::selection::Selection;
use oribi_message::KnownField::AcceptEncoding;
use oribi_message::{AcceptedCodings, Coding};

/// The codings of stored files, the one first that mostly makes the smallest: a client that likes several equally gets that one.
pub const STORED_CODINGS: [Coding; 3] = [Coding::Brotli, Coding::Zstd, Coding::Gzip];

/// The suffix of the name of a file that is stored in this coding.
#[must_use]
pub const fn suffix(coding: Coding) -> &'static str {
    match coding {
        Coding::Brotli => ".br",
        Coding::Zstd => ".zst",
        Coding::Gzip => ".gz",
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
    let accepted = AcceptedCodings::read(selection.lines(AcceptEncoding));
    let mut best = (Choice::None, 0);
    for coding in STORED_CODINGS {
        let weight = accepted.weight(coding);
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

#[cfg(test)]
mod tests {
    use super::*;
    use Choice::{Coded, Identity, None as Nothing};
    use Coding::{Brotli, Gzip, Zstd};

    fn chosen(values: &[&str], there: &[Coding]) -> Choice {
        let selection = Selection::of(values.iter().map(|value| (AcceptEncoding, value.as_bytes())));
        choose(&selection, |coding| there.contains(&coding))
    }

    #[test]
    fn the_best_that_is_accepted() {
        for (value, expected) in [
            ("gzip, deflate, br, zstd", Coded(Brotli)),
            ("gzip, deflate, zstd", Coded(Zstd)),
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
            ("*;q=0.1, br;q=0", Coded(Zstd)),
            ("br;q=0, *", Coded(Zstd)),
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
