//! An index of the rules that are possible with a text, by all literal patterns of one list of each rule.

use crate::rows::{Rows, RowsBuilder, RuleSet};
use crate::tree::{Entry, Found, Tree};
use alloc::vec::Vec;

/// A literal pattern of a rule, or the literal beginning of a pattern that is not literal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mention {
    pub(crate) key: Vec<u8>,
    /// Whether the pattern matches only the key; otherwise it matches each text that begins with the key.
    pub(crate) whole: bool,
    /// Whether it rejects the rule.
    pub(crate) negative: bool,
    pub(crate) rule: usize,
}

/// The index.
#[derive(Debug)]
pub(crate) struct Index {
    tree: Tree,
    rows: Rows,
    /// The row of requests without such a text.
    missing: u32,
}

/// The rules of which a pattern matches all texts of a class: those that begin with a key and with no longer key.
struct Class<'m> {
    key: &'m [u8],
    admitted: RuleSet,
    rejected: RuleSet,
}

impl Index {
    /// Builds the index. `restricted` are the rules with a positive pattern.
    pub(crate) fn new(rules: usize, restricted: &RuleSet, mut mentions: Vec<Mention>) -> Self {
        let mut rows = RowsBuilder::new();
        let mut unrestricted = RuleSet::new(rules);
        (0..rules).for_each(|rule| unrestricted.insert(rule));
        unrestricted.remove_all(restricted);
        let missing = rows.add(unrestricted.clone());

        // A prefix comes before its key as a whole text, and both before all longer keys.
        mentions.sort_unstable();
        let mut entries: Vec<Entry> = Vec::new();
        // Classes, each of which includes the one above it.
        let mut classes: Vec<Class<'_>> = Vec::new();
        for group in mentions.chunk_by(|one, other| (&one.key, one.whole) == (&other.key, other.whole)) {
            let Mention { key, whole, .. } = &group[0];
            while classes.pop_if(|class| !key.starts_with(class.key)).is_some() {}
            // A longer text still has the prefixes of a shorter one.
            let (mut admitted, mut rejected) = match classes.last() {
                Some(class) => (class.admitted.clone(), class.rejected.clone()),
                None => (RuleSet::new(rules), RuleSet::new(rules)),
            };
            for mention in group {
                let set = if mention.negative { &mut rejected } else { &mut admitted };
                set.insert(mention.rule);
            }
            let mut possible = unrestricted.clone();
            possible.insert_all(&admitted);
            possible.remove_all(&rejected);
            let row = rows.add(possible);
            if entries.last().is_none_or(|entry| entry.key != *key) {
                entries.push(Entry { key: key.clone(), prefix: None, whole: None });
            }
            if let Some(entry) = entries.last_mut() {
                *if *whole { &mut entry.whole } else { &mut entry.prefix } = Some(row);
            }
            if !whole {
                classes.push(Class { key, admitted, rejected });
            }
        }
        Self { tree: Tree::new(&entries, missing), rows: rows.build(), missing }
    }

    /// The row for a text.
    #[inline(never)]
    pub(crate) fn find(&self, text: &[u8]) -> u32 {
        self.tree.find(text, None).row
    }

    /// The row for a text, which ends before the byte `end`, if it has one.
    #[inline(always)]
    pub(crate) fn find_until(&self, text: &[u8], end: u8) -> Found {
        self.tree.find(text, Some(end))
    }

    /// The row for requests without such a text.
    #[inline]
    pub(crate) const fn missing(&self) -> u32 {
        self.missing
    }

    /// The rows.
    #[inline]
    pub(crate) const fn rows(&self) -> &Rows {
        &self.rows
    }
}
