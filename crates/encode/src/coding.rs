//! The content codings that this crate can make.

use std::ops::RangeInclusive;

/// A content coding (RFC 9110, section 8.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// Gzip (RFC 1952).
    Gzip,
    /// Brotli (RFC 7932).
    Brotli,
    /// Zstandard (RFC 8878).
    Zstd,
}

impl Coding {
    /// All codings.
    pub const ALL: [Self; 3] = [Self::Gzip, Self::Brotli, Self::Zstd];

    /// The name as in Content-Encoding and Accept-Encoding.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }

    /// The levels that an [`Encoder`](crate::Encoder) has. Higher ones take more time, and make less output. Brotli begins at
    /// 2, because the algorithms below need other memory, and ends at 6, because the tables of an encoder grow from 2 MiB to 8
    /// MiB at 7. Zstandard has more levels, which take too long for content that a client waits for.
    #[must_use]
    pub const fn levels(self) -> RangeInclusive<u8> {
        match self {
            Self::Gzip | Self::Zstd => 1..=9,
            Self::Brotli => 2..=6,
        }
    }

    /// The level that suits content that is made for each request. `examples/encode_cost.rs` measures them all: of HTML of 256
    /// KiB, gzip makes 17.3 % at level 5, and 17.0 % at 6 in half more time; brotli makes 17.6 % at 4, and 16.6 % at 5 in
    /// nearly twice the time, with more memory; zstd makes 18.1 % at 3, and 17.2 % at 5 in three times the time.
    #[must_use]
    pub const fn default_level(self) -> u8 {
        match self {
            Self::Gzip => 5,
            Self::Brotli => 4,
            Self::Zstd => 3,
        }
    }

    /// The coding with this name, whatever its case. A recipient takes `x-gzip` for `gzip` (RFC 9110, section 8.4.1.3).
    pub(crate) fn named(name: &[u8]) -> Option<Self> {
        let named = Self::ALL.into_iter().find(|coding| name.eq_ignore_ascii_case(coding.name().as_bytes()));
        named.or_else(|| name.eq_ignore_ascii_case(b"x-gzip").then_some(Self::Gzip))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_back_to_its_coding() {
        for coding in Coding::ALL {
            assert_eq!(Coding::named(coding.name().as_bytes()), Some(coding));
            assert_eq!(Coding::named(coding.name().to_uppercase().as_bytes()), Some(coding));
            assert!(coding.levels().contains(&coding.default_level()));
        }
        assert_eq!(Coding::named(b"X-GZip"), Some(Coding::Gzip));
        for other in ["", "identity", "*", "x-br", "gzip ", "deflate", "compress"] {
            assert_eq!(Coding::named(other.as_bytes()), None, "{other}");
        }
    }
}
