//! What proxies say of a client in fields of its request: X-Forwarded-For and its like, and Forwarded (RFC 7239).
//!
//! Each proxy adds what it knows at the right, behind what it was sent; so whatever stands left of that may have been invented by
//! the client. Therefore everything is read from the right, and nothing is said about what stands left of a place before the
//! reader asks for it: an unbalanced quote of a client cannot swallow what a proxy has added.

mod elements;
mod node;

pub use elements::{Element, elements, members};
pub use node::{Node, node};
