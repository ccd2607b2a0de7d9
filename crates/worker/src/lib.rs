//! The core of a worker: a [`lane`] is a source of requests with a host's context, which the threads of a [`threads`] may
//! share.
#![forbid(unsafe_code)]

pub mod boot;
pub mod event_sources;
pub mod intake;
pub mod lane;
pub mod threads;
