//! The rows of the table about WebSockets and event streams.

use super::super::relay::{redis, show_redis};
use super::super::setting::{Section, Setting};
use super::super::value::{boolean, deadline, path, show_duration, show_size, show_switch, size};
use super::super::websocket::Origins;

/// The largest message: a command of an app has at most as many bytes.
const LARGEST_MESSAGE: u64 = 16 << 20;

pub(super) const MESSAGE_SIZE: Setting = Setting::server(
    "websocket-message-size",
    Section::WebSockets,
    "SIZE",
    "The largest message that a client may send to a WebSocket of an edge; a larger one closes it (1009)",
)
.apply(|draft, text| size(text, 125..=LARGEST_MESSAGE).map(|bytes| draft.settings.websocket.message_bytes = bytes as usize))
.show(|settings| show_size(settings.websocket.message_bytes as u64));

pub(super) const BUFFER: Setting = Setting::server(
    "websocket-buffer",
    Section::WebSockets,
    "SIZE",
    "Bytes that may wait for the client of a WebSocket, or of an event stream, that takes its messages slowly; beyond that it is \
     cut off",
)
.apply(|draft, text| size(text, 4096..=1 << 30).map(|bytes| draft.settings.websocket.buffer_bytes = bytes as usize))
.show(|settings| show_size(settings.websocket.buffer_bytes as u64));

pub(super) const PING: Setting = Setting::server(
    "websocket-ping",
    Section::WebSockets,
    "TIME",
    "Silence after which the client of a WebSocket is pinged, and cut off after as long again; and the interval of comments in \
     event streams; or off",
)
.apply(|draft, text| deadline(text).map(|time| draft.settings.websocket.ping = time))
.show(|settings| show_duration(settings.websocket.ping));

pub(super) const COMPRESSION: Setting = Setting::server(
    "websocket-compression",
    Section::WebSockets,
    "",
    "Compress messages of WebSockets if the client can (permessage-deflate)",
)
.opposites(&["no-websocket-compression"])
.apply(|draft, text| boolean(text).map(|on| draft.settings.websocket.compression = on))
.show(|settings| show_switch(settings.websocket.compression));

pub(super) const HTTP2: Setting = Setting::server(
    "websocket-http2",
    Section::WebSockets,
    "",
    "Announce to clients of HTTP/2 that they may open WebSockets on its streams (RFC 8441). Apps that take over the socket of a \
     WebSocket themselves do not get it then",
)
.opposites(&["no-websocket-http2"])
.apply(|draft, text| boolean(text).map(|on| draft.settings.websocket.http2 = on))
.show(|settings| show_switch(settings.websocket.http2));

pub(super) const ORIGIN: Setting = Setting::server(
    "websocket-origin",
    Section::WebSockets,
    "ORIGINS",
    "The sites whose pages may open a WebSocket of an edge: same (the site of the request's Host), any, or origins such as \
     https://example.org, with commas between them; others get a 403",
)
.apply(|draft, text| Origins::parse(text).map(|origins| draft.settings.websocket.origins = origins))
.show(|settings| settings.websocket.origins.show());

pub(super) const RELAY: Setting = Setting::server(
    "relay",
    Section::WebSockets,
    "REDIS",
    "Share messages to channels with other servers and programs, over the channels of a Redis: \
     redis://[[USER]:PASSWORD@]HOST[:PORT], rediss:// for TLS, or unix:PATH, each perhaps with ?user=NAME&password_file=FILE; auto \
     for the URL in REDIS_URL; or off",
)
.apply(|draft, text| redis(text).map(|redis| draft.settings.relay.redis = redis))
.show(|settings| show_redis(&settings.relay));

pub(super) const RELAY_PREFIX: Setting = Setting::server(
    "relay-prefix",
    Section::WebSockets,
    "TEXT",
    "The beginning of the names that channels have at this Redis; servers with the same one share their messages",
)
.apply(|draft, text| oribi_relay::prefix(text).map(|prefix| draft.settings.relay.prefix = prefix))
.show(|settings| settings.relay.prefix.clone());

pub(super) const RELAY_AUTHORITIES: Setting =
    Setting::server("relay-ca", Section::WebSockets, "PATH", "CA certificates (PEM) for a Redis with rediss")
        .default_words("those of the system")
        .apply(|draft, text| path(text).map(|path| draft.settings.relay.authorities = Some(path)))
        .show(|settings| settings.relay.authorities.as_ref().map_or_else(String::new, |path| path.display().to_string()));
