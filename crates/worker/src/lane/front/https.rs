//! Redirects from http to https (`--redirect-https`).

use super::{Handler, challenge};
use crate::lane::Lane;
use oribi_config::Settings;
use oribi_host::Request;
use oribi_listen::Listener;
use oribi_message::{Role, TargetForm, reason};
use oribi_source::{LentRequest, Source};
use std::net::Ipv6Addr;

/// Answers http requests with a redirect to https.
pub(super) struct HttpsRedirect {
    port: u16,
}

impl HttpsRedirect {
    pub(super) fn of(settings: &Settings) -> Option<Self> {
        settings.redirect_https.map(|port| Self { port })
    }
}

impl<S: Source> Handler<S> for HttpsRedirect {
    fn answer(&self, lane: &Lane<'_, S>, exchange: S::Exchange, listeners: &[Listener]) -> Option<S::Exchange> {
        let Some(redirect) = redirect(&exchange.request(listeners), self.port) else { return Some(exchange) };
        let location = redirect.location.as_deref().map(|location| (&b"Location"[..], location));
        lane.send_text(exchange, redirect.status, location, b"text/plain", &redirect.content());
        None
    }
}

/// A redirect to https.
#[derive(Debug, PartialEq, Eq)]
struct Redirect {
    status: u16,
    /// The URL, unless the request does not contain a usable one.
    location: Option<Vec<u8>>,
}

/// The longest host name in bytes (RFC 1035, section 2.3.4).
const LONGEST_HOST: usize = 255;

/// The port that https URLs omit.
const DEFAULT_PORT: u16 = 443;

/// The redirect of an http request to https at that port; `None` for a request over https, or one that may use http.
#[inline(never)]
fn redirect(request: &Request<'_>, port: u16) -> Option<Redirect> {
    let is_responder = request.gateway.as_ref().is_none_or(|gateway| gateway.role == Role::Responder);
    // Authorities use http, even if the app answers their challenges.
    if request.https || !is_responder || challenge::token(&request.head).is_some() {
        return None;
    }
    let location = location(request, port);
    let status = match (&location, request.head.method()) {
        (None, _) => 400,
        // Every client supports 301, but many then change other methods to GET (RFC 9110, section 15.4.2).
        (Some(_), b"GET" | b"HEAD") => 301,
        (Some(_), _) => 308,
    };
    Some(Redirect { status, location })
}

impl Redirect {
    /// A short text for people.
    fn content(&self) -> String {
        let why =
            if self.location.is_some() { "" } else { ": this server is for https, and Host does not say which one it is" };
        format!("{} {}{why}\n", self.status, reason(self.status))
    }
}

/// Returns the URL of the request with https.
fn location(request: &Request<'_>, port: u16) -> Option<Vec<u8>> {
    let head = &request.head;
    let host = host_of(head.host()?)?;
    let path_and_query = match head.form() {
        // `OPTIONS *` becomes a URL without a path (RFC 9112, section 3.2.4).
        TargetForm::Asterisk => &[],
        TargetForm::Authority => return None,
        TargetForm::Origin | TargetForm::Absolute => head.path_and_query(),
    };
    // Nothing in the path may become a part of the host.
    if !matches!(path_and_query, [] | [b'/' | b'?', ..]) {
        return None;
    }
    let mut location = [b"https://", host].concat();
    if port != DEFAULT_PORT {
        location.extend_from_slice(format!(":{port}").as_bytes());
    }
    for &byte in path_and_query {
        if is_plain(byte) {
            location.push(byte);
        } else {
            location.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
    Some(location)
}

/// Returns the host without its port, if browsers can be redirected to it: Host may contain names that are not addressable.
#[must_use]
pub fn host_of(authority: &[u8]) -> Option<&[u8]> {
    let (host, rest) = match authority {
        [b'[', inside @ ..] => {
            let end = inside.iter().position(|&byte| byte == b']')?;
            str::from_utf8(&inside[..end]).ok()?.parse::<Ipv6Addr>().ok()?;
            authority.split_at(end + 2)
        }
        _ => authority.split_at(authority.iter().position(|&byte| byte == b':').unwrap_or(authority.len())),
    };
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._".contains(byte);
    let is_host = host.starts_with(b"[") || host.iter().all(is_name);
    let is_port = matches!(rest, [] | [b':', ..]) && rest.iter().skip(1).all(u8::is_ascii_digit);
    (is_host && is_port && (1..=LONGEST_HOST).contains(&host.len())).then_some(host)
}

/// Whether a byte of a target needs no escape in a URL. Brackets do, strictly, but all clients write them unescaped.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"\"#<>\\^`{|}".contains(&byte)
}

#[cfg(test)]
mod tests;
