//! The rows of the table about edges.

use super::super::client_path::path_of_clients;
use super::super::sandbox::{sandbox_choice, show_sandbox};
use super::super::setting::{Section, Setting};
use super::super::value::{account, boolean, deadline, edge_choice, show_duration, show_edge_choice, show_switch, small_count};

/// The most requests that may wait. A pool has at most 65,535 slots, and some of them hold the requests that workers are
/// answering.
const QUEUED: u32 = 32_768;
/// The most edges. Each edge watches every worker, and one edge can serve several workers on fast processors.
const MOST_EDGES: u32 = 64;

pub(super) const EDGE: Setting = Setting::server(
    "edge",
    Section::Edges,
    "NAME",
    "Whether edges, processes that run no app, hold the connections: on (workers take complete requests from a queue, so that \
     a slow or stuck app delays no other request, and connections outlive workers), off (each worker has its own connections) \
     or auto: on if `oribi` runs an app, off for files and fixed answers, with --accept own, with `oribi luafcgid`, and under \
     plackup and rackup",
)
.environment("ORIBI_EDGE")
.apply(|draft, text| edge_choice(text).map(|choice| draft.settings.edge = choice))
.show(|settings| show_edge_choice(settings.edge));

pub(super) const EDGES: Setting =
    Setting::server("edges", Section::Edges, "NUMBER", "Number of edge processes, unless --edge is off")
        .aliases(&["http-processes"])
        .apply(|draft, text| small_count(text, 1..=MOST_EDGES).map(|number| draft.settings.edges = number))
        .show(|settings| settings.edges.to_string());

pub(super) const EDGE_USER: Setting = Setting::server(
    "edge-user",
    Section::Edges,
    "NAME",
    "The user, by name or number, that edges run as; if it is not that of --user, workers cannot signal or trace edges. Needs \
     root",
)
.default_words("that of --user")
.apply(|draft, text| account(text).map(|name| draft.settings.edge_user = Some(name)))
.show(|settings| settings.edge_user.clone().unwrap_or_default());

pub(super) const EDGE_GROUP: Setting =
    Setting::server("edge-group", Section::Edges, "NAME", "The group, by name or number, that edges run as")
        .default_words("that of --edge-user, or else --group")
        .apply(|draft, text| account(text).map(|name| draft.settings.edge_group = Some(name)))
        .show(|settings| settings.edge_group.clone().unwrap_or_default());

pub(super) const EDGE_SANDBOX: Setting = Setting::server(
    "edge-sandbox",
    Section::Edges,
    "NAME",
    "Confine edges: they open no files outside --static and --temporary-directory, connect to nothing, signal no other process \
     and may use few system calls: on (without Landlock and seccomp in the kernel, the server does not start), try (uses those \
     of the two that the kernel has, and warns about the rest) or off",
)
.environment("ORIBI_EDGE_SANDBOX")
.apply(|draft, text| sandbox_choice(text).map(|choice| draft.settings.edge_sandbox = choice))
.show(|settings| show_sandbox(settings.edge_sandbox));

pub(super) const QUEUE_LIMIT: Setting = Setting::app(
    "queue-limit",
    Section::Edges,
    "NUMBER",
    "Requests that may wait at an edge for a worker; more get a 503 with Retry-After",
)
.apply(|draft, text| small_count(text, 1..=QUEUED).map(|number| draft.settings.queue_limit = number))
.show(|settings| settings.queue_limit.to_string());

pub(super) const QUEUE_TIMEOUT: Setting = Setting::app(
    "queue-timeout",
    Section::Edges,
    "TIME",
    "Time that a request may wait at an edge for a worker before it gets a 503 with Retry-After; or off",
)
.apply(|draft, text| deadline(text).map(|time| draft.settings.queue_timeout = time))
.show(|settings| show_duration(settings.queue_timeout));

pub(super) const PROBE: Setting = Setting::server(
    "probe",
    Section::Edges,
    "PATH",
    "Answer requests for this path, such as /healthz, without the app: 503 while the server is stopping, else 200. An edge \
     also answers 503 while workers take no requests, and shows the length of the queue, in JSON; without edges, a busy worker \
     does not answer",
)
.default_words("none")
.apply(|draft, text| path_of_clients(text).map(|path| draft.settings.probe = path))
.show(|settings| settings.probe.clone().unwrap_or_default());

pub(super) const RETRY_LOST: Setting = Setting::app(
    "retry-lost",
    Section::Edges,
    "",
    "Give a request whose worker has died to another worker, once, if its method is idempotent (RFC 9110, section 9.2.2) and \
     nothing was sent yet",
)
.apply(|draft, text| boolean(text).map(|on| draft.settings.retry_lost = on))
.show(|settings| show_switch(settings.retry_lost));

pub(super) const X_REQUEST_START: Setting = Setting::app(
    "x-request-start",
    Section::Edges,
    "",
    "Pass on to the app when the edge received the request, in the field X-Request-Start (t= and seconds since 1970) unless a \
     proxy has set it, and, with edges or without, how long the request waited for a worker: oribi.queue_time in the \
     environments of Perl and Ruby, in seconds",
)
.apply(|draft, text| boolean(text).map(|on| draft.settings.request_start = on))
.show(|settings| show_switch(settings.request_start));
