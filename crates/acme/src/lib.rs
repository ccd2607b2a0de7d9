//! Certificates by ACME (RFC 8555): ordered, renewed, and kept in files.
//!
//! [`prepare`] makes what a server needs before it listens: the key of the account, and a placeholder for each certificate that
//! is not there yet. A [`Client`] then orders what is due and writes it in the place of the placeholder; whoever serves the
//! files reads them again when they change. The client waits and blocks, so it has a process of its own.
//!
//! Who orders a certificate proves that the domains are theirs by answering challenges. The right answer to one of `http-01` is its
//! token and, behind it, the thumbprint of the account's key (RFC 8555, section 8.1). So a server that knows the thumbprint
//! answers every challenge at once, and client and server need not talk to one another: [`token`], [`answer`]. The answer to one of
//! `tls-alpn-01` is a certificate that depends on a token which the server is not told. So the client writes it into a file that
//! whoever serves has open: [`Answers::TlsAlpn`].
#![forbid(unsafe_code)]

mod account_key;
mod challenge;
mod client;
mod der;
mod files;
mod https;
mod order;
mod pace;
mod pem;
mod problem;
mod request;
mod session;
mod settings;

pub use challenge::{answer, token};
pub use client::{Client, Done};
pub use files::{Answers, prepare};
pub use settings::{Challenge, LETS_ENCRYPT, Names, Settings};
