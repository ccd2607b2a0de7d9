//! Reads the configuration of other servers, and writes `oribi.toml` with notes about all that it does not have.
//!
//! [`detect`] finds the format of a file, [`import`] reads it, and [`command()`] reads the words of a command line. A file of
//! Puma or Unicorn is Ruby: [`import`] reads the calls that the script [`RECORDER`] prints.
#![forbid(unsafe_code)]

mod address;
mod command;
mod conditions;
mod draft;
mod filters;
mod format;
mod found;
mod json;
mod luafcgid;
mod nginx;
mod note;
mod part;
mod redirect;
mod ruby;
mod settle;
mod shell;
mod toml;
mod tree;
mod unit;
mod unreadable;
mod uwsgi;
mod variable;
mod write;

pub use format::{Format, Imported, command, command_with, detect, import, import_with};
pub use found::Found;
pub use note::{Kind, Note};
pub use part::Part;
pub use ruby::RECORDER;
pub use unreadable::Unreadable;
