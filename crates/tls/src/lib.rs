//! TLS as a layer over any I/O backend: [`Tls`] is a backend that encrypts the connections of some listeners and leaves those
//! of all others as they are.
//!
//! The protocol is rustls's; this crate brings it together with backends that *try first and report later*, without a buffer
//! for a connection that is idle, and it reads, checks and exchanges certificates. It knows nothing of what is said on a
//! connection.
#![forbid(unsafe_code)]

mod backend;
mod certificates;
mod facts;
mod given;
mod material;
mod outgoing;
mod server;
mod session;
mod tickets;

pub use backend::{Socket, Start, Tls};
pub use material::{CertificateFiles, Material};
pub use server::{Checked, Options, Server, Version};
pub use tickets::Secret;
