//! HTTP/1.1 and HTTP/1.0, the server's side (RFC 9110 for the meaning, RFC 9112 for the bytes). The other side is [`client`].
//!
//! One [`Machine`] belongs to one connection and answers one request at a time; pipelined requests wait in the caller's buffer
//! until [`Machine::finish`] has returned [`Finish::Reuse`].
//!
//! # Strictness
//! Where RFC 9112 lets a recipient choose between repairing a message and refusing it, this machine refuses, because request
//! smuggling needs two recipients that repair differently:
//! * lines end in CR LF; a lone CR or LF is a 400, and so is a folded field line;
//! * the request line has exactly two spaces; a field name is a token that a colon follows immediately;
//! * a field value may hold anything but control bytes other than HTAB; bytes from 0x80 on are passed on unchanged;
//! * a target holds no control byte, no space and no `#`. The characters that URIs exclude but clients send unescaped
//!   (`"<>[]\^{|}`, the backquote, and bytes from 0x80 on, mostly UTF-8) are accepted, but not in a host; bytes from 0x80 on
//!   are accepted only without [`Limits::strict_target`]. Broken percent escapes are left to the host, which decodes;
//! * exactly one Host with HTTP/1.1, at most one with HTTP/1.0; an empty Host is legal (RFC 9112, section 3.2);
//! * one Content-Length of plain digits, or one `Transfer-Encoding: chunked`, never both and never twice, even if equal;
//! * CONNECT is a 501: this server is not a tunnel.
//!
//! # The same answer for every split
//! The way in which the bytes of a request are cut into packets does not change its answer. The first byte that breaks a rule
//! decides on syntax and size. Rules about the meaning of fields are checked only when the head is complete and correct. So a
//! refusal never depends on how much has arrived.

mod chunked;
pub mod client;
pub(crate) mod grammar;
pub(crate) mod head;
mod limits;
mod machine;
mod meaning;
pub(crate) mod names;
mod refusal;
pub(crate) mod response;
pub(crate) mod search;
pub(crate) mod target;
mod trailers;

pub use chunked::FramedContent;
pub use limits::Limits;
pub use machine::{Event, Finish, Machine, Step};
pub use meaning::Framing;
pub use refusal::Refusal;
pub(crate) use refusal::{Words, refusals};
pub use response::{InvalidResponse, Preset, check_head, check_informational};
pub use target::is_authority;
pub(crate) use trailers::may_be_trailer;
pub use trailers::{check_trailers, trailers_of};
