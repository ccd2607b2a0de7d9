//! The scenarios again, with an engine that expects answers at once and therefore takes short cuts. No client may notice
//! them, in whichever way the host answers. The short cuts themselves are also tested.

#[path = "../scenarios/main.rs"]
mod scenarios;

mod batches;
mod short;

// The names by which scenarios find one another.
use scenarios::{frames, harness, proxies, records, response};
