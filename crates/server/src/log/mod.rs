//! What the server says: errors for its operator, a line for each request.
//!
//! Both logs share two rules: whatever comes from outside is escaped, so that nobody can forge a line or play with a terminal,
//! and a line is written whole, by one system call, so that the lines of several processes do not mix.

mod access;
mod error;
mod escape;
mod sink;
mod stamp;

pub use access::{AccessEntry, AccessLog};
pub use error::{install, reopen};
