//! Basic authentication (RFC 7617): the credentials of requests, the files of `htpasswd`, and the hashes of passwords.
//!
//! Nothing here waits or reads a file. [`Users::check`] takes up to half a second of a processor, so its caller runs it in a
//! thread of its own: [`Turns`] says whose credentials are checked next, and [`Remembered`] says which need no other check.
#![forbid(unsafe_code)]

mod basic;
mod hash;
mod md5_crypt;
mod remembered;
mod turns;
mod users;

pub use basic::{Credentials, challenge};
pub use remembered::{Digest, Remembered};
pub use turns::{Full, Turns};
pub use users::{Mistake, Users};
