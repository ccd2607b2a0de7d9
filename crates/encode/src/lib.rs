//! Content codings of responses (RFC 9110, section 8.4): whether a response is compressed, the encoders, and the fields of an
//! encoded response. Nothing here does I/O, and nothing knows a protocol.
//!
//! ```
//! use oribi_encode::{Encoder, Filter, HeadWriter, Outcome, default_level};
//! use oribi_message::ResponseHead;
//! use std::iter;
//!
//! let (filter, mut heads) = (Filter::default(), HeadWriter::default());
//! let accepted: &[u8] = b"gzip, deflate, br";
//! let request = filter.read_request(b"GET", iter::once(accepted), iter::empty(), false);
//! let head = ResponseHead { status: 200, fields: &[(b"Content-Type", b"text/html"), (b"ETag", b"\"1\"")] };
//! let outcome = filter.decide(request, head.status, head.fields, Some(4096));
//! let Outcome::Encode(coding) = outcome else { panic!("{outcome:?}") };
//! heads.write(outcome, head, |head| assert!(head.fields.contains(&(b"Content-Encoding", b"br"))));
//!
//! let (mut encoder, mut output) = (Encoder::new(coding, default_level(coding)), Vec::new());
//! encoder.write(&[b'x'; 4096], &mut output)?;
//! encoder.finish(&mut output)?;
//! assert!(output.len() < 100);
//! # Ok::<(), oribi_encode::EncodeError>(())
//! ```
//!
//! # Conditional requests
//!
//! The entity tag of an encoded response is weak, because two codings have different bytes, and it has an end of its own: if the
//! app sends `ETag: "1"`, the client receives `ETag: W/"1~z"`, and sends `If-None-Match: W/"1~z"` the next time. Many apps compare
//! tags byte by byte, so [`restore_tags`] gives the app its own tag again. An app whose own tags are weak gets them back as they
//! were. `If-Match` (RFC 9110, section 13.1.1) compares strongly, and is therefore always false for a weak tag; a client that edits
//! must use the tag of a response that was not encoded.
//!
//! The tag of a 304 becomes the same weak one, if the client has sent such a tag and the app answers with a strong one: a cache
//! updates the response that it has stored only if the tags fit (RFC 9111, section 4.3.4).
#![forbid(unsafe_code)]

mod encoder;
mod filter;
mod head;
mod levels;
mod media_range;
mod negotiate;
mod tag;

pub use encoder::{EncodeError, Encoder};
pub use filter::{Filter, Outcome, RequestFacts, Settings};
pub use head::HeadWriter;
pub use levels::{default_level, levels};
pub use media_range::{DEFAULT_TYPES, InvalidMediaRange, MediaRange};
pub use negotiate::{Choice, negotiate};
pub use oribi_message::Coding;
pub use tag::restore_tags;
