//! Sends messages to a collector by OTLP/HTTP, in the binary format.

use crate::response::{Partial, partial_success, reason};
use crate::settings::{Settings, headers};
use oribi_http_client::printable;
use rustls::crypto::ring::default_provider;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use ureq::{Agent, Error};

/// The largest response of a collector, in bytes.
const LARGEST: u64 = 64 << 10;

/// The collector's decision about a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Accepted, perhaps without some spans.
    Taken(Partial),
    /// To be sent again later, perhaps after the time that the collector has asked for.
    Later { asked: Option<Duration>, why: String },
    /// Refused permanently.
    Refused(String),
}

/// A collector and the HTTP client for it.
#[derive(Debug)]
pub struct Collector {
    agent: Agent,
    url: String,
    headers: Vec<(String, String)>,
}

impl Collector {
    /// Reads the file of authorities, and the environment by `variable`.
    ///
    /// # Errors
    /// Says which file cannot be used, and why.
    pub fn new(settings: &Settings, variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let url = settings.endpoint.as_deref().ok_or("there is no collector")?;
        let mut tls =
            TlsConfig::builder().provider(TlsProvider::Rustls).unversioned_rustls_crypto_provider(Arc::new(default_provider()));
        if url.starts_with("https:") {
            let trusted = oribi_http_client::authorities(settings.authorities.as_deref(), "--trace-export-ca")?;
            let trusted: Vec<_> = trusted.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect();
            tls = tls.root_certs(RootCerts::from(trusted));
        }
        let config = Agent::config_builder()
            .tls_config(tls.build())
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .user_agent(concat!("oribi/", env!("CARGO_PKG_VERSION")))
            .build();
        let (headers, wrong) = headers(variable);
        if !wrong.is_empty() {
            log::warn!("spans: these fields of OTEL_EXPORTER_OTLP_HEADERS cannot be sent: {}", wrong.join(", "));
        }
        Ok(Self { agent: config.new_agent(), url: url.to_owned(), headers })
    }

    /// Sends a message and reads the response, within `time`.
    pub(crate) fn send(&self, message: &[u8], time: Duration) -> Outcome {
        let mut request = self.agent.post(&self.url).header("Content-Type", "application/x-protobuf");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let later = |error: &Error| Outcome::Later { asked: None, why: format!("{}: {}", printable(&self.url), words(error)) };
        let mut response = match request.config().timeout_global(Some(time)).build().send(message) {
            Ok(response) => response,
            Err(error) => return later(&error),
        };
        let status = response.status().as_u16();
        let asked =
            response.headers().get("Retry-After").and_then(|value| retry_after(value.to_str().ok()?, SystemTime::now()));
        let body = response.body_mut().with_config().limit(LARGEST).read_to_vec();
        outcome(&self.url, status, asked, &body.unwrap_or_default())
    }
}

/// Interprets a response (OTLP 1, "OTLP/HTTP Response").
fn outcome(url: &str, status: u16, asked: Option<Duration>, body: &[u8]) -> Outcome {
    if (200..300).contains(&status) {
        return Outcome::Taken(partial_success(body));
    }
    let reason = reason(body);
    let because = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
    let why = format!("{} has answered {status}{because}", printable(url));
    if matches!(status, 429 | 502 | 503 | 504) { Outcome::Later { asked, why } } else { Outcome::Refused(why) }
}

/// Parses Retry-After: seconds, or a date (RFC 9110, section 10.2.3).
fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    let seconds = text.trim().parse().ok().map(Duration::from_secs);
    seconds.or_else(|| Some(httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or(Duration::ZERO)))
}

/// Describes an error, and the remedy if there is one.
fn words(error: &Error) -> String {
    match error {
        Error::HostNotFound => "DNS does not know the name of this host".to_owned(),
        Error::Timeout(_) => "no answer in time".to_owned(),
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
        rustls::Error::InvalidCertificate(_) => "; if its authority is your own, give its CA certificate by --trace-export-ca",
        _ => "",
    };
    format!("{}{advice}", printable(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    #[test]
    fn what_may_be_sent_again_and_what_may_not() {
        let asked = Some(Duration::from_secs(7));
        for status in [429, 502, 503, 504] {
            let why = format!("http://a has answered {status} (busy)");
            assert_eq!(outcome("http://a", status, asked, b"busy"), Outcome::Later { asked, why }, "{status}");
        }
        for status in [301, 400, 401, 404, 413, 500, 501] {
            let why = format!("http://a has answered {status}");
            assert_eq!(outcome("http://a", status, asked, b""), Outcome::Refused(why), "{status}");
        }
        for status in [200, 202] {
            assert_eq!(outcome("http://a", status, None, b""), Outcome::Taken(Partial::default()));
        }
        let partial = Partial { spans: 2, why: "no".to_owned() };
        assert_eq!(outcome("http://a", 200, None, b"\x0a\x06\x08\x02\x12\x02no"), Outcome::Taken(partial));
    }

    #[test]
    fn retry_after_is_a_number_or_a_date() {
        let now = UNIX_EPOCH + Duration::from_secs(1_795_419_000);
        assert_eq!(retry_after(" 7 ", now), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("Mon, 23 Nov 2026 07:30:05 GMT", now), Some(Duration::from_secs(5)));
        assert_eq!(retry_after("Mon, 23 Nov 2020 07:30:05 GMT", now), Some(Duration::ZERO));
        assert_eq!(retry_after("soon", now), None);
    }

    #[test]
    fn files_of_authorities_that_are_none_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let to = |url: &str| Settings {
            endpoint: Some(url.to_owned()),
            authorities: Some(folder.path().join("none")),
            ..Settings::default()
        };
        let message = Collector::new(&to("https://a/"), |_| None).expect_err("it cannot be used");
        assert!(message.contains("none: No such file"), "{message}");
        assert!(Collector::new(&to("http://a/"), |_| None).is_ok(), "it is not needed");
    }
}
