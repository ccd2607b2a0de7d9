//! Reads `oribi.toml`, the configuration of a server with several apps, and reports all of its mistakes at their places.
//!
//! [`examine`] reads the file with the files that it includes. The result is plain data with places; the options in it are texts,
//! which the caller gives to `oribi_config::Config::set`. The rows of the table of options decide where an option may stand and
//! which values it takes.
#![forbid(unsafe_code)]

mod app;
mod checks;
mod conditions;
mod content;
mod document;
mod excerpt;
mod filters;
mod finding;
mod include;
mod language_options;
mod listen;
mod options;
mod place;
mod reading;
mod repair;
mod report;
mod review;
mod route;
mod schema;
mod source;
mod table;
mod variables;

pub use app::ENDINGS;
pub use content::{
    Action, AppSection, Ask, Auth, ConfigFile, ErrorPage, Filters, Item, Limit, Listen, Match, NamedPath, NeededPath,
    Passwords, PathKind, Pattern, RouteSection, Text,
};
pub use finding::{Excerpt, Finding, Findings, Severity};
pub use include::matches as matching;
pub use language_options::{LANGUAGE_OPTIONS, LanguageOption, ValueForm};
pub use place::Place;
pub use reading::{Reading, SourceFiles, examine, parse, read_with, source_files};
pub use review::Review;
pub use schema::schema;
pub use table::did_you_mean;
