//! Sends messages to a collector by OTLP/HTTP, in the binary format.

use crate::response::{Partial, partial_success, reason};
use crate::settings::{Settings, headers};
use oribi_http_client::{Client, Content, Failure, Request, printable};
use std::time::{Duration, SystemTime};

/// The limit for one request.
pub(crate) const TIME: Duration = Duration::from_secs(10);

/// The largest response of a collector, in bytes.
const LARGEST: u64 = 64 << 10;

/// The collector's decision about a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Accepted, perhaps without some spans.
    Taken(Partial),
    /// To be sent again later: at the earliest after the time `asked`, if the collector has asked for one.
    Later { asked: Option<Duration>, why: String },
    /// Refused permanently.
    Refused(String),
}

/// A collector and the HTTP client for it.
#[derive(Debug)]
pub struct Collector {
    client: Client,
    url: String,
    headers: Vec<(String, String)>,
}

impl Collector {
    /// Creates the client for the collector of the settings. Reads the file of authorities, and the fields to send from the
    /// environment by `variable`.
    ///
    /// # Errors
    /// There is no collector, or the file of authorities cannot be used; the message contains the file and the reason.
    pub fn new(settings: &Settings, variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let url = settings.endpoint.as_deref().ok_or("there is no collector")?;
        let client = if url.starts_with("https:") {
            Client::https(settings.authorities.as_deref(), "--trace-export-ca", TIME)?
        } else {
            Client::plain(TIME)
        };
        let (headers, wrong) = headers(variable);
        if !wrong.is_empty() {
            log::warn!("spans: these fields of OTEL_EXPORTER_OTLP_HEADERS cannot be sent: {}", wrong.join(", "));
        }
        Ok(Self { client, url: url.to_owned(), headers })
    }

    /// Sends a message and reads the response, within `time`, or [`TIME`] if that is `None`.
    pub(crate) fn send(&self, message: &[u8], time: Option<Duration>) -> Outcome {
        let content = Some(Content { media_type: "application/x-protobuf", bytes: message });
        let request = Request { url: &self.url, content, fields: &self.headers, time, largest: LARGEST };
        match self.client.send(&request) {
            Ok(response) => {
                let asked = response.retry_after(SystemTime::now());
                outcome(&self.url, response.status, asked, &response.content.unwrap_or_default())
            }
            Err(failure) => {
                Outcome::Later { asked: None, why: format!("{}: {}", printable(&self.url), words(&failure, &self.url)) }
            }
        }
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

/// Describes a failure, and says what to do about it, if anything helps.
fn words(failure: &Failure, url: &str) -> String {
    match failure {
        // Without https, the certificate is that of a proxy, to which the option does not apply.
        Failure::BadCertificate(_) if url.starts_with("https:") => {
            format!("{failure}; if its authority is your own, give its CA certificate by --trace-export-ca")
        }
        failure => failure.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn failures_come_with_their_remedies() {
        let bad = "invalid peer certificate: UnknownIssuer".to_owned();
        for (failure, text) in [
            (Failure::UnknownHost, "DNS does not know the name of this host"),
            (Failure::Timeout, "no answer in time"),
            (
                Failure::BadCertificate(bad),
                "invalid peer certificate: UnknownIssuer; if its authority is your own, give its CA certificate by \
                 --trace-export-ca",
            ),
        ] {
            assert_eq!(words(&failure, "https://a"), text);
        }
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
