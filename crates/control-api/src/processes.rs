//! The answer to [`Order::Workers`](crate::Order::Workers).

use crate::Seconds;
use crate::lenient::{elements, or_default};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The edges and workers of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Processes {
    /// The edges, then the workers.
    #[serde(deserialize_with = "elements")]
    pub processes: Vec<Process>,
}

/// A worker or an edge.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    /// `worker` or `edge`.
    #[serde(deserialize_with = "or_default")]
    pub kind: Cow<'static, str>,
    /// Its app; `None` for an edge, and if the app has no name.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// Its number among those of its kind and generation, counted from 1.
    #[serde(deserialize_with = "or_default")]
    pub number: usize,
    /// Its process id.
    #[serde(deserialize_with = "or_default")]
    pub pid: u32,
    /// Its generation; `None` without one.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// `starting`, `ready`, `retiring`, `finishing`.
    #[serde(deserialize_with = "or_default")]
    pub state: Cow<'static, str>,
    /// The time since it started.
    #[serde(deserialize_with = "or_default")]
    pub age: Seconds,
    /// The number of its connections.
    #[serde(deserialize_with = "or_default")]
    pub connections: u32,
    /// The number of requests answered since it started.
    #[serde(deserialize_with = "or_default")]
    pub requests: u64,
}
