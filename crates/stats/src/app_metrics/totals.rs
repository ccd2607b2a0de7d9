//! The sums of app metrics over all workers of a server, in the memory of its first process. These totals are a table of the
//! same format as those of the workers. The growth of each worker's table is added to it, and an upgrade of the program
//! passes it on.

use super::key::Kind;
use super::table::{Contexts, LINES, NUMBERS, Series, Sums, Table, TableCopy};
use oribi_io::process::{KeptLines, shared_file};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The sums of app metrics of a server.
#[derive(Debug)]
pub struct AppMetricTotals {
    table: Table,
    /// The file with the table. `None` if this process has left the table to another process.
    file: Option<(OwnedFd, KeptLines)>,
}

/// One series of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct AppMetric {
    /// Label names and values, sorted by name.
    pub labels: Vec<(String, String)>,
    /// The sum of the values.
    pub sum: f64,
    /// The count of each bucket; meaningless for a counter.
    pub buckets: Vec<u64>,
}

/// All app metrics of a server at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AppMetrics {
    /// The kind and the series of each metric, by the name of the metric.
    pub families: BTreeMap<String, (Kind, Vec<AppMetric>)>,
    /// The sums of all processes.
    pub sums: Sums,
    /// The contexts of all processes.
    pub contexts: Contexts,
}

impl AppMetricTotals {
    /// Creates the table of a server that starts.
    ///
    /// # Errors
    /// The operating system refused a call.
    pub fn begin() -> io::Result<Self> {
        let totals = Self::of(shared_file("oribi-figures", LINES)?)?;
        totals.table.begin();
        Ok(totals)
    }

    /// Continues with the table of the previous server, which `file` contains.
    ///
    /// # Errors
    /// This version cannot read the table; the message contains the reason.
    pub fn adopt(file: OwnedFd) -> Result<Self, String> {
        let mut totals = Self::of(file).map_err(|error| error.to_string())?;
        if totals.table.is_begun() {
            return Ok(totals);
        }
        totals.leave().map_err(|error| error.to_string())?;
        Err("it is something else".to_owned())
    }

    fn of(file: OwnedFd) -> io::Result<Self> {
        let lines = KeptLines::of_file(&file, LINES)?;
        Ok(Self { table: Table::in_lines(lines.lines()), file: Some((file, lines)) })
    }

    /// Returns the file with the table, for the next server, which continues with it.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(|(file, _)| file.as_fd())
    }

    /// In a child: unmaps the file, so that the child cannot write there.
    ///
    /// # Errors
    /// The operating system refused the call; then the child can still write there.
    pub fn leave(&mut self) -> io::Result<()> {
        self.file.take().map_or(Ok(()), |(_, lines)| lines.leave())
    }

    /// Adds the growth of the workers' tables to the totals. `folded` are the numbers of the last call, and are updated.
    /// `tables` are copies of the tables in the order of the slots, with `None` for a table that cannot be read now.
    pub fn fold(&self, folded: &FoldedMetrics, tables: impl Iterator<Item = Option<TableCopy>>) {
        let mut folded = folded.0.borrow_mut();
        for (index, copy) in tables.enumerate() {
            if folded.len() <= index {
                folded.push(FoldedTable::default());
            }
            if let (Some(folded), Some(copy)) = (folded.get_mut(index), copy) {
                self.fold_one(folded, &copy);
            }
        }
    }

    fn fold_one(&self, folded: &mut FoldedTable, copy: &TableCopy) {
        if folded.epoch != copy.epoch {
            // Another worker has started with a cleared table.
            *folded = FoldedTable { epoch: copy.epoch, ..FoldedTable::default() };
        }
        let mut growth = less(copy.sums, folded.sums);
        folded.sums = highest(folded.sums, copy.sums);
        for series in &copy.series {
            let (hash, mut grown) = (series.key.hash(), [0; NUMBERS]);
            let known = folded.series.entry(series.index).or_insert((hash, [0; NUMBERS]));
            // An entry never gets another key, so this copy is invalid.
            if known.0 != hash {
                continue;
            }
            for ((grown, known), now) in grown.iter_mut().zip(&mut known.1).zip(series.numbers).skip(1) {
                *grown = now.saturating_sub(*known);
                *known = now.max(*known);
            }
            let sum = f64::from_bits(series.numbers[0]);
            let more = sum - f64::from_bits(known.1[0]);
            if more > 0.0 {
                known.1[0] = series.numbers[0];
            }
            if (more > 0.0 || grown.iter().any(|number| *number > 0)) && !self.add(series, more.max(0.0), &grown) {
                growth.refused = grown.iter().fold(growth.refused, |sum, number| sum.saturating_add(*number));
            }
        }
        self.table.add_sums(growth);
    }

    /// Adds to a series of the totals. Returns `false` if there is no room for it, or if a series of another kind has its
    /// name.
    fn add(&self, series: &Series, sum: f64, numbers: &[u64; NUMBERS]) -> bool {
        if self.table.has_other_kind(&series.key) {
            return false;
        }
        let Ok(index) = self.table.find_or_add(&series.key) else { return false };
        self.table.add_to_sum(index, sum);
        for (number, amount) in numbers.iter().enumerate().filter(|(_, amount)| **amount > 0) {
            self.table.add(index, number, *amount);
        }
        true
    }

    /// Returns all metrics. `contexts` are the language contexts of the current workers.
    pub fn read(&self, contexts: Contexts) -> AppMetrics {
        let copy = self.table.copy().unwrap_or_default();
        let mut app_metrics = AppMetrics { families: BTreeMap::new(), sums: copy.sums, contexts };
        let mut keys: BTreeMap<&[u8], (&Series, f64, [u64; NUMBERS])> = BTreeMap::new();
        // Two servers that add a series at the same time may give it two entries, which are added up.
        for series in &copy.series {
            let (_, sum, numbers) = keys.entry(series.key.get()).or_insert((series, 0.0, [0; NUMBERS]));
            *sum = (*sum + f64::from_bits(series.numbers[0])).min(f64::MAX);
            numbers.iter_mut().zip(series.numbers).skip(1).for_each(|(number, more)| *number = number.saturating_add(more));
        }
        for (series, sum, numbers) in keys.into_values() {
            let Some(named) = series.key.named() else { continue };
            let (kind, family) = app_metrics.families.entry(named.name.to_owned()).or_insert((named.kind, Vec::new()));
            if *kind == named.kind {
                let labels = named.labels.iter().map(|(label, value)| ((*label).to_owned(), (*value).to_owned())).collect();
                family.push(AppMetric { labels, sum, buckets: numbers[1..].to_vec() });
            }
        }
        app_metrics
    }
}

impl Contexts {
    /// Adds up the contexts of several workers.
    pub fn of_all(workers: impl Iterator<Item = Self>) -> Self {
        workers.fold(Self::default(), |all, one| Self {
            lua_states: all.lua_states.saturating_add(one.lua_states),
            perl_interpreters: all.perl_interpreters.saturating_add(one.perl_interpreters),
        })
    }
}

/// The numbers last seen in the tables of workers.
#[derive(Debug, Default)]
pub struct FoldedMetrics(RefCell<Vec<FoldedTable>>);

#[derive(Debug, Default)]
struct FoldedTable {
    epoch: u64,
    sums: Sums,
    /// By the index in the table: the hash of the key, and the highest value of each number.
    series: BTreeMap<usize, (u64, [u64; NUMBERS])>,
}

fn highest(one: Sums, other: Sums) -> Sums {
    Sums {
        refused: one.refused.max(other.refused),
        collecting: one.collecting.max(other.collecting),
        collections: one.collections.max(other.collections),
    }
}

fn less(now: Sums, before: Sums) -> Sums {
    Sums {
        refused: now.refused.saturating_sub(before.refused),
        collecting: now.collecting.saturating_sub(before.collecting),
        collections: now.collections.saturating_sub(before.collections),
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::Key;
    use super::super::table::{Context, SERIES};
    use super::super::{counted_in, observed_in};
    use super::*;
    use oribi_io::process::SharedLine;

    fn table() -> Table {
        Table::in_lines(Vec::leak((0..LINES).map(|_| SharedLine::default()).collect()))
    }

    fn totals() -> AppMetricTotals {
        AppMetricTotals::begin().expect("a file in memory")
    }

    fn count(table: &Table, name: &str, amount: f64) {
        counted_in(table, name.as_bytes(), amount, &[]).expect("it is in order");
    }

    fn sum(totals: &AppMetricTotals, name: &str) -> Option<f64> {
        totals.read(Contexts::default()).families.get(name).map(|(_, app_metrics)| app_metrics[0].sum)
    }

    #[test]
    fn they_grow_by_what_each_worker_has_counted_and_never_shrink() {
        let (totals, folded, tables) = (totals(), FoldedMetrics::default(), [table(), table()]);
        let fold = || totals.fold(&folded, tables.iter().map(Table::copy));
        count(&tables[0], "orders", 2.0);
        count(&tables[1], "orders", 0.5);
        observed_in(&tables[1], b"payment_seconds", 0.02, &[(b"provider", b"x")]).expect("it is in order");
        for _ in 0..2 {
            fold();
            assert_eq!(sum(&totals, "orders"), Some(2.5));
        }
        count(&tables[0], "orders", 1.0);
        observed_in(&tables[1], b"payment_seconds", 9000.0, &[(b"provider", b"x")]).expect("it is in order");
        fold();
        assert_eq!(sum(&totals, "orders"), Some(3.5));
        let read = totals.read(Contexts { lua_states: 3, perl_interpreters: 0 });
        let (kind, payments) = &read.families["payment_seconds"];
        assert_eq!((*kind, payments[0].sum, read.contexts.lua_states), (Kind::Histogram, 9000.02, 3));
        assert_eq!(payments[0].labels, [("provider".to_owned(), "x".to_owned())]);
        let buckets: Vec<usize> = (0..15).filter(|bucket| payments[0].buckets[*bucket] == 1).collect();
        assert_eq!(buckets, [4, 14]);
        assert_eq!(sum(&totals, "payment_seconds"), Some(9000.02));
        totals.fold(&FoldedMetrics::default(), std::iter::once(tables[1].copy()));
        assert_eq!(sum(&totals, "orders"), Some(4.0), "the workers of another generation");
    }

    #[test]
    fn a_worker_that_has_written_nonsense_harms_nobody_else() {
        let (totals, folded, tables) = (totals(), FoldedMetrics::default(), [table(), table()]);
        let fold = || totals.fold(&folded, tables.iter().map(Table::copy));
        count(&tables[0], "orders", 2.0);
        count(&tables[1], "orders", 3.0);
        fold();
        // The copy has fewer entries than before, as if the table had been cleared.
        let index = tables[0].find_or_add(&Key::new(Kind::Counter, b"orders", &[]).expect("a name")).expect("it is there");
        let copy = tables[0].copy().map(|copy| TableCopy { series: Vec::new(), ..copy });
        totals.fold(&folded, [copy, None].into_iter());
        assert_eq!(sum(&totals, "orders"), Some(5.0));
        tables[0].add_to_sum(index, f64::NAN);
        count(&tables[1], "orders", 4.0);
        fold();
        assert_eq!(sum(&totals, "orders"), Some(9.0));
        tables[0].pass_on();
        count(&tables[0], "orders", 1.0);
        fold();
        assert_eq!(sum(&totals, "orders"), Some(10.0), "what the next worker counts in the same place");
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let (totals, folded, tables) = (totals(), FoldedMetrics::default(), [table(), table()]);
        for index in 0..SERIES {
            count(&tables[0], &format!("figure_{index}"), 1.0);
        }
        count(&tables[0], "one_more", 1.0);
        count(&tables[1], "another_one", 7.0);
        count(&tables[1], "another_one", 7.0);
        count(&tables[1], "figure_7", 1.0);
        for _ in 0..2 {
            totals.fold(&folded, tables.iter().map(Table::copy));
        }
        let read = totals.read(Contexts::default());
        assert_eq!((read.families.len(), read.sums.refused, sum(&totals, "figure_7")), (256, 3, Some(2.0)));
    }

    #[test]
    fn a_name_is_of_one_kind() {
        let (totals, folded, tables) = (totals(), FoldedMetrics::default(), [table(), table()]);
        count(&tables[0], "orders", 1.0);
        observed_in(&tables[0], b"orders", 1.0, &[]).expect_err("it is a counter here");
        observed_in(&tables[1], b"orders", 1.0, &[]).expect("this worker cannot know that");
        totals.fold(&folded, tables.iter().map(Table::copy));
        let read = totals.read(Contexts::default());
        assert_eq!((read.families["orders"].0, read.sums.refused), (Kind::Counter, 1));
    }

    #[test]
    fn the_next_server_goes_on_with_them_and_both_may_add() {
        let (totals, tables) = (totals(), [table()]);
        let descriptor = || totals.descriptor().and_then(|file| file.try_clone_to_owned().ok()).expect("a descriptor");
        let next = AppMetricTotals::adopt(descriptor()).expect("it is of this form");
        count(&tables[0], "orders", 2.0);
        next.fold(&FoldedMetrics::default(), std::iter::once(tables[0].copy()));
        totals.fold(&FoldedMetrics::default(), std::iter::once(tables[0].copy()));
        assert_eq!((sum(&totals, "orders"), sum(&next, "orders")), (Some(4.0), Some(4.0)));
        let mut child = AppMetricTotals::adopt(descriptor()).expect("it is of this form");
        child.leave().expect("there is memory");
        child.fold(&FoldedMetrics::default(), std::iter::once(tables[0].copy()));
        assert_eq!((sum(&totals, "orders"), sum(&child, "orders")), (Some(4.0), Some(2.0)));
        let other = shared_file("something", LINES).expect("a file in memory");
        assert_eq!(AppMetricTotals::adopt(other).expect_err("it has no mark"), "it is something else");
        let short = shared_file("something", 5).expect("a file in memory");
        assert!(AppMetricTotals::adopt(short).is_err());
    }

    #[test]
    fn contexts_of_workers_are_added() {
        let one = Contexts { lua_states: 1, perl_interpreters: u32::MAX };
        assert_eq!(Contexts::of_all([one, one].into_iter()), Contexts { lua_states: 2, perl_interpreters: u32::MAX });
        let table = table();
        table.change_contexts(Context::PerlInterpreter, 1);
        assert_eq!(table.contexts(), Contexts { lua_states: 0, perl_interpreters: 1 });
        table.pass_on();
        assert_eq!(table.contexts(), Contexts::default(), "its process has ended");
    }
}
