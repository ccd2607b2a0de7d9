//! Chooses the coding of a response from Accept-Encoding (RFC 9110, section 12.5.3).

use crate::Coding;
use oribi_message::AcceptedCodings;

/// The coding in which a response is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Choice {
    /// No coding: the content as it is.
    Identity,
    /// This coding.
    Coded(Coding),
}

/// Chooses the coding with the highest weight among the `offered` ones, of which the first wins among equals. The values are
/// those of all lines of Accept-Encoding, in their order.
///
/// The choice is [`Choice::Identity`] without a value, because clients that send none mostly cannot decode anything; if
/// `identity` has a higher weight than every offered coding; and if the client accepts no offered coding, even if it does not
/// accept `identity` either: section 12.5.3 advises to send it then. This function allocates nothing.
#[must_use]
pub fn negotiate<'a>(accept_encoding: impl Iterator<Item = &'a [u8]>, offered: &[Coding]) -> Choice {
    let accepted = AcceptedCodings::read(accept_encoding);
    let mut best = (Choice::Identity, 0);
    for coding in offered {
        let weight = accepted.weight(*coding);
        if weight > best.1 {
            best = (Choice::Coded(*coding), weight);
        }
    }
    // `*` also stands for `identity`, but a client that sends `*` alone wants any coding; an equal weight decides for it.
    if accepted.identity.unwrap_or(0) > best.1 { Choice::Identity } else { best.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Choice::{Coded, Identity};
    use Coding::{Brotli, Gzip, Zstd};

    fn chosen(values: &[&str], offered: &[Coding]) -> Choice {
        negotiate(values.iter().map(|value| value.as_bytes()), offered)
    }

    #[test]
    fn the_highest_weight_wins() {
        for (value, expected) in [
            ("gzip, deflate, br, zstd", Coded(Zstd)),
            ("gzip, deflate, br", Coded(Brotli)),
            ("gzip", Coded(Gzip)),
            ("X-GZIP", Coded(Gzip)),
            ("x-gzip;q=0.5, br;q=0.4", Coded(Gzip)),
            ("gzip;q=1.0, br;q=0.9", Coded(Gzip)),
            ("gzip;q=0.001", Coded(Gzip)),
            ("gzip ; q=0.2\t, br;Q=0.3", Coded(Brotli)),
            (",, gzip ,", Coded(Gzip)),
            ("*", Coded(Zstd)),
            ("*;q=0.1, zstd;q=0", Coded(Brotli)),
            ("gzip;q=0.9, *;q=0.8", Coded(Gzip)),
            ("identity, gzip;q=0.5", Identity),
            ("identity;q=0.5, gzip;q=0.5", Coded(Gzip)),
            ("identity;q=0, gzip;q=0.001", Coded(Gzip)),
            ("identity;q=0", Identity),
            ("*;q=0", Identity),
            ("gzip;q=0", Identity),
            ("gzip;q=0, *", Coded(Zstd)),
            ("", Identity),
            ("deflate, compress", Identity),
        ] {
            assert_eq!(chosen(&[value], &[Zstd, Brotli, Gzip]), expected, "{value}");
        }
        assert_eq!(chosen(&[], &Coding::ALL), Identity, "without the field");
    }

    #[test]
    fn invalid_members_count_for_nothing() {
        for invalid in [
            "gzip;q=2",
            "gzip;q=1.001",
            "gzip;q=-1",
            "gzip;q=0.0001",
            "gzip;q=.5",
            "gzip;q=",
            "gzip;q",
            "gzip;",
            "gzip;level=9",
            "gzip;q=0.5;level=9",
            "gzip q=1",
            "gzip;q =1",
            "gzip\0",
            "gz ip",
            "\"gzip\"",
        ] {
            assert_eq!(chosen(&[invalid], &[Gzip]), Identity, "{invalid}");
            assert_eq!(chosen(&[invalid, "br"], &[Gzip, Brotli]), Coded(Brotli), "{invalid}");
        }
    }

    #[test]
    fn the_order_of_the_server_decides_among_equal_weights() {
        for offered in [[Gzip, Brotli, Zstd], [Brotli, Zstd, Gzip], [Zstd, Gzip, Brotli]] {
            assert_eq!(chosen(&["gzip, br, zstd"], &offered), Coded(offered[0]));
            assert_eq!(chosen(&["*"], &offered), Coded(offered[0]));
        }
        assert_eq!(chosen(&["gzip, br, zstd"], &[]), Identity);
        assert_eq!(chosen(&["br, zstd, gzip;q=0.1"], &[Gzip]), Coded(Gzip));
    }

    #[test]
    fn lines_add_up_and_the_last_member_counts() {
        assert_eq!(chosen(&["gzip;q=0.5", "br"], &[Gzip, Brotli]), Coded(Brotli));
        assert_eq!(chosen(&["gzip", "gzip;q=0"], &[Gzip]), Identity);
        assert_eq!(chosen(&["gzip;q=0, x-gzip"], &[Gzip]), Coded(Gzip));
    }
}
