//! What a server has done since it was started, in numbers that only grow: they outlive workers, edges, generations and upgrades of
//! the program.
//!
//! * Every process that counts has an [`Account`] in memory that its keeper reads, in cache lines of its own. An account is never
//!   cleared: the next process in the same place goes on with it. So nothing is lost with a process, however it ends, and nothing
//!   is counted twice.
//! * What happens for each request is counted by an engine's `Tally`, by a plain load and store: nobody else writes to that memory.
//!   Where several lanes share a process, each counts for itself, and adds that to the account once per turn of its loop.
//! * The first process sums the accounts up, and adds what they have grown by to the `Totals`. Workers and molds cannot write there:
//!   what they write into their accounts is shown and nothing else, and a sum that has become smaller changes nothing.
//! * A master passes the totals on to the next one, in a file in memory, to which both add as long as both run.

mod account;
mod counter;
mod tally;

pub use account::Account;
pub(crate) use counter::{Counter, Counts, NAMES, Unit};
pub(crate) use tally::Tally;

use account::add_saturating;
use counter::in_words;
use oribi_io::process::{KeptLines, SharedLine, shared_file};
use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Lines of the file. Versions that count more than this one use lines that are zero now.
const LINES: usize = 32;

/// What the words of the first line are.
const MAGIC: usize = 0;
const VERSION: usize = 1;
const SINCE: usize = 2;

/// "OribiTot".
const MAGIC_NUMBER: u64 = u64::from_be_bytes(*b"OribiTot");

/// Another version of this program with the same number can go on with the file: counters have kept their places, and new ones have
/// come behind them.
const PRESENT_VERSION: u64 = 1;

/// The sums of all accounts that there ever were.
#[derive(Debug)]
pub(crate) struct Totals {
    header: &'static SharedLine,
    account: Account,
    /// `None`: they are this process's alone.
    file: Option<TotalsFile>,
}

#[derive(Debug)]
struct TotalsFile {
    descriptor: OwnedFd,
    lines: KeptLines,
}

impl TotalsFile {
    fn of(descriptor: OwnedFd) -> io::Result<Self> {
        Ok(Self { lines: KeptLines::of_file(&descriptor, LINES)?, descriptor })
    }
}

impl Totals {
    /// Totals of a process that nobody takes over from.
    pub(crate) fn of_this_process() -> Self {
        let lines: &'static [SharedLine] = Vec::leak((0..LINES).map(|_| SharedLine::default()).collect());
        Self::begin(lines, None).unwrap_or_else(|| unreachable!("there are as many lines as that takes"))
    }

    /// Totals that can be passed on.
    ///
    /// # Errors
    /// An error of the system.
    pub(crate) fn in_file() -> io::Result<Self> {
        let file = TotalsFile::of(shared_file("oribi-totals", LINES)?)?;
        Self::begin(file.lines.lines(), Some(file)).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn begin(lines: &'static [SharedLine], file: Option<TotalsFile>) -> Option<Self> {
        let totals = Self::on(lines, file)?;
        for (word, value) in [(MAGIC, MAGIC_NUMBER), (VERSION, PRESENT_VERSION), (SINCE, milliseconds())] {
            totals.header.words[word].store(value, Relaxed);
        }
        Some(totals)
    }

    fn on(lines: &'static [SharedLine], file: Option<TotalsFile>) -> Option<Self> {
        let (header, lines) = lines.split_first()?;
        Some(Self { header, account: Account::first_of(lines)?, file })
    }

    /// Goes on with totals that another process has begun.
    ///
    /// # Errors
    /// Why this version cannot.
    pub(crate) fn adopt(file: OwnedFd) -> Result<Self, String> {
        let file = TotalsFile::of(file).map_err(|error| error.to_string())?;
        let mut totals = Self::on(file.lines.lines(), Some(file)).ok_or("it is too short")?;
        let word = |index: usize| totals.header.words[index].load(Relaxed);
        let why = match (word(MAGIC), word(VERSION)) {
            (MAGIC_NUMBER, PRESENT_VERSION) => return Ok(totals),
            (MAGIC_NUMBER, version) => format!("it has version {version}, and this program knows version {PRESENT_VERSION}"),
            _ => "it is something else".to_owned(),
        };
        // The process before still uses them.
        totals.leave().map_err(|error| error.to_string())?;
        Err(why)
    }

    /// The file, for a process that goes on with it.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(|file| file.descriptor.as_fd())
    }

    /// In a child that does not go on with it: leaves the file, so that this process cannot write there.
    ///
    /// # Errors
    /// An error of the system: then it still can.
    pub(crate) fn leave(&mut self) -> io::Result<()> {
        self.file.take().map_or(Ok(()), |file| file.lines.leave())
    }

    /// Counts what this process itself has done.
    pub(crate) fn count(&self, counter: Counter) {
        self.add(counter, 1);
    }

    fn add(&self, counter: Counter, amount: u64) {
        match counter.unit() {
            Unit::Longest => self.account.raise(counter, amount),
            Unit::Count | Unit::Time => add_saturating(self.account.word(counter), amount),
        }
    }

    /// Adds what accounts have grown by since they were last `seen`.
    pub(crate) fn fold(&self, seen: &Seen, now: &Counts) {
        for (counter, amount) in seen.growth(now) {
            self.add(counter, amount);
        }
    }

    pub(crate) fn read(&self) -> Counts {
        self.account.read()
    }

    /// For how long has been counted.
    pub(crate) fn age(&self) -> Duration {
        Duration::from_millis(milliseconds().saturating_sub(self.header.words[SINCE].load(Relaxed)))
    }
}

/// Milliseconds of a clock that all processes share and that is never set.
fn milliseconds() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    (now.tv_sec as u64).saturating_mul(1000).saturating_add(now.tv_nsec as u64 / 1_000_000)
}

/// What was last seen in some accounts.
#[derive(Debug, Default)]
pub(crate) struct Seen(Cell<Counts>);

impl Seen {
    /// By how much each sum is larger than ever before. For a longest time, which is no sum, it is that time.
    fn growth(&self, now: &Counts) -> impl Iterator<Item = (Counter, u64)> {
        let before = self.0.replace(self.0.get().highest(now));
        let growth = now.less(&before);
        in_words().map(move |counter| (counter, growth.of(counter))).filter(|(_, amount)| *amount > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(requests: u64, longest: u64) -> Counts {
        let account = Account::unshared();
        account.add(Counter::Responses2xx, requests);
        account.raise(Counter::QueueLongestWait, longest);
        account.read()
    }

    fn shown(totals: &Totals) -> (u64, u64) {
        let counts = totals.read();
        (counts.of(Counter::Responses2xx), counts.of(Counter::QueueLongestWait))
    }

    #[test]
    fn totals_grow_by_what_accounts_grow_by_and_never_shrink() {
        let (totals, seen) = (Totals::of_this_process(), Seen::default());
        totals.fold(&seen, &counts(5, 70));
        totals.fold(&seen, &counts(5, 70));
        assert_eq!(shown(&totals), (5, 70));
        totals.fold(&Seen::default(), &counts(2, 30));
        assert_eq!(shown(&totals), (7, 70), "other accounts");
        totals.fold(&seen, &counts(0, 0));
        totals.fold(&seen, &counts(3, 10));
        assert_eq!(shown(&totals), (7, 70), "a worker has written nonsense");
        totals.fold(&seen, &counts(6, 80));
        assert_eq!(shown(&totals), (8, 80), "only what is more than ever before counts");
        totals.fold(&seen, &counts(u64::MAX, u64::MAX));
        totals.fold(&Seen::default(), &counts(u64::MAX, 0));
        assert_eq!(shown(&totals), (u64::MAX, u64::MAX));
    }

    #[test]
    fn another_process_goes_on_with_them_and_both_may_add() {
        let totals = Totals::in_file().expect("a file in memory");
        totals.count(Counter::Upgrades);
        let descriptor = totals.descriptor().expect("it can be passed on");
        let next = Totals::adopt(descriptor.try_clone_to_owned().expect("a descriptor")).expect("it is of this version");
        next.count(Counter::Upgrades);
        totals.count(Counter::Upgrades);
        assert_eq!(next.read().of(Counter::Upgrades), 3);
        assert!(next.age() < Duration::from_secs(60));
        assert!(Totals::of_this_process().descriptor().is_none());
    }

    #[test]
    fn who_has_left_them_does_not_change_them() {
        let totals = Totals::in_file().expect("a file in memory");
        let descriptor = totals.descriptor().and_then(|file| file.try_clone_to_owned().ok()).expect("a descriptor");
        let mut child = Totals::adopt(descriptor).expect("it is of this version");
        child.count(Counter::Upgrades);
        child.leave().expect("there is memory");
        child.count(Counter::Upgrades);
        assert_eq!(totals.read().of(Counter::Upgrades), 1);
        assert!(child.descriptor().is_none());
        Totals::of_this_process().leave().expect("there is nothing to leave");
    }

    #[test]
    fn what_another_version_or_somebody_else_has_written_is_left_alone() {
        let refused = |word: usize, value: u64| {
            let totals = Totals::in_file().expect("a file in memory");
            totals.header.words[word].store(value, Relaxed);
            let file = totals.descriptor().and_then(|file| file.try_clone_to_owned().ok()).expect("a descriptor");
            Totals::adopt(file).expect_err("it cannot be read")
        };
        assert_eq!(refused(VERSION, 7), "it has version 7, and this program knows version 1");
        assert_eq!(refused(MAGIC, 0), "it is something else");
        let short = shared_file("oribi-totals", LINES - 1).expect("a file in memory");
        assert!(Totals::adopt(short).is_err());
    }
}
