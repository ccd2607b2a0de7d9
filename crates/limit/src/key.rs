//! The keys of clients.

use core::hash::Hasher;
use core::net::{IpAddr, Ipv6Addr};
use siphasher::sip::SipHasher13;

/// The hash of a client, of a value, or of all requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(u64);

impl Key {
    /// The index of the set of this key, of so many sets.
    pub(crate) const fn set(self, sets: usize) -> usize {
        (((self.0 >> 32) * sets as u64) >> 32) as usize
    }

    /// The lowest bits of the hash. Never zero, which is the content of new memory.
    pub(crate) const fn tag(self, bits: u32) -> u64 {
        let tag = self.0 & ((1 << bits) - 1);
        if tag == 0 { 1 } else { tag }
    }
}

/// The first bits of an IPv6 address by which clients are told apart: the prefix that a network at home has (RFC 6177).
pub const IPV6_PREFIX: u8 = 64;

/// Returns the address that all clients have in common that count as one: all of an IPv4 address, or the first `ipv6_prefix` bits
/// of an IPv6 address. An IPv4-mapped address (`::ffff:192.0.2.1`) is one of IPv4.
#[must_use]
pub fn client_network(address: IpAddr, ipv6_prefix: u8) -> IpAddr {
    match address.to_canonical() {
        address @ IpAddr::V4(_) => address,
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(ipv6_prefix.into())).unwrap_or(0);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
    }
}

/// Makes keys by a hash whose own key is secret, so that clients cannot choose keys that collide (SipHash-1-3).
#[derive(Clone, Copy)]
pub struct Keys {
    secret: [u8; 16],
    ipv6_prefix: u8,
}

impl Keys {
    /// Makes keys with this secret, which must be random, and the same in all processes that share a table.
    #[must_use]
    pub const fn new(secret: [u8; 16]) -> Self {
        Self { secret, ipv6_prefix: IPV6_PREFIX }
    }

    /// Takes clients with the same first `bits` bits of an IPv6 address for one. Default: [`IPV6_PREFIX`]; values above 128 count as
    /// 128.
    #[must_use]
    pub const fn with_ipv6_prefix(self, bits: u8) -> Self {
        Self { ipv6_prefix: if bits > 128 { 128 } else { bits }, ..self }
    }

    /// The key of a client: see [`client_network`].
    #[must_use]
    pub fn of_client(&self, address: IpAddr) -> Key {
        match client_network(address, self.ipv6_prefix) {
            IpAddr::V4(address) => self.hash(4, &address.octets()),
            IpAddr::V6(network) => self.hash(6, &network.octets()),
        }
    }

    /// The key of a value, such as that of a field.
    #[must_use]
    pub fn of_value(&self, value: &[u8]) -> Key {
        self.hash(1, value)
    }

    /// The one key of a rule for all requests together.
    #[must_use]
    pub fn of_all(&self) -> Key {
        self.hash(0, b"")
    }

    fn hash(&self, kind: u8, bytes: &[u8]) -> Key {
        let mut hasher = SipHasher13::new_with_key(&self.secret);
        hasher.write_u8(kind);
        hasher.write(bytes);
        Key(hasher.finish())
    }
}

impl core::fmt::Debug for Keys {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.debug_struct("Keys").field("ipv6_prefix", &self.ipv6_prefix).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(keys: Keys, address: &str) -> Key {
        keys.of_client(address.parse().expect("an address"))
    }

    #[test]
    fn a_client_is_an_ipv4_address_or_a_prefix_of_ipv6() {
        let keys = Keys::new([1; 16]);
        for (one, other, same) in [
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("192.0.2.1", "::192.0.2.1", false),
            ("2001:db8::1", "2001:db8::ffff:0:0:1", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
        ] {
            assert_eq!(key(keys, one) == key(keys, other), same, "{one} {other}");
        }
    }

    #[test]
    fn the_prefix_has_any_length() {
        for (bits, one, other) in
            [(0, "::1", "ff::"), (48, "1:2:3::", "1:2:3:4::"), (127, "1::2", "1::3"), (63, "1::", "1:0:0:1::")]
        {
            let keys = Keys::new([1; 16]).with_ipv6_prefix(bits);
            assert_eq!(key(keys, one), key(keys, other), "{bits}");
            let longer = Keys::new([1; 16]).with_ipv6_prefix(bits + 1);
            assert_ne!(key(longer, "8000::"), key(longer, "::"), "{bits}");
        }
        for bits in [128, 129, 255] {
            let keys = Keys::new([1; 16]).with_ipv6_prefix(bits);
            assert_ne!(key(keys, "1::2"), key(keys, "1::3"));
        }
    }

    #[test]
    fn kinds_and_secrets_make_other_keys() {
        let (keys, others) = (Keys::new([1; 16]), Keys::new([2; 16]));
        let all = [
            keys.of_all(),
            keys.of_value(b""),
            keys.of_value(&[192, 0, 2, 1]),
            key(keys, "192.0.2.1"),
            key(keys, "c000:201::"),
            others.of_all(),
            others.of_value(b""),
        ];
        for (index, key) in all.iter().enumerate() {
            assert!(!all[..index].contains(key), "{index}");
        }
        assert!(!format!("{keys:?}").contains('1'), "the secret is not shown");
    }

    #[test]
    fn sets_are_in_range_and_tags_are_not_zero() {
        for hash in [0, 1, u64::MAX, 1 << 63, u64::from(u32::MAX) << 32] {
            for sets in [1, 2, 7, 1 << 20] {
                assert!(Key(hash).set(sets) < sets);
            }
            assert!((1..1 << 24).contains(&Key(hash).tag(24)));
        }
    }
}
