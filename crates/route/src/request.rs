//! The parts of a request that rules are about.

use crate::destination::Destination;
use core::net::IpAddr;
use oribi_message::{KnownField, RequestHead, is_same_variable};

/// The scheme of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `http`
    Http,
    /// `https`
    Https,
}

/// The parts of a request that rules are about.
#[derive(Clone, Copy, Debug)]
pub struct RequestView<'a> {
    /// The method.
    pub method: &'a [u8],
    /// The scheme by which the client sent the request, as far as the server believes it. The scheme of an absolute-form
    /// target does not count.
    pub scheme: Scheme,
    /// The value of Host, perhaps with a port; `None` without one.
    pub host: Option<&'a [u8]>,
    /// The target as sent, in any form.
    pub target: &'a [u8],
    /// The address of the client; `None` for a Unix socket, which is in no network.
    pub source: Option<IpAddr>,
    /// The address at which the request arrived; `None` if it is not known, which fits no pattern.
    pub destination: Option<Destination<'a>>,
    /// The fields.
    pub fields: FieldLines<'a>,
}

impl<'a> RequestView<'a> {
    /// The view of a request head, without the address at which it arrived.
    #[inline]
    #[must_use]
    pub fn of_head(head: RequestHead<'a>, scheme: Scheme, source: Option<IpAddr>) -> Self {
        let (method, host, target) = (head.method(), head.host(), head.target());
        Self { method, scheme, host, target, source, destination: None, fields: FieldLines::Head(head) }
    }
}

/// The field lines of a request.
#[derive(Clone, Copy, Debug)]
pub enum FieldLines<'a> {
    /// Those of a request head.
    Head(RequestHead<'a>),
    /// Names and values.
    Pairs(&'a [(&'a [u8], &'a [u8])]),
}

impl FieldLines<'_> {
    /// Whether a line with this name has a value that matches. `known` is the number of the name, if it has one.
    pub(crate) fn any(&self, known: Option<KnownField>, name: &[u8], mut matches: impl FnMut(&[u8]) -> bool) -> bool {
        match self {
            Self::Head(head) => head.fields().any(|(line_known, line_name, value)| {
                line_known == known && (known.is_some() || line_name.eq_ignore_ascii_case(name)) && matches(value)
            }),
            Self::Pairs(pairs) => pairs.iter().any(|(line_name, value)| line_name.eq_ignore_ascii_case(name) && matches(value)),
        }
    }

    /// Calls `found` with the value of each line that has this name, in which `_` stands for `-`, until it returns `true`.
    pub(crate) fn any_similar(&self, name: &[u8], mut found: impl FnMut(&[u8]) -> bool) {
        match self {
            Self::Head(head) => head.fields().any(|(_, line, value)| is_same_variable(line, name) && found(value)),
            Self::Pairs(pairs) => pairs.iter().any(|(line, value)| is_same_variable(line, name) && found(value)),
        };
    }
}
