//! Rows of bits: one bit for each rule.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

/// A set of rules.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RuleSet(Vec<u64>);

impl RuleSet {
    /// The empty set, for so many rules.
    pub(crate) fn new(rules: usize) -> Self {
        Self(vec![0; rules.div_ceil(64)])
    }

    pub(crate) fn insert(&mut self, rule: usize) {
        self.0[rule / 64] |= 1 << (rule % 64);
    }

    /// Removes the rules that are in `other`.
    pub(crate) fn remove_all(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word &= !other;
        }
    }

    /// Adds the rules that are in `other`.
    pub(crate) fn insert_all(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word |= other;
        }
    }
}

/// Rows of bits, each of which is stored once. A row begins with the index of its first word that is not zero, so that rules far
/// down are found without a look at those before them. Its words follow, and one that is zero. A row is known by its place.
#[derive(Debug)]
pub(crate) struct Rows(Vec<u64>);

impl Rows {
    /// The index of a row's first word that is not zero; without one, that of the zero at the end.
    #[inline]
    pub(crate) fn first(&self, row: u32) -> usize {
        self.0[row as usize] as usize
    }

    /// A word of a row.
    #[inline]
    pub(crate) fn word(&self, row: u32, index: usize) -> u64 {
        self.0[row as usize + 1 + index]
    }
}

/// Collects rows.
#[derive(Debug)]
pub(crate) struct RowsBuilder {
    rows: Rows,
    numbers: BTreeMap<RuleSet, u32>,
}

impl RowsBuilder {
    pub(crate) const fn new() -> Self {
        Self { rows: Rows(Vec::new()), numbers: BTreeMap::new() }
    }

    /// The number of the row with these rules.
    pub(crate) fn add(&mut self, rules: RuleSet) -> u32 {
        if let Some(number) = self.numbers.get(&rules) {
            return *number;
        }
        // A pattern makes one row at most, so the number fits.
        let number = self.rows.0.len() as u32;
        let first = rules.0.iter().position(|word| *word != 0).unwrap_or(rules.0.len());
        self.rows.0.push(first as u64);
        self.rows.0.extend_from_slice(&rules.0);
        self.rows.0.push(0);
        self.numbers.insert(rules, number);
        number
    }

    pub(crate) fn build(self) -> Rows {
        self.rows
    }
}
