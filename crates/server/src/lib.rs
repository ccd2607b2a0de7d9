//! Oribi's server: the only crate that sees machines, backends and hosts together.
//!
//! `engine` drives connections with timers over one backend; a *lane* is an engine with a host's context; `process` is the
//! life of master, supervisor and workers; `config` is what they are told to do; `log` is what they say.
#![forbid(unsafe_code)]

pub mod config;
pub mod engine;
pub mod lane;
pub mod log;
mod named_files;
pub mod process;
