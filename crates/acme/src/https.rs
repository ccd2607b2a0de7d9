//! Sends requests to an authority, over HTTPS only.

use oribi_http_client::printable;
use rustls::crypto::ring::default_provider;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use ureq::{Agent, Error, ResponseExt as _};

/// The limit for one request, from the resolution of the name to the last byte of the response.
const TIME: Duration = Duration::from_secs(30);

/// The largest response of an authority, in bytes.
const LARGEST: u64 = 1 << 20;

/// The side effects of a client, which tests replace.
pub(crate) trait World {
    /// Sends a request: a POST with `content`, or a GET if it is `None`.
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
pub(crate) struct Https(Agent);

impl Https {
    /// Makes a client that accepts servers with a certificate of `authorities`; `None` for the system's authorities.
    ///
    /// # Errors
    /// Says which file cannot be used, and why.
    pub(crate) fn new(authorities: Option<&Path>) -> Result<Self, String> {
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(Arc::new(default_provider()))
            .root_certs(trusted(authorities)?)
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .https_only(true)
            // A signature is for one URL. An authority that has moved has its new URLs in its directory.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .timeout_global(Some(TIME))
            .user_agent(concat!("oribi/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Self(config.new_agent()))
    }
}

impl World for Https {
    fn send(&self, url: &str, content: Option<&str>) -> Result<Answer, String> {
        let failed = |error: &Error| format!("{}: {}", printable(url), words(error));
        let sent = match content {
            Some(content) => self.0.post(url).header("Content-Type", "application/jose+json").send(content),
            None => self.0.get(url).call(),
        };
        let mut response = sent.map_err(|error| failed(&error))?;
        let field = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let mut answer = Answer {
            status: response.status().as_u16(),
            nonce: field("Replay-Nonce"),
            location: field("Location"),
            retry_after: field("Retry-After").as_deref().and_then(|text| retry_after(text, SystemTime::now())),
            body: Vec::new(),
        };
        debug_assert_eq!(response.get_uri().scheme_str(), Some("https"), "plain HTTP is refused");
        answer.body = response.body_mut().with_config().limit(LARGEST).read_to_vec().map_err(|error| failed(&error))?;
        Ok(answer)
    }

    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// Parses Retry-After: seconds, or a date (RFC 9110, section 10.2.3).
fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    Some(httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or(Duration::ZERO))
}

/// Describes an error, and the remedy if there is one.
fn words(error: &Error) -> String {
    match error {
        Error::HostNotFound => "DNS does not know the name of this host; is the Internet reachable?".to_owned(),
        Error::Timeout(_) => format!("no answer within {} s", TIME.as_secs()),
        Error::BodyExceedsLimit(_) => format!("an answer of more than {LARGEST} bytes, which no authority gives"),
        Error::RequireHttpsOnly(_) => "it is not https, which is required".to_owned(),
        Error::Rustls(error) => of_tls(error),
        // rustls's errors come through the sockets.
        Error::Io(error) => match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(error) => of_tls(error),
            None if error.kind() == io::ErrorKind::ConnectionRefused => "nothing listens there (connection refused)".to_owned(),
            None => printable(&error.to_string()),
        },
        error => printable(&error.to_string()),
    }
}

fn of_tls(error: &rustls::Error) -> String {
    let advice = match error {
        rustls::Error::InvalidCertificate(_) => "; if the authority is your own, give its CA certificate by --acme-ca",
        _ => "",
    };
    format!("{}{advice}", printable(&error.to_string()))
}

fn trusted(file: Option<&Path>) -> Result<RootCerts, String> {
    let certificates = oribi_http_client::authorities(file, "--acme-ca")?;
    let certificates: Vec<_> = certificates.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect();
    Ok(certificates.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    #[test]
    fn retry_after_is_a_number_or_a_date() {
        let now = UNIX_EPOCH + Duration::from_secs(1_795_419_000);
        assert_eq!(retry_after(" 7 ", now), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("Mon, 23 Nov 2026 07:30:05 GMT", now), Some(Duration::from_secs(5)));
        assert_eq!(retry_after("Mon, 23 Nov 2020 07:30:05 GMT", now), Some(Duration::ZERO));
        for text in ["", "-1", "soon", "99999999999999999999"] {
            assert_eq!(retry_after(text, now), None, "{text}");
        }
    }

    #[test]
    fn files_of_authorities_that_are_none_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let empty = folder.path().join("empty.pem");
        std::fs::write(&empty, "nothing").expect("it is ours");
        for (file, why) in [(&empty, "there is no certificate in it"), (&folder.path().join("none"), "No such file")] {
            let message = Https::new(Some(file)).expect_err("it cannot be used");
            assert!(message.contains(&file.display().to_string()) && message.contains(why), "{message}");
        }
    }

    #[test]
    fn nothing_is_sent_in_clear_text() {
        let https = Https(Agent::config_builder().https_only(true).build().new_agent());
        let message = https.send("http://127.0.0.1:1/dir", None).expect_err("it is not encrypted");
        assert!(message.contains("it is not https"), "{message}");
    }
}
