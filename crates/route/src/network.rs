//! Networks of clients.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::net::IpAddr;

const EXPECTED: &str = "bad network; expected an address or a network, such as 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32";

/// The addresses of one family that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Network {
    v4: bool,
    /// The first address; all bits outside of the mask are zero.
    address: u128,
    mask: u128,
}

impl Network {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| EXPECTED.to_owned())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => bits,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().ok().filter(|prefix| *prefix <= bits).ok_or_else(|| EXPECTED.to_owned())?
            }
            Some(_) => return Err(EXPECTED.to_owned()),
        };
        // Addresses of requests are canonical, so a network of mapped addresses is one of IPv4.
        let canonical = address.to_canonical();
        let (address, bits, prefix) = match canonical {
            IpAddr::V4(_) if bits == 128 && prefix >= 96 => (canonical, 32, prefix - 96),
            _ => (address, bits, prefix),
        };
        let (v4, number) = number(address);
        let mask = match bits - prefix {
            128 => 0,
            rest => u128::MAX << rest,
        };
        if number & !mask != 0 {
            return Err("bad network; the bits of the address behind the prefix must be zero".to_owned());
        }
        Ok(Self { v4, address: number, mask })
    }

    /// Whether a canonical address is in the network.
    pub(crate) fn includes(&self, address: IpAddr) -> bool {
        let (v4, number) = number(address);
        self.v4 == v4 && number & self.mask == self.address
    }
}

fn number(address: IpAddr) -> (bool, u128) {
    match address {
        IpAddr::V4(address) => (true, u32::from(address).into()),
        IpAddr::V6(address) => (false, address.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_includes_the_addresses_with_its_prefix() {
        for (network, address, expected) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.4", false),
            ("0.0.0.0/0", "255.1.2.3", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "2001:db8::1", true),
            ("::/0", "10.0.0.1", false),
            ("2001:db8::/33", "2001:db8:7fff::1", true),
            ("2001:db8::/33", "2001:db8:8000::1", false),
            ("::1", "::1", true),
            ("::1", "::2", false),
            ("::ffff:10.0.0.0/104", "10.9.9.9", true),
            ("::ffff:10.0.0.0/104", "11.0.0.0", false),
            ("::ffff:10.0.0.1", "10.0.0.1", true),
        ] {
            let address: IpAddr = address.parse().expect("an address");
            assert_eq!(Network::parse(network).expect("a network").includes(address), expected, "{network} {address}");
        }
    }

    #[test]
    fn a_bad_network_is_an_error() {
        for network in
            ["x", "10.0.0.0/33", "10.0.0/8", "::1/129", "10.0.0.0/", "10.0.0.0/+8", "10.0.0.0/8/8", "/8", "[::1]", "10.0.0.1/8"]
        {
            assert!(Network::parse(network).is_err(), "{network}");
        }
    }
}
