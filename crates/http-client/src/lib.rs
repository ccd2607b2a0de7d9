//! An HTTP client for processes that may block: those that order certificates and deliver spans. ureq implements the protocol.
//!
//! A [`Client`] sends a [`Request`] and returns the [`Response`], or the [`Failure`] with the reason for users. Messages quote
//! texts of servers, so [`printable()`] makes these texts safe for logs.
#![forbid(unsafe_code)]

mod client;
mod failure;
mod printable;

pub use client::{Client, Content, Request, Response};
pub use failure::Failure;
pub use printable::printable;
