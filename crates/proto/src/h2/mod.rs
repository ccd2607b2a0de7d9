//! HTTP/2, the server's side (RFC 9113), with its compression of fields (RFC 7541), priorities (RFC 9218) and tunnels by an
//! extended CONNECT (RFC 8441).
//!
//! One [`Machine`] belongs to one connection and carries many exchanges, each a stream with its own state. It reads a request
//! into the same layout as a machine of HTTP/1, writes responses stream by stream, and keeps both directions within their
//! windows. It keeps no content: it returns received content as ranges of the input, and writes only the headers of frames
//! for sent content. [`opening`] recognises an HTTP/2 connection by its first bytes.
//!
//! # Strictness
//! A request that is malformed (section 8.1.1) resets its stream: names with capital letters, control bytes in a value or white
//! space around it, fields about a connection of HTTP/1, pseudo-fields that are missing, repeated, unknown or late, a Host that
//! is not `:authority`, a Content-Length that is not the size of the content. So no part of a request can have another meaning
//! behind this server. A request that is well-formed but too large, or not for this server, gets a status ([`Event::Refused`]),
//! as over HTTP/1. Errors of the connection are those of RFC 9113, each with its code; where the specification lets a recipient
//! choose, a stream error becomes an error of the connection only if the frame cannot have been in transit.
//!
//! # Bounds
//! Everything that a client can cause is bounded, in memory and in work, by [`Limits`]:
//! * a block of fields has at most twice the bytes that its fields may count, comes in at most [`Limits::field_frames`] frames,
//!   and is decoded once, when it is complete; decoding ends the connection when the fields count four times the allowed size,
//!   and each field counts at least 32, so a small block of large meaning (an "HPACK bomb") costs at most as much as 128 KiB of
//!   fields;
//! * the table of compressed fields has 4096 bytes, and an update of its size is only taken at the beginning of a block;
//! * there are at most [`Limits::streams`] active streams, of 80 bytes each, and memory for 16 streams is kept; of streams that
//!   have ended while the client was still sending, at most 256 ids are kept;
//! * requests without a response (reset by the client, or by the machine because of the client's input) and frames without
//!   benefit have an allowance each, which work and time restore: [`Limits::resets`], [`Limits::nuisances`]; after too many
//!   resets active streams are still served, and nothing else;
//! * the machine has at most one answer of its own to write, of 60 bytes, and reads nothing before it is written, so the
//!   caller bounds the output that waits for a client that reads nothing;
//! * content is at most as large as the windows allow, until the caller reports that it has consumed some.
//!
//! # The same events for every split
//! The way in which bytes are cut into packets changes only the cuts of content.

mod allowance;
mod error;
mod frame;
mod head;
mod hpack;
mod limits;
mod machine;
mod preface;
mod priority;
mod streams;

pub use crate::h1::{InvalidResponse, Preset, Refusal};
pub use error::{ErrorCode, Excess, Malformed, StreamError, Violation};
pub use frame::FRAME_BYTES;
pub use head::Outline;
pub use limits::Limits;
pub use machine::{Admission, Event, Finish, Machine, Step, compress_preset};
pub use preface::{Opening, opening};
pub use priority::Priority;
