//! The levels of encoders.

use crate::Coding;
use std::ops::RangeInclusive;

/// The levels that an [`Encoder`](crate::Encoder) has. Higher ones take more time, and make less output. Brotli begins at
/// 2, because the algorithms below need other memory, and ends at 6, because the tables of an encoder grow from 2 MiB to 8
/// MiB at 7. Zstandard has more levels, which take too long for content that a client waits for.
#[must_use]
pub const fn levels(coding: Coding) -> RangeInclusive<u8> {
    match coding {
        Coding::Gzip | Coding::Zstd => 1..=9,
        Coding::Brotli => 2..=6,
    }
}

/// The level that suits content that is made for each request. `examples/encode_cost.rs` measures them all: of HTML of 256
/// KiB, gzip makes 17.3 % at level 5, and 17.0 % at 6 in half more time; brotli makes 17.6 % at 4, and 16.6 % at 5 in
/// nearly twice the time, with more memory; zstd makes 18.1 % at 3, and 17.2 % at 5 in three times the time.
#[must_use]
pub const fn default_level(coding: Coding) -> u8 {
    match coding {
        Coding::Gzip => 5,
        Coding::Brotli => 4,
        Coding::Zstd => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_coding_has_its_default_level() {
        for coding in Coding::ALL {
            assert!(levels(coding).contains(&default_level(coding)), "{coding:?}");
        }
    }
}
