//! Whether an engine accepts connections.

use std::time::Duration;

/// Whether connections are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accepting {
    Yes,
    /// No descriptor or connection is free: wait until this time, or until a connection closes.
    Paused(Duration),
    /// This lane cannot answer now, but other lanes that share its listeners might. It accepts again when it asks for its next
    /// request.
    Left,
    /// Other lanes come first until this time.
    Aside(Duration),
    /// Another process still accepts: not before [`Engine::begin_accepting`](super::Engine::begin_accepting).
    Later,
    Never,
}
