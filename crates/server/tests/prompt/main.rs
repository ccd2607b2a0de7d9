//! The scenarios again, with an engine that has been told to expect its answers at once: it then takes short cuts, which nobody
//! may notice, whatever the host does; and the short cuts themselves.

#[path = "../scenarios/harness.rs"]
mod harness;
#[path = "../scenarios/records.rs"]
mod records;
#[path = "../scenarios/response.rs"]
mod response;

mod batches;
#[path = "../scenarios/content.rs"]
mod content;
#[path = "../scenarios/deadlines.rs"]
mod deadlines;
#[path = "../scenarios/exchanges.rs"]
mod exchanges;
#[path = "../scenarios/fairness.rs"]
mod fairness;
#[path = "../scenarios/fastcgi.rs"]
mod fastcgi;
#[path = "../scenarios/limits.rs"]
mod limits;
#[path = "../scenarios/order.rs"]
mod order;
#[path = "../scenarios/random.rs"]
mod random;
#[path = "../scenarios/responses.rs"]
mod responses;
#[path = "../scenarios/sharing.rs"]
mod sharing;
mod short;
#[path = "../scenarios/stopping.rs"]
mod stopping;
