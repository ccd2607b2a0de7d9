//! What the server is told to do: one typed value for each setting, with its default.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What the clients of a listener speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1 and HTTP/1.0.
    #[default]
    Http,
    /// FastCGI 1.0: the client is a web server.
    FastCgi,
}

/// How lanes speak to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoModel {
    /// Whatever has been measured to serve best where it is allowed.
    #[default]
    Auto,
    /// Readiness: epoll.
    Epoll,
    /// Completion: io_uring.
    Uring,
    /// Readiness, by whatever the system's libevent finds best. Only where it was built in.
    Libevent,
}

/// How connections reach lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AcceptModel {
    /// All lanes wait at the same listening sockets.
    #[default]
    Shared,
    /// Each lane has a listening socket for each TCP address, among which the kernel spreads connections (SO_REUSEPORT).
    Own,
}

/// Where to listen, and for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddress {
    /// Where.
    pub place: Place,
    /// What clients speak there; `None`: what [`Settings::protocol`] says.
    pub protocol: Option<Protocol>,
}

impl ListenAddress {
    /// A TCP address: see [`Place::Tcp`].
    #[must_use]
    pub fn tcp(host: &str, port: u16) -> Self {
        Self { place: Place::Tcp { host: host.to_owned(), port }, protocol: None }
    }

    /// A Unix socket: see [`Place::Unix`].
    #[must_use]
    pub fn unix(path: impl Into<PathBuf>, mode: Option<u32>) -> Self {
        Self { place: Place::Unix { path: path.into(), mode }, protocol: None }
    }

    /// The same, for clients that speak `protocol`.
    #[must_use]
    pub fn speaking(self, protocol: Protocol) -> Self {
        Self { protocol: Some(protocol), ..self }
    }
}

/// Where a listener can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A TCP address; the host is a name or an address without brackets, empty for all interfaces.
    Tcp {
        /// Host name, IPv4 or IPv6 address.
        host: String,
        /// Port; 0 lets the kernel choose.
        port: u16,
    },
    /// A Unix socket.
    Unix {
        /// Its path.
        path: PathBuf,
        /// Permission bits of the socket file; `None` leaves them to the umask.
        mode: Option<u32>,
    },
}

/// Bounds of what a client may send or hold. Every limit is a setting.
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
    /// Bytes of request content that are kept in memory; more goes to an unlinked temporary file.
    pub content_memory_bytes: usize,
    /// Bytes of a response that wait for a slow client before a streaming app is held.
    pub output_bytes: usize,
    /// Connections of a worker.
    pub connections: usize,
    /// Requests answered on one connection before it is closed; `None`: no limit.
    pub requests_per_connection: Option<u32>,
    /// Pipelined requests of one connection answered before another connection has its turn.
    pub pipelined_per_turn: u16,
    /// Requests that a web server may have open on one FastCGI connection; it is told that more are too many.
    pub fastcgi_requests: usize,
}

impl Limits {
    /// The number of bytes that stands for "no limit": no file can be larger.
    pub const UNLIMITED: u64 = i64::MAX as u64;
}

/// Deadlines, each absolute from the moment it starts: a trickle of bytes does not move it. [`Timeouts::NEVER`] is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From the first byte of a request (or the accept) to the end of its head.
    pub head: Duration,
    /// From the end of the head to the end of the content.
    pub content: Duration,
    /// How long a kept-alive connection may be idle. Zero: no keep-alive.
    pub keepalive: Duration,
    /// How long a client may take for each 64 KiB of a response, or for what is left of it.
    pub write: Duration,
    /// How long a closed connection lingers for what the client is still sending. Zero: not at all.
    pub linger: Duration,
    /// How long an app may keep a client waiting: for its answer, or for the next piece of it.
    pub request: Duration,
    /// How long workers may take to finish when told to stop. Zero: not at all.
    pub graceful: Duration,
}

impl Timeouts {
    /// The time that stands for "no deadline": ten years, which any clock can be moved by without overflow.
    pub const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
}

/// Where a log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard output for the access log, standard error for the error log.
    Standard,
    /// A file, appended to.
    File(PathBuf),
}

/// The format of access log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessFormat {
    /// Apache's `common`.
    Common,
    /// Apache's `combined`.
    Combined,
    /// One JSON object a line.
    Json,
}

/// All settings. The default of `workers` here is 1; [`Config`](super::Config) puts the CPUs allowed to the process there, and
/// its listeners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where to listen.
    pub listen: Vec<ListenAddress>,
    /// What clients speak where a [`ListenAddress`] does not say, and at sockets that another program opened.
    pub protocol: Protocol,
    /// The addresses that FastCGI requests are taken from; empty: all. Unix sockets are not concerned.
    pub fastcgi_clients: Vec<IpAddr>,
    /// Whether other processes may listen on the same TCP addresses beside this one (SO_REUSEPORT).
    pub reuse_port: bool,
    /// Permission bits for the files of Unix sockets whose address names none; `None` leaves them to the umask.
    pub socket_mode: Option<u32>,
    /// Length of the queue of connections that wait to be accepted.
    pub backlog: u32,
    /// SERVER_NAME for the app; `None`: the host of the listener.
    pub server_name: Option<String>,
    /// Whether apps get fields with underscores in their names, if these cannot be mistaken for others.
    pub underscore_headers: bool,
    /// Whether a request target with bytes above 0x7F is refused.
    pub strict_uri: bool,
    /// Worker processes.
    pub workers: usize,
    /// Threads of each worker that may run the app: a lane each, or, of a language with one lock, the crew of one lane.
    pub threads: usize,
    /// Of a crew, how many threads stay when there is little to do; at most `threads`.
    pub min_threads: usize,
    /// How lanes speak to the kernel.
    pub io: IoModel,
    /// How connections reach lanes.
    pub accept: AcceptModel,
    /// Requests after which a worker (or, with threads, a lane's interpreter) is replaced; `None`: never.
    pub max_requests: Option<u64>,
    /// With this, each worker draws its own number between this one and `max_requests`.
    pub min_requests: Option<u64>,
    /// Time between the starts of two workers.
    pub spawn_interval: Duration,
    /// Time to wait after a worker ended badly; it doubles while workers keep ending so, up to a minute.
    pub respawn_interval: Duration,
    /// Bounds.
    pub limits: Limits,
    /// Deadlines.
    pub timeouts: Timeouts,
    /// The Server field of responses; empty: none.
    pub server_header: String,
    /// Whether responses have a Date field, as RFC 9110 (section 6.6.1) wants it. No flag turns it off: `oribi ahttpd` does.
    pub date: bool,
    /// Whether content of unknown length is sent in chunks to HTTP/1.1 clients.
    pub chunked_transfer: bool,
    /// Which files are served beside the app, and how.
    pub files: oribi_files::Settings,
    /// Where request content beyond `content_memory_bytes` goes.
    pub temporary_directory: PathBuf,
    /// Where the access log goes; `None`: nowhere.
    pub access_log: Option<LogTarget>,
    /// The format of its lines.
    pub access_log_format: AccessFormat,
    /// Where the error log goes.
    pub error_log: LogTarget,
    /// The least important level that is logged.
    pub log_level: log::LevelFilter,
    /// Whether processes say in their titles what they are.
    pub process_titles: bool,
    /// What the titles call the app; empty: nothing.
    pub app_name: String,
    /// The user that workers run as, by name or number; `None`: the one that started the server.
    pub user: Option<String>,
    /// The group that workers run as, by name or number; `None`: that of `user`.
    pub group: Option<String>,
    /// The permission bits that files made from now on do not get.
    pub umask: Option<u32>,
    /// Where the process id of the master is written.
    pub pid_file: Option<PathBuf>,
    /// What is touched to have the app loaded anew.
    pub restart_file: Option<PathBuf>,
}

impl Settings {
    /// How many sockets each TCP address is listened at with: one for each lane, if it is to have one of its own.
    #[must_use]
    pub fn sockets_of_address(&self) -> usize {
        match self.accept {
            AcceptModel::Shared => 1,
            AcceptModel::Own => self.workers.max(1) * self.threads.max(1),
        }
    }

    /// How many threads of each worker are watched for an app that is stuck.
    #[must_use]
    pub fn watched_threads(&self) -> usize {
        if self.timeouts.request == Timeouts::NEVER { 0 } else { self.threads }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            protocol: Protocol::Http,
            fastcgi_clients: Vec::new(),
            reuse_port: false,
            socket_mode: None,
            backlog: 4096,
            server_name: None,
            underscore_headers: false,
            strict_uri: false,
            workers: 1,
            threads: 1,
            min_threads: 1,
            io: IoModel::Auto,
            accept: AcceptModel::Shared,
            max_requests: None,
            min_requests: None,
            spawn_interval: Duration::ZERO,
            respawn_interval: Duration::from_secs(1),
            limits: Limits {
                head_bytes: 32 << 10,
                fields: 100,
                target_bytes: 8 << 10,
                content_bytes: 1 << 30,
                content_memory_bytes: 1 << 20,
                output_bytes: 256 << 10,
                connections: 16384,
                requests_per_connection: None,
                pipelined_per_turn: 16,
                fastcgi_requests: 1024,
            },
            timeouts: Timeouts {
                head: Duration::from_secs(30),
                content: Duration::from_secs(300),
                keepalive: Duration::from_secs(65),
                write: Duration::from_secs(60),
                linger: Duration::from_secs(5),
                request: Timeouts::NEVER,
                graceful: Duration::from_secs(30),
            },
            server_header: "Oribi".to_owned(),
            date: true,
            chunked_transfer: true,
            files: oribi_files::Settings::default(),
            temporary_directory: PathBuf::from("/tmp"),
            access_log: None,
            access_log_format: AccessFormat::Combined,
            error_log: LogTarget::Standard,
            log_level: log::LevelFilter::Info,
            process_titles: true,
            app_name: String::new(),
            user: None,
            group: None,
            umask: None,
            pid_file: None,
            restart_file: None,
        }
    }
}
