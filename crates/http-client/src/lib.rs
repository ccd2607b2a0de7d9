//! Connections to certificate authorities and collectors: the certificates that they may have, and their texts in messages.
#![forbid(unsafe_code)]

mod authorities;
mod printable;

pub use authorities::authorities;
pub use printable::printable;
