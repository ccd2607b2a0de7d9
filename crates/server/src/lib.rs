//! Oribi's server: the only crate that sees machines, backends and hosts together.
//!
//! `engine` drives connections, which arrive through `listen`, with deadlines and one backend; a *lane* is a `source` of
//! requests, such as an engine, with a host's context, which the threads of a `crew` may share; `process` is the life of master,
//! supervisor and workers, which communicate by the `scoreboard` and count in `totals`;
//! its first process serves `control` and `metrics`; `config` has the settings; `log` writes the logs.
#![forbid(unsafe_code)]

mod load_error;
pub mod process;

pub use oribi_config::directory;
pub use oribi_io::break_off;
pub use oribi_stats::{backtrace, figures};

/// The settings of the server, and the origin of each value.
pub mod config {
    pub use oribi_config::{
        AcceptModel, AccessFormat, Config, ControlChoice, EdgeChoice, IoModel, ListenAddress, LogTarget, Origin, Plan,
        Protocol, ProxyProtocol, Resolved, SandboxChoice, Served, Setting, SettingError, Settings, Timeouts, closest,
        instead_of, masked, quoted, sandbox_choice, table, value,
    };
}

/// The words by which a worker and its supervisor communicate.
pub mod scoreboard {
    pub use oribi_stats::scoreboard::{Bell, Presence, WorkerCommand, WorkerSlot};
}

/// The places where connections arrive.
pub mod listen {
    pub use oribi_listen::{Listener, Seat, doors, open};
}

/// The logs.
pub mod log {
    pub use oribi_log::{is_plain, prepare};
}

/// The spans that are told to the exporter.
pub mod spans {
    pub use oribi_ipc::spans::Way;
}

/// The border between a lane and what it takes its requests from.
pub mod source {
    pub use oribi_source::Source;
}

/// Connections, their deadlines and one backend, owned by one lane.
pub mod engine {
    pub use oribi_engine::{Census, Engine};
}

/// The control socket of a running server.
pub mod control {
    pub use oribi_admin::control::{Found, find};
}

/// A source of requests with a host's context, on one thread.
pub mod lane {
    pub use oribi_worker::lane::{ContextSupply, Lane, LaneSetup, Renewal, run};
}
