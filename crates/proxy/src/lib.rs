//! The proxy host: passes requests on to other servers of HTTP/1, the *upstreams*, and their responses to the clients.
//!
//! A lane has one context, which keeps many exchanges open at once and never waits. All sockets of upstreams are in one epoll
//! instance (`poller`), which the lane watches as a single descriptor.
//!
//! # The life of an exchange
//! 1. **Write down** (`request`): the head for the upstream is made from the request, with the fields that describe the client
//!    (`forwarded`); fields about the client's connection are left out (`fields`);
//! 2. **Choose** (`balance`): the upstream with the fewest open exchanges, and one of its kept connections or a new one;
//! 3. **Send** (`exchange`): the head, and content piece by piece from memory or a file;
//! 4. **Pass on** (`response`): each piece of the response as it arrives. While a client has no room, nothing more is read from
//!    its upstream;
//! 5. **Keep** (`connection`): a connection that may be used again waits for another exchange.
//!
//! After a 101, both ends exchange bytes until both have ended (`tunnel`).
#![forbid(unsafe_code)]

mod address;
mod balance;
mod connection;
mod exchange;
mod fields;
mod forwarded;
mod host;
mod poller;
mod request;
mod response;
mod socket;
mod tunnel;

pub use address::{Upstream, is_upstream};

use host::ProxyHost;
use oribi_host::{Host, Runtime};
use std::time::Duration;

/// Passes all requests on to some upstreams. One for each process.
#[derive(Clone, Debug)]
pub struct Proxy {
    upstreams: Vec<Upstream>,
    response_timeout: Option<Duration>,
}

impl Proxy {
    /// Passes requests on to `upstreams`, which must not be empty. A client whose upstream sends nothing for `response_timeout`
    /// gets a 504, or its response is cut off; by default there is no limit.
    #[must_use]
    pub const fn new(upstreams: Vec<Upstream>, response_timeout: Option<Duration>) -> Self {
        Self { upstreams, response_timeout }
    }

    /// Looks up the names of the upstreams.
    ///
    /// # Errors
    /// The name that has no address.
    pub fn check(&self) -> Result<(), String> {
        self.targets().map(drop)
    }

    fn targets(&self) -> Result<Vec<address::Target>, String> {
        self.upstreams.iter().map(Upstream::resolve).collect()
    }
}

impl Runtime for Proxy {
    fn open(&self, _own: bool) -> Result<Box<dyn Host>, String> {
        // Names are looked up here, so that a reload looks them up again.
        let targets = self.targets()?;
        let host = ProxyHost::new(targets, self.response_timeout).map_err(|error| format!("cannot watch sockets: {error}"))?;
        Ok(Box::new(host))
    }
}
