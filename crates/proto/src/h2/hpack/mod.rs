//! HPACK, the compression of fields in HTTP/2 (RFC 7541).
//!
//! The decoder is complete and bounded in memory and work: see [`Bounds`] and [`Table`](dynamic_table::Table). The encoder
//! is as simple as the format allows.

mod decoder;
mod dynamic_table;
pub(super) mod encoder;
mod huffman;
mod integer;
mod kind;
mod static_table;
#[cfg(test)]
mod tests;

pub(super) use decoder::{Bounds, Decoder, Fault, Field};
pub(super) use kind::Kind;
pub(super) use static_table::PROLOGUE;
