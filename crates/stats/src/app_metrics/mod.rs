//! Metrics that apps count themselves, and a few of their language runtimes, for `--metrics`.
//!
//! * Each worker counts in its own `Table`, in memory that it shares with the first process, without a system call, a lock or
//!   an allocation. The next worker in the same slot continues with the table, so no count is lost when a process ends.
//! * The first process does not trust this memory. It copies a table, omits invalid entries, and adds the growth of the other
//!   entries to the `AppMetricTotals`, which outlive workers, generations and upgrades.
//! * Memory is bounded: there are at most `table::SERIES` series in a server, and as many in a worker. Attempts to add
//!   further series are counted as refused.
//!
//! Nothing is counted without `--metrics`, or in a process that is not a worker.

mod buckets;
mod key;
mod table;
mod totals;

pub use buckets::bounds;
pub use key::{Kind, exported_name};
pub use table::{Context, Contexts, Sums};
pub(crate) use table::{LINES, Table, TableCopy};
pub use totals::{AppMetric, AppMetricTotals, AppMetrics, FoldedMetrics};

use key::Key;
use std::sync::OnceLock;

/// A label: name and value.
pub type Label<'a> = (&'a [u8], &'a [u8]);

/// The table of this process.
static TABLE: OnceLock<Table> = OnceLock::new();

/// Installs the table in a new worker of a server with metrics.
pub fn begin(table: Table) {
    let _ = TABLE.set(table);
}

/// Whether this process counts app metrics. The answer does not change during the life of a worker.
#[inline]
pub fn are_counted() -> bool {
    TABLE.get().is_some()
}

/// Adds to a counter, from any thread. Does nothing in a process that does not count.
///
/// # Errors
/// The name, a label or the amount is invalid; the message contains the reason.
pub fn count(name: &[u8], amount: f64, labels: &[Label<'_>]) -> Result<(), String> {
    TABLE.get().map_or(Ok(()), |table| counted_in(table, name, amount, labels))
}

/// Adds a value to a histogram.
///
/// # Errors
/// The name, a label or the value is invalid; the message contains the reason.
pub fn observe(name: &[u8], value: f64, labels: &[Label<'_>]) -> Result<(), String> {
    TABLE.get().map_or(Ok(()), |table| observed_in(table, name, value, labels))
}

/// Adds a number of garbage collections of Ruby, and the time that they took.
pub fn note_collections(collections: u64, nanoseconds: u64) {
    if let Some(table) = TABLE.get() {
        table.add_sums(Sums { refused: 0, collecting: nanoseconds, collections });
    }
}

/// Counts a language context that was created (1) or destroyed (-1).
pub fn note_context(context: Context, by: i32) {
    if let Some(table) = TABLE.get() {
        table.change_contexts(context, by);
    }
}

fn counted_in(table: &Table, name: &[u8], amount: f64, labels: &[Label<'_>]) -> Result<(), String> {
    let amount = checked(amount, "a counter is added to by")?;
    if let Some(index) = find_or_add(table, &Key::new(Kind::Counter, name, labels)?)? {
        table.add_to_sum(index, amount);
        table.add(index, 1, 1);
    }
    Ok(())
}

fn observed_in(table: &Table, name: &[u8], value: f64, labels: &[Label<'_>]) -> Result<(), String> {
    let value = checked(value, "a histogram has")?;
    let key = Key::new(Kind::Histogram, name, labels)?;
    if let Some(index) = find_or_add(table, &key)? {
        let name = key.named().map_or("", |named| named.name);
        table.add(index, 1 + buckets::bucket(name, value), 1);
        table.add_to_sum(index, value);
    }
    Ok(())
}

/// Returns `number`, with zero in place of negative zero. The error says that it is negative or not finite.
fn checked(number: f64, what: &str) -> Result<f64, String> {
    if number.is_finite() && number >= 0.0 {
        Ok(number + 0.0)
    } else {
        Err(format!("{what} finite numbers from 0 on, not {number}"))
    }
}

/// Returns the index of a series, which is added if it is missing. `None` if the table is full; then the attempt was counted.
/// The error says that a series of another kind has the same name.
fn find_or_add(table: &Table, key: &Key) -> Result<Option<usize>, String> {
    if let Some(index) = table.find(key) {
        return Ok(Some(index));
    }
    if table.has_other_kind(key) {
        return Err(format!("{} is a figure of the other kind already", key.named().map_or("", |named| named.name)));
    }
    let index = table.find_or_add(key).ok();
    if index.is_none() {
        table.add_sums(Sums { refused: 1, ..Sums::default() });
    }
    Ok(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_io::process::SharedLine;

    #[test]
    fn numbers_that_no_figure_can_have_are_refused() {
        let table = Table::in_lines(Vec::leak((0..LINES).map(|_| SharedLine::default()).collect()));
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, -f64::MIN_POSITIVE] {
            counted_in(&table, b"orders", number, &[]).expect_err("no counter shrinks");
            observed_in(&table, b"payment_seconds", number, &[]).expect_err("there are buckets from 0 on");
        }
        let why = counted_in(&table, b"orders", -1.0, &[]).expect_err("no counter shrinks");
        assert_eq!(why, "a counter is added to by finite numbers from 0 on, not -1");
        assert_eq!(table.copy(), Some(TableCopy::default()), "nothing was counted");
        counted_in(&table, b"orders", -0.0, &[]).expect("that is zero");
        assert_ne!(table.copy(), Some(TableCopy::default()));
    }

    #[test]
    fn nothing_is_counted_where_nobody_wants_to_know() {
        assert!(!are_counted());
        assert_eq!(count(b"-", f64::NAN, &[]), Ok(()), "not even looked at");
        assert_eq!(observe(b"orders", 1.0, &[]), Ok(()));
        note_collections(1, 1);
        note_context(Context::LuaState, 1);
    }
}
