//! The words of puma.rb and unicorn.rb, and their counterparts.

/// The counterpart of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    Server(&'static str),
    App(&'static str),
    ServerIs(&'static str, &'static str),
    Same(&'static str),
    Lost(&'static str),
    /// A hook that Oribi calls if the file stays beside the app.
    Hook,
    Listen,
    Port,
    /// `listen` of Unicorn, with its options.
    UnicornListen,
    SslBind,
    Threads,
    Environment,
    Directory,
    Rackup,
    User,
    Timeout,
    Plugin,
    Redirect,
}

use To::{
    App, Directory, Environment, Hook, Listen, Lost, Plugin, Port, Rackup, Redirect, Same, Server, ServerIs, SslBind, Threads,
    Timeout, UnicornListen, User,
};

const STATUS: &str = "oribi ctl and oribi top reach the server by its control socket: option control in [server]";
const LOADED: &str = "the app is always loaded before the workers are forked";
const NO_HOOK: &str = "there is no such hook: before_fork, after_fork, before_worker_shutdown and on_booted are called";
const EARLY_HINTS: &str =
    "early_hints true in config/puma.rb, config/unicorn.rb or config/oribi.rb beside the app: it is off by default";
const THREADS: &str = "threads live as long as their worker: after_fork is called once in each worker";

const BOTH: &[(&[&str], To)] = &[
    (&["directory", "working_directory"], Directory),
    (&["environment"], Environment),
    (&["rackup", "rackup_path"], Rackup),
    (
        &[
            "before_fork",
            "after_fork",
            "before_worker_boot",
            "on_worker_boot",
            "before_worker_shutdown",
            "on_worker_shutdown",
            "on_booted",
            "after_booted",
            "out_of_band",
            "lowlevel_error_handler",
            "error_handler",
        ],
        Hook,
    ),
    (&["early_hints"], Lost(EARLY_HINTS)),
    (&["user"], User),
    (
        &["load", "require", "instance_eval", "eval"],
        Lost(
            "a part of the file for Ruby itself: leave it in the file beside \
         the app, if hooks need it",
        ),
    ),
    (&["max_requests"], App("max-requests")),
];

const PUMA: &[(&[&str], To)] = &[
    (&["bind"], Listen),
    (&["port"], Port),
    (&["ssl_bind"], SslBind),
    (&["workers"], App("workers")),
    (&["threads"], Threads),
    (&["max_threads"], App("threads")),
    (&["max_io_threads"], App("max-io-threads")),
    (&["min_threads"], Lost("threads = \"MIN:MAX\" of the app")),
    (&["pidfile"], Server("pid-file")),
    (&["persistent_timeout"], Server("keepalive-timeout")),
    (&["first_data_timeout"], Server("header-timeout")),
    (&["max_keep_alive", "max_fast_inline"], Server("max-keepalive-requests")),
    (&["enable_keep_alives"], Lost("keepalive-timeout = 0 in [server] answers one request on each connection")),
    (&["http_content_length_limit"], Server("max-body-size")),
    (&["worker_shutdown_timeout", "force_shutdown_after"], App("graceful-timeout")),
    (&["worker_boot_timeout"], App("boot-timeout")),
    (&["backlog"], Server("backlog")),
    (&["log_requests"], ServerIs("access-log", "-")),
    (&["quiet"], Same("without access-log no requests are logged")),
    (&["debug"], Lost("log-level = \"debug\" in [server]")),
    (&["stdout_redirect"], Redirect),
    (&["tag"], App("app-name")),
    (&["plugin"], Plugin),
    (&["preload_app!", "preload_app", "fork_worker", "prune_bundler", "nakayoshi_fork"], Same(LOADED)),
    (
        &[
            "queue_requests",
            "drain_on_shutdown",
            "silence_single_worker_warning",
            "silence_fork_callback_warning",
            "wait_for_less_busy_worker",
            "mutate_stdout_and_stderr_to_sync_on_write",
            "supported_http_methods",
            "clean_thread_locals",
            "raise_exception_on_sigterm",
            "bind_to_activated_sockets",
        ],
        Same("Oribi does it, or has no need of it"),
    ),
    (&["worker_timeout"], Lost("request-timeout of the app bounds the time of a request; a worker that hangs is then killed")),
    (
        &[
            "worker_check_interval",
            "worker_culling_strategy",
            "shutdown_debug",
            "io_selector_backend",
            "min_io_threads",
            "restart_command",
            "custom_logger",
            "log_formatter",
            "set_remote_address",
            "set_default_host",
            "default_host",
            "extra_runtime_dependencies",
            "idle_timeout",
            "fiber_per_request",
            "process_hook",
            "inject",
            "app",
            "cleanup_thread_pool",
            "worker_directory",
            "daemonize",
            "http_body_limit",
        ],
        Lost("no counterpart: see docs/options.md"),
    ),
    (&["rack_url_scheme"], Lost("trusted-proxies in [server] names the proxies in front, which report the scheme")),
    (&["set_remote_address_from_header"], Lost("trusted-proxies in [server] names the proxies in front")),
    (
        &[
            "activate_control_app",
            "control_auth_token",
            "control_url",
            "state_path",
            "state_permission",
            "import_from_control_server",
        ],
        Lost(STATUS),
    ),
    (
        &[
            "on_restart",
            "before_restart",
            "on_refork",
            "before_refork",
            "after_refork",
            "on_worker_fork",
            "before_worker_fork",
            "after_worker_fork",
            "after_worker_boot",
            "after_worker_shutdown",
            "on_stopped",
            "after_stopped",
        ],
        Lost(NO_HOOK),
    ),
    (&["on_thread_start", "before_thread_start", "on_thread_exit", "before_thread_exit"], Lost(THREADS)),
    (&["allow_underscore_headers"], App("underscore-headers")),
    (&["clear_binds!"], Lost("the addresses above it stay: remove them")),
    (&["single"], Lost("workers are always processes of their own: write the values that you need")),
    (&["get"], Lost("a word about the file itself: write the values that you need")),
];

const UNICORN: &[(&[&str], To)] = &[
    (&["listen"], UnicornListen),
    (&["worker_processes"], App("workers")),
    (&["timeout"], Timeout),
    (&["pid"], Server("pid-file")),
    (&["stderr_path"], Server("error-log")),
    (&["stdout_path"], Lost("the app's standard output is that of the server")),
    (&["preload_app"], Same(LOADED)),
    (&["client_body_buffer_size"], Server("body-buffer-size")),
    (
        &["rewindable_input", "check_client_connection", "copy_stream", "default_middleware", "trust_x_forwarded"],
        Same("Oribi does it, or has no need of it"),
    ),
    (&["logger"], Lost("error-log and log-level in [server]")),
    (&["worker_exec"], Lost("workers are forked by the process that has loaded the app")),
    (&["before_exec", "after_worker_exit", "after_worker_ready"], Lost(NO_HOOK)),
    (
        &[
            "set",
            "use",
            "keepalive_timeout",
            "worker_connections",
            "client_max_body_size",
            "client_max_header_size",
            "Rainbows!",
        ],
        Lost("no counterpart: see docs/options.md"),
    ),
];

/// The counterpart of a word.
pub(super) fn find(word: &str, unicorn: bool) -> Option<To> {
    let own = if unicorn { UNICORN } else { PUMA };
    BOTH.iter().chain(own).find(|(words, _)| words.contains(&word)).map(|(_, to)| *to)
}
