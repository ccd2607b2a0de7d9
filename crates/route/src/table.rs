//! Compiled rules, and the choice among them.

use crate::checks::{Checks, Subject};
use crate::compile::{self, ReadRule};
use crate::destination::DestinationPattern;
use crate::host::Hosts;
use crate::list::List;
use crate::normal::{normalize, split};
use crate::path::{Paths, is_literal};
use crate::query::Pairs;
use crate::request::RequestView;
use crate::rule::{Rule, RuleError};
use alloc::boxed::Box;
use alloc::vec::Vec;
use memchr::memchr;

/// Compiled rules. It is plain memory without a lock: threads may share it, and a forked process inherits it.
#[derive(Debug)]
pub struct Table {
    hosts: Hosts,
    paths: Paths,
    /// The conditions of each rule that hosts and paths do not decide.
    checks: Vec<Option<Box<Checks>>>,
    /// See [`Table::needs_source`].
    needs_source: bool,
    /// See [`Table::needs_destination`].
    needs_destination: bool,
    /// See [`Table::needs_address`].
    needs_address: bool,
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
    /// Whether the client sent the path in its normal form. `false`: it may have done so all the same.
    pub is_plain: bool,
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
        let path_index = Paths::new(&paths);
        let checks = checks.into_iter().zip(paths).map(|(mut checks, paths)| {
            if !is_literal(&paths) {
                checks.paths = paths;
            }
            (!checks.is_empty()).then(|| Box::new(checks))
        });
        let checks: Vec<Option<Box<Checks>>> = checks.collect();
        let needs_source = checks.iter().flatten().any(|checks| !checks.sources.is_empty());
        let mut destinations = checks.iter().flatten().map(|checks| &checks.destinations).filter(|list| !list.is_empty());
        let needs_address =
            |list: &List<DestinationPattern>| list.positive.iter().chain(&list.negative).any(DestinationPattern::needs_address);
        let needs_destination = destinations.clone().next().is_some();
        let needs_address = destinations.any(needs_address);
        Ok(Self { hosts, paths: path_index, checks, needs_source, needs_destination, needs_address })
    }

    /// Whether a rule depends on the address of the client. Otherwise requests need none.
    #[must_use]
    pub const fn needs_source(&self) -> bool {
        self.needs_source
    }

    /// Whether a rule depends on an address of the client or of this end. Otherwise requests need neither.
    #[inline]
    #[must_use]
    pub const fn needs_endpoints(&self) -> bool {
        self.needs_source | self.needs_destination
    }

    /// Whether a rule depends on the address at which a request arrives. Otherwise requests need none.
    #[must_use]
    pub const fn needs_destination(&self) -> bool {
        self.needs_destination
    }

    /// Whether a rule depends on more of this address than the port.
    #[must_use]
    pub const fn needs_address(&self) -> bool {
        self.needs_address
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

    /// Chooses the rule of a request whose path and host alone decide it, which most rules need: cheaper than [`Table::choose`],
    /// which has the answer where this has none. Only for requests of which no rule needs the [addresses](Table::needs_endpoints).
    #[inline]
    pub fn decide<'a>(&self, target: &[u8], host: impl FnOnce() -> Option<&'a [u8]>, scratch: &mut Scratch) -> Option<usize> {
        let (path_row, _) = self.paths.find_plain(target)?;
        let host_row = self.hosts.of_all().unwrap_or_else(|| self.hosts.find(host(), &mut scratch.host));
        let (first, possible) = self.first_possible(path_row, host_row);
        if possible == 0 {
            return None;
        }
        let rule = rule_of(first, possible);
        matches!(self.checks.get(rule), Some(None)).then_some(rule)
    }

    /// The first word of both rows that may have a rule, and its rules.
    #[inline(always)]
    fn first_possible(&self, path_row: u32, host_row: u32) -> (usize, u64) {
        let (paths, hosts) = (self.paths.rows(), self.hosts.rows());
        let first = paths.first(path_row).max(hosts.first(host_row));
        (first, paths.word(path_row, first) & hosts.word(host_row, first))
    }

    /// Chooses the first rule that matches a request.
    pub fn choose<'a>(&self, request: &RequestView<'a>, scratch: &'a mut Scratch) -> Choice<'a> {
        let Some((path_row, end)) = self.paths.find_plain(request.target) else {
            return self.choose_by_normalized(request, scratch);
        };
        let Scratch { host, pairs, .. } = scratch;
        let path = &request.target[..end];
        let host_row = self.hosts.find(request.host, host);
        let (first, possible) = self.first_possible(path_row, host_row);
        if possible != 0 {
            let rule = rule_of(first, possible);
            if let Some(None) = self.checks.get(rule) {
                return Choice { rule: Some(rule), path: Some(path), is_plain: true };
            }
        }
        let query = request.target.get(end + 1..).unwrap_or_default();
        let rule = self.check(first, path_row, host_row, Subject { request, path: Some(path), query, pairs });
        Choice { rule, path: Some(path), is_plain: true }
    }

    /// The same for a path that is not known to be in its normal form, and for targets of all forms.
    #[inline(never)]
    fn choose_by_normalized<'a>(&self, request: &RequestView<'a>, scratch: &'a mut Scratch) -> Choice<'a> {
        let Scratch { path: normal, host, pairs } = scratch;
        let (authority, target) = split(request.target);
        let (path, query) = match target {
            Some(target) => {
                let end = memchr(b'?', target).unwrap_or(target.len());
                // In an absolute-form target, the path may be empty.
                normalize(if end == 0 { b"/" } else { &target[..end] }, normal);
                (Some(normal.as_slice()), target.get(end + 1..).unwrap_or_default())
            }
            None => (None, &[][..]),
        };
        let path_row = path.map_or(self.paths.missing(), |path| self.paths.find(path));
        let host_row = self.hosts.find(authority.or(request.host), host);
        let rule = self.check(0, path_row, host_row, Subject { request, path, query, pairs });
        Choice { rule, path, is_plain: false }
    }

    /// The first rule that is possible, and whose other conditions the request fulfils; from the word `first` of the rows on.
    #[inline(never)]
    fn check(&self, first: usize, path_row: u32, host_row: u32, mut subject: Subject<'_>) -> Option<usize> {
        subject.pairs.clear();
        for word in first..self.checks.len().div_ceil(64) {
            let mut possible = self.paths.rows().word(path_row, word) & self.hosts.rows().word(host_row, word);
            while possible != 0 {
                let rule = rule_of(word, possible);
                match self.checks.get(rule) {
                    Some(Some(checks)) if !checks.admit(&mut subject) => {}
                    _ => return Some(rule),
                }
                possible &= possible - 1;
            }
        }
        None
    }
}

/// The rule of the lowest bit of a word that is not zero.
#[inline]
const fn rule_of(word: usize, possible: u64) -> usize {
    word * 64 + possible.trailing_zeros() as usize
}
