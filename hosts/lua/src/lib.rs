//! The Lua host: scripts in persistent states, loaded on demand, kept by popularity and age.

mod answer;
mod application;
mod content;
mod dependencies;
pub mod error_page;
mod exchange;
pub mod hooks;
mod host;
mod housekeeping;
pub mod modules;
mod pool;
mod request;
mod response;
mod runtime;
pub mod script_path;
mod search_paths;
pub mod seed_configuration;
mod settings;
mod shared;
mod state;
mod state_context;
mod tasks;
mod variables;
mod version;
mod vm;
mod waits;

pub use application::Style;
pub use pool::ScriptCounters;
pub use runtime::LuaRuntime;
pub use settings::{ConfigValue, LuaSetting, LuaSettings, table};
pub use state_context::Failure;
pub use version::built_in;
