//! The answer to [`Order::Requests`](crate::Order::Requests).

use crate::Seconds;
use crate::lenient::{elements, or_default};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The requests in a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Requests {
    /// The requests, the oldest first.
    #[serde(deserialize_with = "elements")]
    pub requests: Vec<Request>,
    /// The number of omitted requests.
    #[serde(deserialize_with = "or_default")]
    pub more: usize,
}

/// A request that waits for an answer, or whose app still runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Request {
    /// `queued`, `running`, `answering`, `sending`, `interrupted`, `abandoned`.
    #[serde(deserialize_with = "or_default")]
    pub state: Cow<'static, str>,
    /// The edge, counted from 1; `None` without edges.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub edge: Option<usize>,
    /// The position in the queue, counted from 1; `None` if it is not queued.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub position: Option<usize>,
    /// The method, escaped and cut.
    #[serde(deserialize_with = "or_default")]
    pub method: String,
    /// The target without its query, escaped and cut.
    #[serde(deserialize_with = "or_default")]
    pub target: String,
    /// Address and port of the client; empty if unknown.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub client: String,
    /// The time since it was complete.
    #[serde(deserialize_with = "or_default")]
    pub age: Seconds,
    /// The time since its app began or last made progress; `None` if no app has it.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub quiet: Option<Seconds>,
    /// The time that is left until the request leaves the queue, or until its app is interrupted or its worker is stopped;
    /// `None` without a limit.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Seconds>,
    /// The process id of the worker that has taken it; `None` if none has.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The number of that worker; `None` if the process is not a worker of this server.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub worker: Option<usize>,
    /// The number of that worker's generation; `None` without one.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// The app; `None` if it has no name.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
}
