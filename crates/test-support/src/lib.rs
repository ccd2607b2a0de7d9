//! Support for the tests of several crates; no crate uses it otherwise.
//!
//! The feature `processes` adds what black-box tests need: servers that run as processes, with an app of each language, and
//! clients of HTTP/1 and HTTP/2, in clear text and over TLS, that check every byte.
#![forbid(unsafe_code)]
#![cfg_attr(feature = "processes", allow(missing_docs, reason = "names of aids say enough"))]

mod deadline;
mod descriptors;

#[cfg(feature = "processes")]
pub mod client;
#[cfg(feature = "processes")]
pub mod connection;
#[cfg(feature = "processes")]
pub mod held;
#[cfg(feature = "processes")]
pub mod http2;
#[cfg(feature = "processes")]
pub mod http2_streams;
#[cfg(feature = "processes")]
pub mod language;
#[cfg(feature = "processes")]
pub mod layer;
#[cfg(feature = "processes")]
pub mod load;
#[cfg(feature = "processes")]
pub mod outcome;
#[cfg(feature = "processes")]
pub mod response;
#[cfg(feature = "processes")]
pub mod roles;
#[cfg(feature = "processes")]
pub mod scrape;
#[cfg(feature = "processes")]
pub mod server;
#[cfg(feature = "processes")]
pub mod status;
#[cfg(feature = "processes")]
pub mod terminal;
#[cfg(feature = "processes")]
pub mod wire;

pub use deadline::{Deadline, waits_for};
pub use descriptors::{run_with_few_descriptors, take_all_descriptors};

/// Returns the folder in which cargo puts programs, such as target/debug; programs of tests are in a folder in it.
#[cfg(feature = "processes")]
fn built() -> std::path::PathBuf {
    let test = std::env::current_exe().expect("it is running");
    test.ancestors().nth(2).expect("target/debug/deps").to_owned()
}
