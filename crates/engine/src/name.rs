//! Names of exchanges: the place of an exchange, and a number that no other exchange of the engine has.

use oribi_host::ExchangeId;

/// The table and index of an exchange's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExchangeIndex {
    /// The current exchange of the connection with this number (HTTP/1).
    Connection(u32),
    /// The stream with this number, which shares its connection with others (FastCGI, HTTP/2).
    Stream(u32),
}

/// The name of an exchange: its place, and a number that no other exchange of this engine has.
///
/// Hosts know the name as an [`ExchangeId`], 64 opaque bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) place: ExchangeIndex,
    pub(super) serial: u32,
}

/// The bit that is set in the lower half of an id if the place is a stream. Numbers of connections and of streams do not reach
/// it: there are not that many descriptors, and a connection has at most 65,535 FastCGI streams.
const STREAM: u32 = 1 << 31;

impl From<Name> for ExchangeId {
    #[inline]
    fn from(name: Name) -> Self {
        let place = match name.place {
            ExchangeIndex::Connection(number) => number,
            ExchangeIndex::Stream(number) => number | STREAM,
        };
        Self(u64::from(name.serial) << 32 | u64::from(place))
    }
}

impl From<ExchangeId> for Name {
    #[inline]
    fn from(id: ExchangeId) -> Self {
        let place = id.0 as u32;
        let place = if place & STREAM == 0 { ExchangeIndex::Connection(place) } else { ExchangeIndex::Stream(place & !STREAM) };
        Self { place, serial: (id.0 >> 32) as u32 }
    }
}

/// Gives every exchange of an engine a unique number.
#[derive(Debug, Default)]
pub(super) struct Serials(u32);

impl Serials {
    /// The next number, never 0, which marks connections that have had no exchange.
    #[inline]
    pub(super) fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(1).max(1);
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{ExchangeIndex, Name, Serials};
    use oribi_host::ExchangeId;

    #[test]
    fn a_name_survives_the_way_to_a_host_and_back() {
        for place in [
            ExchangeIndex::Connection(0),
            ExchangeIndex::Connection((1 << 31) - 1),
            ExchangeIndex::Stream(0),
            ExchangeIndex::Stream(7),
        ] {
            let name = Name { place, serial: u32::MAX };
            assert_eq!(Name::from(ExchangeId::from(name)), name);
        }
    }

    #[test]
    fn no_exchange_is_number_0() {
        let mut serials = Serials(u32::MAX - 1);
        assert_eq!((serials.next(), serials.next(), serials.next()), (u32::MAX, 1, 2));
    }
}
