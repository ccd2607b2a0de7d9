//! What has broken other servers of this field, tried on a whole one: in the simulation, and on a real lane over TCP.

mod client;
mod framing;
mod lines;
mod resources;
mod responses;
mod servers;
mod sockets;
