//! Ranges of addresses as networks.

use std::net::IpAddr;

/// The first and the last address of a range, as numbers, and their number of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    first: u128,
    last: u128,
    width: u32,
}

const V4: Range = Range { first: 0, last: u32::MAX as u128, width: 32 };
const V6: Range = Range { first: 0, last: u128::MAX, width: 128 };

impl Range {
    /// Reads an address, a network or a range.
    fn read(text: &str) -> Option<Self> {
        if let Some((first, last)) = text.split_once('-') {
            return Self::between(first.trim().parse().ok()?, last.trim().parse().ok()?);
        }
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let whole = Self::between(address.parse().ok()?, address.parse().ok()?)?;
        let bits: u32 = bits.map_or(Some(whole.width), |bits| bits.parse().ok().filter(|bits| *bits <= whole.width))?;
        let hosts = 1_u128.checked_shl(whole.width - bits).map_or(u128::MAX, |size| size - 1);
        Some(Self { first: whole.first & !hosts, last: whole.first | hosts, ..whole })
    }

    fn between(first: IpAddr, last: IpAddr) -> Option<Self> {
        let (first, last, width) = match (first, last) {
            (IpAddr::V4(first), IpAddr::V4(last)) => (u128::from(u32::from(first)), u128::from(u32::from(last)), 32),
            (IpAddr::V6(first), IpAddr::V6(last)) => (u128::from(first), u128::from(last), 128),
            _ => return None,
        };
        (first <= last).then_some(Self { first, last, width })
    }

    /// The parts that another range does not have.
    fn without(self, other: Self) -> impl Iterator<Item = Self> {
        let apart = self.width != other.width || other.last < self.first || self.last < other.first;
        let before = (!apart && self.first < other.first).then(|| Self { last: other.first - 1, ..self });
        let behind = (!apart && other.last < self.last).then(|| Self { first: other.last + 1, ..self });
        apart.then_some(self).into_iter().chain(before).chain(behind)
    }

    fn networks(self) -> Vec<String> {
        let Self { first: mut start, last: end, width } = self;
        let mut list = Vec::new();
        while start <= end {
            let mut bits = start.trailing_zeros().min(width);
            let last_of = |bits: u32| start | 1_u128.checked_shl(bits).map_or(u128::MAX, |size| size - 1);
            while last_of(bits) > end {
                bits -= 1;
            }
            let address = match u32::try_from(start) {
                Ok(start) if width == 32 => IpAddr::V4(start.into()),
                _ => IpAddr::V6(start.into()),
            };
            list.push(format!("{address}/{}", width - bits));
            let Some(next) = last_of(bits).checked_add(1) else { break };
            start = next;
        }
        list
    }
}

/// The networks of a range of addresses.
pub(super) fn networks(first: IpAddr, last: IpAddr) -> Option<Vec<String>> {
    Range::between(first, last).map(Range::networks)
}

/// The networks of patterns, some of which may begin with `!`. `None`: there is a pattern that is none of addresses.
pub(super) fn of_sources(patterns: &[&str]) -> Option<Vec<String>> {
    let (negative, positive): (Vec<&str>, Vec<&str>) = patterns.iter().partition(|pattern| pattern.starts_with('!'));
    let unix = |pattern: &&str| pattern.trim_start_matches('!') == "unix";
    if negative.is_empty() {
        // As they were written.
        let written = positive.iter().map(|pattern| match pattern.contains('-') {
            true => Range::read(pattern).map(Range::networks),
            false => (unix(pattern) || Range::read(pattern).is_some()).then(|| vec![(*pattern).to_owned()]),
        });
        return written.collect::<Option<Vec<_>>>().map(|lists| lists.concat());
    }
    let ranges = |list: &[&str]| {
        let addresses = list.iter().filter(|pattern| !unix(pattern));
        addresses.map(|pattern| Range::read(pattern.trim_start_matches('!'))).collect::<Option<Vec<_>>>()
    };
    let (mut left, removed) = (ranges(&positive)?, ranges(&negative)?);
    if positive.is_empty() {
        left = vec![V4, V6];
    }
    for other in removed {
        left = left.into_iter().flat_map(|range| range.without(other)).collect();
    }
    let mut list: Vec<String> = left.into_iter().flat_map(Range::networks).collect();
    if (positive.is_empty() || positive.iter().any(unix)) && !negative.iter().any(unix) {
        list.push("unix".to_owned());
    }
    Some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_with_a_sign_takes_addresses_away() {
        for (patterns, expected) in [
            (&["10.0.0.0/8", "!10.128.0.0/9"][..], Some("10.0.0.0/9")),
            (&["10.0.0.0/30", "!10.0.0.1"], Some("10.0.0.0/32 10.0.0.2/31")),
            (&["10.0.0.1", "unix", "!::1"], Some("10.0.0.1/32 unix")),
            (&["10.0.0.1", "!10.0.0.0-10.0.0.9"], Some("")),
            (&["!0.0.0.0/0", "!unix"], Some("::/0")),
            (&["!0.0.0.0/0"], Some("::/0 unix")),
            (&["10.0.0.1", "10.0.0.2-10.0.0.3", "unix"], Some("10.0.0.1 10.0.0.2/31 unix")),
            (&["10.0.0.1:80"], None),
            (&["10.0.0.0/33"], None),
            (&["!x", "10.0.0.1"], None),
        ] {
            assert_eq!(of_sources(patterns).map(|list| list.join(" ")).as_deref(), expected, "{patterns:?}");
        }
        let all = of_sources(&["!255.255.255.255", "!::"]).expect("networks");
        assert_eq!((all.len(), &*all[0]), (32 + 128 + 1, "0.0.0.0/1"));
    }

    #[test]
    fn a_range_of_addresses_is_some_networks() {
        let networks =
            |first: &str, last: &str| networks(first.parse().expect("an address"), last.parse().expect("an address"));
        let list = |text: &str| Some(text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(networks("10.0.0.1", "10.0.0.6"), list("10.0.0.1/32 10.0.0.2/31 10.0.0.4/31 10.0.0.6/32"));
        assert_eq!(networks("0.0.0.0", "255.255.255.255"), list("0.0.0.0/0"));
        assert_eq!(networks("10.0.0.2", "10.0.0.1"), None);
        assert_eq!(networks("::1", "::4"), list("::1/128 ::2/127 ::4/128"));
        assert_eq!(networks("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), list("::/0"));
        assert_eq!(networks("::", "1.2.3.4"), None);
    }
}
