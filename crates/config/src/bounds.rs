//! The bounds of the buckets in which times of requests are counted.

use std::time::Duration;

/// The bounds of the first decade, in units of 100 nanoseconds: round numbers, each at most a quarter more than the one before.
const MANTISSAS: [u64; 16] = [100, 115, 130, 150, 175, 200, 225, 250, 300, 350, 400, 500, 600, 700, 800, 900];

/// The number of decades, from 10 microseconds to 100 seconds.
const DECADES: usize = 7;

/// The number of bounds.
pub const BOUNDS: usize = MANTISSAS.len() * DECADES + 1;

/// The bounds in nanoseconds.
pub const NANOSECONDS: [u64; BOUNDS] = {
    let mut bounds = [0; BOUNDS];
    let (mut index, mut unit) = (0, 100);
    while index < BOUNDS {
        bounds[index] = MANTISSAS[index % MANTISSAS.len()] * unit;
        index += 1;
        if index % MANTISSAS.len() == 0 {
            unit *= 10;
        }
    }
    bounds
};

/// A bound, as an index into [`NANOSECONDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bound(u8);

impl Bound {
    /// All bounds, the shortest first.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..BOUNDS as u8).map(Self)
    }

    /// The time of this bound.
    pub fn time(self) -> Duration {
        Duration::from_nanos(NANOSECONDS[usize::from(self.0)])
    }

    /// The index of the bound, from the shortest on.
    #[inline]
    pub fn number(self) -> usize {
        usize::from(self.0)
    }

    /// Returns the bound with exactly this time.
    ///
    /// # Errors
    /// If there is no such bound: the nearest lower and the nearest higher bound.
    pub fn at(time: Duration) -> Result<Self, (Self, Self)> {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let above = NANOSECONDS.partition_point(|bound| *bound < nanoseconds).min(BOUNDS - 1);
        let [below, bound] = [above.saturating_sub(1), above].map(|index| Self(index as u8));
        if NANOSECONDS[above] == nanoseconds { Ok(bound) } else { Err((below, bound)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_found_by_their_times() {
        for bound in Bound::all() {
            assert_eq!(Bound::at(bound.time()), Ok(bound));
        }
        let near =
            |milliseconds| Bound::at(Duration::from_millis(milliseconds)).map_err(|(low, high)| (low.time(), high.time()));
        assert_eq!(near(47), Err((Duration::from_millis(40), Duration::from_millis(50))));
        assert_eq!(near(500_000), Err((Duration::from_secs(90), Duration::from_secs(100))));
        assert_eq!(near(0).map_err(|(low, _)| low), Err(Duration::from_micros(10)));
    }
}
