//! Tests of whole servers on the simulated backend: engine, machine and lane serve clients that consist of byte queues, in
//! virtual time. `tests/prompt` runs all of them a second time.

pub(crate) mod frames;
pub(crate) mod harness;
pub(crate) mod records;
pub(crate) mod response;

mod app_chunks;
mod content;
mod deadlines;
mod exchanges;
mod fairness;
mod fastcgi;
mod http2;
mod limits;
mod order;
pub(crate) mod proxies;
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
