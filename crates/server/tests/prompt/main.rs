//! Runs the scenarios again, with an engine that expects answers at once and therefore takes short cuts. However the host
//! answers, no client may notice the short cuts. The short cuts themselves are also tested.

#[path = "../scenarios/main.rs"]
mod scenarios;

mod batches;
mod short;

// The names by which scenarios find one another.
use scenarios::{frames, harness, proxies, records, response};
