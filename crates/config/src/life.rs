//! Settings of the life of workers: how they start, when they are replaced, and when the app is loaded anew.

use std::path::PathBuf;
use std::time::Duration;

/// How a new generation takes over from the present one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReloadMode {
    /// All new workers are ready before the first of the present ones goes.
    #[default]
    Whole,
    /// One new worker becomes ready and one of the present ones goes, then the next: for memory that has no room for two
    /// generations.
    Rolling,
}

/// The order in which a worker is replaced that is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplaceOrder {
    /// The worker goes when its replacement is ready.
    #[default]
    NewFirst,
    /// The replacement starts when the worker has ended: for memory that has no room for one worker more.
    OldFirst,
}

/// The settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// The target of the request that each new worker answers to itself before it takes any other; `None`: none.
    pub boot_request: Option<String>,
    /// How long a worker may take from its start until it takes requests.
    pub boot_timeout: Duration,
    /// How long a new server may take, in an upgrade, until it serves.
    pub upgrade_timeout: Duration,
    /// How long a process that a master has started may take to load the app.
    pub load_timeout: Duration,
    /// How a new generation takes over.
    pub reload_mode: ReloadMode,
    /// The age at which a worker is replaced, at the latest; `None`: any.
    pub max_lifetime: Option<Duration>,
    /// The memory in bytes with which a worker is replaced; `None`: any.
    pub max_memory: Option<u64>,
    /// The order in which a worker is replaced that is due.
    pub replace_order: ReplaceOrder,
    /// Whether the app is loaded anew when one of its files changes.
    pub watch: bool,
    /// The files and folders that are watched.
    pub watched: Vec<PathBuf>,
    /// Whether clients see why the app cannot be loaded: for development.
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
            // Nobody whose app loads waits so long; an app that waits for something that never comes does not wait for ever.
            load_timeout: Duration::from_secs(300),
            reload_mode: ReloadMode::default(),
            max_lifetime: None,
            max_memory: None,
            replace_order: ReplaceOrder::default(),
            watch: false,
            watched: Vec::new(),
            shows_load_errors: false,
        }
    }
}
