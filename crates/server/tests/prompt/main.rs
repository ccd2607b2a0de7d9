//! The scenarios again, with an engine that expects answers at once and therefore takes short cuts. No client may notice
//! them, in whichever way the host answers. The short cuts themselves are also tested.

#[path = "../scenarios/frames.rs"]
mod frames;
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
#[path = "../scenarios/http2.rs"]
mod http2;
#[path = "../scenarios/limits.rs"]
mod limits;
#[path = "../scenarios/order.rs"]
mod order;
#[path = "../scenarios/proxies.rs"]
mod proxies;
#[path = "../scenarios/random.rs"]
mod random;
#[path = "../scenarios/request_ids.rs"]
mod request_ids;
#[path = "../scenarios/request_trailers.rs"]
mod request_trailers;
#[path = "../scenarios/responses.rs"]
mod responses;
#[path = "../scenarios/sharing.rs"]
mod sharing;
mod short;
#[path = "../scenarios/spans.rs"]
mod spans;
#[path = "../scenarios/stopping.rs"]
mod stopping;
#[path = "../scenarios/trailers.rs"]
mod trailers;
