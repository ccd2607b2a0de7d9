//! The number that a limit limits, and the requests that count together.

use crate::Rule;
use std::time::Duration;

/// The number that a limit limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitOf {
    /// Requests in a time.
    Rate(Rule),
    /// Requests at the same time.
    Open(u32),
    /// The wait of the oldest request in the queue of the app: while it is longer, requests are refused.
    Queue(Duration),
}

/// The requests that count together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitBy {
    /// Those of one client, by its address; for IPv6 by the first 64 bits of it.
    Client,
    /// Those with one value of this field; those without the field, by their clients.
    Field(String),
    /// All requests.
    All,
}
