//! The answer to [`Order::Health`](crate::Order::Health).

use crate::lenient::or_default;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Whether a server is ready to serve.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// Whether a readiness probe would succeed.
    #[serde(deserialize_with = "or_default")]
    pub ready: bool,
    /// `ready`, `loading`, `alive`, `hung`, `draining` or `stopping`.
    #[serde(deserialize_with = "or_default")]
    pub state: Cow<'static, str>,
    /// The reason why the server is not ready; empty if it is.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "str::is_empty")]
    pub note: Cow<'static, str>,
}

impl Health {
    /// The health of a server that is ready.
    pub const READY: Self = Self { ready: true, state: Cow::Borrowed("ready"), note: Cow::Borrowed("") };

    /// Returns the health of a server that is not ready, in this state and for this reason.
    pub fn not_ready(state: &'static str, note: impl Into<Cow<'static, str>>) -> Self {
        Self { ready: false, state: state.into(), note: note.into() }
    }
}
