//! Oribi's server: the only crate that sees machines, backends and hosts together.
//!
//! `engine` drives connections, which arrive through `listen`, with timers over one backend; a *lane* is an engine with a host's
//! context; `process` is the life of master, supervisor and workers, who see one another on the `scoreboard`; `config` is what they
//! are told to do; `log` is what they say.
#![forbid(unsafe_code)]

mod attention;
pub mod config;
pub mod engine;
pub mod lane;
pub mod listen;
pub mod log;
pub mod process;
pub mod scoreboard;
