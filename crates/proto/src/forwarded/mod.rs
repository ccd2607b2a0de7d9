//! Reads the fields in which proxies describe a client: X-Forwarded-For and its like, and Forwarded (RFC 7239).
//!
//! Each proxy appends its knowledge at the right, after the text that it received; so the text to the left may have been
//! invented by the client. Therefore all fields are read from the right, and text to the left is not interpreted before the
//! reader asks for it: an unbalanced quote of a client cannot swallow the text that a proxy has added.

mod elements;
mod node;

pub use elements::{Element, elements, members};
pub use node::{Node, node};
