//! TLS as a layer over any I/O backend: [`Tls`] is a backend that encrypts the connections of some listeners and leaves all
//! others as they are.
//!
//! The protocol is rustls's. This crate connects it to backends that *try first and report later*, without a buffer for an
//! idle connection, and reads, checks and exchanges certificates. It does not interpret the bytes of the app.
#![forbid(unsafe_code)]

mod authorities;
mod backend;
mod certificates;
mod challenges;
mod clients;
pub mod der;
mod distinguished_name;
mod facts;
mod given;
mod identity;
mod material;
mod outcome;
mod outgoing;
mod outline;
pub mod pem;
mod pem_text;
mod server;
mod session;
mod suites;
mod tickets;
mod validity;

pub use authorities::trusted_authorities;
pub use backend::{Socket, Start, Tls};
pub use challenges::Challenges;
pub use clients::Verify;
pub use identity::Identity;
pub use material::{CertificateFiles, Material};
pub use outcome::{Failure, Outcome};
pub use pem_text::Pem;
pub use server::{Checked, Options, Server, Version};
pub use suites::Suites;
pub use tickets::Secret;
