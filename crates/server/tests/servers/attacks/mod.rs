//! Attacks that have broken other servers of this kind, tried on whole servers: on one in the simulation, and on a real lane
//! over TCP.

mod client;
mod framing;
mod lines;
mod resources;
mod responses;
mod servers;
mod sockets;
