//! Content codings (RFC 9110, section 8.4.1) and their weights in Accept-Encoding.

use crate::list::{members, trim};
use crate::weight;

/// A content coding of responses.
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

    /// The coding with this name, whatever its case. A recipient takes `x-gzip` for `gzip` (section 8.4.1.3).
    #[must_use]
    pub fn named(name: &[u8]) -> Option<Self> {
        let named = Self::ALL.into_iter().find(|coding| name.eq_ignore_ascii_case(coding.name().as_bytes()));
        named.or_else(|| name.eq_ignore_ascii_case(b"x-gzip").then_some(Self::Gzip))
    }
}

/// The weights of codings in Accept-Encoding (RFC 9110, section 12.5.3), in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcceptedCodings {
    coded: [Option<u16>; Coding::ALL.len()],
    /// The weight of `identity`, if a member names it.
    pub identity: Option<u16>,
    /// The weight of `*`, which stands for all codings that no member names.
    pub any: Option<u16>,
}

impl AcceptedCodings {
    /// Reads the values of all lines of the field, in their order. Members that are invalid, or unknown, count for nothing; of
    /// two members with the same name, the last one counts. This function allocates nothing.
    #[must_use]
    pub fn read<'a>(values: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut accepted = Self::default();
        for member in values.flat_map(members) {
            let mut parts = member.split(|byte| *byte == b';').map(trim);
            let name = parts.next().unwrap_or_default();
            let (Some(weight), None) = (parts.next().map_or(Some(1000), weight), parts.next()) else { continue };
            let entry = if name == b"*" {
                &mut accepted.any
            } else if name.eq_ignore_ascii_case(b"identity") {
                &mut accepted.identity
            } else if let Some(coding) = Coding::named(name) {
                &mut accepted.coded[coding as usize]
            } else {
                continue;
            };
            *entry = Some(weight);
        }
        accepted
    }

    /// The weight of a coding: 0 if the client does not accept it.
    #[must_use]
    pub fn weight(&self, coding: Coding) -> u16 {
        self.coded[coding as usize].or(self.any).unwrap_or(0)
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
        }
        assert_eq!(Coding::named(b"X-GZip"), Some(Coding::Gzip));
        for other in ["", "identity", "*", "x-br", "gzip ", "deflate", "compress"] {
            assert_eq!(Coding::named(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn the_last_valid_member_of_a_name_counts() {
        let read = |values: &[&str]| AcceptedCodings::read(values.iter().map(|value| value.as_bytes()));
        let accepted = read(&["gzip;q=0.2, gzip;q=0.3, x-gzip ; Q=0.4, *;q=0.1", "identity;q=0, br;q=2, br;level=1;q=1"]);
        assert_eq!(Coding::ALL.map(|coding| accepted.weight(coding)), [400, 100, 100]);
        assert_eq!((accepted.identity, accepted.any), (Some(0), Some(100)));
        assert_eq!(read(&[]), AcceptedCodings::default());
        assert_eq!(read(&["gzip;q=0.5;level=9", "zstd;", "br;q"]), AcceptedCodings::default());
    }
}
