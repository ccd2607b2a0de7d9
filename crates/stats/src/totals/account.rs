//! The counters of one process, in memory that its parent reads.

use super::counter::{COUNTERS, Counter, Counts};
use super::routes::{RouteCounts, RoutesAccount};
use super::rows::in_words;
use super::times::{TIMES_LINES, Times, TimesAccount};
use oribi_io::process::SharedLine;
use std::array;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The number of 64-bit words of a line.
const EACH: usize = 4;

/// The number of lines of the first counters.
const COUNTER_LINES: usize = 16;

/// The number of lines of the counters that were added when the first lines were full. Some of these lines are still unused.
/// They follow the histograms, so that all older counters keep their places, where other versions of this program expect
/// them.
const MORE_LINES: usize = 16;

const _: () = assert!(COUNTERS <= (COUNTER_LINES + MORE_LINES) * EACH, "each counter has a place");

/// The number of lines of an account: the first counters, the histograms, and more counters.
pub(crate) const ACCOUNT_LINES: usize = COUNTER_LINES + TIMES_LINES + MORE_LINES;

/// The counters of one process, or of several processes that used the account one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Account {
    counters: &'static [SharedLine; COUNTER_LINES],
    pub(super) times: TimesAccount,
    more: &'static [SharedLine; MORE_LINES],
    /// The counters by route, in another part of the memory: see [`Account::with_routes`].
    pub(super) routes: RoutesAccount,
}

impl Account {
    /// Lines of an account.
    pub const LINES: usize = ACCOUNT_LINES;

    /// Returns the account in the first of `lines`. `None` if there are too few lines.
    pub fn first_of(lines: &'static [SharedLine]) -> Option<Self> {
        let (counters, rest) = lines.split_first_chunk()?;
        let (times, rest) = rest.split_first_chunk()?;
        let (times, more) = (TimesAccount::in_lines(times), rest.first_chunk()?);
        Some(Self { counters, times, more, routes: RoutesAccount::default() })
    }

    /// Returns the account with the counters by route in these lines.
    pub fn with_routes(self, lines: &'static [SharedLine]) -> Self {
        Self { routes: RoutesAccount::in_lines(lines), ..self }
    }

    /// Returns an account in memory that is not shared.
    pub fn unshared() -> Self {
        let times = Box::leak(Box::new(array::from_fn(|_| SharedLine::default())));
        Self {
            counters: Box::leak(Box::default()),
            times: TimesAccount::in_lines(times),
            more: Box::leak(Box::default()),
            routes: RoutesAccount::default(),
        }
    }

    #[inline]
    pub(super) fn word(&self, counter: Counter) -> &'static AtomicU64 {
        let line = counter as usize / EACH;
        let line = if line < COUNTER_LINES { &self.counters[line] } else { &self.more[line - COUNTER_LINES] };
        &line.words[counter as usize % EACH]
    }

    /// Adds to a counter. Any thread of the process may do so at any time.
    #[inline]
    pub fn add(&self, counter: Counter, amount: u64) {
        self.word(counter).fetch_add(amount, Relaxed);
    }

    /// Adds to a counter that no other thread changes.
    #[inline]
    pub(super) fn bump(&self, counter: Counter, amount: u64) {
        let word = self.word(counter);
        word.store(word.load(Relaxed).wrapping_add(amount), Relaxed);
    }

    /// Returns the value of a counter that no other thread changes, and resets the counter to zero.
    pub(super) fn take(&self, counter: Counter) -> u64 {
        self.word(counter).swap(0, Relaxed)
    }

    /// Adds one to a counter.
    #[inline]
    pub fn count(&self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Raises a counter that holds a maximum to `to`, unless it is higher already.
    pub fn raise(&self, counter: Counter, to: u64) {
        self.word(counter).fetch_max(to, Relaxed);
    }

    /// Returns a copy of the current numbers.
    pub fn read(&self) -> Counts {
        let mut counts = Counts { times: Box::new(self.times.read()), routes: self.routes.read(), ..Counts::default() };
        in_words().zip(&mut counts.counters).for_each(|(counter, number)| *number = self.word(counter).load(Relaxed));
        counts
    }

    /// Counts as closed the connections that the process neither closed nor handed over. Called after the process has ended,
    /// or before the next one starts.
    pub(crate) fn close_connections(&self) {
        let counts = self.read();
        let came = counts.of(Counter::ConnectionsAccepted).saturating_add(counts.of(Counter::ConnectionsTakenOver));
        let went = counts.of(Counter::ConnectionsClosed).saturating_add(counts.of(Counter::ConnectionsHandedOver));
        self.add(Counter::ConnectionsClosed, came.saturating_sub(went));
    }

    /// Decodes a copy of an account, and a copy of its counters by route.
    pub(crate) fn read_copy(lines: &[[u64; EACH]], routes: &[[u64; EACH]]) -> Counts {
        let (counters, rest) = lines.split_at(lines.len().min(COUNTER_LINES));
        let (times, more) = rest.split_at(rest.len().min(TIMES_LINES));
        let mut counts =
            Counts { times: Box::new(Times::read_copy(times)), routes: RouteCounts::read_copy(routes), ..Counts::default() };
        let words = counters.iter().chain(more).flatten();
        words.zip(&mut counts.counters).for_each(|(word, number)| *number = *word);
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::totals::RequestPhase;

    #[test]
    fn an_account_has_a_place_for_each_counter() {
        let account = Account::unshared();
        for counter in in_words() {
            account.add(counter, counter as u64 + 1);
        }
        let counts = account.read();
        assert!(in_words().all(|counter| counts.of(counter) == counter as u64 + 1), "{counts:?}");
        account.times.count_one(RequestPhase::App, 3_000_000, true);
        let counts = counts.and(&account.read()).less(&counts);
        assert_eq!(counts.times.of(RequestPhase::App).count(), 1);
        let lines = account.counters.iter().chain(account.times.lines()).chain(account.more);
        let copy: Vec<[u64; EACH]> = lines.map(|line| line.words.each_ref().map(|word| word.load(Relaxed))).collect();
        assert_eq!(Account::read_copy(&copy, &[]), counts);
    }

    #[test]
    fn connections_close_with_their_process() {
        let account = Account::unshared();
        account.add(Counter::ConnectionsAccepted, 7);
        account.add(Counter::ConnectionsTakenOver, 2);
        account.add(Counter::ConnectionsClosed, 3);
        account.add(Counter::ConnectionsHandedOver, 1);
        for _ in 0..2 {
            account.close_connections();
            assert_eq!(account.read().of(Counter::ConnectionsClosed), 8);
        }
        account.add(Counter::ConnectionsClosed, u64::MAX / 2);
        let before = account.read();
        account.close_connections();
        assert_eq!(account.read(), before, "nonsense");
    }
}
