//! The conditions of a rule that its host and its path do not decide.

use crate::destination::DestinationPattern;
use crate::list::{List, NamedLists};
use crate::network::Network;
use crate::pattern::Pattern;
use crate::query::Pairs;
use crate::request::{RequestView, Scheme};
use alloc::vec::Vec;
use core::net::IpAddr;
use oribi_message::KnownField;

/// The conditions, those first that cost the least.
#[derive(Debug)]
pub(crate) struct Checks {
    pub(crate) schemes: List<Scheme>,
    pub(crate) methods: List<Pattern>,
    pub(crate) sources: List<Network>,
    pub(crate) destinations: List<DestinationPattern>,
    pub(crate) fields: NamedLists<FieldCheck>,
    pub(crate) query: NamedLists<QueryCheck>,
    /// All path patterns, if there are others than texts and prefixes.
    pub(crate) paths: List<Pattern>,
}

#[derive(Debug)]
pub(crate) struct FieldCheck {
    pub(crate) known: Option<KnownField>,
    pub(crate) name: Vec<u8>,
    pub(crate) value: Option<Pattern>,
}

#[derive(Debug)]
pub(crate) struct QueryCheck {
    pub(crate) name: Vec<u8>,
    pub(crate) value: Option<Pattern>,
}

/// A request as the conditions see it.
pub(crate) struct Subject<'a> {
    pub(crate) request: &'a RequestView<'a>,
    pub(crate) path: Option<&'a [u8]>,
    pub(crate) query: &'a [u8],
    pub(crate) pairs: &'a mut Pairs,
}

impl Checks {
    pub(crate) fn is_empty(&self) -> bool {
        self.schemes.is_empty()
            && self.methods.is_empty()
            && self.sources.is_empty()
            && self.destinations.is_empty()
            && self.fields.is_empty()
            && self.query.is_empty()
            && self.paths.is_empty()
    }

    /// Whether the request fulfils all conditions.
    #[inline(never)]
    pub(crate) fn admit(&self, subject: &mut Subject<'_>) -> bool {
        let request = subject.request;
        let value_matches =
            |pattern: &Option<Pattern>, value: &[u8]| pattern.as_ref().is_none_or(|pattern| pattern.matches(value));
        self.schemes.admits(|scheme| *scheme == request.scheme)
            && self.methods.admits(|method| method.matches(request.method))
            && (self.sources.is_empty() || {
                let source = request.source.map(|source| IpAddr::to_canonical(&source));
                self.sources.admits(|network| source.is_some_and(|source| network.includes(source)))
            })
            && self.destinations.admits(|pattern| request.destination.is_some_and(|destination| pattern.matches(destination)))
            && self
                .fields
                .admits(|field| request.fields.any(field.known, &field.name, |value| value_matches(&field.value, value)))
            && self.query.admits(|pair| subject.pairs.any(subject.query, &pair.name, |value| value_matches(&pair.value, value)))
            && self.paths.admits(|pattern| subject.path.is_some_and(|path| pattern.matches(path)))
    }
}
