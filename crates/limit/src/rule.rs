//! Rules: how many requests in which time.

use core::fmt;
use core::time::Duration;

/// The largest burst of a [`Rule`].
pub const MOST_BURST: u32 = 1 << 24;

/// The longest time of a [`Rule`]: 366 days.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// How many units a request costs. Times of a rule are counted in units, so that the cost of a request is a whole number for
/// any rate.
pub(crate) const COST: u64 = 256;

/// A limit of the rate of requests: `requests` in the time `per`, evenly spread, and up to `burst` at once (the generic cell
/// rate algorithm). A client that has sent nothing for a while may send `burst` requests at once; after that, it may send
/// another one each `per / requests`. Refused requests do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The number of requests, at least 1.
    pub requests: u32,
    /// The time for so many requests, at most 366 days.
    pub per: Duration,
    /// The most requests at once, from 1 to [`MOST_BURST`].
    pub burst: u32,
}

/// An error: a rule, or the memory of a table, cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidRule {
    /// The number of requests is 0.
    Requests,
    /// The time is 0, or too long.
    Time,
    /// The burst is 0, or too large.
    Burst,
    /// The memory has not even one set of entries for each rule.
    Memory,
}

impl fmt::Display for InvalidRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requests => formatter.write_str("the rate of a limit must be at least 1 request"),
            Self::Time => formatter.write_str("the time of a limit must be more than 0 and at most 366 days"),
            Self::Burst => write!(formatter, "the burst of a limit must be from 1 to {MOST_BURST} requests"),
            Self::Memory => formatter.write_str("the memory for limits is too small for the number of rules"),
        }
    }
}

impl core::error::Error for InvalidRule {}

impl Rule {
    /// Checks the numbers.
    ///
    /// # Errors
    /// One of them is out of its range.
    pub fn check(&self) -> Result<(), InvalidRule> {
        if self.requests == 0 {
            Err(InvalidRule::Requests)
        } else if self.per.is_zero() || self.per > LONGEST {
            Err(InvalidRule::Time)
        } else if !(1..=MOST_BURST).contains(&self.burst) {
            Err(InvalidRule::Burst)
        } else {
            Ok(())
        }
    }

    /// The number of units in `time`, rounded down. The product is below 2^104.
    pub(crate) fn units(&self, time: Duration) -> u64 {
        let nanoseconds = u128::from(time.as_nanos() as u64);
        (nanoseconds * u128::from(self.requests) * u128::from(COST) / self.per.as_nanos()) as u64
    }

    /// The time of so many units, rounded up to nanoseconds.
    pub(crate) fn time(&self, units: u64) -> Duration {
        let nanoseconds = (u128::from(units) * self.per.as_nanos()).div_ceil(u128::from(self.requests) * u128::from(COST));
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }
}
