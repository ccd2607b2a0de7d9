//! The counters of a server since its first start. They only increase, and outlive workers, edges, generations and upgrades
//! of the program.
//!
//! * Every process that counts has an [`Account`] in memory that its parent reads, in its own cache lines. An account is
//!   never cleared: the next process in the same slot continues with it. So no count is lost at the end of a process, and no
//!   event is counted twice.
//! * An engine's `Tally` counts the events of each request, by a plain load and store, because no other thread writes that
//!   memory. Where several lanes share a process, each lane counts in memory of its own, and adds its counts to the account
//!   once per iteration of its event loop.
//! * The times of requests are counted in histograms, which follow the first counters.
//! * The first process adds the growth of all accounts to the `Totals`. Workers and molds cannot write there. The numbers in
//!   their accounts are only displayed, and a sum that has become smaller changes nothing.
//! * At an upgrade, the first process passes the totals on to the next one, in a file in memory. Both processes add to the
//!   file while both run.

mod account;
mod counter;
mod handshakes;
mod route_totals;
mod routes;
mod rows;
mod tally;
mod times;

pub use account::Account;
pub use counter::{Counter, Counts, Unit};
pub use handshakes::counter_of;
pub use route_totals::RouteTotals;
pub use routes::{CLASSES, ROUTE_LINES, RouteCounts};
pub use rows::{COUNTER_ROWS, CounterRow, LIMITS_HIT};
pub use tally::Tally;
pub use times::{Histogram, RequestPhase, Times};

use crate::clock::milliseconds;
use account::ACCOUNT_LINES;
use oribi_io::process::{KeptLines, SharedLine, shared_file};
use rows::in_words;
use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use times::add_saturating;

/// The number of lines of the file. A later version with more counters uses lines that are zero now.
const LINES: usize = 160;

const _: () = assert!(ACCOUNT_LINES < LINES, "the totals have room in it");

/// The indexes of words in the first line.
const MAGIC: usize = 0;
const VERSION: usize = 1;
const SINCE: usize = 2;

/// "OribiTot".
const MAGIC_NUMBER: u64 = u64::from_be_bytes(*b"OribiTot");

/// The version of the format. A version of this program with the same number here can continue with the file: existing
/// counters keep their places, and new ones follow.
const PRESENT_VERSION: u64 = 2;

/// The sums of all accounts that ever existed.
#[derive(Debug)]
pub struct Totals {
    header: &'static SharedLine,
    account: Account,
    /// The file with the totals. `None` if the totals are private to this process.
    file: Option<TotalsFile>,
    /// The totals by route; `None` without routes.
    routes: Option<RouteTotals>,
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
    /// Creates totals that are never passed on, with counters for routes of these names.
    pub fn of_this_process(routes: &[&str]) -> Self {
        Self::alone().with_routes(RouteTotals::of_this_process(routes))
    }

    fn alone() -> Self {
        let lines: &'static [SharedLine] = Vec::leak((0..LINES).map(|_| SharedLine::default()).collect());
        Self::begin(lines, None).unwrap_or_else(|| unreachable!("there are as many lines as that takes"))
    }

    /// Creates totals that can be passed on to another process.
    ///
    /// # Errors
    /// The operating system refused a call.
    pub fn in_file() -> io::Result<Self> {
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
        Some(Self { header, account: Account::first_of(lines)?, file, routes: None })
    }

    /// Continues with the totals that another process has left in `file`.
    ///
    /// # Errors
    /// This version cannot read the totals; the message contains the reason.
    pub fn adopt(file: OwnedFd) -> Result<Self, String> {
        let file = TotalsFile::of(file).map_err(|error| error.to_string())?;
        let mut totals = Self::on(file.lines.lines(), Some(file)).ok_or("it is too short")?;
        let word = |index: usize| totals.header.words[index].load(Relaxed);
        let why = match (word(MAGIC), word(VERSION)) {
            (MAGIC_NUMBER, PRESENT_VERSION) => return Ok(totals),
            (MAGIC_NUMBER, version) => format!("it has version {version}, and this program knows version {PRESENT_VERSION}"),
            _ => "it is something else".to_owned(),
        };
        // The previous process still uses the lines, so they stay as they are.
        totals.leave().map_err(|error| error.to_string())?;
        Err(why)
    }

    /// Adds the totals by route.
    pub fn with_routes(self, routes: Option<RouteTotals>) -> Self {
        Self { routes, ..self }
    }

    /// Returns the file of the totals by route, for a process that continues with it.
    pub fn descriptor_of_routes(&self) -> Option<BorrowedFd<'_>> {
        self.routes.as_ref().and_then(RouteTotals::descriptor)
    }

    /// Returns the file of the totals, for a process that continues with it.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(|file| file.descriptor.as_fd())
    }

    /// In a child that does not continue with the totals: unmaps the file, so that the child cannot write there.
    ///
    /// # Errors
    /// The operating system refused the call; then the child can still write there.
    pub fn leave(&mut self) -> io::Result<()> {
        self.routes.take().map_or(Ok(()), RouteTotals::leave)?;
        self.file.take().map_or(Ok(()), |file| file.lines.leave())
    }

    /// Counts an event of the first process itself.
    #[inline]
    pub fn count(&self, counter: Counter) {
        self.add(counter, 1);
    }

    fn add(&self, counter: Counter, amount: u64) {
        match counter.unit() {
            Unit::Longest => self.account.raise(counter, amount),
            Unit::Count | Unit::Time => add_saturating(self.account.word(counter), amount),
        }
    }

    /// Adds the growth of some accounts. `now` is the sum of their counters. `folded` is the highest sum so far, and is
    /// updated.
    pub fn fold(&self, folded: &FoldedCounts, now: &Counts) {
        let growth = folded.growth(now);
        for (counter, amount) in in_words().map(|counter| (counter, growth.of(counter))).filter(|(_, amount)| *amount > 0) {
            self.add(counter, amount);
        }
        self.account.times.add(&growth.times);
        self.routes.iter().for_each(|routes| routes.add(&growth.routes));
    }

    /// Returns a copy of the current numbers.
    pub fn read(&self) -> Counts {
        let routes = self.routes.as_ref().map(RouteTotals::read).unwrap_or_default();
        Counts { routes, ..self.account.read() }
    }

    /// Returns the time since the counters began.
    pub fn age(&self) -> Duration {
        Duration::from_millis(milliseconds().saturating_sub(self.header.words[SINCE].load(Relaxed)))
    }
}

/// The highest values so far of the counters in some accounts.
#[derive(Debug, Default)]
pub struct FoldedCounts(RefCell<Counts>);

impl FoldedCounts {
    /// Returns by how much each sum in `now` exceeds its highest value so far, and updates that value. A maximum, which is
    /// not a sum, is returned unchanged.
    fn growth(&self, now: &Counts) -> Counts {
        let highest = self.0.borrow().highest(now);
        now.less(&self.0.replace(highest))
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
        let (totals, folded) = (Totals::alone(), FoldedCounts::default());
        totals.fold(&folded, &counts(5, 70));
        totals.fold(&folded, &counts(5, 70));
        assert_eq!(shown(&totals), (5, 70));
        totals.fold(&FoldedCounts::default(), &counts(2, 30));
        assert_eq!(shown(&totals), (7, 70), "other accounts");
        totals.fold(&folded, &counts(0, 0));
        totals.fold(&folded, &counts(3, 10));
        assert_eq!(shown(&totals), (7, 70), "a worker has written nonsense");
        totals.fold(&folded, &counts(6, 80));
        assert_eq!(shown(&totals), (8, 80), "only what is more than ever before counts");
        totals.fold(&folded, &counts(u64::MAX, u64::MAX));
        totals.fold(&FoldedCounts::default(), &counts(u64::MAX, 0));
        assert_eq!(shown(&totals), (u64::MAX, u64::MAX));
    }

    #[test]
    fn histograms_grow_as_counters_do() {
        let (totals, folded, account) = (Totals::alone(), FoldedCounts::default(), Account::unshared());
        let tally = Tally::of_only_lane(account);
        for milliseconds in [20, 900] {
            tally.timed_one(RequestPhase::App, milliseconds * 1_000_000);
            totals.fold(&folded, &account.read());
            totals.fold(&folded, &account.read());
            totals.fold(&folded, &Counts::default());
        }
        let app = totals.read().times.of(RequestPhase::App).clone();
        assert_eq!((app.count(), app.sum()), (2, Duration::from_millis(920)));
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
        assert!(Totals::alone().descriptor().is_none());
    }

    /// Versions of this program with forty counters have a file of the same size, with nothing after the histograms.
    #[test]
    fn what_a_version_with_fewer_counters_has_counted_is_gone_on_with() {
        const FORTY: usize = 40;
        let before = Totals::in_file().expect("a file in memory");
        let lines = before.file.as_ref().expect("it is one").lines.lines();
        let words = lines[1..].iter().flat_map(|line| &line.words);
        words.take(FORTY).enumerate().for_each(|(place, word)| word.store(place as u64 + 1, Relaxed));
        let descriptor = before.descriptor().and_then(|file| file.try_clone_to_owned().ok()).expect("a descriptor");
        let next = Totals::adopt(descriptor).expect("it has the same version");
        next.count(Counter::CertificatesFailed);
        next.count(Counter::RequestsHttp10);
        let (counts, all) = (next.read(), in_words().collect::<Vec<_>>());
        let old = all.iter().take(FORTY).enumerate();
        assert!(old.clone().all(|(place, counter)| counts.of(*counter) == place as u64 + 1), "{counts:?}");
        assert_eq!(all.iter().skip(FORTY).map(|counter| counts.of(*counter)).sum::<u64>(), 2);
        assert_eq!(counts.times, Box::default(), "nothing stands in another's place");
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
        Totals::alone().leave().expect("there is nothing to leave");
    }

    #[test]
    fn what_another_version_or_somebody_else_has_written_is_left_alone() {
        let refused = |word: usize, value: u64| {
            let totals = Totals::in_file().expect("a file in memory");
            totals.header.words[word].store(value, Relaxed);
            let file = totals.descriptor().and_then(|file| file.try_clone_to_owned().ok()).expect("a descriptor");
            Totals::adopt(file).expect_err("it cannot be read")
        };
        assert_eq!(refused(VERSION, 7), "it has version 7, and this program knows version 2");
        assert_eq!(refused(MAGIC, 0), "it is something else");
        let short = shared_file("oribi-totals", LINES - 1).expect("a file in memory");
        assert!(Totals::adopt(short).is_err());
    }
}
