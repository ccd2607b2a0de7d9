//! The reasons why there is no response.

use crate::printable::printable;
use std::fmt;
use std::io;
use ureq::Error;

/// The reason why there is no response, or not all of a response. The formatted text is for users. It names no remedy, such as
/// an option, because only the caller knows the remedies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// DNS has no address of the host.
    UnknownHost,
    /// The time of the request is over.
    Timeout,
    /// The content is larger than the request allows.
    TooLarge,
    /// The URL is not one of HTTPS, and the client sends nothing in clear text.
    ClearText,
    /// The server's certificate is none that the client accepts; the text says why.
    BadCertificate(String),
    /// All other reasons, as a text that is safe for logs.
    Other(String),
}

impl Failure {
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            Error::HostNotFound => Self::UnknownHost,
            Error::Timeout(_) => Self::Timeout,
            Error::BodyExceedsLimit(_) => Self::TooLarge,
            Error::RequireHttpsOnly(_) => Self::ClearText,
            Error::Rustls(error) => Self::of_tls(error),
            // Errors of rustls come inside the I/O errors of the socket.
            Error::Io(error) => match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
                Some(error) => Self::of_tls(error),
                None if error.kind() == io::ErrorKind::ConnectionRefused => {
                    Self::Other("nothing listens there (connection refused)".to_owned())
                }
                None => Self::Other(printable(&error.to_string())),
            },
            error => Self::Other(printable(&error.to_string())),
        }
    }

    fn of_tls(error: &rustls::Error) -> Self {
        let text = printable(&error.to_string());
        if matches!(error, rustls::Error::InvalidCertificate(_)) { Self::BadCertificate(text) } else { Self::Other(text) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::UnknownHost => "DNS does not know the name of this host",
            Self::Timeout => "no answer in time",
            Self::TooLarge => "the answer is too large",
            Self::ClearText => "it is not https, which is required",
            Self::BadCertificate(text) | Self::Other(text) => text,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::CertificateError::UnknownIssuer;

    #[test]
    fn a_bad_certificate_is_told_from_other_failures_of_tls() {
        let bad = rustls::Error::InvalidCertificate(UnknownIssuer);
        let text = "invalid peer certificate: UnknownIssuer".to_owned();
        let through_a_socket = Error::Io(io::Error::other(bad.clone()));
        for error in [Error::Rustls(bad), through_a_socket] {
            assert_eq!(Failure::of(&error), Failure::BadCertificate(text.clone()));
        }
        let other = Failure::of(&Error::Rustls(rustls::Error::General("a\nb".to_owned())));
        assert_eq!(other, Failure::Other("unexpected error: a b".to_owned()));
    }

    #[test]
    fn failures_are_formatted_for_users() {
        for (error, text) in [
            (Error::HostNotFound, "DNS does not know the name of this host"),
            (Error::BodyExceedsLimit(7), "the answer is too large"),
            (Error::RequireHttpsOnly("http://a".to_owned()), "it is not https, which is required"),
            (Error::Io(io::ErrorKind::ConnectionRefused.into()), "nothing listens there (connection refused)"),
            (Error::Io(io::Error::other("a\x1b[31mred")), "a [31mred"),
        ] {
            assert_eq!(Failure::of(&error).to_string(), text);
        }
    }
}
