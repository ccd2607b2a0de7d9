//! Sends requests and waits for the responses.

use crate::failure::Failure;
use oribi_tls::trusted_authorities;
use rustls::crypto::ring::default_provider;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use ureq::http::HeaderMap;
use ureq::tls::{Certificate, TlsConfig, TlsProvider};
use ureq::{Agent, Proxy, ResponseExt as _};

/// A client with its connections. It uses the proxy that the environment names (`HTTPS_PROXY` and the like). It follows no
/// redirects, because a signature is for one URL, and credentials are for one server.
#[derive(Debug)]
pub struct Client(Agent);

/// A request: a POST with `content`, or a GET without.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The URL.
    pub url: &'a str,
    /// The content; `None` for a GET.
    pub content: Option<Content<'a>>,
    /// More fields, by name and value.
    pub fields: &'a [(String, String)],
    /// The longest time of this request; `None` for that of the client. For a request with a time of its own, ureq builds its
    /// settings of TLS anew.
    pub time: Option<Duration>,
    /// The largest content of a response, in bytes.
    pub largest: u64,
}

/// The content of a request.
#[derive(Clone, Copy, Debug)]
pub struct Content<'a> {
    /// The Content-Type.
    pub media_type: &'a str,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// A response, whatever its status.
#[derive(Debug)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The content, or the reason why the client has not received all of it.
    pub content: Result<Vec<u8>, Failure>,
    fields: HeaderMap,
}

impl Client {
    /// Makes a client that sends nothing in clear text. It accepts only servers with a certificate of the authorities in
    /// `file`, or in the system's file if that is `None`. `option` is the option by which users name another file, for
    /// messages. `time` is the longest time of a request, from the resolution of the name to the last byte of the response.
    ///
    /// # Errors
    /// Says which file cannot be used, and why.
    pub fn https(file: Option<&Path>, option: &str, time: Duration) -> Result<Self, String> {
        let trusted = trusted_authorities(file, option)?;
        let trusted = trusted.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect();
        Ok(Self::new(true, trusted, Proxy::try_from_env(), time))
    }

    /// Makes a client for servers without TLS. It accepts no certificate, not even of a proxy. `time` is the
    /// longest time of a request.
    #[must_use]
    pub fn plain(time: Duration) -> Self {
        Self::new(false, Vec::new(), Proxy::try_from_env(), time)
    }

    fn new(https_only: bool, trusted: Vec<Certificate<'static>>, proxy: Option<Proxy>, time: Duration) -> Self {
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(Arc::new(default_provider()))
            .root_certs(trusted.into())
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .proxy(proxy)
            .timeout_global(Some(time))
            .https_only(https_only)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .user_agent(concat!("oribi/", env!("CARGO_PKG_VERSION")))
            .build();
        Self(config.new_agent())
    }

    /// Sends a request and receives the response.
    ///
    /// # Errors
    /// Says why there is no response.
    pub fn send(&self, request: &Request<'_>) -> Result<Response, Failure> {
        let fields = || request.fields.iter();
        let sent = match request.content {
            Some(content) => {
                let post = self.0.post(request.url).header("Content-Type", content.media_type);
                let post = fields().fold(post, |post, (name, value)| post.header(name, value));
                match request.time {
                    Some(_) => post.config().timeout_global(request.time).build().send(content.bytes),
                    None => post.send(content.bytes),
                }
            }
            None => {
                let get = fields().fold(self.0.get(request.url), |get, (name, value)| get.header(name, value));
                match request.time {
                    Some(_) => get.config().timeout_global(request.time).build().call(),
                    None => get.call(),
                }
            }
        };
        let response = sent.map_err(|error| Failure::of(&error))?;
        debug_assert!(
            !self.0.config().https_only() || response.get_uri().scheme_str() == Some("https"),
            "plain HTTP is refused"
        );
        let (head, content) = response.into_parts();
        let content = content.into_with_config().limit(request.largest).read_to_vec();
        Ok(Response {
            status: head.status.as_u16(),
            content: content.map_err(|error| Failure::of(&error)),
            fields: head.headers,
        })
    }
}

impl Response {
    /// The value of the first field with this name; `None` if there is none, or if the value is not a text.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name)?.to_str().ok()
    }

    /// The time from `now` after which the server wants the next request; `None` if the response has no valid Retry-After.
    #[must_use]
    pub fn retry_after(&self, now: SystemTime) -> Option<Duration> {
        retry_after(self.field("Retry-After")?, now)
    }
}

/// Parses Retry-After: seconds, or a date (RFC 9110, section 10.2.3).
fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    Some(httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests;
