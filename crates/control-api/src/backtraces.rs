//! The answer to [`Order::Backtrace`](crate::Order::Backtrace).

use crate::Request;
use crate::lenient::{elements, elements_if_any, or_default};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The backtraces of workers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Backtraces {
    /// The workers that the client has asked for.
    #[serde(deserialize_with = "elements")]
    pub workers: Vec<WorkerBacktrace>,
}

/// The backtraces of the threads of a worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerBacktrace {
    /// The number of the worker, counted from 1.
    #[serde(deserialize_with = "or_default")]
    pub number: usize,
    /// Its process id.
    #[serde(deserialize_with = "or_default")]
    pub pid: u32,
    /// Its app; `None` if that has no name.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// Its generation; `None` without one.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// `starting`, `ready`, `retiring`, `finishing`.
    #[serde(deserialize_with = "or_default")]
    pub state: Cow<'static, str>,
    /// The outcome: `told`, `partly`, `silent`, `waits`, `idle`, or a reason why the worker was not asked: `gone`, `stopped`,
    /// `starting`, `mute`, `unreachable`.
    #[serde(deserialize_with = "or_default")]
    pub trace: Cow<'static, str>,
    /// The explanation of the outcome; may be empty.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// The requests that it has; `None` if the server does not know them.
    #[serde(deserialize_with = "elements_if_any", skip_serializing_if = "Option::is_none")]
    pub requests: Option<Vec<Request>>,
    /// Its threads.
    #[serde(deserialize_with = "elements")]
    pub threads: Vec<ThreadBacktrace>,
    /// The number of omitted threads.
    #[serde(deserialize_with = "or_default")]
    pub more: usize,
}

/// A thread: its state in the kernel, and the backtrace of its app. All texts are escaped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadBacktrace {
    /// The kernel's id of the thread.
    #[serde(deserialize_with = "or_default")]
    pub thread: u32,
    /// Its name; `None` if the kernel was not asked, as for the next three fields.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `running`, `sleeping`, `uninterruptible`, `stopped`, `ended`, or the kernel's letter.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The system call in which it waits; also `None` if it waits in none, or if the kernel hides it.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The kernel function in which it waits; also `None` if the kernel hides it.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The request that it answers; empty if unknown.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub request: String,
    /// The frames, the innermost first; `None` if the thread has sent no backtrace, or runs no app.
    #[serde(deserialize_with = "elements_if_any", skip_serializing_if = "Option::is_none")]
    pub frames: Option<Vec<String>>,
    /// The number of omitted frames; `None` without frames.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Option::is_none")]
    pub left_out: Option<usize>,
}
