//! Content codings of responses (RFC 9110, section 8.4): negotiation, and the encoders. Nothing here does I/O, and nothing knows a
//! protocol.
#![forbid(unsafe_code)]

mod coding;
mod encoder;
mod list;
mod negotiate;

pub use coding::Coding;
pub use encoder::{EncodeError, Encoder};
pub use negotiate::{Choice, negotiate};
