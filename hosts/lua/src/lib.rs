//! The Lua host: scripts in persistent states, loaded on demand, kept by popularity and age.

mod application;
mod content;
pub mod error_page;
mod exchange;
mod host;
pub mod modules;
mod request;
mod response;
mod runtime;
pub mod script_path;
pub mod seed_configuration;
mod settings;
mod variables;
mod version;
mod vm;

pub use application::Style;
pub use runtime::LuaRuntime;
pub use settings::{ConfigValue, LuaSetting, LuaSettings, table};
pub use version::built_in;
pub use vm::Failure;
