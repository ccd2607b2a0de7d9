//! The answer to [`Order::Status`](crate::Order::Status).

use crate::lenient::{elements, or_default};
use crate::{Counters, Seconds, Times};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The state of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// The version of its program.
    #[serde(deserialize_with = "or_default")]
    pub version: Cow<'static, str>,
    /// The process id of its first process.
    #[serde(deserialize_with = "or_default")]
    pub pid: u32,
    /// The name of the app.
    #[serde(deserialize_with = "or_default")]
    pub app: String,
    /// `loading`, `serving`, `draining`, `stopping`.
    #[serde(deserialize_with = "or_default")]
    pub state: Cow<'static, str>,
    /// The time since its first process started.
    #[serde(deserialize_with = "or_default")]
    pub uptime: Seconds,
    /// The addresses of its listeners.
    #[serde(deserialize_with = "elements")]
    pub addresses: Vec<String>,
    /// The apps that have names.
    #[serde(deserialize_with = "elements", skip_serializing_if = "Vec::is_empty")]
    pub apps: Vec<AppState>,
    /// The loads of the app; empty without a master.
    #[serde(deserialize_with = "elements")]
    pub generations: Vec<Generation>,
    /// The number of edges.
    #[serde(deserialize_with = "or_default")]
    pub edges: usize,
    /// The target number of workers.
    #[serde(deserialize_with = "or_default")]
    pub workers: usize,
    /// The number of threads of each worker.
    #[serde(deserialize_with = "or_default")]
    pub threads: usize,
    /// The connections of clients.
    #[serde(deserialize_with = "or_default")]
    pub connections: Connections,
    /// The certificates that its listeners offer.
    #[serde(deserialize_with = "elements")]
    pub certificates: Vec<Certificate>,
    /// The number of responses.
    #[serde(deserialize_with = "or_default")]
    pub requests: u64,
    /// The number of workers that have started.
    #[serde(deserialize_with = "or_default")]
    pub workers_started: u64,
    /// The number of workers that ended abnormally.
    #[serde(deserialize_with = "or_default")]
    pub workers_failed: u64,
    /// All counters.
    #[serde(deserialize_with = "or_default")]
    pub counters: Counters,
    /// The times of requests.
    #[serde(deserialize_with = "or_default")]
    pub times: Times,
}

/// An app with a name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AppState {
    /// The name of the app.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// One of `loading`, `serving`, `asleep`, `failed` and `stopped`.
    #[serde(deserialize_with = "or_default")]
    pub state: Cow<'static, str>,
    /// The target number of workers.
    #[serde(deserialize_with = "or_default")]
    pub workers: usize,
    /// The number of requests that its present workers have answered.
    #[serde(deserialize_with = "or_default")]
    pub requests: u64,
}

/// A load of an app.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Generation {
    /// The name of the app; `None` without one.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// The number of the generation.
    #[serde(deserialize_with = "or_default")]
    pub number: u64,
    /// The process id of its supervisor.
    #[serde(deserialize_with = "or_default")]
    pub pid: u32,
    /// One of `loading`, `serving` and `finishing`.
    #[serde(deserialize_with = "or_default")]
    pub state: Cow<'static, str>,
    /// The time since it was loaded.
    #[serde(deserialize_with = "or_default")]
    pub age: Seconds,
}

/// The open connections of clients: by state, then by protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Connections {
    /// Connections on which a request is being received, or on which the client has not sent a request yet.
    #[serde(deserialize_with = "or_default")]
    pub reading: u64,
    /// Connections whose request waits for a worker or is being answered.
    #[serde(deserialize_with = "or_default")]
    pub answering: u64,
    /// Connections whose client reads the response more slowly than it is produced.
    #[serde(deserialize_with = "or_default")]
    pub sending: u64,
    /// Connections that wait for their next request.
    #[serde(deserialize_with = "or_default")]
    pub idle: u64,
    /// Connections that the server has closed and the client has not.
    #[serde(deserialize_with = "or_default")]
    pub lingering: u64,
    /// Connections that speak HTTP/1.
    #[serde(deserialize_with = "or_default")]
    pub http1: u64,
    /// Connections that speak HTTP/2.
    #[serde(deserialize_with = "or_default")]
    pub http2: u64,
    /// Connections of web servers (FastCGI).
    #[serde(deserialize_with = "or_default")]
    pub fastcgi: u64,
}

/// A certificate that a listener offers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Certificate {
    /// The name for which it was issued, or that of its file.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Its expiry, in seconds since 1970.
    #[serde(deserialize_with = "or_default")]
    pub expires: u64,
}
