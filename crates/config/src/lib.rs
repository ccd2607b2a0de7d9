//! The settings of the server, and the origin of each value.
//!
//! One table (`table`) contains everything about each setting: the names, the environment variable, the help and the parser. A
//! [`Config`] collects texts with their [`Origin`]; [`Config::finish`] makes [`Settings`] from these texts.
#![forbid(unsafe_code)]

mod access_pattern;
mod acme;
mod address;
mod address_option;
mod app_deadlines;
pub mod bounds;
mod can_loop;
mod cgroups;
mod client_path;
mod contradiction;
mod counted;
pub(crate) mod cpus;
mod dashboard;
pub mod directory;
mod edge_decision;
mod encryption;
mod error;
mod event_loop;
mod given;
mod handshakes;
mod headroom;
mod histogram;
mod https;
mod interface;
mod io_model;
mod life;
mod life_values;
mod listeners;
mod masked;
mod memory;
mod metrics_address;
mod metrics_path;
mod names;
mod networks;
mod origin;
mod plan;
mod protective;
mod proxies;
mod proxy_protocol;
mod proxy_values;
mod relay;
mod request_id;
mod resolve;
mod routes;
mod sandbox;
mod sandbox_choice;
mod setting;
mod settings;
mod system_log;
mod table;
mod tls;
mod trace_export;
mod traces;
pub mod value;
mod websocket;
mod worker_range;
mod worker_scaling;
mod worker_threads;
mod worker_values;

pub use access_pattern::{AccessItem, AccessPart, AccessPattern, Instant, Radix, TimeForm, Unit};
pub use app_deadlines::AppDeadlines;
pub use bounds::Bound;
pub use contradiction::Contradiction;
pub use counted::counted;
pub use dashboard::{Dashboard, DashboardShows};
pub use edge_decision::Served;
pub use error::SettingError;
pub use event_loop::{EventLoop, LoopChoice};
pub use handshakes::Offer;
pub use headroom::{CpuTime, MemoryLeft, memory_left};
pub use interface::Interface;
pub use io_model::IoModel;
pub use life::{Life, ReloadMode, ReplaceOrder};
pub use masked::{is_secret_name, masked, quoted};
pub use memory::memory_allowed;
pub use metrics_path::MetricsPath;
pub use names::{closest, setting_of};
pub use oribi_files::TypePatterns;
pub use origin::Origin;
pub use plan::{Plan, PlanPart};
pub use proxies::{ForwardedFields, Forwarding, Proxies, TrustedPeers};
pub use proxy_protocol::ProxyProtocol;
pub use request_id::RequestIdField;
pub use resolve::Resolved;
pub use routes::{NAME_BYTES as ROUTE_NAME_BYTES, Route, join_label, number_of_name};
pub use sandbox::sandbox_choice;
pub use sandbox_choice::SandboxChoice;
pub use setting::{Scope, Setting};
pub use settings::{
    AcceptModel, AccessFormat, ControlChoice, EdgeChoice, Limits, ListenAddress, LogTarget, Protocol, Settings, SocketAddress,
    Timeouts,
};
pub use system_log::{LogPlace, MessageForm, SystemLog};
pub use table::table;
pub use tls::Tls;
pub use traces::SampleRatio;
pub use value::{duration, size};
pub use websocket::{Origins, WebSockets};
pub use worker_range::WorkerRange;
pub use worker_scaling::WorkerScaling;

use given::Given;
use names::{find, squash, suggest};
use setting::Draft;

/// Advice for an option of other servers that has a protective effect and that Oribi lacks; `None` for any other option.
#[must_use]
pub fn instead_of(name: &str) -> Option<&'static str> {
    protective::instead_of(&squash(name), "")
}

/// Collects texts of settings with their origins; then [`Config::finish`] makes [`Settings`] from them.
///
/// The calls for texts of different origins may come in any order: the command line overrides the environment, the environment
/// overrides a file, and a file overrides the default. `PORT` and `HOST` have an effect only if no other text sets the address.
#[derive(Clone, Debug)]
pub struct Config {
    given: Vec<Given>,
    processors: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self::new()
    }
}

impl Config {
    /// A config with the values of the environment only: `PORT`, `HOST`, `WEB_CONCURRENCY`, `TMPDIR` and others that many programs
    /// know, and for each setting a variable such as `ORIBI_MAX_REQUESTS`, which overrides them.
    #[must_use]
    pub fn new() -> Self {
        let variable = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        Self::with(variable, cpus::allowed())
    }

    /// Like [`Config::new`], with another environment and another number of CPUs.
    #[must_use]
    pub fn with(environment: impl Fn(&str) -> Option<String>, processors: usize) -> Self {
        let mut given = Vec::new();
        for (row, setting) in table().iter().enumerate() {
            for variable in setting.environment.map(str::to_owned).into_iter().chain(setting.own_variable()) {
                // Many tools set an empty variable to mean none.
                if let Some(text) = environment(&variable).filter(|text| !text.trim().is_empty()) {
                    let origin = Origin::Environment(variable.clone().into());
                    given.push(Given { row, name: variable, text, inverted: false, origin });
                }
            }
        }
        Self { given, processors }
    }

    /// Sets one setting by any of its names, with `_` or `-` between words. If the setting may be given several times, the
    /// value is added to the earlier ones.
    ///
    /// # Errors
    /// The name is unknown, or the value is invalid; then the config is unchanged.
    pub fn set(&mut self, name: &str, value: &str, origin: Origin) -> Result<(), SettingError> {
        let Some((row, inverted)) = find(name) else {
            if let Some(instead) = protective::instead_of(&squash(name), value) {
                return Err(SettingError::Protective { name: name.to_owned(), instead });
            }
            return Err(SettingError::Unknown { name: name.to_owned(), suggestion: suggest(name) });
        };
        let given = Given { row, name: name.to_owned(), text: value.to_owned(), inverted, origin };
        let mut draft = Draft::new(self.processors);
        given.apply(&mut draft)?;
        if given.origin == Origin::CommandLine && draft.settings.listen.iter().any(ListenAddress::holds_text) {
            let why = "every user can read a command line: write cert_pem and key_pem in a configuration file, or name files by cert and key";
            return Err(SettingError::bad(name, value, why));
        }
        self.given.push(given);
        Ok(())
    }

    /// Makes the settings from all texts.
    ///
    /// # Errors
    /// A value of the environment is invalid, or two settings contradict each other.
    pub fn finish(&self) -> Result<Settings, SettingError> {
        self.resolve().map(|resolved| resolved.settings)
    }

    /// Like [`Config::finish`], with the origin of each value.
    ///
    /// # Errors
    /// As [`Config::finish`].
    pub fn resolve(&self) -> Result<Resolved, SettingError> {
        let (resolved, contradictions) = self.examine();
        contradictions.into_iter().next().map_or(Ok(resolved), |first| Err(first.error))
    }

    /// Like [`Config::resolve`], with all contradictions. The settings are for further checks only, unless there are none.
    #[must_use]
    pub fn examine(&self) -> (Resolved, Vec<Contradiction>) {
        Resolved::new(&self.given, Draft::new(self.processors))
    }
}
