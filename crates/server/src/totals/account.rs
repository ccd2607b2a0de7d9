//! The numbers of one process, in memory that its keeper reads.

use super::counter::{COUNTERS, Counter, Counts, in_words};
use oribi_io::process::SharedLine;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Numbers in a line.
const EACH: usize = 4;

/// Lines of an account.
pub(crate) const ACCOUNT_LINES: usize = COUNTERS.div_ceil(EACH);

/// The numbers of one process, or of several one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Account(&'static [SharedLine; ACCOUNT_LINES]);

/// Adds to a word that others may add to at the same time.
pub(super) fn add_saturating(word: &AtomicU64, amount: u64) {
    let _ = word.fetch_update(Relaxed, Relaxed, |present| Some(present.saturating_add(amount)));
}

impl Account {
    /// Lines of an account.
    pub const LINES: usize = ACCOUNT_LINES;

    /// The account in the first of `lines`; `None`: there are too few.
    pub(crate) fn first_of(lines: &'static [SharedLine]) -> Option<Self> {
        lines.first_chunk().map(Self)
    }

    /// One that nobody else reads.
    pub(crate) fn unshared() -> Self {
        Self(Box::leak(Box::default()))
    }

    #[inline]
    pub(super) fn word(&self, counter: Counter) -> &'static AtomicU64 {
        &self.0[counter as usize / EACH].words[counter as usize % EACH]
    }

    /// Adds to a number. Threads of the process may do so at the same time.
    #[inline]
    pub(crate) fn add(&self, counter: Counter, amount: u64) {
        self.word(counter).fetch_add(amount, Relaxed);
    }

    /// Adds to a number that no other thread adds to.
    #[inline]
    pub(super) fn bump(&self, counter: Counter, amount: u64) {
        let word = self.word(counter);
        word.store(word.load(Relaxed).wrapping_add(amount), Relaxed);
    }

    /// Takes a number that no other thread adds to, and leaves zero.
    pub(super) fn take(&self, counter: Counter) -> u64 {
        self.word(counter).swap(0, Relaxed)
    }

    /// Counts one.
    #[inline]
    pub(crate) fn count(&self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Raises a number that is the longest of several.
    pub(crate) fn raise(&self, counter: Counter, to: u64) {
        self.word(counter).fetch_max(to, Relaxed);
    }

    pub(crate) fn read(&self) -> Counts {
        let mut counts = Counts::default();
        in_words().zip(&mut counts.0).for_each(|(counter, number)| *number = self.word(counter).load(Relaxed));
        counts
    }

    /// The process has ended, or is about to begin: connections that it has neither closed nor passed on have closed with it.
    pub(crate) fn close_connections(&self) {
        let counts = self.read();
        let came = counts.of(Counter::ConnectionsAccepted).saturating_add(counts.of(Counter::ConnectionsTakenOver));
        let went = counts.of(Counter::ConnectionsClosed).saturating_add(counts.of(Counter::ConnectionsHandedOver));
        self.add(Counter::ConnectionsClosed, came.saturating_sub(went));
    }

    /// The account in a copy of the words of its lines.
    pub(crate) fn read_copy(lines: &[[u64; EACH]]) -> Counts {
        let mut counts = Counts::default();
        lines.iter().flatten().zip(&mut counts.0).for_each(|(word, number)| *number = *word);
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_has_a_place_for_each_counter() {
        let account = Account::unshared();
        for counter in in_words() {
            account.add(counter, counter as u64 + 1);
        }
        let counts = account.read();
        assert!(in_words().all(|counter| counts.of(counter) == counter as u64 + 1), "{counts:?}");
        let copy: Vec<[u64; EACH]> =
            account.0.iter().map(|line| line.words.each_ref().map(|word| word.load(Relaxed))).collect();
        assert_eq!(Account::read_copy(&copy), counts);
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
