//! An HTTP client for processes that may block: those that order certificates and deliver spans. The protocol is ureq's.
//!
//! A [`Client`] sends a [`Request`] and returns the [`Response`], or the [`Failure`] that its user reads. Servers send texts
//! that messages quote, so [`printable()`] makes them safe for logs.
#![forbid(unsafe_code)]

mod authorities;
mod client;
mod failure;
mod printable;

pub use client::{Client, Content, Request, Response};
pub use failure::Failure;
pub use printable::printable;
