//! What a server has done since it was started, in numbers that only grow: they outlive workers, edges, generations and upgrades of
//! the program.
//!
//! * Every process that counts has an [`Account`] in memory that its keeper reads, in cache lines of its own. An account is never
//!   cleared: the next process in the same place goes on with it. So nothing is lost with a process, however it ends, and nothing
//!   is counted twice.
//! * What happens for each request is counted by an engine's `Tally`, by a plain load and store: nobody else writes to that memory.
//!   Where several lanes share a process, each counts for itself, and adds that to the account once per turn of its loop.
//! * How long the parts of requests took is counted in histograms behind the first of those numbers.
//! * The first process sums the accounts up, and adds what they have grown by to the `Totals`. Workers and molds cannot write there:
//!   what they write into their accounts is shown and nothing else, and a sum that has become smaller changes nothing.
//! * A master passes the totals on to the next one, in a file in memory, to which both add as long as both run.

mod account;
mod counter;
mod handshakes;
mod route_totals;
mod routes;
mod tally;
mod times;

pub use account::Account;
pub use counter::{Counter, Counts, NAMES, Unit};
pub use handshakes::counter_of;
pub use route_totals::RouteTotals;
pub use routes::{CLASSES, ROUTE_LINES, RouteCounts};
pub use tally::Tally;
pub use times::{Histogram, Part, Times};

use account::ACCOUNT_LINES;
use counter::in_words;
use oribi_io::process::{KeptLines, SharedLine, shared_file};
use rustix::time::{ClockId, clock_gettime};
use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use times::add_saturating;

/// Lines of the file. Versions that count more than this one use lines that are zero now.
const LINES: usize = 160;

const _: () = assert!(ACCOUNT_LINES < LINES, "the totals have room in it");

/// What the words of the first line are.
const MAGIC: usize = 0;
const VERSION: usize = 1;
const SINCE: usize = 2;

/// "OribiTot".
const MAGIC_NUMBER: u64 = u64::from_be_bytes(*b"OribiTot");

/// Another version of this program with the same number can go on with the file: counters have kept their places, and new ones have
/// come behind them.
const PRESENT_VERSION: u64 = 2;

/// The sums of all accounts that there ever were.
#[derive(Debug)]
pub struct Totals {
    header: &'static SharedLine,
    account: Account,
    /// `None`: they are this process's alone.
    file: Option<TotalsFile>,
    /// `None`: there are no routes.
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
    /// Totals of a process that nobody takes over from, with routes of these names.
    pub fn of_this_process(routes: &[&str]) -> Self {
        Self::alone().with_routes(RouteTotals::of_this_process(routes))
    }

    fn alone() -> Self {
        let lines: &'static [SharedLine] = Vec::leak((0..LINES).map(|_| SharedLine::default()).collect());
        Self::begin(lines, None).unwrap_or_else(|| unreachable!("there are as many lines as that takes"))
    }

    /// Totals that can be passed on.
    ///
    /// # Errors
    /// An error of the system.
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

    /// Goes on with totals that another process has begun.
    ///
    /// # Errors
    /// Why this version cannot.
    pub fn adopt(file: OwnedFd) -> Result<Self, String> {
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

    /// The same, with those of the routes.
    pub fn with_routes(self, routes: Option<RouteTotals>) -> Self {
        Self { routes, ..self }
    }

    /// The file of the routes, for a process that goes on with it.
    pub fn descriptor_of_routes(&self) -> Option<BorrowedFd<'_>> {
        self.routes.as_ref().and_then(RouteTotals::descriptor)
    }

    /// The file, for a process that goes on with it.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(|file| file.descriptor.as_fd())
    }

    /// In a child that does not go on with it: leaves the file, so that this process cannot write there.
    ///
    /// # Errors
    /// An error of the system: then it still can.
    pub fn leave(&mut self) -> io::Result<()> {
        self.routes.take().map_or(Ok(()), RouteTotals::leave)?;
        self.file.take().map_or(Ok(()), |file| file.lines.leave())
    }

    /// Counts what this process itself has done.
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

    /// Adds what accounts have grown by since they were last `seen`.
    pub fn fold(&self, seen: &Seen, now: &Counts) {
        let growth = seen.growth(now);
        for (counter, amount) in in_words().map(|counter| (counter, growth.of(counter))).filter(|(_, amount)| *amount > 0) {
            self.add(counter, amount);
        }
        self.account.times.add(&growth.times);
        self.routes.iter().for_each(|routes| routes.add(&growth.routes));
    }

    /// A copy of the present numbers.
    pub fn read(&self) -> Counts {
        let routes = self.routes.as_ref().map(RouteTotals::read).unwrap_or_default();
        Counts { routes, ..self.account.read() }
    }

    /// For how long has been counted.
    pub fn age(&self) -> Duration {
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
pub struct Seen(RefCell<Counts>);

impl Seen {
    /// By how much each sum is larger than ever before. For a longest time, which is no sum, it is that time.
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
        let (totals, seen) = (Totals::alone(), Seen::default());
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
    fn histograms_grow_as_counters_do() {
        let (totals, seen, account) = (Totals::alone(), Seen::default(), Account::unshared());
        let tally = Tally::alone(account);
        for milliseconds in [20, 900] {
            tally.timed_one(Part::App, milliseconds * 1_000_000);
            totals.fold(&seen, &account.read());
            totals.fold(&seen, &account.read());
            totals.fold(&seen, &Counts::default());
        }
        let app = totals.read().times.of(Part::App).clone();
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

    /// The versions of this program that have counted forty things have a file of the same size, with nothing behind the histograms.
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
