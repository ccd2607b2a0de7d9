//! A row's server, started for one cell.

use crate::cells::{Cell, StudyQuestion, Transport};
use crate::rows::{Places, Programs, Row};
use oribi_bench::group::Group;
use oribi_bench::threads::{self, Threads};
use oribi_bench::{interrupt, process_tree, server};
use std::fs;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The time that a server may take until it listens.
const START: Duration = Duration::from_secs(10);
/// The time that it may take to end.
const END: Duration = Duration::from_secs(5);

/// The paths of programs and directories, and the use of the CPUs.
#[derive(Debug)]
pub struct StudyEnvironment {
    /// The measured programs.
    pub programs: Programs,
    /// The load generator.
    pub load: PathBuf,
    /// The directory of the templates.
    pub templates: PathBuf,
    /// A directory that is removed at the end.
    pub scratch: PathBuf,
    /// The CPU of servers with one lane.
    pub server_cpu: usize,
    /// The CPU of the load generator, and of the study itself.
    pub load_cpu: usize,
}

impl Drop for StudyEnvironment {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.scratch);
    }
}

/// A running server. Dropping it ends it.
#[derive(Debug)]
pub struct Server {
    /// Its address for the load generator.
    pub address: String,
    group: Group,
}

impl Server {
    /// Starts the server of a row for a cell, and waits until it listens.
    ///
    /// # Errors
    /// It does not start or listen; the error has the last lines of its output.
    pub fn start(place: &StudyEnvironment, row: &Row, cell: &Cell) -> Result<Server, String> {
        let port = server::free_port()?;
        let directory = place.scratch.join(format!("{}-{port}", row.name));
        let told = |e: std::io::Error| format!("{}: {e}", directory.display());
        // nginx's worker is another user when the study is run by root.
        fs::create_dir_all(directory.join("files")).map_err(told)?;
        fs::set_permissions(&directory, std::os::unix::fs::PermissionsExt::from_mode(0o777)).map_err(told)?;
        let body = body(cell.body);
        fs::write(directory.join("files/body"), &body).map_err(told)?;
        let (lanes, cpus) = match cell.part {
            StudyQuestion::Io => (1, vec![place.server_cpu]),
            StudyQuestion::Network { lanes, cpus: 1 } => (lanes, vec![place.server_cpu]),
            StudyQuestion::Network { lanes, .. } => (lanes, vec![place.server_cpu, place.load_cpu]),
        };
        let transport = cell.transport;
        let places = Places {
            port,
            directory: &directory,
            transport,
            programs: &place.programs,
            body: &body,
            lanes,
            pattern: cell.pattern,
        };
        if let Some(name) = row.template {
            let path = place.templates.join(name);
            let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            fs::write(directory.join(name), places.fill(&text)).map_err(told)?;
        }
        let group = Group::start(&places.command(row), &cpus, &directory.join("output"))?;
        let mut server = Server { address: places.prefixed(), group };
        let end = Instant::now() + START;
        let address = places.address();
        while !listens(transport, &address) {
            if let Some(status) = server.group.ended() {
                return Err(format!("ended with {status} before it listened: {}", server.group.last_words(0)));
            }
            if Instant::now() > end {
                return Err(format!("does not listen after {} s: {}", START.as_secs(), server.group.last_words(0)));
            }
            interrupt::sleep(interrupt::STEP)?;
        }
        Ok(server)
    }

    /// The work of its threads so far.
    pub fn threads(&self) -> Threads {
        threads::threads(self.group.pid())
    }

    /// The user memory of all its processes in KiB.
    pub fn memory(&self) -> u64 {
        process_tree::memory(self.group.pid())
    }

    /// Returns the ids of all processes of the server.
    pub fn processes(&self) -> Vec<i32> {
        process_tree::members(self.group.pid()).iter().map(|member| member.pid).collect()
    }

    /// Ends the server.
    ///
    /// # Errors
    /// The server had ended before, or does not end.
    pub fn end(mut self) -> Result<(), String> {
        if let Some(status) = self.group.ended() {
            return Err(format!("had ended with {status}: {}", self.group.last_words(0)));
        }
        if self.group.end(END) { Ok(()) } else { Err(format!("did not end within {} s of TERM", END.as_secs())) }
    }
}

fn listens(transport: Transport, address: &str) -> bool {
    match transport {
        Transport::Tcp => TcpStream::connect(address).is_ok(),
        Transport::Unix => UnixStream::connect(address).is_ok(),
    }
}

/// The content that every server must answer with.
pub fn body(bytes: usize) -> String {
    ('a'..='z').cycle().take(bytes).collect()
}
