//! Files as responses: from the path of a URL to a representation, its conditions and its ranges.
//!
//! A [`Site`] is a directory with a cache of open files, used by one lane. It answers a request through a
//! [`Reply`](oribi_host::Reply), or returns the reply if there is no such file. [`FileRuntime`] is a host that has only a
//! site.
//!
//! The choice of the response needs no system call: [`target`] maps the path, [`coding`] chooses among variants,
//! [`conditions`] and [`ranges`] determine the part of the representation to send (RFC 9110, sections 12 to 14). Only
//! [`root`] opens files, and never outside of its directory.
#![forbid(unsafe_code)]

mod cache;
pub mod coding;
pub mod conditions;
mod date;
mod host;
mod listing;
pub mod media_type;
mod mounts;
mod multipart;
mod named;
mod pages;
pub mod ranges;
mod representation;
mod response;
pub mod root;
pub mod selection;
mod site;
pub mod target;
mod type_patterns;

pub use host::FileRuntime;
pub use media_type::MediaTypes;
pub use mounts::{Mount, Mounts};
pub use named::{Name, NamedFiles};
pub use pages::{MEDIA_TYPE as PAGE_TYPE, escape, of_status as page};
pub use representation::Representation;
pub use response::{Response, respond};
pub use root::Root;
pub use site::Site;
pub use type_patterns::TypePatterns;

use std::path::PathBuf;

/// The directories and how they are served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Directories in front of the app.
    pub mounts: Vec<Mount>,
    /// Directories whose files the app may name by X-Sendfile.
    pub sendfile_roots: Vec<PathBuf>,
    /// Directories whose files the app may name by X-Accel-Redirect.
    pub accelerated: Vec<Mount>,
    /// The options for serving files.
    pub options: Options,
}

/// The options for serving files, for all directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The names to look for in a directory whose path ends in a slash; the first that exists is sent. Empty without any.
    pub index: Vec<String>,
    /// The Cache-Control field of every file that is sent; `None` without any.
    pub cache_control: Option<String>,
    /// The number of files that each lane keeps open, or in memory, together with their metadata. 0: none, so that each
    /// request asks the file system.
    pub open_files: usize,
    /// The media types of files that are sent; others count as missing. Empty: all.
    pub types: TypePatterns,
    /// Media types by names of files, before those that are built in.
    pub media_types: MediaTypes,
    /// Whether a directory without an index is answered with a listing of its files.
    pub listing: bool,
    /// Whether names that begin with a dot are served; `.well-known` (RFC 8615) is served in any case.
    pub dotfiles: bool,
    /// Whether `name.br`, `name.zst` and `name.gz` beside `name` are sent to clients that accept them.
    pub precompressed: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            index: vec!["index.html".to_owned()],
            cache_control: None,
            open_files: 1024,
            types: TypePatterns::default(),
            media_types: MediaTypes::default(),
            listing: false,
            dotfiles: false,
            precompressed: true,
        }
    }
}
