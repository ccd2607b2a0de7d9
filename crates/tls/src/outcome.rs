//! How handshakes end, for whoever counts them.

use crate::server::Version;
use rustls::Error;
use std::fmt;

/// The end of a handshake. One that has not begun, because not a byte of it has come, has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done {
        /// The version that was agreed on.
        version: Version,
        /// An earlier session was resumed.
        resumed: bool,
    },
    /// It has failed.
    Failed(Failure),
}

/// Why a handshake has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// There is no version, suite, group or protocol that both sides take.
    Incompatible,
    /// The client has shown a certificate that is not good, or none where it must.
    ClientCertificate,
    /// The client has ended it with an alert: mostly because it does not trust the server's certificate.
    Rejected,
    /// The client does not speak TLS.
    NotTls,
    /// The client has gone in the middle.
    Gone,
    /// The client had not finished it when the connection was closed.
    Stalled,
    /// Something else: the client has broken the protocol, or this side has failed.
    Other,
}

impl Failure {
    /// The failure that an error of the protocol is.
    pub(crate) const fn of(error: &Error) -> Self {
        match error {
            Error::NoCertificatesPresented | Error::InvalidCertificate(_) => Self::ClientCertificate,
            Error::PeerIncompatible(_) | Error::NoApplicationProtocol => Self::Incompatible,
            Error::AlertReceived(_) => Self::Rejected,
            _ => Self::Other,
        }
    }
}

/// Who is told of each outcome.
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
