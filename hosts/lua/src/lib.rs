//! The Lua host: scripts in persistent states, loaded on demand, kept by popularity and age.

pub mod error_page;
pub mod modules;
pub mod script_path;
pub mod seed_configuration;
mod settings;

pub use settings::{ConfigValue, LuaSetting, LuaSettings, table};
