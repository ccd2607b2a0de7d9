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

/// Rows of bits, each of which is stored once. A row is known by the place of its first word.
#[derive(Debug)]
pub(crate) struct Rows {
    /// The words of a row and one more, before them: the index of the first word with a bit, so that rules far down are found
    /// without a look at those before them.
    size: usize,
    words: Vec<u64>,
}

impl Rows {
    #[inline]
    pub(crate) fn get(&self, row: u32) -> Row<'_> {
        match &self.words[row as usize..][..self.size] {
            [first, words @ ..] => Row { first: *first as usize, words },
            [] => Row { first: 0, words: &[] },
        }
    }
}

/// A row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    /// The index of the first word that is not zero.
    pub(crate) first: usize,
    words: &'a [u64],
}

impl Row<'_> {
    /// The word with this index; behind the last word, there are no rules.
    #[inline]
    pub(crate) fn word(&self, index: usize) -> u64 {
        self.words.get(index).copied().unwrap_or(0)
    }
}

/// Collects rows.
#[derive(Debug)]
pub(crate) struct RowsBuilder {
    rows: Rows,
    numbers: BTreeMap<RuleSet, u32>,
}

impl RowsBuilder {
    pub(crate) fn new(rules: usize) -> Self {
        let rows = Rows { size: 1 + rules.div_ceil(64), words: Vec::new() };
        Self { rows, numbers: BTreeMap::new() }
    }

    /// The number of the row with these rules.
    pub(crate) fn add(&mut self, rules: RuleSet) -> u32 {
        if let Some(number) = self.numbers.get(&rules) {
            return *number;
        }
        // At most 32769 rows of 65 words: the number fits.
        let number = self.rows.words.len() as u32;
        let first = rules.0.iter().position(|word| *word != 0).unwrap_or(rules.0.len());
        self.rows.words.push(first as u64);
        self.rows.words.extend_from_slice(&rules.0);
        self.numbers.insert(rules, number);
        number
    }

    pub(crate) fn build(self) -> Rows {
        self.rows
    }
}
