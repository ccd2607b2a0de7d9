//! The messages of the control socket: orders of clients, and the answers of a server.
//!
//! An order is a line of words, an answer a line of JSON. The server writes answers with [`Answer::to_json`]; `oribi ctl` and
//! `oribi top` read them with [`Answer::parse`]. Programs of one version talk to servers of another. So a field that is
//! missing, or that has another type, is read as zero, empty or `None`, and unknown fields are ignored.
#![forbid(unsafe_code)]

mod answer;
mod backtraces;
mod changes;
mod counters;
mod health;
mod json;
mod lenient;
mod order;
mod processes;
mod requests;
mod seconds;
mod servers;
mod status;
mod times;
mod worker_target;

pub use answer::{Answer, Failure, NotJson};
pub use backtraces::{Backtraces, ThreadBacktrace, WorkerBacktrace};
pub use changes::{Changed, Done, Purged, Scaled, Stopped};
pub use counters::{CounterValue, Counters};
pub use health::Health;
pub use json::to_json;
pub use order::{AppOrder, Order};
pub use processes::{Process, Processes};
pub use requests::{Request, Requests};
pub use seconds::Seconds;
pub use servers::{Server, servers_to_json};
pub use status::{AppState, Certificate, Connections, Generation, Status};
pub use times::{Bucket, Histogram, Times};
pub use worker_target::WorkerTarget;
