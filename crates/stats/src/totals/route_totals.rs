//! The sums of the counters by route, for each name of a route, in a file in memory that is passed on to the next program.
//!
//! The set of routes may change with the program. So each name has a fixed place in the file: a program finds its routes by
//! their names, and reserves free places for new names. The counters of other routes stay where they are, for a later program
//! that has those routes again. A program reserves its places before it serves, so no two programs reserve places at the same
//! time.

use super::routes::{ROUTE_LINES, RouteAccount, RouteCounts};
use super::times::EACH;
use oribi_config::ROUTE_NAME_BYTES as NAME_BYTES;
use oribi_io::process::{KeptLines, SharedLine, shared_file};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;

/// The most names of routes during the life of a server. Unused places take no memory.
const PLACES: usize = 128;

/// The number of lines of a name: a word with its length plus 1, then its bytes.
const NAME_LINES: usize = 2;
const _: () = assert!(NAME_BYTES == (NAME_LINES * EACH - 1) * size_of::<u64>());

const PLACE_LINES: usize = NAME_LINES + ROUTE_LINES;
/// The number of lines of the file. The first line identifies the format.
const LINES: usize = 1 + PLACES * PLACE_LINES;

/// "OribiRou", the first word of the file; its version is the second.
const MAGIC_NUMBER: u64 = u64::from_be_bytes(*b"OribiRou");
/// The version of the format. A version of this program with the same number here can continue with the file.
const PRESENT_VERSION: u64 = 1;

/// The totals for the routes of this program.
#[derive(Debug)]
pub struct RouteTotals {
    /// The accounts, by the number of the route. `None` for a route for which there was no place.
    accounts: Vec<Option<RouteAccount>>,
    /// The file with the totals. `None` if the totals are private to this process.
    file: Option<(OwnedFd, KeptLines)>,
}

impl RouteTotals {
    /// Creates totals that are never passed on, for routes of these names. `None` without routes.
    pub(crate) fn of_this_process(names: &[&str]) -> Option<Self> {
        let lines = || Vec::leak((0..1 + names.len() * PLACE_LINES).map(|_| SharedLine::default()).collect());
        (!names.is_empty()).then(|| Self { accounts: accounts(lines(), names), file: None })
    }

    /// Creates totals that can be passed on, for routes of these names. Continues with the file `left` of the previous
    /// process, if there is one and this version can read it. `None` without routes.
    ///
    /// # Errors
    /// The operating system refused a call.
    pub fn in_file(names: &[&str], left: Option<OwnedFd>) -> io::Result<Option<Self>> {
        if names.is_empty() {
            return Ok(None);
        }
        match left.map(|file| Self::adopt(names, file)) {
            Some(Ok(totals)) => return Ok(Some(totals)),
            Some(Err(error)) => {
                log::warn!("the counters of routes begin at zero: those of the old server cannot be read: {error}");
            }
            None => {}
        }
        let file = shared_file("oribi-routes", LINES)?;
        let kept = KeptLines::of_file(&file, LINES)?;
        for (word, value) in kept.lines()[0].words.iter().zip([MAGIC_NUMBER, PRESENT_VERSION]) {
            word.store(value, Relaxed);
        }
        Ok(Some(Self { accounts: accounts(kept.lines(), names), file: Some((file, kept)) }))
    }

    fn adopt(names: &[&str], file: OwnedFd) -> io::Result<Self> {
        let kept = KeptLines::of_file(&file, LINES)?;
        let lines = kept.lines();
        if [0, 1].map(|word| lines[0].words[word].load(Relaxed)) != [MAGIC_NUMBER, PRESENT_VERSION] {
            // The previous process may still use the file, so it stays as it is.
            kept.leave()?;
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Self { accounts: accounts(lines, names), file: Some((file, kept)) })
    }

    /// Returns the file, for a process that continues with it.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(|(file, _)| file.as_fd())
    }

    /// In a child: unmaps the file, so that the child cannot write there.
    ///
    /// # Errors
    /// The operating system refused the call; then the child can still write there.
    pub(super) fn leave(self) -> io::Result<()> {
        self.file.map_or(Ok(()), |(_, lines)| lines.leave())
    }

    /// Adds the growth of the counters of each route, in the order of the routes' numbers.
    pub(super) fn add(&self, routes: &[RouteCounts]) {
        for (account, counts) in self.accounts.iter().zip(routes) {
            account.iter().for_each(|account| account.add(counts));
        }
    }

    pub(super) fn read(&self) -> Vec<RouteCounts> {
        self.accounts.iter().map(|account| account.map(RouteAccount::read).unwrap_or_default()).collect()
    }
}

/// Returns the account for each of these names. `None` for a name for which there is no place.
fn accounts(lines: &'static [SharedLine], names: &[&str]) -> Vec<Option<RouteAccount>> {
    let lines: &[[SharedLine; PLACE_LINES]] = lines.get(1..).unwrap_or_default().as_chunks().0;
    let find = |name: &&str| {
        let account = find_or_take(lines, &words(name));
        if account.is_none() {
            log::warn!("the requests of route {name} are not counted: there were {PLACES} other routes since the server began");
        }
        account
    };
    names.iter().map(find).collect()
}

/// Finds the place of an encoded name, or reserves a free one. Returns the account there; `None` if no place is free.
fn find_or_take(lines: &'static [[SharedLine; PLACE_LINES]], name: &[u64; NAME_LINES * EACH]) -> Option<RouteAccount> {
    let words = |account: &'static [SharedLine; PLACE_LINES]| account[..NAME_LINES].iter().flat_map(|line| &line.words);
    let own = lines.iter().find(|account| words(account).zip(name).all(|(word, value)| word.load(Relaxed) == *value));
    let free = || lines.iter().find(|account| words(account).all(|word| word.load(Relaxed) == 0));
    let account = own.or_else(free)?;
    words(account).zip(name).for_each(|(word, value)| word.store(*value, Relaxed));
    RouteAccount::in_lines(account.last_chunk()?)
}

/// Encodes a name: its length plus 1, so that no reserved place begins with zero, and its bytes.
fn words(name: &str) -> [u64; NAME_LINES * EACH] {
    let mut bytes = [0; NAME_BYTES];
    bytes.iter_mut().zip(name.bytes()).for_each(|(target, byte)| *target = byte);
    let mut words = [0; NAME_LINES * EACH];
    words[0] = name.len() as u64 + 1;
    words[1..].iter_mut().zip(bytes.as_chunks().0).for_each(|(word, bytes)| *word = u64::from_ne_bytes(*bytes));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grown(by: u64) -> RouteCounts {
        RouteCounts { classes: [by; 5], ..RouteCounts::default() }
    }

    fn told(totals: &RouteTotals) -> Vec<u64> {
        totals.read().iter().map(|route| route.classes[0]).collect()
    }

    fn next(before: &RouteTotals, names: &[&str]) -> RouteTotals {
        let file = before.descriptor().and_then(|file| file.try_clone_to_owned().ok());
        RouteTotals::in_file(names, file).expect("a file in memory").expect("there are routes")
    }

    #[test]
    fn the_next_program_finds_its_routes_by_their_names() {
        let first =
            RouteTotals::in_file(&["other", "/api", "shop"], None).expect("a file in memory").expect("there are routes");
        first.add(&[grown(1), grown(2), grown(3)]);
        let second = next(&first, &["other", "shop", "/new"]);
        assert_eq!(told(&second), [1, 3, 0]);
        second.add(&[grown(10), grown(10), grown(10)]);
        first.add(&[grown(0), grown(5), grown(5)]);
        assert_eq!(told(&second), [11, 18, 10], "both may add");
        let third = next(&second, &["other", "/api", "/new"]);
        assert_eq!(told(&third), [11, 7, 10], "a route that comes back has what it had");
        assert!(RouteTotals::in_file(&[], None).is_ok_and(|none| none.is_none()));
    }

    #[test]
    fn who_has_left_them_does_not_change_them_and_what_is_no_such_file_is_left_alone() {
        let first = RouteTotals::in_file(&["other"], None).expect("a file in memory").expect("there are routes");
        let child = next(&first, &["other"]);
        let account = child.accounts[0].expect("it has one");
        child.leave().expect("there is memory");
        account.add(&grown(7));
        assert_eq!(told(&first), [0]);
        first.add(&[grown(1)]);
        let (file, lines) = first.file.as_ref().expect("it has a file");
        lines.lines()[0].words[1].store(PRESENT_VERSION + 1, Relaxed);
        let error = RouteTotals::adopt(&["other"], file.try_clone().expect("a descriptor")).expect_err("another version");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(RouteTotals::adopt(&["other"], shared_file("x", LINES - 1).expect("a file in memory")).is_err());
        assert_eq!(told(&next(&first, &["other"])), [0], "it begins anew");
    }

    #[test]
    fn a_route_without_a_place_is_not_counted_and_disturbs_no_other() {
        let names: Vec<String> = (0..PLACES + 1).map(|number| format!("/{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let totals = RouteTotals::in_file(&names, None).expect("a file in memory").expect("there are routes");
        totals.add(&vec![grown(1); PLACES + 1]);
        let told = told(&totals);
        assert_eq!((told.iter().sum::<u64>(), told[PLACES]), (PLACES as u64, 0));
        let long = "x".repeat(NAME_BYTES);
        assert_ne!(words(&long), words(&long[1..]));
        assert_ne!(words("a"), words("a\0"));
    }
}
