//! Orders certificates by ACME (RFC 8555), renews them, and keeps them in files.
//!
//! [`prepare`] makes the files that a server needs before it listens: the key of the account, and a placeholder for each
//! certificate that is missing. A [`Client`] then orders each certificate that is due and replaces the placeholder; the
//! server reads the files again when they change. The client blocks, so it has a process of its own.
//!
//! To get a certificate, the client proves that it controls the domains: it answers challenges. The answer to `http-01` is
//! the token of the challenge and the thumbprint of the account's key (RFC 8555, section 8.1). A server that knows the
//! thumbprint can answer every challenge, so client and server need not communicate: [`token`], [`answer`]. The answer to
//! `tls-alpn-01` is a certificate that depends on the token, which the server does not know. The client writes it into a file
//! that the server has open: [`Answers::TlsAlpn`].
#![forbid(unsafe_code)]

mod account_key;
mod challenge;
mod client;
mod files;
mod https;
mod order;
mod pace;
mod problem;
mod request;
mod session;
mod settings;

pub use challenge::{answer, token};
pub use client::{Client, Done};
pub use files::{Answers, prepare};
pub use settings::{Challenge, LETS_ENCRYPT, Names, Settings};
