//! A process that forks workers: the first process of a server without a master, or a mold.

use super::first_process::FirstProcess;
use super::inheritance::{self, Inheritance};
use super::mold::Mold;
use super::server::{Role, Server};
use super::workers::{FIXED, Workers, lanes_of_worker};
use super::{descriptor_shortage, failed_to, io_model, raise_descriptor_limit, scaling, unusable_directory};
use oribi_config::directory::Directory;
use oribi_config::{IoModel, Settings};
use oribi_host::Runtime;
use oribi_io::process::note_forks;
use oribi_listen::Listener;
use oribi_stats::scoreboard::Scoreboard;
use std::io;
use std::os::fd::OwnedFd;

/// Serves until a signal or an order stops the server, and returns the exit status for the process: 0, or 1 if the server could
/// not start or requests had to be cut off. In a worker it does not return. The process must have only one thread.
///
/// On TERM, INT and QUIT the process finishes running requests, and on a second TERM or INT it ends at once. HUP replaces the
/// workers, TTIN and TTOU change their number. USR1 reopens the logs; with a `spawn_interval` it stops the server slowly. Under
/// a master, the process ignores INT and HUP, which the master handles, and only the master can make it end at once.
pub fn supervise(settings: &Settings, runtime: &dyn Runtime) -> i32 {
    report(run(settings, runtime, false))
}

/// As [`supervise`], in a process whose program does nothing else, and does the same whenever it is executed with the same
/// arguments. On USR2 this process executes that program again, as a new server that replaces this one: see the folder
/// `upgrade`. The process must have no children of its own.
pub fn supervise_program(settings: &Settings, runtime: &dyn Runtime) -> i32 {
    report(run(settings, runtime, true))
}

fn report(status: Result<i32, String>) -> i32 {
    status.unwrap_or_else(|message| {
        log::error!("{message}");
        1
    })
}

fn run(settings: &Settings, runtime: &dyn Runtime, is_program: bool) -> Result<i32, String> {
    note_forks().map_err(|error| failed_to("watch for forks", &error))?;
    let io = io_model::explain(settings, runtime)?;
    let start_log = StartLog { settings, io };
    let Some(inherited) = inheritance::inherit()? else {
        if settings.workers.follows_load() {
            return Err(FIXED.to_owned());
        }
        let scoreboard = scoreboard(settings, None)?;
        let directory = is_program.then(Directory::current);
        let workers = Workers::new(settings, runtime, scoreboard, (None, 1), directory)?;
        let lanes = lanes_of_worker(settings, runtime);
        let server = Server::open(settings, Some(runtime), Role::Supervisor, is_program, &[(None, settings, lanes)])?;
        start_log.describe(&server.listeners);
        server.set_title("starting");
        return Ok(FirstProcess::new(server, Box::new(workers)).serve());
    };
    let Inheritance { master, mut listeners, pools, board, vault, proof, generation } = inherited;
    oribi_listen::secure(&mut listeners, vault)?;
    if let Some(proof) = proof {
        oribi_listen::answer_in_handshakes(&listeners, proof);
    }
    let server = Server::of_mold(settings, runtime, generation, listeners, pools)?;
    if generation == 1 {
        start_log.describe(&server.listeners);
    }
    let workers = Workers::new(settings, runtime, scoreboard(settings, board)?, (Some(master), generation), None)?;
    server.set_title("starting");
    Ok(Mold::new(server, workers).serve())
}

/// The lines for the log about the start of a server. A mold logs them only when it is the first one.
struct StartLog<'a> {
    settings: &'a Settings,
    /// The line about the I/O model of workers and the reason for it.
    io: String,
}

impl StartLog<'_> {
    fn describe(&self, listeners: &[Listener]) {
        match self.settings.io {
            IoModel::Auto => log::debug!("{}", self.io),
            _ => log::info!("{}", self.io),
        }
        if let Some(shortage) = descriptor_shortage(raise_descriptor_limit(), self.settings.limits.connections) {
            log::warn!("{shortage}");
        }
        if let Some(warning) = unusable_directory(&self.settings.temporary_directory) {
            log::warn!("{warning}");
        }
        log_socket_owners(listeners, self.settings);
    }
}

/// Logs how sockets are assigned to lanes, if each lane has its own.
fn log_socket_owners(listeners: &[Listener], settings: &Settings) {
    let owners = settings.sockets_of_address();
    if owners > 1 {
        for listener in listeners {
            let alone = listener.sockets().count() > 1;
            let socket_count = if alone { "a socket for each" } else { "one socket, as there can be no more, for all" };
            let owner = if settings.edges_wanted() > 0 { "edges" } else { "lanes" };
            log::info!("{} has {socket_count} of {owners} {owner}", listener.display);
        }
    }
}

/// Creates the scoreboard: in the file `board`, which the master reads, if there is one and it has the right size. Otherwise in
/// memory that only this process and its workers share.
fn scoreboard(settings: &Settings, board: Option<OwnedFd>) -> Result<Scoreboard, String> {
    let (count, threads, routes) =
        (scaling::room(settings.workers.most()), settings.watched_threads(), settings.routes_of_workers());
    let accepting = settings.edges_wanted() == 0;
    if let Some(board) = board {
        match Scoreboard::in_file(&board, count, threads, routes, accepting) {
            Ok(scoreboard) => return Ok(scoreboard),
            Err(error) => log::warn!("`oribi ctl` will not show the workers of this generation: {error}"),
        }
    }
    Scoreboard::new(count, threads, routes, accepting)
        .map_err(|error: io::Error| failed_to("share memory with workers", &error))
}
