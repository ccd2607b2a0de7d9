//! Maps the outcome of a TLS handshake to its counter.

use super::Counter;
use oribi_tls::{Failure, Outcome, Version};

/// Returns the counter of handshakes with this outcome.
pub const fn counter_of(outcome: Outcome) -> Counter {
    match outcome {
        Outcome::Done { version: Version::Tls12, resumed: false } => Counter::Tls12Full,
        Outcome::Done { version: Version::Tls12, resumed: true } => Counter::Tls12Resumed,
        Outcome::Done { version: Version::Tls13, resumed: false } => Counter::Tls13Full,
        Outcome::Done { version: Version::Tls13, resumed: true } => Counter::Tls13Resumed,
        Outcome::Failed(Failure::Incompatible) => Counter::TlsIncompatible,
        Outcome::Failed(Failure::ClientCertificate) => Counter::TlsClientCertificate,
        Outcome::Failed(Failure::Rejected) => Counter::TlsRejected,
        Outcome::Failed(Failure::NotTls) => Counter::TlsPlain,
        Outcome::Failed(Failure::Gone) => Counter::TlsGone,
        Outcome::Failed(Failure::Stalled) => Counter::TlsTimeout,
        Outcome::Failed(Failure::Other) => Counter::TlsOther,
    }
}
