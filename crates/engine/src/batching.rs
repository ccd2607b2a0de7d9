//! Batches of requests and responses, for hosts that answer at once.

use oribi_io::Token;
use std::time::Duration;

/// Whether requests are answered in batches, and the current batch.
#[derive(Default)]
pub(super) struct Batching {
    /// Whether the host answers at once: see [`oribi_host::Host::is_prompt`].
    pub(super) prompt: bool,
    /// Whether requests for a prompt host are received, answered and sent in batches: see
    /// [`Engine::answer_in_batches`](super::Engine::answer_in_batches).
    pub(super) batches: bool,
    /// Whether responses are collected, to be sent together: see [`Engine::gather_answers`](super::Engine::gather_answers).
    pub(super) gathers: bool,
    /// Connections whose responses are sent together, after all ready requests have been answered.
    pub(super) batch: Vec<Token>,
    /// The time at which a batch is interrupted to check for events.
    pub(super) news_due: Duration,
}
