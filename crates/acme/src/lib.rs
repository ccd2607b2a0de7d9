//! Orders certificates by ACME (RFC 8555), renews them, and keeps them in files.
//!
//! [`prepare`] makes the files that a server needs before it listens: the key of the account, and a placeholder for each
//! missing certificate. Then a [`Client`] orders each certificate that is due, and replaces the placeholder by it. The server
//! reads the files again when they change. The client blocks, so it runs in a process of its own. An order that was interrupted
//! is continued, and the pause after a failure is obeyed, also by the next process: their state is in files beside the certificate.
//!
//! To get a certificate, the client proves that it controls the domains: it answers challenges. The answer to `http-01`
//! consists of the token of the challenge and the thumbprint of the account's key (RFC 8555, section 8.1). A request for the
//! answer contains the token, so a server that knows the thumbprint can answer every challenge without help of the client:
//! [`token`], [`answer`]. The answer to `tls-alpn-01` is a certificate that depends on the token. In this case the server does
//! not know the token, so the client writes the certificate into a file that the server has open: [`Answers::TlsAlpn`].
#![forbid(unsafe_code)]

mod account_key;
mod challenge;
mod client;
mod draft;
mod due;
mod files;
mod https;
mod order;
mod pace;
mod problem;
mod record;
mod request;
mod session;
mod settings;

pub use challenge::{answer, token};
pub use client::{Client, Done};
pub use files::{Answers, prepare};
pub use pace::pauses;
pub use settings::{Challenge, LETS_ENCRYPT, Names, Settings};
