//! HTTP/1.1 and HTTP/1.0, the client's side, for a proxy (RFC 9110 for the meaning, RFC 9112 for the bytes).
//!
//! One [`Machine`] belongs to one connection to an upstream and has one exchange at a time. It writes a request and reads the
//! response; when both are complete and the connection persists, it is ready for another request.
//!
//! # Strictness
//! A proxy passes responses on to others, so it reads them as strictly as the server's side reads requests: a response that two
//! readers might end at different places is a [`Fault`], after which the connection must not be used. In particular:
//! * lines end in CR LF; a folded field line is a fault, for which RFC 9112, section 5.2, lets a proxy answer 502;
//! * one Content-Length of plain digits, or one `Transfer-Encoding: chunked`, never both and never twice, even if equal. Any
//!   other transfer coding is a fault, and so is one from a server of HTTP/1.0 (section 6.1);
//! * content of neither kind ends with the connection; a 204, a 304 and the answer to HEAD have none, even if they announce some;
//! * a status is from 100 to 599, and a 101 is a fault unless the request has asked for another protocol;
//! * at most [`INTERIM`] interim responses come before the final one;
//! * bytes that come before a request, or after the end of a response, make the connection unusable.
//!
//! As on the server's side, the way in which bytes are cut into packets changes nothing.

mod fault;
mod machine;
mod meaning;

pub use fault::Fault;
pub use machine::{Event, INTERIM, InvalidRequest, Machine, RequestLine, Step};
