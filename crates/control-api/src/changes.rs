//! The answers to orders that change a server.

use crate::lenient::or_default;
use serde::{Deserialize, Serialize};

/// The answer to [`Order::Reload`](crate::Order::Reload) and [`Order::Upgrade`](crate::Order::Upgrade).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Changed {
    /// A description of the server or the workers that serve now.
    #[serde(deserialize_with = "or_default")]
    pub message: String,
}

/// The answer to [`Order::Scale`](crate::Order::Scale).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scaled {
    /// The number of workers.
    #[serde(deserialize_with = "or_default")]
    pub workers: usize,
    /// The previous number of workers.
    #[serde(deserialize_with = "or_default")]
    pub before: usize,
}

/// The answer to [`Order::Purge`](crate::Order::Purge).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Purged {
    /// The number of stored responses that were removed, in all edges.
    #[serde(deserialize_with = "or_default")]
    pub responses: u64,
}

/// The answer to [`Order::Stop`](crate::Order::Stop).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stopped {
    /// The exit status of the server; 0 unless requests had to be cut off.
    #[serde(deserialize_with = "or_default")]
    pub status: i32,
}

/// The answer to [`Order::ReopenLogs`](crate::Order::ReopenLogs).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Done {}
