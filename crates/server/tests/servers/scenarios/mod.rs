//! Tests of whole servers on the simulated backend: engine, machine and lane serve clients that consist of byte queues, in
//! virtual time. `prompt` runs all of them a second time.

pub(super) mod frames;
pub(super) mod harness;
pub(super) mod records;
pub(super) mod response;

mod app_chunks;
mod budgets;
mod content;
mod deadlines;
mod exchanges;
mod fairness;
mod fastcgi;
mod http2;
mod limits;
mod order;
pub(super) mod proxies;
mod random;
mod request_ids;
mod request_trailers;
mod responses;
mod server_timing;
mod sharing;
mod spans;
mod spooling;
mod stopping;
mod traces;
mod trailers;
mod uploads;
