//! The core of a worker: a [`lane`] is a source of requests together with a host's context. Several [`threads`] may share a
//! lane.
#![forbid(unsafe_code)]

pub mod boot;
pub mod event_sources;
pub mod intake;
pub mod lane;
pub mod threads;
