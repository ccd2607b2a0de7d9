//! Whole servers on the simulated backend: engine, machine and lane against clients made of byte queues, in virtual time.

mod frames;
mod harness;
mod records;
mod response;

mod app_chunks;
mod content;
mod deadlines;
mod exchanges;
mod fairness;
mod fastcgi;
mod http2;
mod limits;
mod order;
mod proxies;
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
