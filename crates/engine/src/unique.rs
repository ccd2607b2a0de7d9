//! Unique numbers: for ids of requests, traces and spans.

use rustix::rand::{GetRandomFlags, getrandom};
use std::hash::{BuildHasher, RandomState};

/// Numbers of 128 bits that no two engines share: two sequences of 64 bits, each of which has every number once, from a random
/// start. The numbers are not secret.
#[derive(Debug)]
pub(super) struct Numbers([u64; 2]);

impl Numbers {
    pub(super) fn seeded() -> Self {
        let mut bytes = [0; 16];
        let filled = getrandom(&mut bytes, GetRandomFlags::NONBLOCK);
        let (halves, _) = bytes.as_chunks::<8>();
        if filled == Ok(bytes.len()) {
            return Self([u64::from_ne_bytes(halves[0]), u64::from_ne_bytes(halves[1])]);
        }
        // The machine has just started and has no random numbers yet: std has its own keys, which differ from process to
        // process and from call to call.
        Self([0; 2].map(|zero: u64| RandomState::new().hash_one((zero, std::process::id(), std::time::SystemTime::now()))))
    }

    fn next(&mut self) -> [u64; 2] {
        // The addends are odd, so that every number occurs before one repeats.
        let Self([high, low]) = self;
        *high = high.wrapping_add(0x9e37_79b9_7f4a_7c15);
        *low = low.wrapping_add(0xd1b5_4a32_d192_ed03);
        [mixed(*high), mixed(*low)]
    }

    /// The next number, in hexadecimal digits.
    pub(super) fn digits(&mut self) -> [u8; 32] {
        let [high, low] = self.next();
        hexadecimal(u128::from(high) << 64 | u128::from(low))
    }

    /// The id of a trace, and its last half as a number. The id is never zero, which would mean no trace.
    pub(super) fn trace(&mut self) -> ([u8; 32], u64) {
        let [high, low] = self.next();
        (hexadecimal(u128::from(high.max(1)) << 64 | u128::from(low)), low)
    }

    /// The id of a span, which is never zero either.
    pub(super) fn span(&mut self) -> [u8; 16] {
        let [_, low] = self.next();
        hexadecimal(u128::from(low.max(1)))
    }
}

/// The last digits of a number; their count is a multiple of eight.
fn hexadecimal<const DIGITS: usize>(mut number: u128) -> [u8; DIGITS] {
    let mut digits = [0; DIGITS];
    for eight in digits.as_chunks_mut().0.iter_mut().rev() {
        *eight = eight_digits(number as u32);
        number >>= 32;
    }
    digits
}

/// The digits of a number, all at once: each request may need eighty.
const fn eight_digits(number: u32) -> [u8; 8] {
    const EACH: u64 = 0x0101_0101_0101_0101;
    // Four bits into each byte.
    let mut halves = number as u64;
    halves = (halves | halves << 16) & 0x0000_ffff_0000_ffff;
    halves = (halves | halves << 8) & 0x00ff_00ff_00ff_00ff;
    halves = (halves | halves << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    // 1 where a byte is more than 9 and needs a letter.
    let letters = (halves + 6 * EACH) >> 4 & EACH;
    (halves + b'0' as u64 * EACH + letters * (b'a' - b'0' - 10) as u64).to_be_bytes()
}

/// Maps each number to another one: the steps of SplitMix64, each of which is invertible.
const fn mixed(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_number_comes_twice_and_each_engine_has_its_own() {
        let mut engines = [Numbers::seeded(), Numbers::seeded()];
        let ids: HashSet<[u8; 32]> = (0..20_000).map(|turn| engines[turn % 2].digits()).collect();
        assert_eq!(ids.len(), 20_000);
        let spans: HashSet<[u8; 16]> = (0..20_000).map(|turn| engines[turn % 2].span()).collect();
        assert_eq!(spans.len(), 20_000);
        let seeds: HashSet<[u64; 2]> = (0..100).map(|_| Numbers::seeded().0).collect();
        assert_eq!(seeds.len(), 100);
    }

    #[test]
    fn digits() {
        assert_eq!(&hexadecimal::<8>(0x1_0123_abcd), b"0123abcd");
        assert_eq!(&hexadecimal::<16>(0xfedc_ba98_7654_3210), b"fedcba9876543210");
        assert_eq!(&hexadecimal::<32>(u128::MAX - 0xf0), b"ffffffffffffffffffffffffffffff0f");
    }
}
