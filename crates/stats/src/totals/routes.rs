//! Counters of the requests of each route, in memory that the parent process reads: the number of responses by status class,
//! and a histogram of the times.
//!
//! These counters are separate from the other counters, because the number of routes is a setting, and usually zero.

use super::times::{EACH, HISTOGRAM_LINES, Histogram, HistogramAccount, add_saturating};
use oribi_io::process::SharedLine;
use std::array;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The classes of statuses, named by their first digit.
pub const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// The number of lines of the counters by class.
const CLASS_LINES: usize = CLASSES.len().div_ceil(EACH);

/// The number of lines of a route: a counter for each class, and the histogram of the times of all requests.
pub const ROUTE_LINES: usize = CLASS_LINES + HISTOGRAM_LINES;

/// The counters of one route.
#[derive(Clone, Copy, Debug)]
pub(super) struct RouteAccount {
    classes: &'static [SharedLine; CLASS_LINES],
    times: HistogramAccount,
}

impl RouteAccount {
    /// Returns the counters in `lines`.
    #[inline]
    pub(super) fn in_lines(lines: &'static [SharedLine; ROUTE_LINES]) -> Option<Self> {
        let (classes, times) = lines.split_first_chunk()?;
        Some(Self { classes, times: HistogramAccount::in_lines(times.first_chunk()?) })
    }

    #[inline]
    fn word(self, class: usize) -> &'static AtomicU64 {
        &self.classes[class / EACH].words[class % EACH]
    }

    pub(super) fn read(self) -> RouteCounts {
        RouteCounts { classes: array::from_fn(|class| self.word(class).load(Relaxed)), times: self.times.read() }
    }

    /// Adds the numbers in `counts`, a copy of another account.
    pub(super) fn add(self, counts: &RouteCounts) {
        for (class, amount) in counts.classes.iter().enumerate().filter(|(_, amount)| **amount > 0) {
            add_saturating(self.word(class), *amount);
        }
        self.times.add(&counts.times);
    }
}

/// The counters of each route; the index is the number of the route. They belong to one process at a time, and keep their
/// values when a later process takes them over. By default there are no routes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoutesAccount(&'static [[SharedLine; ROUTE_LINES]]);

impl RoutesAccount {
    /// Returns the counters in `lines`, for as many routes as the lines have room for.
    pub(super) fn in_lines(lines: &'static [SharedLine]) -> Self {
        Self(lines.as_chunks().0)
    }

    /// Counts a request of a route, and its time. `status` is the status of its response, or 0 if there was none. `alone`:
    /// whether no other thread counts there.
    #[inline]
    pub(super) fn count(self, route: u8, status: u16, nanoseconds: u64, alone: bool) {
        let Some(route) = self.0.get(usize::from(route)).and_then(RouteAccount::in_lines) else { return };
        if status != 0 {
            let word = route.word((usize::from(status / 100)).clamp(1, CLASSES.len()) - 1);
            if alone {
                word.store(word.load(Relaxed).wrapping_add(1), Relaxed);
            } else {
                word.fetch_add(1, Relaxed);
            }
        }
        route.times.count(nanoseconds, alone);
    }

    pub(super) fn read(self) -> Vec<RouteCounts> {
        self.0.iter().filter_map(RouteAccount::in_lines).map(RouteAccount::read).collect()
    }
}

/// A copy of the counters of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteCounts {
    /// The number of responses in each of the [`CLASSES`].
    pub classes: [u64; CLASSES.len()],
    /// The times of the requests.
    pub times: Histogram,
}

impl RouteCounts {
    /// Decodes the counters of all routes in a copy of their lines.
    pub(super) fn read_copy(lines: &[[u64; EACH]]) -> Vec<Self> {
        let word = |lines: &[[u64; EACH]], class: usize| lines.get(class / EACH).map_or(0, |line| line[class % EACH]);
        let one = |lines: &[[u64; EACH]]| Self {
            classes: array::from_fn(|class| word(lines, class)),
            times: Histogram::read_copy(lines.get(CLASS_LINES..).unwrap_or_default()),
        };
        lines.chunks_exact(ROUTE_LINES).map(one).collect()
    }

    fn with(&self, other: &Self, join: impl Fn(u64, u64) -> u64) -> Self {
        let classes = array::from_fn(|class| join(self.classes[class], other.classes[class]));
        Self { classes, times: self.times.with(&other.times, join) }
    }
}

/// Joins two lists of counters, number by number, by `join`. Missing numbers are zero.
pub(super) fn join_routes(one: &[RouteCounts], other: &[RouteCounts], join: impl Fn(u64, u64) -> u64) -> Vec<RouteCounts> {
    let none = RouteCounts::default();
    let both = (0..one.len().max(other.len())).map(|route| (one.get(route), other.get(route)));
    both.map(|(one, other)| one.unwrap_or(&none).with(other.unwrap_or(&none), &join)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn each_route_has_its_own_numbers_and_copies_are_the_same() {
        let lines: &'static [SharedLine] = Vec::leak((0..3 * ROUTE_LINES).map(|_| SharedLine::default()).collect());
        let account = RoutesAccount::in_lines(lines);
        for (number, (route, status)) in
            [(0, 200), (2, 200), (2, 204), (2, 404), (2, 999), (2, 0), (3, 200)].into_iter().enumerate()
        {
            account.count(route, status, 1_000_000 * number as u64, number % 2 == 0);
        }
        let read = account.read();
        let told: Vec<_> = read.iter().map(|route| (route.classes, route.times.count(), route.times.sum())).collect();
        let milliseconds = Duration::from_millis;
        let expected =
            [([0, 1, 0, 0, 0], 1, milliseconds(0)), ([0; 5], 0, milliseconds(0)), ([0, 2, 0, 1, 1], 5, milliseconds(15))];
        assert_eq!(told, expected);
        let copied: Vec<[u64; EACH]> = lines.iter().map(|line| line.words.each_ref().map(|word| word.load(Relaxed))).collect();
        assert_eq!(RouteCounts::read_copy(&copied), read);
        RouteAccount::in_lines(&account.0[2]).expect("it has the lines").add(&read[2]);
        assert_eq!(account.read()[2], read[2].with(&read[2], u64::saturating_add));
    }

    #[test]
    fn numbers_are_joined_although_one_side_has_more_routes() {
        let route = |count| RouteCounts { classes: [count; 5], times: Histogram::default() };
        assert_eq!(join_routes(&[route(1)], &[route(2), route(3)], u64::saturating_add), [route(3), route(3)]);
        assert_eq!(join_routes(&[route(1), route(4)], &[], u64::saturating_sub), [route(1), route(4)]);
        assert!(join_routes(&[], &[], u64::max).is_empty());
    }
}
