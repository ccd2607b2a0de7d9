//! Re-exports the parts of Oribi's server that its command, its hosts and the tests of several crates use.
#![forbid(unsafe_code)]

pub use oribi_config::directory;
pub use oribi_io::break_off;
pub use oribi_stats::totals::{COUNTER_ROWS, CounterRow};
pub use oribi_stats::{app_metrics, backtrace};

/// The settings of the server, and the origin of each value.
pub mod config {
    pub use oribi_config::{
        AcceptModel, AccessFormat, Config, Contradiction, ControlChoice, EdgeChoice, IoModel, ListenAddress, LogTarget,
        LoopChoice, Origin, Plan, PlanPart, Protocol, ProxyProtocol, Resolved, SandboxChoice, Scope, Served, Setting,
        SettingError, Settings, SocketAddress, Timeouts, closest, counted, instead_of, join_label, masked, quoted,
        sandbox_choice, setting_of, table, value,
    };
}

/// The messages between a worker and its supervisor.
pub mod scoreboard {
    pub use oribi_stats::scoreboard::{Presence, SharedDoorbell, WorkerCommand, WorkerSlot};
}

/// Listening sockets, and their addresses.
pub mod listen {
    pub use oribi_listen::{Listener, Shard, listen_sockets, open};
}

/// The error log and the access log.
pub mod log {
    pub use oribi_log::{is_plain, prepare};
}

/// The way to the edges outside of a request.
pub mod posts {
    pub use oribi_ipc::posts::Outbox;
}

/// The channel to the exporter of spans.
pub mod spans {
    pub use oribi_ipc::spans::SpanSender;
}

/// The interface between a lane and its source of requests.
pub mod source {
    pub use oribi_source::Source;
}

/// Connections, their deadlines and one backend, owned by one lane.
pub mod engine {
    pub use oribi_engine::{ConnectionCounts, Engine};
}

/// The routes of a server with several apps.
pub mod routes {
    pub use oribi_edge::plan::{EdgePlan, PlanReader, pack, unpack};
    pub use oribi_edge::routes::{Action, AskRule, Candidate, Filters, Limit, PasswordRule, Route, Routes, UserFile};
    pub use oribi_filter::{ErrorPage, ResponsePlan};
    pub use oribi_route::{NamedPattern, PathExpressions, Rule, RuleError, Template, unknown_variable};
}

/// The control socket of a running server.
pub mod control {
    pub use oribi_admin::control::{Found, find};
}

/// A source of requests with a host's context, on one thread.
pub mod lane {
    pub use oribi_worker::lane::{ContextSupply, Lane, LaneSetup, Renewal, run};
}

/// The life of the processes.
pub mod process {
    pub use oribi_supervise::{
        App, Directory, FilePlan, PlannedApp, Plans, ServerPlan, Sources, applied_file, claim_environment, claim_inheritance,
        detach, end_when_told_while_loading, has_master, keep_standard_error, master, report_failed_start, report_load_failure,
        reset_signals, serve_alone, start_as_worker, supervise, supervise_program, survive_failing_writes_while_loading,
        survive_own_signals,
    };
}
