//! FastCGI 1.0, the application's side: for a server behind a web server.
//!
//! One [`Machine`] belongs to one connection and separates the requests that are interleaved on it; one [`ResponseWriter`]
//! belongs to one request and writes its response. The machine keeps no bytes: it returns contents as they arrive, as ranges
//! of the input. The caller collects the variables of each request, and calls [`params::lay_out`] when they are complete.
//!
//! # Rules for a web server
//! The specification leaves open how an application treats records that do not fit. This machine
//! * skips records for a request that is not active, as the specification says (section 3.3). It also skips streams that the
//!   role does not have (STDIN for an authorizer: lighttpd sends an empty one, others none), input after an abort, and
//!   repeated ends of a stream;
//! * answers unknown record types with UNKNOWN_TYPE if they are management records, that is if their request id is 0, and
//!   skips them otherwise: section 4.2 covers management records only;
//! * refuses the connection ([`Violation`]) if it would be unclear to which request or stream bytes belong: if a request begins
//!   while another one with the same id is active, or if a stream continues after its end or starts before the end of the
//!   previous stream. It also refuses a connection on which a record arrives that only applications send. No web server does
//!   any of this, so the peer is not a web server.
//!
//! # The same events for every split
//! Records may be cut at any byte. Joined, the pieces of a content are the same for every way in which they arrived.

mod fields;
mod limits;
mod machine;
mod management;
mod names;
mod pairs;
pub mod params;
mod record;
mod refusal;
mod response;
mod table;
mod target;

pub use crate::h1::{InvalidResponse, Preset, Refusal};
pub use limits::Limits;
pub use machine::{Event, Machine, Step};
pub use record::RECORD_BYTES;
pub use refusal::Violation;
pub use response::{Finish, ResponseWriter};
