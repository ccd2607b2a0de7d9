//! The rules that are possible with a path.

use crate::index::{Index, Mention};
use crate::list::List;
use crate::normal::plain_end;
use crate::pattern::Pattern;
use crate::rows::{Rows, RuleSet};
use alloc::vec::Vec;

/// The rules that are possible with each path.
#[derive(Debug)]
pub(crate) struct Paths {
    index: Index,
    /// The row of the path `/`, which is that of the most requests.
    root: u32,
    /// Whether a key has a `?`, which ends the path of a target.
    question: bool,
    /// Whether a key has a `%`, or a segment that begins with a dot.
    escape_or_dot: bool,
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
                    // All paths begin with a slash, so the index is about the rest.
                    let key = text.strip_prefix(b"/").unwrap_or(text).to_vec();
                    mentions.push(Mention { key, whole, negative, rule });
                }
            }
        }
        let question = mentions.iter().any(|mention| mention.key.contains(&b'?'));
        let escape_or_dot = mentions.iter().any(|mention| {
            mention.key.contains(&b'%') || mention.key.split(|byte| *byte == b'/').any(|part| part.starts_with(b"."))
        });
        let index = Index::new(lists.len(), &restricted, mentions);
        let root = index.find(b"");
        Self { index, root, question, escape_or_dot }
    }

    /// Row and end of an origin-form target's path, if the path is in its normal form; `None` for other targets. A path that
    /// begins with `/.` as in `/.well-known` may be among these.
    #[inline(always)]
    pub(crate) fn find_plain(&self, target: &[u8]) -> Option<(u32, usize)> {
        let rest = match target {
            [b'/'] | [b'/', b'?', ..] => return Some((self.root, 1)),
            [b'/', rest @ ..] if !self.question => rest,
            _ => return None,
        };
        let found = self.index.find_until(rest, b'?');
        // Keys are in their normal form, and so is a path that is equal to the beginning of one, unless it ends in a segment
        // of dots.
        if found.ended && target.get(found.known).is_some_and(|byte| *byte != b'.') {
            return Some((found.row, 1 + found.known));
        }
        let start = if self.escape_or_dot {
            // The segment in which the search has ended may be one of dots, or it may begin with an escape.
            rest[..found.known].iter().rposition(|byte| *byte == b'/').map_or(0, |place| 1 + place)
        } else {
            // The last byte that is known may be a slash.
            found.known
        };
        let (length, plain) = plain_end(&target[start..]);
        plain.then_some((found.row, start + length))
    }

    /// The row of a path in its normal form.
    pub(crate) fn find(&self, path: &[u8]) -> u32 {
        self.index.find(path.get(1..).unwrap_or_default())
    }

    /// The row of requests without a path: that of the rules without a positive path pattern.
    pub(crate) const fn missing(&self) -> u32 {
        self.index.missing()
    }

    /// The rows.
    #[inline]
    pub(crate) const fn rows(&self) -> &Rows {
        self.index.rows()
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
