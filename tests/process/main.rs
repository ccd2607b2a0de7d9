//! Black-box tests of the life of the processes: the built `oribi --native`, real signals, real sockets.

mod accepting;
mod background;
mod control;
mod counters;
mod dashboard;
mod descriptors;
mod edges;
mod farewell;
mod handshakes;
mod http2_counts;
mod io_model;
mod lent;
mod limits;
mod listening;
mod metrics;
mod metrics_path;
mod notify;
mod open_connections;
mod replacing;
mod routes;
mod sandbox;
mod service_manager;
mod spans;
mod stopping;
mod system_logs;
mod top;
mod traces;
mod upgrading;
mod usr1;

use client::Target;
use oribi_test_support::{client, scrape, server, status, wire};
use server::Server;
use std::process::Command;

/// `oribi --native hello` on a port of its own.
fn native(arguments: &[&str]) -> Server {
    native_on("127.0.0.1:0", arguments)
}

/// `oribi --native hello` on the address `listen`.
fn native_on(listen: &str, arguments: &[&str]) -> Server {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oribi"));
    command.args(["--native", "hello", "--listen", listen]).args(arguments).args(wire::options());
    // The same tests are run for each I/O model: see tests/run.
    for (variable, option) in [("ORIBI_TEST_IO", "--io"), ("ORIBI_TEST_ACCEPT", "--accept")] {
        if let Ok(model) = std::env::var(variable)
            && !arguments.contains(&option)
        {
            command.args([option, &model]);
        }
    }
    Server::run(&mut command)
}

/// The address of `server`, once it is ready.
fn tcp(server: &mut Server) -> Target {
    Target::Tcp(server.address())
}
