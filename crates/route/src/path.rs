//! The rules that are possible with a path.

use crate::index::{Index, Mention};
use crate::list::List;
use crate::normal::{normalize, plain_end};
use crate::pattern::Pattern;
use crate::rows::{Row, RuleSet};
use alloc::vec::Vec;
use memchr::memchr;

/// The rules that are possible with each path.
#[derive(Debug)]
pub(crate) struct Paths {
    index: Index,
    /// Whether a target that begins with a key is in its normal form so far.
    plain_keys: bool,
}

/// A path, and its row.
pub(crate) struct FoundPath<'a> {
    /// The path in its normal form.
    pub(crate) path: &'a [u8],
    /// Path and query as sent.
    target: &'a [u8],
    /// The end of the path as sent.
    end: usize,
    row: u32,
}

impl<'a> FoundPath<'a> {
    /// The bytes behind the first `?`; empty without one.
    pub(crate) fn query(&self) -> &'a [u8] {
        self.target.get(self.end + 1..).unwrap_or_default()
    }
}

impl Paths {
    /// Builds the index of the lists of all rules.
    pub(crate) fn new(lists: &[List<Pattern>]) -> Self {
        let mut restricted = RuleSet::new(lists.len());
        let mut mentions = Vec::new();
        for (rule, list) in lists.iter().enumerate() {
            if !list.positive.is_empty() {
                restricted.insert(rule);
            }
            let signed = list.positive.iter().map(|pattern| (pattern, false));
            for (pattern, negative) in signed.chain(list.negative.iter().map(|pattern| (pattern, true))) {
                let Key { text, whole, literal } = Key::of(pattern);
                // A negative pattern that is not literal leaves the rule possible.
                if literal || !negative {
                    mentions.push(Mention { key: text.to_vec(), whole, negative, rule });
                }
            }
        }
        let plain_keys = mentions.iter().all(|mention| plain_end(&mention.key) == (mention.key.len(), true));
        Self { index: Index::new(lists.len(), &restricted, mentions), plain_keys }
    }

    /// Finds path and row of a target's path and query. `normal` is memory for a path that is not in its normal form.
    #[inline]
    pub(crate) fn find<'a>(&self, target: &'a [u8], normal: &'a mut Vec<u8>) -> FoundPath<'a> {
        if !self.plain_keys {
            return self.find_scanned(target, normal);
        }
        let found = self.index.find(target, Some(b'?'));
        let (end, plain) = if found.ended && found.known > 0 {
            (found.known, true)
        } else {
            // The byte before may be a slash.
            let known = found.known.saturating_sub(1);
            let (length, plain) = plain_end(&target[known..]);
            (known + length, plain)
        };
        if plain && end > 0 {
            return FoundPath { path: &target[..end], target, end, row: found.row };
        }
        self.find_normalized(target, normal)
    }

    #[inline(never)]
    fn find_scanned<'a>(&self, target: &'a [u8], normal: &'a mut Vec<u8>) -> FoundPath<'a> {
        match plain_end(target) {
            (end @ 1.., true) => {
                let path = &target[..end];
                FoundPath { path, target, end, row: self.index.find(path, None).row }
            }
            _ => self.find_normalized(target, normal),
        }
    }

    #[inline(never)]
    fn find_normalized<'a>(&self, target: &'a [u8], normal: &'a mut Vec<u8>) -> FoundPath<'a> {
        let end = memchr(b'?', target).unwrap_or(target.len());
        // In an absolute-form target, the path may be empty.
        normalize(if end == 0 { b"/" } else { &target[..end] }, normal);
        let row = self.index.find(normal, None).row;
        FoundPath { path: normal, target, end, row }
    }

    /// The row of a path; without one, that of the rules without a positive path pattern.
    #[inline]
    pub(crate) fn row(&self, found: Option<&FoundPath<'_>>) -> Row<'_> {
        self.index.row(found.map_or(self.index.missing(), |found| found.row))
    }
}

/// The literal part of a pattern.
struct Key<'p> {
    text: &'p [u8],
    /// Whether only this text matches; otherwise, all that match begin with it.
    whole: bool,
    /// Whether the key is all of the pattern.
    literal: bool,
}

impl<'p> Key<'p> {
    fn of(pattern: &'p Pattern) -> Self {
        match pattern {
            Pattern::Exact(text) => Self { text, whole: true, literal: true },
            Pattern::Glob(glob) => Self { text: glob.first(), whole: false, literal: glob.is_prefix() },
            Pattern::Expression(_) => Self { text: b"", whole: false, literal: false },
        }
    }
}

/// Whether the index decides the list.
pub(crate) fn is_literal(paths: &List<Pattern>) -> bool {
    paths.positive.iter().chain(&paths.negative).all(|pattern| Key::of(pattern).literal)
}
