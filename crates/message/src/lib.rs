//! The types that all parts of Oribi share: request head, fields, response head.
//!
//! No type of this crate knows a protocol's bytes, a socket or a language. A request head is kept as a [`HeadLayout`], the
//! spans of its parts in the received bytes, so that reading a head copies nothing; [`RequestHead`] joins a layout with its
//! bytes. Terms are those of RFC 9110: *field*, *target*, *content*.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod coding;
mod equal;
mod field;
mod gateway;
pub mod list;
mod plain;
mod prepared;
mod request;
mod response;
mod same_variable;
mod status;
mod trailers;
mod weight;

pub use coding::{AcceptedCodings, Coding};
pub use equal::equal_names;
pub use field::KnownField;
pub use gateway::{KnownVariable, Role, Variable};
pub use plain::is_plain;
pub use prepared::PreparedFields;
pub use request::{FieldLayout, HeadLayout, RequestHead, Span, TargetForm, Version};
pub use response::{FieldMemory, FieldPair, ResponseHead};
pub use same_variable::is_same_variable;
pub use status::reason;
pub use trailers::Trailers;
pub use weight::weight;
