//! The settings of the server: one typed value for each, with its default.

use super::access_pattern::AccessPattern;
use super::bounds::Bound;
use super::dashboard::Dashboard;
use super::event_loop::EventLoop;
use super::handshakes::Handshakes;
use super::histogram::usual_bounds;
use super::io_model::IoModel;
use super::life::Life;
use super::metrics_path::MetricsPath;
use super::proxies::{Proxies, TrustedPeers};
use super::proxy_protocol::ProxyProtocol;
use super::request_id::RequestIdField;
use super::routes::{Route, route_names};
use super::sandbox_choice::SandboxChoice;
use super::system_log::SystemLog;
use super::tls::Tls;
use super::traces::SampleRatio;
use super::websocket::WebSockets;
use super::worker_range::WorkerRange;
use super::worker_scaling::WorkerScaling;
use oribi_tls::{CertificateFiles, Pem};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

/// The protocol of a listener's clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP, up to version 2.
    #[default]
    Http,
    /// FastCGI 1.0: the client is a web server.
    FastCgi,
}

/// The way in which connections get to lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AcceptModel {
    /// All lanes wait at the same listening sockets.
    #[default]
    Shared,
    /// Each lane has its own listening socket (SO_REUSEPORT) for each TCP address; the kernel spreads connections.
    Own,
}

/// Whether connections belong to edges: processes that run no app.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EdgeChoice {
    /// The program decides by the content that it serves (see [`Served`](super::Served)); if it does not decide, there are no
    /// edges.
    #[default]
    Auto,
    /// Edges own the connections, and workers take complete requests from a queue.
    On,
    /// Each worker has its own connections.
    Off,
}

/// The address of the socket for `oribi ctl`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ControlChoice {
    /// The server has no control socket.
    #[default]
    Off,
    /// A socket named after the process, in a directory that only its user can enter.
    Auto,
    /// A socket with this path.
    At(PathBuf),
}

/// The address and the protocol of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddress {
    /// The address of the listening socket.
    pub socket: SocketAddress,
    /// The protocol of the clients; `None` for [`Settings::protocol`].
    pub protocol: Option<Protocol>,
    /// Whether connections begin with a PROXY header; `None` for [`Settings::proxy_protocol`].
    pub proxy_protocol: Option<ProxyProtocol>,
    /// The certificates of an address that is always encrypted; an empty list stands for [`Tls::certificates`]. `None` for an
    /// address that does not say whether it is encrypted: if it also leaves the protocol open, [`Tls::by_default`] decides.
    pub(crate) certificates: Option<Vec<CertificateFiles>>,
    /// The rules for its handshakes.
    pub(crate) handshakes: Handshakes,
}

impl ListenAddress {
    /// A TCP address: see [`SocketAddress::Tcp`].
    #[must_use]
    pub fn tcp(host: &str, port: u16) -> Self {
        Self {
            socket: SocketAddress::Tcp { host: host.to_owned(), port },
            protocol: None,
            proxy_protocol: None,
            certificates: None,
            handshakes: Handshakes::default(),
        }
    }

    /// A Unix socket: see [`SocketAddress::Unix`].
    #[must_use]
    pub fn unix(path: impl Into<PathBuf>, mode: Option<u32>) -> Self {
        Self {
            socket: SocketAddress::Unix { path: path.into(), mode },
            protocol: None,
            proxy_protocol: None,
            certificates: None,
            handshakes: Handshakes::default(),
        }
    }

    /// The same address, for clients that speak `protocol`.
    #[must_use]
    pub fn speaking(self, protocol: Protocol) -> Self {
        Self { protocol: Some(protocol), ..self }
    }

    /// The same address with this choice about a PROXY header.
    #[cfg(test)]
    pub(crate) fn greeted(self, choice: ProxyProtocol) -> Self {
        Self { proxy_protocol: Some(choice), ..self }
    }

    /// The same address, for HTTP over TLS with these certificates.
    #[must_use]
    pub(crate) fn encrypted(self, certificates: Vec<CertificateFiles>) -> Self {
        Self { protocol: Some(Protocol::Http), certificates: Some(certificates), ..self }
    }

    /// Whether the address itself contains the text of a certificate or a key.
    pub(super) fn holds_text(&self) -> bool {
        let is_text = |pem: &Pem| matches!(pem, Pem::Text(_));
        self.certificates.iter().flatten().any(|files| is_text(&files.certificate) || is_text(&files.key))
    }
}

/// The address of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketAddress {
    /// A TCP address; the host is a name or an address without brackets, or empty for all interfaces.
    Tcp {
        /// Host name, IPv4 or IPv6 address.
        host: String,
        /// Port; 0 lets the kernel choose.
        port: u16,
    },
    /// A Unix socket in the file system.
    Unix {
        /// The path of the socket file.
        path: PathBuf,
        /// Permission bits of the socket file; `None` leaves them to the umask.
        mode: Option<u32>,
    },
}

/// Limits for clients. Every limit is a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request head, from the request line to the empty line.
    pub head_bytes: usize,
    /// Field lines of a request, and of a trailer section.
    pub fields: usize,
    /// Bytes of a request target.
    pub target_bytes: usize,
    /// Bytes of request content; [`Limits::UNLIMITED`] for no limit.
    pub content_bytes: u64,
    /// Bytes of request content that are kept in memory; larger content goes to an unlinked temporary file.
    pub content_memory_bytes: usize,
    /// Request content of at most this size never needs a disk, even if it exceeds `content_memory_bytes`. An edge sets this
    /// limit, and passes such content to a worker as a file in memory.
    pub content_small_bytes: usize,
    /// Bytes in memory for the content of all unfinished requests of a process; `None` for the default.
    pub content_memory_total: Option<u64>,
    /// Files with request content that a process may have open; `None` for a quarter of the descriptors that the process may
    /// open.
    pub content_files_total: Option<u64>,
    /// Bytes of a response that may wait for a slow client before a streaming app must also wait.
    pub output_bytes: usize,
    /// Bytes of a response that may wait for a slow client in a temporary file; 0 for none.
    pub output_spool_bytes: u64,
    /// Bytes of all responses of a process together that may wait for slow clients in temporary files.
    pub output_spool_total: u64,
    /// Bytes in memory for all responses of a process that wait for slow clients. Beyond this limit, even small responses go to
    /// temporary files. `None` for the default.
    pub output_memory_total: Option<u64>,
    /// Connections of an edge, or of a worker without edges.
    pub connections: usize,
    /// Requests answered on one connection before it is closed; `None` without a limit.
    pub requests_per_connection: Option<u32>,
    /// Pipelined requests of one connection that are answered in a row before another connection has its turn.
    pub pipelined_per_turn: u16,
    /// Requests that a web server may have open on one FastCGI connection; more are refused.
    pub fastcgi_requests: usize,
    /// Streams that may be open at once on a connection of HTTP/2.
    pub http2_streams: u32,
}

impl Limits {
    /// The number of bytes that means "no limit": no file can be larger.
    pub const UNLIMITED: u64 = i64::MAX as u64;
}

/// Deadlines. Each counts from a fixed moment, so a trickle of bytes does not postpone it. [`Timeouts::NEVER`] means no
/// deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From the first byte of a request, or else from the accept of the connection, to the end of the request's head.
    pub head: Duration,
    /// From the end of the head to the end of the content.
    pub content: Duration,
    /// The idle time of a kept-alive connection. Zero turns keep-alive off.
    pub keepalive: Duration,
    /// The time that a client may take to accept each 64 KiB of a response, or the rest of it.
    pub write: Duration,
    /// The time for which the server still reads from a connection after it has closed its own side. Zero to stop reading at
    /// once.
    pub linger: Duration,
    /// The time for which an app may keep a client waiting, for the response or for the next piece of it, before the app is
    /// interrupted.
    pub request: Duration,
    /// The time for which the server keeps serving after the command to stop, so that load balancers notice
    /// (`--shutdown-delay`).
    pub shutdown_delay: Duration,
    /// The time that workers may take to finish when the server stops; zero for none.
    pub graceful: Duration,
}

impl Timeouts {
    /// The time that means "no deadline": ten years, which can be added to any clock without overflow.
    pub const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
}

/// The destination of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard output for the access log, standard error for the error log.
    Standard,
    /// A file, appended to.
    File(PathBuf),
    /// A daemon that receives messages.
    System(SystemLog),
}

/// The format of access log lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessFormat {
    /// The format `common` of Apache.
    Common,
    /// The format `combined` of Apache.
    Combined,
    /// The format of Rack::CommonLogger, which Puma uses as well: `common` and the seconds that the request took.
    Rack,
    /// One JSON object a line.
    Json,
    /// A pattern of the user.
    Pattern(AccessPattern),
}

/// All settings. The default of `workers` here is 1. [`Config`](super::Config) sets `workers` to the number of CPUs that the
/// process may use, and sets the listeners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The addresses of the listeners.
    pub listen: Vec<ListenAddress>,
    /// The protocol of clients at a [`ListenAddress`] that names none, and at sockets that another program opened.
    pub protocol: Protocol,
    /// Whether connections begin with a PROXY header, unless the [`ListenAddress`] decides that. Connections for FastCGI never
    /// do.
    pub proxy_protocol: ProxyProtocol,
    /// The settings of encryption.
    pub tls: Tls,
    /// The certificates that are ordered from an authority.
    pub acme: oribi_acme::Settings,
    /// The challenge that the user has chosen; `None` for one that fits the listeners.
    pub acme_challenge: Option<oribi_acme::Challenge>,
    /// The addresses from which FastCGI requests are accepted; empty for all. Does not affect Unix sockets.
    pub fastcgi_clients: Vec<IpAddr>,
    /// Whether other processes may listen on the same TCP addresses (SO_REUSEPORT).
    pub reuse_port: bool,
    /// Permission bits for Unix socket files whose address names none; `None` leaves them to the umask.
    pub socket_mode: Option<u32>,
    /// Length of the queue of connections that wait to be accepted.
    pub backlog: u32,
    /// SERVER_NAME for the app; `None` for the name in Host, or else that of the listener.
    pub server_name: Option<String>,
    /// Whether apps get fields with underscores in their names, if these cannot be mistaken for others.
    pub underscore_headers: bool,
    /// Whether a request target with bytes above 0x7F is refused.
    pub strict_uri: bool,
    /// The trust in proxies in front.
    pub proxies: Proxies,
    /// Whether clients may speak HTTP/2.
    pub http2: bool,
    /// The number of worker processes, or the two between which it follows the load.
    pub workers: WorkerRange,
    /// The settings of a number that follows the load.
    pub scaling: WorkerScaling,
    /// Threads of each worker that run the app. Each is a lane, except in a language with one lock (Ruby): they share one lane.
    pub threads: usize,
    /// For a language with one lock: the number of a lane's threads that stay when there is little to do; at most `threads`.
    pub min_threads: usize,
    /// For a language with one lock: the most threads beyond `threads`, one for each app that only waits.
    pub io_threads: usize,
    /// The event loop of the app's language.
    pub event_loop: EventLoop,
    /// The I/O model of the lanes.
    pub io: IoModel,
    /// The way in which connections get to lanes.
    pub accept: AcceptModel,
    /// Whether connections belong to edges.
    pub edge: EdgeChoice,
    /// The number of edges, if there are any.
    pub edges: usize,
    /// Requests that may wait for a worker at an edge; more are refused.
    pub queue_limit: usize,
    /// The time that a request may wait for a worker at an edge.
    pub queue_timeout: Duration,
    /// The settings of WebSockets that edges own.
    pub websocket: WebSockets,
    /// The path of the probe that edges answer.
    pub probe: Option<String>,
    /// Whether an edge submits an idempotent request once more if its worker has died.
    pub retry_lost: bool,
    /// Whether an edge adds the field X-Request-Start.
    pub request_start: bool,
    /// The field with the id of each request; `None` for requests without ids.
    pub request_id: Option<RequestIdField>,
    /// Whether requests belong to traces (`traceparent`).
    pub traces: bool,
    /// The share of traces that is recorded, among the traces that begin at this server.
    pub trace_sample: SampleRatio,
    /// The destination of the spans of sampled requests.
    pub trace_export: oribi_otlp::Settings,
    /// The Redis over which messages to channels are shared with other servers.
    pub relay: oribi_relay::Settings,
    /// The time after which the position of a running app is logged.
    pub request_warning: Duration,
    /// The time after which the worker of a running app is stopped; `None` for the time [`Settings::KILL_AFTER`] after
    /// [`Timeouts::request`].
    pub request_kill: Option<Duration>,
    /// The number of requests after which a worker is replaced or, with threads, the interpreter of a lane; `None` for never.
    pub max_requests: Option<u64>,
    /// If set, each worker draws its own limit at random between this number and `max_requests`.
    pub min_requests: Option<u64>,
    /// The settings of the start and the replacement of workers.
    pub life: Life,
    /// Time between the starts of two workers.
    pub spawn_interval: Duration,
    /// Time to wait after a worker has failed; it doubles, up to a minute, while workers keep failing.
    pub respawn_interval: Duration,
    /// The limits for clients.
    pub limits: Limits,
    /// The deadlines for clients and apps.
    pub timeouts: Timeouts,
    /// The Server field of responses; empty for none.
    pub server_header: String,
    /// Whether responses have a Date field, which RFC 9110 (section 6.6.1) requires. No flag turns it off; only `oribi ahttpd`
    /// does.
    pub date: bool,
    /// Whether content of unknown length is sent in chunks to HTTP/1.1 clients.
    pub chunked_transfer: bool,
    /// The https port to which clients of http are redirected, if any.
    pub redirect_https: Option<u16>,
    /// The Strict-Transport-Security field of responses over https; `None` to send only the app's own field.
    pub transport_security: Option<String>,
    /// The files that are served in addition to the app, and the rules for them.
    pub files: oribi_files::Settings,
    /// The directory for request content beyond `content_memory_bytes`.
    pub temporary_directory: PathBuf,
    /// The destination of the access log; `None` without one.
    pub access_log: Option<LogTarget>,
    /// The format of the lines in the access log.
    pub access_log_format: AccessFormat,
    /// The duration from which a request is logged as slow; [`Timeouts::NEVER`] for never.
    pub slow: Duration,
    /// The destination of the error log.
    pub error_log: LogTarget,
    /// The least important level that is logged.
    pub log_level: log::LevelFilter,
    /// Notes for the log about used and unused environment variables.
    pub notes: Vec<(log::Level, String)>,
    /// Whether process titles describe the processes.
    pub process_titles: bool,
    /// The name of the app in process titles; empty for none.
    pub app_name: String,
    /// The user that workers run as, by name or number; `None` for the user that started the server.
    pub user: Option<String>,
    /// The group that workers run as, by name or number; `None` for that of `user`.
    pub group: Option<String>,
    /// The user that edges run as; `None` for that of `user`.
    pub edge_user: Option<String>,
    /// The group that edges run as; `None` for that of `edge_user`, or else `group`.
    pub edge_group: Option<String>,
    /// Whether edges run in a sandbox.
    pub edge_sandbox: SandboxChoice,
    /// Whether programs that the app starts may get more rights than it has, by set-user-ID bits and file capabilities.
    pub new_privileges: bool,
    /// The permission bits that new files do not get.
    pub umask: Option<u32>,
    /// The address of the socket for `oribi ctl`.
    pub control: ControlChoice,
    /// The address at which Prometheus gets metrics; `None` without one.
    pub metrics: Option<ListenAddress>,
    /// The networks whose clients may get metrics there; empty for all clients.
    pub metrics_allowed: Vec<TrustedPeers>,
    /// The path of the app at which some clients get metrics; `None` without one.
    pub metrics_path: Option<MetricsPath>,
    /// Whether responses report the queue and run times of their requests.
    pub server_timing: bool,
    /// The bounds of the buckets of histograms, the shortest first.
    pub histogram_buckets: Vec<Bound>,
    /// The routes by which requests are counted in addition.
    pub metrics_routes: Vec<Route>,
    /// The names of the routes of a configuration file, by which requests are counted as well.
    pub route_labels: Vec<String>,
    /// The dashboard at the address for metrics.
    pub dashboard: Dashboard,
    /// The file with the process id of the master; `None` without one.
    pub pid_file: Option<PathBuf>,
    /// The file whose change reloads the app; `None` without one.
    pub restart_file: Option<PathBuf>,
}

impl Settings {
    /// The time that an app has to finish after its interruption, unless [`Settings::request_kill`] is set.
    pub const KILL_AFTER: Duration = Duration::from_secs(5);

    /// The time after which the worker of an app that neither answers nor finishes is stopped.
    #[must_use]
    pub(crate) fn kill_after(&self) -> Duration {
        self.request_kill.unwrap_or_else(|| self.timeouts.request.saturating_add(Self::KILL_AFTER)).min(Timeouts::NEVER)
    }

    /// The number of edges that own the connections; 0 if each worker has its own connections.
    #[must_use]
    pub fn edges_wanted(&self) -> usize {
        match self.edge {
            EdgeChoice::On => self.edges.max(1),
            EdgeChoice::Auto | EdgeChoice::Off => 0,
        }
    }

    /// Returns the number of listening sockets for each TCP address. With [`AcceptModel::Own`], each edge has a socket of its
    /// own, or each lane if there are no edges. Otherwise all of them share one socket.
    #[must_use]
    pub fn sockets_of_address(&self) -> usize {
        match (self.accept, self.edges_wanted()) {
            (AcceptModel::Shared, _) => 1,
            (AcceptModel::Own, 0) => self.workers.most() * self.threads.max(1),
            (AcceptModel::Own, edges) => edges,
        }
    }

    /// Whether there are deadlines for apps.
    #[must_use]
    pub fn has_app_deadlines(&self) -> bool {
        [self.request_warning, self.timeouts.request, self.kill_after()].iter().any(|time| *time < Timeouts::NEVER)
    }

    /// Whether there are metrics, at an address or a path.
    #[must_use]
    pub fn serves_metrics(&self) -> bool {
        self.metrics.is_some() || self.metrics_path.is_some()
    }

    /// Returns the names under which requests are counted by their routes; empty without routes.
    pub fn route_names(&self) -> Vec<&str> {
        route_names(&self.metrics_routes, &self.route_labels)
    }

    /// Returns the number of names under which workers count requests. 0 if there are edges, because edges count instead.
    pub fn routes_of_workers(&self) -> usize {
        if self.edges_wanted() == 0 { self.route_names().len() } else { 0 }
    }

    /// The defaults, made once, because each setting is compared with its own.
    pub(crate) fn defaults() -> &'static Self {
        static DEFAULTS: LazyLock<Settings> = LazyLock::new(Settings::default);
        &DEFAULTS
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            protocol: Protocol::Http,
            proxy_protocol: ProxyProtocol::Off,
            tls: Tls::default(),
            acme: oribi_acme::Settings::default(),
            acme_challenge: None,
            fastcgi_clients: Vec::new(),
            reuse_port: false,
            socket_mode: None,
            backlog: 4096,
            server_name: None,
            underscore_headers: false,
            strict_uri: false,
            proxies: Proxies::default(),
            http2: true,
            workers: 1.into(),
            scaling: WorkerScaling::default(),
            threads: 1,
            min_threads: 1,
            io_threads: 0,
            event_loop: EventLoop::default(),
            io: IoModel::Auto,
            accept: AcceptModel::Shared,
            edge: EdgeChoice::Auto,
            edges: 1,
            // As many as the kernel's queue of connections (--backlog): a fast app answers that many within seconds. They take
            // 512 MiB if every request is as large as a slot; parts that no request has filled take no memory.
            queue_limit: 4096,
            // Most people have given up by then, and most proxies in front do after 60 s.
            queue_timeout: Duration::from_secs(30),
            websocket: WebSockets::default(),
            probe: None,
            retry_lost: false,
            request_start: false,
            request_id: None,
            traces: false,
            trace_sample: SampleRatio::ALL,
            trace_export: oribi_otlp::Settings::default(),
            relay: oribi_relay::Settings::default(),
            request_warning: Timeouts::NEVER,
            request_kill: None,
            max_requests: None,
            min_requests: None,
            life: Life::default(),
            spawn_interval: Duration::ZERO,
            respawn_interval: Duration::from_secs(1),
            limits: Limits {
                head_bytes: 32 << 10,
                fields: 100,
                target_bytes: 8 << 10,
                content_bytes: 1 << 30,
                content_memory_bytes: 1 << 20,
                content_small_bytes: 0,
                content_memory_total: None,
                content_files_total: None,
                output_bytes: 256 << 10,
                output_spool_bytes: 1 << 30,
                output_spool_total: 4 << 30,
                output_memory_total: None,
                connections: 16384,
                requests_per_connection: None,
                pipelined_per_turn: 16,
                fastcgi_requests: 1024,
                http2_streams: 100,
            },
            timeouts: Timeouts {
                head: Duration::from_secs(30),
                content: Duration::from_secs(300),
                keepalive: Duration::from_secs(65),
                write: Duration::from_secs(60),
                linger: Duration::from_secs(5),
                request: Timeouts::NEVER,
                shutdown_delay: Duration::ZERO,
                graceful: Duration::from_secs(30),
            },
            server_header: "Oribi".to_owned(),
            date: true,
            chunked_transfer: true,
            redirect_https: None,
            transport_security: None,
            files: oribi_files::Settings::default(),
            temporary_directory: PathBuf::from("/tmp"),
            access_log: None,
            access_log_format: AccessFormat::Combined,
            slow: Timeouts::NEVER,
            error_log: LogTarget::Standard,
            log_level: log::LevelFilter::Info,
            notes: Vec::new(),
            process_titles: true,
            app_name: String::new(),
            user: None,
            group: None,
            edge_user: None,
            edge_group: None,
            edge_sandbox: SandboxChoice::Off,
            new_privileges: true,
            umask: None,
            control: ControlChoice::Off,
            metrics: None,
            metrics_allowed: Vec::new(),
            metrics_path: None,
            server_timing: false,
            histogram_buckets: usual_bounds(),
            metrics_routes: Vec::new(),
            route_labels: Vec::new(),
            dashboard: Dashboard::default(),
            pid_file: None,
            restart_file: None,
        }
    }
}
