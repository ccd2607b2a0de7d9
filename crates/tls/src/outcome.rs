//! The outcomes of handshakes, to be counted.

use crate::server::Version;
use rustls::Error;
use std::fmt;

/// The outcome of a handshake. A handshake of which no byte has arrived has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The handshake is done.
    Done {
        /// The negotiated version.
        version: Version,
        /// Whether an earlier session was resumed.
        resumed: bool,
    },
    /// The handshake has failed.
    Failed(Failure),
}

/// The reason why a handshake has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No version, suite, group or protocol is acceptable to both sides.
    Incompatible,
    /// The certificate of the client is bad, or missing where one is required.
    ClientCertificate,
    /// The client has sent an alert: mostly because it does not trust the server's certificate.
    Rejected,
    /// The client does not speak TLS.
    NotTls,
    /// The client has closed the connection in the middle.
    Gone,
    /// The server has closed the connection before the client finished the handshake.
    Stalled,
    /// Any other reason: the client has broken the protocol, or this side has failed.
    Other,
}

impl Failure {
    /// Classifies an error of rustls.
    pub(crate) const fn of(error: &Error) -> Self {
        match error {
            Error::NoCertificatesPresented | Error::InvalidCertificate(_) => Self::ClientCertificate,
            Error::PeerIncompatible(_) | Error::NoApplicationProtocol => Self::Incompatible,
            Error::AlertReceived(_) => Self::Rejected,
            _ => Self::Other,
        }
    }
}

/// The function that gets each outcome.
pub(crate) struct Listener(Box<dyn Fn(Outcome) + Send + Sync>);

impl Listener {
    pub(crate) fn new(told: impl Fn(Outcome) + Send + Sync + 'static) -> Self {
        Self(Box::new(told))
    }

    pub(crate) fn tell(&self, outcome: Outcome) {
        (self.0)(outcome);
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Listener")
    }
}
