//! The messages of the control socket: the orders of clients.
#![forbid(unsafe_code)]

mod order;

pub use order::Order;
