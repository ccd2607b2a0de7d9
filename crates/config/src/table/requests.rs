//! The rows of the table about the requests that apps get, and about proxies in front.

use super::super::proxy_protocol::ProxyProtocol;
use super::super::proxy_values::{forwarded_fields, show_strip, strip_choice, trusted_peers};
use super::super::request_id::RequestIdField;
use super::super::setting::{Section, Setting};
use super::super::value::{boolean, is_off, show_switch, small_count};

pub(super) const UNDERSCORE_HEADERS: Setting = Setting::app(
    "underscore-headers",
    Section::Requests,
    "",
    "Pass header fields with underscores in their names on to the app, except those that could be mistaken for another field: \
     X_Forwarded_For for X-Forwarded-For",
)
.aliases(&["underscores-in-headers"])
.apply(|draft, text| boolean(text).map(|on| draft.settings.underscore_headers = on))
.show(|settings| show_switch(settings.underscore_headers));

pub(super) const STRICT_URI: Setting = Setting::server(
    "strict-uri",
    Section::Requests,
    "",
    "Refuse request targets (URIs) with bytes above 0x7F, such as unescaped UTF-8, with a 400; off accepts them unchanged",
)
.apply(|draft, text| boolean(text).map(|on| draft.settings.strict_uri = on))
.show(|settings| show_switch(settings.strict_uri));

pub(super) const PROXY_PROTOCOL: Setting = Setting::listener(
    "proxy-protocol",
    Section::Listening,
    "NAME",
    "Whether connections begin with a PROXY header, in which a TCP proxy names its client, at addresses without \
     ?proxy_protocol= and at sockets handed down by another program: off, v1, v2, or on for both versions; connections without \
     the header are closed. Never for FastCGI",
)
.aliases(&["enable-proxy-protocol"])
.apply(|draft, text| ProxyProtocol::parse(text).map(|choice| draft.settings.proxy_protocol = choice))
.show(|settings| settings.proxy_protocol.name().to_owned());

pub(super) const REQUEST_ID: Setting = Setting::server(
    "request-id",
    Section::Requests,
    "FIELD",
    "Give each request an id in this field, such as X-Request-Id (same as on): the id that the request arrives with, or \
     else a new one. The app and the client see it, and the access log and messages about the request contain it; or off",
)
.apply(|draft, text| {
    draft.settings.request_id = if is_off(text.trim()) { None } else { Some(RequestIdField::parse(text)?) };
    Ok(())
})
.show(|settings| settings.request_id.as_ref().map_or_else(|| "off".to_owned(), ToString::to_string));

pub(super) const SERVER_TIMING: Setting = Setting::server(
    "server-timing",
    Section::Requests,
    "",
    "Report in each response, in the field Server-Timing, how long the request waited for a worker and how long the app ran; \
     browsers show it beside the request, and every client can read it",
)
.apply(|draft, text| boolean(text).map(|on| draft.settings.server_timing = on))
.show(|settings| show_switch(settings.server_timing));

pub(super) const HTTP2: Setting = Setting::server(
    "http2",
    Section::Requests,
    "",
    "Accept HTTP/2: over TLS by negotiation in the handshake (ALPN), in clear text with prior knowledge (h2c); off answers the \
     latter with a 505",
)
.apply(|draft, text| boolean(text).map(|on| draft.settings.http2 = on))
.show(|settings| show_switch(settings.http2));

pub(super) const HTTP2_STREAMS: Setting = Setting::server(
    "http2-streams",
    Section::Requests,
    "COUNT",
    "Requests that a client may have open at once on one HTTP/2 connection; more are refused, and the client may send them \
     again",
)
.apply(|draft, text| small_count(text, 1..=65535).map(|number| draft.settings.limits.http2_streams = number as u32))
.show(|settings| settings.limits.http2_streams.to_string());

pub(super) const TRUSTED_PROXIES: Setting = Setting::server(
    "trusted-proxies",
    Section::Requests,
    "ADDRESSES",
    "Proxies in front whose X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host, X-Forwarded-Port and Forwarded fields are \
     trusted: IP addresses, networks such as 10.0.0.0/8, and unix for all peers at Unix sockets, separated by commas. May be \
     given several times",
)
.default_words("none")
.apply(|draft, text| trusted_peers(text).map(|peers| draft.settings.proxies.trusted.extend(peers)))
.shows_each(|settings| settings.proxies.trusted.iter().map(ToString::to_string).collect());

pub(super) const FORWARDED_FIELDS: Setting = Setting::server(
    "forwarded-fields",
    Section::Requests,
    "NAMES",
    "Which of these fields are trusted, separated by commas. Every trusted proxy must set or remove each of them; otherwise \
     its clients can set them",
)
.separator(',')
.apply(|draft, text| forwarded_fields(text).map(|fields| draft.settings.proxies.fields = fields))
.show(|settings| settings.proxies.fields.to_string());

pub(super) const STRIP_FORWARDED: Setting = Setting::server(
    "strip-forwarded",
    Section::Requests,
    "NAME",
    "Remove Forwarded, X-Real-IP and all fields that begin with X-Forwarded- from requests of peers that are not in \
     --trusted-proxies: on, off, or auto, which is on if there are trusted proxies",
)
.apply(|draft, text| strip_choice(text).map(|choice| draft.settings.proxies.strip = choice))
.show(|settings| show_strip(settings.proxies.strip));
