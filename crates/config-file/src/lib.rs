//! Reads `oribi.toml`, the configuration of a server with several apps, and reports all of its mistakes at their places.
//!
//! [`read`] reads the file with the files that it includes. The result is plain data with places; the options in it are texts,
//! which the caller gives to `oribi_config::Config::set`. The rows of the table of options decide where an option may stand and
//! which values it takes.
#![forbid(unsafe_code)]

mod content;
mod finding;
mod place;

pub use content::{Action, AppSection, ConfigFile, Item, Listen, Match, Pattern, RouteSection, Text};
pub use finding::{Excerpt, Finding, Findings, Severity};
pub use place::Place;
