//! Compiled rules, and the choice among them.

use crate::checks::{Checks, Subject};
use crate::compile::{self, ReadRule};
use crate::host::Hosts;
use crate::index::{Index, Mention};
use crate::list::List;
use crate::normal::{Target, normalize};
use crate::pattern::Pattern;
use crate::query::Pairs;
use crate::request::RequestView;
use crate::rows::RuleSet;
use crate::rule::{Rule, RuleError};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Compiled rules. It is plain memory without a lock: threads may share it, and a forked process inherits it.
#[derive(Debug)]
pub struct Table {
    hosts: Hosts,
    paths: Index,
    /// The conditions of each rule that hosts and paths do not decide.
    checks: Vec<Option<Box<Checks>>>,
}

/// Memory for [`Table::choose`], reused for all requests. It grows to the size of the longest path, host and query of which a
/// copy was necessary. A table allocates nothing else for a request, but the caches of regular expressions, which have a bound.
#[derive(Debug, Default)]
pub struct Scratch {
    path: Vec<u8>,
    host: Vec<u8>,
    pairs: Pairs,
}

/// The result of a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice<'a> {
    /// The index of the first rule that matches; `None`: no rule does.
    pub rule: Option<usize>,
    /// The normalized path, which begins with a slash; `None` if the target has no path (`*`, `host:port`). It may have any
    /// bytes, also NUL.
    pub path: Option<&'a [u8]>,
}

impl Table {
    /// Compiles rules.
    ///
    /// # Errors
    /// All errors, in the order of the rules. The bounds for all rules together end the list: [`MOST_RULES`],
    /// [`MOST_PATTERNS`], [`MOST_EXPRESSIONS`].
    ///
    /// [`MOST_RULES`]: crate::MOST_RULES
    /// [`MOST_PATTERNS`]: crate::MOST_PATTERNS
    /// [`MOST_EXPRESSIONS`]: crate::MOST_EXPRESSIONS
    pub fn compile(rules: &[Rule]) -> Result<Self, Vec<RuleError>> {
        let (mut hosts, mut paths, mut checks) = (Vec::new(), Vec::new(), Vec::new());
        for rule in compile::read(rules)? {
            let ReadRule { hosts: host_list, paths: path_list, checks: rest } = rule;
            hosts.push(host_list);
            paths.push(path_list);
            checks.push(rest);
        }
        let hosts = Hosts::new(&hosts);
        let index = index_paths(&paths);
        let checks = checks.into_iter().zip(paths).map(|(mut checks, paths)| {
            if !is_literal(&paths) {
                checks.paths = paths;
            }
            (!checks.is_empty()).then(|| Box::new(checks))
        });
        let checks = checks.collect();
        Ok(Self { hosts, paths: index, checks })
    }

    /// The number of rules.
    #[must_use]
    pub fn len(&self) -> usize {
        self.checks.len()
    }

    /// Whether there are no rules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.checks.is_empty()
    }

    /// Chooses the first rule that matches a request.
    #[inline]
    pub fn choose<'a>(&self, request: &RequestView<'a>, scratch: &'a mut Scratch) -> Choice<'a> {
        let Scratch { path: normal, host, pairs } = scratch;
        pairs.clear();
        let target = Target::read(request.target);
        let path = match target.path {
            Some(path) if !target.normal => {
                normalize(path, normal);
                Some(normal.as_slice())
            }
            path => path,
        };
        let (host_row, host_first) = self.hosts.row(target.authority.or(request.host), host);
        let (path_row, path_first) = self.paths.row(path.map_or(self.paths.missing(), |path| self.paths.find(path)));
        let mut subject = Subject { request, path, query: target.query, pairs };
        let first = host_first.max(path_first);
        for (word, (with_host, with_path)) in host_row.iter().zip(path_row).enumerate().skip(first) {
            let mut possible = with_host & with_path;
            while possible != 0 {
                let rule = word * 64 + possible.trailing_zeros() as usize;
                match self.checks.get(rule) {
                    Some(Some(checks)) if !checks.admit(&mut subject) => {}
                    _ => return Choice { rule: Some(rule), path },
                }
                possible &= possible - 1;
            }
        }
        Choice { rule: None, path }
    }
}

/// Whether the index decides the list.
fn is_literal(paths: &List<Pattern>) -> bool {
    paths.positive.iter().chain(&paths.negative).all(|pattern| mention(pattern).2)
}

/// The key of a path pattern, whether it is the whole text, and whether this is the whole pattern.
fn mention(pattern: &Pattern) -> (&[u8], bool, bool) {
    match pattern {
        Pattern::Exact(text) => (text, true, true),
        Pattern::Glob(glob) => (glob.first(), false, glob.is_prefix()),
        Pattern::Expression(_) => (&[], false, false),
    }
}

/// Builds the index of the rules that are possible with each path.
fn index_paths(lists: &[List<Pattern>]) -> Index {
    let mut restricted = RuleSet::new(lists.len());
    let mut mentions = Vec::new();
    for (rule, list) in lists.iter().enumerate() {
        if !list.positive.is_empty() {
            restricted.insert(rule);
        }
        let signed = list.positive.iter().map(|pattern| (pattern, false));
        for (pattern, negative) in signed.chain(list.negative.iter().map(|pattern| (pattern, true))) {
            let (key, whole, literal) = mention(pattern);
            // A negative pattern that is not literal leaves the rule possible.
            if literal || !negative {
                mentions.push(Mention { key: key.to_vec(), whole, negative, rule });
            }
        }
    }
    Index::new(lists.len(), &restricted, mentions)
}
