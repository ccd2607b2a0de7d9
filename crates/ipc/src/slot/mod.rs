//! Writes requests and responses into the slots of a pool, between an edge and its workers, and reads them there.
//!
//! Requests and responses are written as numbers, which give the positions of the parts, and then the bytes of these parts
//! unchanged, so the reader parses nothing again. The two directions differ in trust. A worker trusts its edge and only avoids
//! a panic. An edge trusts nothing that it reads, because any process that may write to the memory of a worker may have written
//! it.

mod copy;
#[cfg(test)]
mod numbers;
mod request;
mod response;
mod stored;
mod summary;

pub use request::{encode as encode_request, set_completion_time};
pub use response::{
    Content, Head, Heads, encode_head, encode_interim, encode_prepared, encode_trailers, head_size, write_whole,
};
pub use stored::Stored;
pub use summary::{RequestSummary, size_for_summary, summarize};

/// The bytes that were read are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the slot contains neither a request nor the head of a response")
    }
}

impl std::error::Error for Malformed {}
