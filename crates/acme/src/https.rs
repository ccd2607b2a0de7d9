//! Sends requests to an authority, over HTTPS only.

use oribi_http_client::{Client, Content, Failure, Request, printable};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The limit for one request, from the resolution of the name to the last byte of the response.
const TIME: Duration = Duration::from_secs(30);

/// The largest response of an authority, in bytes.
const LARGEST: u64 = 1 << 20;

/// The side effects of a client, which tests replace.
pub(crate) trait World {
    /// Sends a request to `url`: a POST with `content`, or a GET if `content` is `None`.
    fn send(&self, url: &str, content: Option<&str>) -> Result<Answer, String>;

    /// Sleeps.
    fn pause(&self, time: Duration);
}

/// A response of an authority.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The nonce for the next request.
    pub(crate) nonce: Option<String>,
    /// The URL of the resource that was created.
    pub(crate) location: Option<String>,
    /// The time after which to ask again.
    pub(crate) retry_after: Option<Duration>,
    pub(crate) body: Vec<u8>,
}

/// An HTTPS client for one authority.
#[derive(Debug)]
pub(crate) struct Https(Client);

impl Https {
    /// Creates a client that trusts servers with a certificate of the `authorities` in this file; `None` for the system's
    /// authorities.
    ///
    /// # Errors
    /// Says which file cannot be used, and why.
    pub(crate) fn new(authorities: Option<&Path>) -> Result<Self, String> {
        Client::https(authorities, "--acme-ca", TIME).map(Self)
    }
}

impl World for Https {
    fn send(&self, url: &str, content: Option<&str>) -> Result<Answer, String> {
        let content = content.map(|text| Content { media_type: "application/jose+json", bytes: text.as_bytes() });
        let failed = |failure: Failure| format!("{}: {}", printable(url), words(&failure));
        let request = Request { url, content, fields: &[], time: None, largest: LARGEST };
        let response = self.0.send(&request).map_err(failed)?;
        Ok(Answer {
            status: response.status,
            nonce: response.field("Replay-Nonce").map(str::to_owned),
            location: response.field("Location").map(str::to_owned),
            retry_after: response.retry_after(SystemTime::now()),
            body: response.content.map_err(failed)?,
        })
    }

    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// Describes a failure, and says what to do about it, if anything helps.
fn words(failure: &Failure) -> String {
    match failure {
        Failure::UnknownHost => format!("{failure}; is the Internet reachable?"),
        Failure::Timeout => format!("no answer within {} s", TIME.as_secs()),
        Failure::TooLarge => format!("an answer of more than {LARGEST} bytes, which no authority gives"),
        Failure::BadCertificate(_) => format!("{failure}; if the authority is your own, give its CA certificate by --acme-ca"),
        Failure::ClearText | Failure::Other(_) => failure.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_come_with_their_remedies() {
        let bad = "invalid peer certificate: UnknownIssuer".to_owned();
        for (failure, text) in [
            (Failure::UnknownHost, "DNS does not know the name of this host; is the Internet reachable?"),
            (Failure::Timeout, "no answer within 30 s"),
            (Failure::TooLarge, "an answer of more than 1048576 bytes, which no authority gives"),
            (
                Failure::BadCertificate(bad),
                "invalid peer certificate: UnknownIssuer; if the authority is your own, give its CA certificate by --acme-ca",
            ),
            (Failure::ClearText, "it is not https, which is required"),
        ] {
            assert_eq!(words(&failure), text);
        }
    }
}
