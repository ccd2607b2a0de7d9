//! The rows of the table about limits for requests, and for responses that wait for clients.

use super::super::setting::{Section, Setting};
use super::super::settings::Limits;
use super::super::value::{count, is_off, limit, show_limit, show_size, size, size_limit, small_count};

/// The largest head: positions in a head are kept in 32 bits, see [`oribi_message::Span`].
const HEAD_BYTES: u64 = 1 << 30;

/// The most field lines: enough for any use, and few enough to walk through quickly.
const FIELDS: u32 = 65536;

pub(super) const MAX_HEADER_SIZE: Setting = Setting::server(
    "max-header-size",
    Section::Limits,
    "SIZE",
    "Bytes of a request line and all header fields; more gets a 431",
)
.aliases(&["max-head-size", "max-header-len"])
.apply(|draft, text| size(text, 512..=HEAD_BYTES).map(|bytes| draft.settings.limits.head_bytes = bytes as usize))
.show(|settings| show_size(settings.limits.head_bytes as u64));

pub(super) const MAX_HEADERS: Setting =
    Setting::server("max-headers", Section::Limits, "NUMBER", "Header fields of a request; more get a 431")
        .aliases(&["max-header-count"])
        .apply(|draft, text| small_count(text, 1..=FIELDS).map(|number| draft.settings.limits.fields = number))
        .show(|settings| settings.limits.fields.to_string());

pub(super) const MAX_URI_SIZE: Setting =
    Setting::server("max-uri-size", Section::Limits, "SIZE", "Bytes of a request target (the URI); more gets a 414")
        .aliases(&["max-uri-len", "max-uri-length"])
        .default_words("8KiB, or --max-header-size if that is less")
        .apply(|draft, text| size(text, 1..=HEAD_BYTES).map(|bytes| draft.settings.limits.target_bytes = bytes as usize))
        .show(|settings| show_size(settings.limits.target_bytes as u64));

pub(super) const MAX_BODY_SIZE: Setting =
    Setting::server("max-body-size", Section::Limits, "SIZE", "Bytes of a request body; more gets a 413. `off` for no limit")
        .aliases(&["max-body-len", "max-body-length", "max-content-size"])
        .apply(|draft, text| size_limit(text).map(|bytes| draft.settings.limits.content_bytes = bytes))
        .show(|settings| show_size(settings.limits.content_bytes));

pub(super) const BODY_BUFFER_SIZE: Setting = Setting::server(
    "body-buffer-size",
    Section::Limits,
    "SIZE",
    "Bytes of a request body kept in memory; more goes to a temporary file",
)
.aliases(&["client-body-buffer-size"])
.apply(|draft, text| size(text, 0..=HEAD_BYTES).map(|bytes| draft.settings.limits.content_memory_bytes = bytes as usize))
.show(|settings| show_size(settings.limits.content_memory_bytes as u64));

pub(super) const BODY_MEMORY_TOTAL: Setting = Setting::server(
    "body-memory-total",
    Section::Limits,
    "SIZE",
    "Memory of an edge, or of a worker without edges, for the bodies of all incomplete requests; beyond that the largest move \
     to files, and at the limit of files (--body-files-total), the request that holds most for the longest time gets a 503. \
     One HTTP/2 connection may use an eighth",
)
.default_words("64MiB, or an eighth of the memory of the control group if that is less")
.apply(|draft, text| size(text, 0..=Limits::UNLIMITED).map(|bytes| draft.settings.limits.content_memory_total = Some(bytes)))
.show(|settings| settings.limits.content_memory_total.map_or_else(String::new, show_size));

pub(super) const BODY_FILES_TOTAL: Setting = Setting::server(
    "body-files-total",
    Section::Limits,
    "NUMBER",
    "Temporary files with request bodies that an edge, or a worker without edges, may have open; beyond that the request that \
     has been arriving for the longest time gets a 503. One HTTP/2 connection may have 16",
)
.default_words("a quarter of the files that the process may open")
.apply(|draft, text| count(text, 1..=1 << 30).map(|number| draft.settings.limits.content_files_total = Some(number)))
.show(|settings| settings.limits.content_files_total.map_or_else(String::new, |number| number.to_string()));

pub(super) const OUTPUT_BUFFER_SIZE: Setting = Setting::server(
    "output-buffer-size",
    Section::Limits,
    "SIZE",
    "Bytes of a response that may wait for a slow client in memory; more goes to a file (--output-spool-size), or else a \
     streaming app must wait",
)
.apply(|draft, text| size(text, 4096..=HEAD_BYTES).map(|bytes| draft.settings.limits.output_bytes = bytes as usize))
.show(|settings| show_size(settings.limits.output_bytes as u64));

pub(super) const OUTPUT_SPOOL_SIZE: Setting = Setting::server(
    "output-spool-size",
    Section::Limits,
    "SIZE",
    "Bytes of a response that may wait for a slow client in a file in --temporary-directory, so that its app need not wait; \
     beyond that the app waits. 0 or off: no files",
)
.apply(|draft, text| spool_size(text).map(|bytes| draft.settings.limits.output_spool_bytes = bytes))
.show(|settings| show_spool(settings.limits.output_spool_bytes));

pub(super) const OUTPUT_SPOOL_TOTAL: Setting = Setting::server(
    "output-spool-total",
    Section::Limits,
    "SIZE",
    "The limit of --output-spool-size for all responses of an edge together, or of a worker without edges",
)
.apply(|draft, text| size(text, 0..=Limits::UNLIMITED).map(|bytes| draft.settings.limits.output_spool_total = bytes))
.show(|settings| show_size(settings.limits.output_spool_total));

pub(super) const OUTPUT_MEMORY_TOTAL: Setting = Setting::server(
    "output-memory-total",
    Section::Limits,
    "SIZE",
    "Memory of an edge, or of a worker without edges, for all responses that wait for slow clients; beyond that even small \
     responses go to files, and at the limit of files (--output-spool-total), apps wait; beyond twice as much, and \
     beyond 4MiB, the oldest and largest responses are cut off",
)
.default_words("64MiB, or an eighth of the memory of the control group if that is less")
.apply(|draft, text| size(text, 0..=Limits::UNLIMITED).map(|bytes| draft.settings.limits.output_memory_total = Some(bytes)))
.show(|settings| settings.limits.output_memory_total.map_or_else(String::new, show_size));

pub(super) const MAX_CONNECTIONS: Setting = Setting::server(
    "max-connections",
    Section::Limits,
    "NUMBER",
    "Connections of an edge, or of a worker without edges; beyond that, a new one closes the one that has been idle \
     longest, and waits if none is idle",
)
.aliases(&["worker-connections"])
.apply(|draft, text| small_count(text, 1..=1 << 20).map(|number| draft.settings.limits.connections = number))
.show(|settings| settings.limits.connections.to_string());

pub(super) const MAX_KEEPALIVE_REQUESTS: Setting = Setting::server(
    "max-keepalive-requests",
    Section::Limits,
    "NUMBER",
    "Close a connection after this many requests; 1 is no keep-alive, 0 no limit",
)
.aliases(&["max-keepalive-reqs", "max-connection-reqs", "max-keep-alive"])
.apply(|draft, text| {
    let number = limit(text)?;
    // Four thousand million requests on one connection are practically no limit.
    draft.settings.limits.requests_per_connection = number.and_then(|number| u32::try_from(number).ok());
    Ok(())
})
.show(|settings| show_limit(settings.limits.requests_per_connection.map(u64::from)));

pub(super) const MAX_PIPELINED_REQUESTS: Setting = Setting::server(
    "max-pipelined-requests",
    Section::Limits,
    "NUMBER",
    "Pipelined requests of one connection answered before another connection has its turn",
)
.apply(|draft, text| count(text, 1..=65535).map(|number| draft.settings.limits.pipelined_per_turn = number as u16))
.show(|settings| settings.limits.pipelined_per_turn.to_string());

pub(super) const MAX_FASTCGI_REQUESTS: Setting = Setting::server(
    "max-fastcgi-requests",
    Section::Limits,
    "NUMBER",
    "Requests that a web server may have open on one FastCGI connection at once; more are refused with FCGI_OVERLOADED",
)
.apply(|draft, text| small_count(text, 1..=65535).map(|number| draft.settings.limits.fastcgi_requests = number))
.show(|settings| settings.limits.fastcgi_requests.to_string());

/// Parses a number of bytes in files, or `off` for none.
fn spool_size(text: &str) -> Result<u64, String> {
    if is_off(text.trim()) { Ok(0) } else { size(text, 0..=Limits::UNLIMITED) }
}

fn show_spool(bytes: u64) -> String {
    if bytes == 0 { "off".to_owned() } else { show_size(bytes) }
}
