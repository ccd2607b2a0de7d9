//! The parts of `oribi-bench`: servers and loads in process groups that are ended in any case, the CPU time and the memory of
//! such a group, the facts about the machine, tables and plots. The study in `bench/study` uses these parts as well.

#![forbid(unsafe_code)]

pub mod cell;
pub mod client;
pub mod group;
pub mod http2;
pub mod instructions;
pub mod interrupt;
pub mod load;
pub mod machine;
pub mod options;
pub mod plot;
pub mod process_tree;
pub mod report;
pub mod rounds;
pub mod server;
pub mod setup;
pub mod statistics;
pub mod system_calls;
pub mod threads;
pub mod tls;
