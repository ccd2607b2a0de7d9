//! The core of a worker: a [`lane`] is a source of requests with a host's context, which the threads of a [`crew`] may
//! share.
#![forbid(unsafe_code)]

pub mod attention;
pub mod boot;
pub mod crew;
pub mod intake;
pub mod lane;
