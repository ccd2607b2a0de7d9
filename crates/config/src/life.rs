//! Settings of the life of workers: their start, their replacement, and the reload of the app.

use std::path::PathBuf;
use std::time::Duration;

/// The way in which a new generation takes over from the current one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReloadMode {
    /// All new workers become ready before the first of the current ones stops.
    #[default]
    Whole,
    /// One new worker becomes ready and one of the current workers stops, then the next pair, because there is not enough
    /// memory for two generations.
    Rolling,
}

/// The order of replacement of a worker that is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplaceOrder {
    /// The worker stops when its replacement is ready.
    #[default]
    NewFirst,
    /// The replacement starts when the worker has stopped, because there is not enough memory for an additional worker.
    OldFirst,
}

/// The settings of the life of workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// The target of the request that each new worker runs before it takes requests of clients, if any.
    pub boot_request: Option<String>,
    /// The time that a worker may take from its start until it takes requests.
    pub boot_timeout: Duration,
    /// The time that the new server may take in an upgrade, from its start until it serves.
    pub upgrade_timeout: Duration,
    /// The time that a process started by a master may take to load the app.
    pub load_timeout: Duration,
    /// The way in which a new generation takes over.
    pub reload_mode: ReloadMode,
    /// The longest life of a worker; `None` without a limit.
    pub max_lifetime: Option<Duration>,
    /// The memory, in bytes, at which a worker is replaced; `None` without a limit.
    pub max_memory: Option<u64>,
    /// The order of replacement of a worker that is due.
    pub replace_order: ReplaceOrder,
    /// Whether the app is reloaded when one of its files changes.
    pub watch: bool,
    /// The files and folders that are watched.
    pub watched: Vec<PathBuf>,
    /// Whether changes of the file with the apps are applied by themselves.
    pub auto_apply: bool,
    /// Whether clients see the reason why the app cannot be loaded: for development.
    pub shows_load_errors: bool,
}

impl Default for Life {
    fn default() -> Self {
        Self {
            boot_request: None,
            // As in Puma: long enough for the largest apps, and an operator still waits for the result.
            boot_timeout: Duration::from_secs(60),
            // The app is loaded, and then its workers start.
            upgrade_timeout: Duration::from_secs(300),
            // Longer than any working app takes to load. After this time the server stops an app that waits for an event that
            // never happens.
            load_timeout: Duration::from_secs(300),
            reload_mode: ReloadMode::default(),
            max_lifetime: None,
            max_memory: None,
            replace_order: ReplaceOrder::default(),
            watch: false,
            watched: Vec::new(),
            auto_apply: false,
            shows_load_errors: false,
        }
    }
}
