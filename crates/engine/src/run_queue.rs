//! The pending work of an engine: events, connections that need a turn, complete requests.

use super::name::ExchangeIndex;
use oribi_io::{Event, Token};
use std::collections::VecDeque;

/// The pending work, in the order in which the engine does it.
#[derive(Default)]
pub(super) struct RunQueue {
    /// The events of the last wait; those before `handled` have been handled.
    pub(super) events: Vec<Event>,
    pub(super) handled: usize,
    /// Complete requests that wait to be lent.
    pub(super) ready: VecDeque<ExchangeIndex>,
    /// The connection of the latest request that was lent, if that connection also carries others.
    pub(super) lent_last: Option<u32>,
    /// Connections that need a turn without an event: more input, or the next part of a file.
    pub(super) turns: VecDeque<Token>,
    /// The number of connections in `turns` that get their turn before the backend is asked for events again. Connections that
    /// ask for a turn meanwhile get it after those events.
    pub(super) turns_due: usize,
}
