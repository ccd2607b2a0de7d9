//! Scripts that answer requests, as a server calls them.

mod failures;
mod filters;
mod harness;
mod lent;
mod libraries;
mod limits;
mod luafcgid;
mod orders;
mod oribi;
mod questions;
mod reload;
mod styles;
mod waiting;
mod wsapi;
