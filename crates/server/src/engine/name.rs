//! Names of exchanges: which place an exchange has, and which of all exchanges that had this place it is.

use oribi_host::ExchangeId;

/// Where the state of an exchange stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It is the present exchange of the connection with that number (HTTP/1).
    Connection(u32),
    /// It is the stream with that number, which shares its connection with others (FastCGI).
    Stream(u32),
}

/// The name of an exchange, told by the number of its place and a number that no other exchange of this engine has.
///
/// Hosts know it as an [`ExchangeId`], 64 bits that they do not look into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) place: Place,
    pub(super) serial: u32,
}

/// Set in the lower half of an id if the place is a stream's. Neither connections nor streams reach so high a number: there cannot
/// be so many descriptors, and a connection has at most 65,535 streams of FastCGI.
const STREAM: u32 = 1 << 31;

impl From<Name> for ExchangeId {
    #[inline]
    fn from(name: Name) -> Self {
        let place = match name.place {
            Place::Connection(number) => number,
            Place::Stream(number) => number | STREAM,
        };
        Self(u64::from(name.serial) << 32 | u64::from(place))
    }
}

impl From<ExchangeId> for Name {
    #[inline]
    fn from(id: ExchangeId) -> Self {
        let place = id.0 as u32;
        let place = if place & STREAM == 0 { Place::Connection(place) } else { Place::Stream(place & !STREAM) };
        Self { place, serial: (id.0 >> 32) as u32 }
    }
}

/// Gives every exchange of an engine a number of its own.
#[derive(Debug, Default)]
pub(super) struct Serials(u32);

impl Serials {
    /// The next number. None is 0, which connections bear that have had no exchange.
    #[inline]
    pub(super) fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(1).max(1);
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{Name, Place, Serials};
    use oribi_host::ExchangeId;

    #[test]
    fn a_name_survives_the_way_to_a_host_and_back() {
        for place in [Place::Connection(0), Place::Connection((1 << 31) - 1), Place::Stream(0), Place::Stream(7)] {
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
