//! The table in which app metrics are counted, in the memory of a worker or of the totals.
//!
//! A table consists of a header, a directory with the hash of each key, in order of arrival, and then the numbers and the key
//! of each entry. Several threads and processes write at the same time without locks. A process that is killed while it
//! writes leaves only data that other processes ignore. A writer with a new key reserves the next entry, fills it, and stores
//! the hash in the directory last; readers skip entries without a hash. If two writers add the same key at the same time,
//! both may get an entry, and readers add up the two entries.

use super::buckets::BOUNDS;
use super::key::{KEY_BYTES, Key, Kind};
use oribi_io::process::SharedLine;
use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// The most series. Each combination of a name and of label values is a series.
pub(crate) const SERIES: usize = 256;

/// The number of 64-bit words of a line.
const EACH: usize = 4;
const LINE_BYTES: usize = size_of::<SharedLine>();

/// The number of 64-bit numbers of a series. A counter uses two: the sum, as the bits of a float, and how often it was
/// increased. A histogram uses all: the sum, and the count of each bucket.
pub(super) const NUMBERS: usize = BOUNDS + 2;
const NUMBER_LINES: usize = NUMBERS.div_ceil(EACH);
const KEY_LINES: usize = KEY_BYTES / LINE_BYTES;
const ENTRY_LINES: usize = NUMBER_LINES + KEY_LINES;

/// The number of lines before the directory.
const HEADER_LINES: usize = 2;
const DIRECTORY_LINES: usize = SERIES / EACH;
const FIRST_ENTRY: usize = HEADER_LINES + DIRECTORY_LINES;

/// The number of lines of a table: 196 KiB, of which the kernel allocates only the used pages.
pub(crate) const LINES: usize = FIRST_ENTRY + SERIES * ENTRY_LINES;

/// The indexes of words in the first line: the format, for later versions; how often the table was cleared; the number of
/// reserved entries.
const MAGIC: usize = 0;
const EPOCH: usize = 1;
const USED: usize = 2;
/// The indexes of words in the second line, which only increase.
const REFUSED: usize = 0;
const COLLECTING: usize = 1;
const COLLECTIONS: usize = 2;
/// The index of the 32-bit half, in an entry's first number line, that holds the size of its key.
const SIZE: usize = 0;

/// "OribiFi" and the version of this format.
const MAGIC_NUMBER: u64 = u64::from_be_bytes(*b"OribiFi\x01");

/// The largest number accepted. Counting to this number in steps of one takes centuries.
const MOST: u64 = 1 << 60;

/// Counters of a process beside the app metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// How often the table had no room for a series.
    pub refused: u64,
    /// Nanoseconds that Ruby spent in garbage collection.
    pub collecting: u64,
    /// The number of garbage collections.
    pub collections: u64,
}

/// Language contexts that exist now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contexts {
    /// The number of Lua states.
    pub lua_states: u32,
    /// The number of Perl interpreters.
    pub perl_interpreters: u32,
}

/// The kind of a language context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Context {
    /// The context of a Lua app.
    LuaState = 0,
    /// The context of a Perl app.
    PerlInterpreter = 1,
}

/// A copy of a series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Series {
    /// The index of the series in the table.
    pub(super) index: usize,
    pub(super) key: Key,
    pub(super) kind: Kind,
    pub(super) numbers: [u64; NUMBERS],
}

/// A copy of a table, without invalid entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableCopy {
    pub(super) epoch: u64,
    pub(super) sums: Sums,
    pub(super) series: Vec<Series>,
}

/// A table that this process writes to.
#[derive(Clone, Copy, Debug)]
pub struct Table(&'static [SharedLine]);

/// An error: the table has no room for another series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

impl Table {
    /// Returns the table in these lines. With too few lines it has no room for any series.
    pub(crate) const fn in_lines(lines: &'static [SharedLine]) -> Self {
        Self(lines)
    }

    /// Returns the index of a series, which is added if it is missing.
    pub(super) fn find_or_add(&self, key: &Key) -> Result<usize, Full> {
        self.find(key).map_or_else(|| self.insert(key), Ok)
    }

    /// Returns the index of a series; `None` if the table does not have it.
    pub(super) fn find(&self, key: &Key) -> Option<usize> {
        let hash = key.hash();
        let is_there = |index: &usize| self.hash(*index).is_some_and(|word| word.load(Acquire) == hash) && self.is(*index, key);
        (0..self.used()).find(is_there)
    }

    /// Whether a series of another kind has the same name.
    pub(super) fn has_other_kind(&self, key: &Key) -> bool {
        let Some(named) = key.named() else { return false };
        let other = |index| self.key(index).is_some_and(|other| is_other_kind(&other, named.kind, named.name));
        self.find(key).is_none() && (0..self.used()).any(other)
    }

    /// Adds `amount` to the number with this index of a series.
    pub(super) fn add(&self, index: usize, number: usize, amount: u64) {
        if let Some(word) = self.number(index, number) {
            add_saturating(word, amount);
        }
    }

    /// Adds to the sum of a series.
    pub(super) fn add_to_sum(&self, index: usize, amount: f64) {
        let Some(word) = self.number(index, 0) else { return };
        // If another writer has changed the sum meanwhile, the addition is tried again. A word that is not a valid sum stays
        // as it is.
        let _ = word.fetch_update(Relaxed, Relaxed, |bits| {
            let present = f64::from_bits(bits);
            let sum = present + amount;
            let is_sum = present.is_finite() && present.is_sign_positive();
            is_sum.then(|| if sum > f64::MAX { f64::MAX } else { sum }.to_bits())
        });
    }

    /// Adds to the counters that are not app metrics.
    pub(super) fn add_sums(&self, sums: Sums) {
        let amounts = [(REFUSED, sums.refused), (COLLECTING, sums.collecting), (COLLECTIONS, sums.collections)];
        for (word, amount) in amounts.into_iter().filter(|(_, amount)| *amount > 0) {
            if let Some(line) = self.0.get(1) {
                add_saturating(&line.words[word], amount);
            }
        }
    }

    /// Changes the number of contexts of this kind by `by`.
    pub(super) fn change_contexts(&self, context: Context, by: i32) {
        if let Some(half) = self.number_of(context) {
            half.fetch_add(by.cast_unsigned(), Relaxed);
        }
    }

    /// Resets the numbers of contexts, after the process has ended.
    pub(crate) fn close_contexts(&self) {
        [Context::LuaState, Context::PerlInterpreter]
            .iter()
            .filter_map(|context| self.number_of(*context))
            .for_each(|half| half.store(0, Relaxed));
    }

    /// Prepares the table for the next process, which continues with it. If an earlier process has written anything invalid,
    /// clears the table.
    pub(crate) fn pass_on(&self) {
        self.close_contexts();
        let Some(first) = self.0.first() else { return };
        // If a process was killed while it filled an entry, that entry has no hash, and is free again.
        while let used @ 1.. = self.used()
            && self.hash(used - 1).is_some_and(|hash| hash.load(Relaxed) == 0)
        {
            first.words[USED].store(used as u64 - 1, Relaxed);
        }
        if TableCopy::check(|lines| self.read(lines)).is_none() {
            first.words[USED].store(0, Relaxed);
            let epoch = first.words[EPOCH].load(Relaxed);
            for line in self.0 {
                line.halves.iter().for_each(|half| half.store(0, Relaxed));
                line.words.iter().for_each(|word| word.store(0, Relaxed));
            }
            first.words[EPOCH].store(epoch.wrapping_add(1), Release);
        }
    }

    /// Writes the mark by which later processes recognize the format.
    pub(super) fn begin(&self) {
        if let Some(first) = self.0.first() {
            first.words[MAGIC].store(MAGIC_NUMBER, Relaxed);
        }
    }

    /// Whether the table has the mark of a format with which this version can continue.
    pub(super) fn is_begun(&self) -> bool {
        self.0.first().is_some_and(|first| first.words[MAGIC].load(Relaxed) == MAGIC_NUMBER)
    }

    /// Copies the table without its invalid entries.
    pub(crate) fn copy(&self) -> Option<TableCopy> {
        TableCopy::read(|lines| self.read(lines))
    }

    /// Returns the numbers of contexts of the process.
    pub(crate) fn contexts(&self) -> Contexts {
        Contexts::read(|lines| self.read(lines))
    }

    fn read(&self, lines: Range<usize>) -> Vec<[u8; LINE_BYTES]> {
        self.0.get(lines).unwrap_or_default().iter().map(bytes).collect()
    }

    fn used(&self) -> usize {
        self.0.first().map_or(0, |first| first.words[USED].load(Acquire)).min(SERIES as u64) as usize
    }

    fn hash(&self, index: usize) -> Option<&'static AtomicU64> {
        self.0.get(HEADER_LINES + index / EACH).map(|line| &line.words[index % EACH])
    }

    fn entry(&self, index: usize) -> Option<(&'static [SharedLine], &'static [SharedLine])> {
        let first = FIRST_ENTRY + index * ENTRY_LINES;
        self.0.get(first..first + ENTRY_LINES)?.split_at_checked(NUMBER_LINES)
    }

    fn number(&self, index: usize, number: usize) -> Option<&'static AtomicU64> {
        self.entry(index)?.0.get(number / EACH).map(|line| &line.words[number % EACH])
    }

    fn number_of(&self, context: Context) -> Option<&'static AtomicU32> {
        self.0.get(1).map(|line| &line.halves[context as usize])
    }

    /// Whether the entry with this index has this key.
    fn is(&self, index: usize, key: &Key) -> bool {
        let Some((_, lines)) = self.entry(index) else { return false };
        let parts = key.bytes.as_chunks::<LINE_BYTES>().0.iter().take(key.size.div_ceil(LINE_BYTES));
        lines.iter().zip(parts).all(|(line, part)| bytes(line) == *part)
    }

    fn key(&self, index: usize) -> Option<Key> {
        let (numbers, lines) = self.entry(index)?;
        let lines: Vec<[u8; LINE_BYTES]> = lines.iter().map(bytes).collect();
        key_in(numbers.first()?.halves[SIZE].load(Relaxed), &lines)
    }

    fn insert(&self, key: &Key) -> Result<usize, Full> {
        let used = &self.0.first().ok_or(Full)?.words[USED];
        let taken = used.fetch_update(Relaxed, Relaxed, |used| (used < SERIES as u64).then(|| used + 1));
        let index = taken.map_err(|_| Full)? as usize;
        let (Some((numbers, lines)), Some(word)) = (self.entry(index), self.hash(index)) else { return Err(Full) };
        for (line, part) in lines.iter().zip(key.bytes.as_chunks().0) {
            write(line, part);
        }
        if let Some(line) = numbers.first() {
            line.halves[SIZE].store(key.size as u32, Relaxed);
        }
        word.store(key.hash(), Release);
        Ok(index)
    }
}

fn is_other_kind(key: &Key, kind: Kind, name: &str) -> bool {
    key.named().is_some_and(|named| named.name == name && named.kind != kind)
}

fn add_saturating(word: &AtomicU64, amount: u64) {
    // Readers reject larger numbers than this limit.
    let _ = word.fetch_update(Relaxed, Relaxed, |present| Some(present.saturating_add(amount).min(MOST.max(present))));
}

/// Returns the bytes of a line as they are in memory: the 32-bit halves, then the 64-bit words.
fn bytes(line: &SharedLine) -> [u8; LINE_BYTES] {
    let mut bytes = [0; LINE_BYTES];
    let (in_halves, in_words) = bytes.split_at_mut(LINE_BYTES / 2);
    in_halves
        .as_chunks_mut()
        .0
        .iter_mut()
        .zip(&line.halves)
        .for_each(|(index, half)| *index = half.load(Relaxed).to_ne_bytes());
    in_words.as_chunks_mut().0.iter_mut().zip(&line.words).for_each(|(index, word)| *index = word.load(Relaxed).to_ne_bytes());
    bytes
}

fn write(line: &SharedLine, bytes: &[u8; LINE_BYTES]) {
    let (in_halves, in_words) = bytes.split_at(LINE_BYTES / 2);
    line.halves.iter().zip(in_halves.as_chunks().0).for_each(|(half, bytes)| half.store(u32::from_ne_bytes(*bytes), Relaxed));
    line.words.iter().zip(in_words.as_chunks().0).for_each(|(word, bytes)| word.store(u64::from_ne_bytes(*bytes), Relaxed));
}

fn half(line: &[u8; LINE_BYTES], index: usize) -> u32 {
    line.as_chunks().0.get(index).map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

fn word(line: &[u8; LINE_BYTES], index: usize) -> u64 {
    line[LINE_BYTES / 2..].as_chunks().0.get(index).map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

/// Decodes the key in the lines of an entry.
fn key_in(size: u32, lines: &[[u8; LINE_BYTES]]) -> Option<Key> {
    Key::of(lines.as_flattened().get(..size as usize)?)
}

impl TableCopy {
    /// Decodes a copy of a table in the memory of another process, which is not trusted. `read` copies a range of its lines,
    /// or fewer lines at the end of the memory. `None` if there is no table that this version can read.
    pub(crate) fn read(read: impl Fn(Range<usize>) -> Vec<[u8; LINE_BYTES]>) -> Option<Self> {
        Self::read_with(read, true)
    }

    /// Like `read`, but also `None` if any entry is invalid.
    fn check(read: impl Fn(Range<usize>) -> Vec<[u8; LINE_BYTES]>) -> Option<Self> {
        Self::read_with(read, false)
    }

    /// Decodes a copy. Invalid entries are omitted with `leniently`; otherwise they make the result `None`.
    fn read_with(read: impl Fn(Range<usize>) -> Vec<[u8; LINE_BYTES]>, leniently: bool) -> Option<Self> {
        let header = read(0..HEADER_LINES);
        let [first, second] = header.as_slice() else { return None };
        let sums = [REFUSED, COLLECTING, COLLECTIONS].map(|index| word(second, index));
        if !leniently && (word(first, USED) > SERIES as u64 || sums.iter().any(|sum| *sum > MOST)) {
            return None;
        }
        let [refused, collecting, collections] = sums.map(|sum| if sum > MOST { 0 } else { sum });
        let mut copy = Self { epoch: word(first, EPOCH), sums: Sums { refused, collecting, collections }, series: Vec::new() };
        let used = word(first, USED).min(SERIES as u64) as usize;
        let directory = read(HEADER_LINES..HEADER_LINES + used.div_ceil(EACH));
        let hashes = directory.iter().flat_map(|line| (0..EACH).map(|index| word(line, index))).take(used);
        let entries = read(FIRST_ENTRY..FIRST_ENTRY + used * ENTRY_LINES);
        for (index, (hash, lines)) in hashes.zip(entries.chunks_exact(ENTRY_LINES)).enumerate() {
            match Series::read(index, hash, lines) {
                Some(series) => copy.series.push(series),
                None if hash == 0 || leniently => {}
                None => return None,
            }
        }
        Some(copy)
    }
}

impl Contexts {
    /// Decodes the numbers of contexts in a copy of a table.
    pub(crate) fn read(read: impl Fn(Range<usize>) -> Vec<[u8; LINE_BYTES]>) -> Self {
        let number = |line: &[u8; LINE_BYTES], context: Context| half(line, context as usize);
        read(0..HEADER_LINES).get(1).map_or_else(Self::default, |line| Self {
            lua_states: number(line, Context::LuaState),
            perl_interpreters: number(line, Context::PerlInterpreter),
        })
    }
}

impl Series {
    /// Decodes an entry; `None` if it is incomplete or invalid.
    fn read(index: usize, hash: u64, lines: &[[u8; LINE_BYTES]]) -> Option<Self> {
        let (first, keys) = lines.split_at_checked(NUMBER_LINES)?;
        let key = key_in(half(first.first()?, SIZE), keys)?;
        let mut words = first.iter().flat_map(|line| (0..EACH).map(|index| word(line, index)));
        let numbers: [u64; NUMBERS] = std::array::from_fn(|_| words.next().unwrap_or_default());
        let (sum, others) = numbers.split_first()?;
        let sum = f64::from_bits(*sum);
        let is_whole =
            key.hash() == hash && sum.is_finite() && sum.is_sign_positive() && others.iter().all(|other| *other <= MOST);
        let kind = key.named()?.kind;
        is_whole.then_some(Self { index, key, kind, numbers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table(Vec::leak((0..LINES).map(|_| SharedLine::default()).collect()))
    }

    fn copy(table: &Table) -> TableCopy {
        table.copy().expect("there is a table")
    }

    fn key(name: &str) -> Key {
        Key::new(Kind::Counter, name.as_bytes(), &[(b"label", b"value")]).expect("a name")
    }

    fn count(table: &Table, name: &str, amount: f64) -> Result<(), Full> {
        let index = table.find_or_add(&key(name))?;
        table.add_to_sum(index, amount);
        table.add(index, 1, 1);
        Ok(())
    }

    fn sums(copy: &TableCopy) -> Vec<(String, f64, u64)> {
        let one = |series: &Series| {
            let name = series.key.named().map(|named| named.name.to_owned()).unwrap_or_default();
            (name, f64::from_bits(series.numbers[0]), series.numbers[1])
        };
        copy.series.iter().map(one).collect()
    }

    #[test]
    fn what_is_counted_is_told() {
        let table = table();
        assert_eq!(copy(&table), TableCopy::default());
        for (name, amount) in [("a", 1.5), ("b", 2.0), ("a", 0.25)] {
            count(&table, name, amount).expect("room");
        }
        assert_eq!(sums(&copy(&table)), [("a".to_owned(), 1.75, 2), ("b".to_owned(), 2.0, 1)]);
        table.add_sums(Sums { refused: 1, collecting: 2, collections: 3 });
        table.change_contexts(Context::LuaState, 3);
        table.change_contexts(Context::LuaState, -1);
        let seen = copy(&table);
        assert_eq!(seen.sums, Sums { refused: 1, collecting: 2, collections: 3 });
        assert_eq!(table.contexts(), Contexts { lua_states: 2, perl_interpreters: 0 });
        let histogram = Key::new(Kind::Histogram, b"a", &[]).expect("a name");
        assert!(table.has_other_kind(&histogram) && !table.has_other_kind(&key("a")));
        count(&table, "a", f64::MAX).expect("room");
        count(&table, "a", f64::MAX).expect("room");
        assert_eq!(sums(&copy(&table))[0].1, f64::MAX, "it stays a number");
    }

    #[test]
    fn there_is_room_for_so_many_and_no_more() {
        let table = table();
        for index in 0..SERIES {
            count(&table, &format!("figure_{index}"), 1.0).expect("room");
        }
        assert_eq!(count(&table, "one_more", 1.0), Err(Full));
        count(&table, "figure_0", 1.0).expect("it is there");
        assert_eq!(copy(&table).series.len(), SERIES);
        assert_eq!(Table(&[]).find_or_add(&key("a")), Err(Full));
        table.pass_on();
        assert_eq!(copy(&table).series.len(), SERIES, "the next process goes on with it");
    }

    #[test]
    fn threads_count_at_the_same_time_and_nothing_is_lost() {
        const THREADS: usize = 4;
        const EACH: usize = 2000;
        let table = table();
        let start = std::sync::Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    start.wait();
                    (0..EACH).for_each(|index| count(&table, &format!("figure_{}", index % 8), 1.0).expect("room"));
                });
            }
        });
        let copy = sums(&copy(&table));
        assert_eq!(copy.iter().map(|(_, sum, _)| sum).sum::<f64>(), (THREADS * EACH) as f64, "{copy:?}");
        assert_eq!(copy.iter().map(|(_, _, often)| *often as usize).sum::<usize>(), THREADS * EACH);
        assert!(copy.len() <= 8 * THREADS, "at worst each thread has brought each figure");
    }

    #[test]
    fn a_place_that_somebody_did_not_fill_is_passed_over_and_given_to_the_next() {
        let table = table();
        count(&table, "a", 1.0).expect("room");
        table.0[0].words[USED].fetch_add(1, Relaxed);
        count(&table, "b", 1.0).expect("room");
        table.0[0].words[USED].fetch_add(1, Relaxed);
        assert_eq!(sums(&copy(&table)), [("a".to_owned(), 1.0, 1), ("b".to_owned(), 1.0, 1)]);
        table.pass_on();
        assert_eq!((table.used(), copy(&table).series.len(), copy(&table).epoch), (3, 2, 0));
    }

    #[test]
    fn nothing_that_is_written_over_it_harms_anybody() {
        let written = |over: &dyn Fn(&Table)| {
            let table = table();
            count(&table, "a", 1.0).expect("room");
            count(&table, "b", 2.0).expect("room");
            over(&table);
            let shown = copy(&table);
            let _ = (count(&table, "a", 1.0), count(&table, "c", 1.0), copy(&table));
            table.pass_on();
            let (next, epoch) = (copy(&table).series, copy(&table).epoch);
            count(&table, "a", 5.0).expect("the next process has room");
            assert!(copy(&table).series.len() <= 4);
            (sums(&shown), next.len(), epoch)
        };
        let (a, b) = (("a".to_owned(), 1.0, 1), ("b".to_owned(), 2.0, 1));
        assert_eq!(written(&|_| ()), (vec![a.clone(), b.clone()], 3, 0));
        let word = |line: usize, word: usize, value: u64| move |table: &Table| table.0[line].words[word].store(value, Relaxed);
        assert_eq!(written(&word(0, USED, u64::MAX)), (vec![a, b.clone()], 2, 0), "the empty places are free again");
        for nonsense in [f64::NAN, f64::INFINITY, -1.0, -0.0] {
            assert_eq!(written(&word(FIRST_ENTRY, 0, nonsense.to_bits())), (vec![b.clone()], 0, 1), "{nonsense}");
        }
        assert_eq!(written(&word(FIRST_ENTRY, 1, u64::MAX)), (vec![b.clone()], 0, 1));
        assert_eq!(written(&word(HEADER_LINES, 0, 77)), (vec![b.clone()], 0, 1), "a hash");
        let key = |table: &Table| table.0[FIRST_ENTRY + NUMBER_LINES].halves[0].store(77, Relaxed);
        assert_eq!(written(&key), (vec![b], 0, 1), "a key");
        for nonsense in [u64::MAX, 0x4141_4141_4141_4141, 1] {
            let (copy, next, epoch) = written(&|table| {
                for line in table.0 {
                    line.words.iter().for_each(|word| word.store(nonsense, Relaxed));
                    line.halves.iter().for_each(|half| half.store(nonsense as u32, Relaxed));
                }
            });
            assert_eq!((copy, next, epoch), (Vec::new(), 0, nonsense.wrapping_add(1)));
        }
        assert_eq!((TableCopy::read(|_| Vec::new()), Table(&[]).copy()), (None, None));
    }
}
