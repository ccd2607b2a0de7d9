//! FastCGI 1.0, the application's side: what stands behind a web server.
//!
//! One [`Machine`] goes with one connection and tells apart the requests that are interleaved on it; one [`Exchange`] goes with
//! one request and writes its response. The machine keeps no bytes: contents are given out as they arrive, as ranges of the
//! input, and the caller collects the variables of each request and has [`params::lay_out`] read them when they are complete.
//!
//! # What a web server may send
//! The specification leaves open what an application does with records that do not fit. Here
//! * records for a request that is not active are skipped, as it says (section 3.3), and so are streams that the role does not
//!   have (STDIN for an authorizer: lighttpd sends an empty one, others none), what follows an abort, and further ends of a
//!   stream that has ended;
//! * record types that nobody has heard of are answered with UNKNOWN_TYPE if they are management records, that is if their
//!   request id is 0, and skipped otherwise: section 4.2 speaks of management records only;
//! * what would leave open to whom or where bytes belong breaks the connection ([`Violation`]): a request that begins while
//!   one with the same id is active, a stream that goes on behind its end or starts before the one in front of it has ended,
//!   records that only applications send. No web server does that, so whoever does is none.
//!
//! # The same events for every split
//! Records may come cut at any byte. Joined, the pieces of a content are the same for every way they arrived.

mod exchange;
mod fields;
mod limits;
mod machine;
mod management;
mod names;
mod pairs;
pub mod params;
mod record;
mod refusal;
mod table;
mod target;

pub use crate::h1::{InvalidResponse, Refusal};
pub use exchange::{Exchange, Finish};
pub use limits::Limits;
pub use machine::{Event, Machine, Step};
pub use record::RECORD_BYTES;
pub use refusal::Violation;
