//! A server started for one cell, checked to answer right before anything is measured.

use crate::cell::{Cell, Encryption};
use crate::client;
use crate::group::Group;
use crate::http2;
use crate::interrupt;
use crate::process_tree::{self, Cpu, Member};
use crate::setup::{Places, Serves, Setup};
use crate::tls;
use std::fs::{self, Permissions};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// The next port to try. It is below the range from which the kernel chooses the ports of clients (32768 and above by default),
/// so that no client uses it.
static NEXT_PORT: AtomicU16 = AtomicU16::new(21000);
/// The time that a server may take until it answers; Rails, the slowest to load, needs two or three seconds.
pub const START: Duration = Duration::from_secs(20);

/// The paths of programs and directories.
#[derive(Debug)]
pub struct Installation {
    /// The `bench` directory of the checkout.
    pub bench: PathBuf,
    /// The `oribi` program.
    pub oribi: PathBuf,
    /// A directory that is removed at the end.
    pub scratch: PathBuf,
    /// The CPU the servers run on.
    pub server_cpu: usize,
    /// The CPU wrk runs on.
    pub load_cpu: usize,
}

impl Installation {
    /// Makes a new directory, which a worker without root's rights can also use.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn directory(&self, name: &str) -> Result<PathBuf, String> {
        let path = self.scratch.join(name);
        let told = |e: std::io::Error| format!("{}: {e}", path.display());
        fs::create_dir_all(&path).map_err(told)?;
        fs::set_permissions(&path, Permissions::from_mode(0o777)).map_err(told)?;
        Ok(path)
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.scratch);
    }
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    /// Its address on the loopback interface.
    pub port: u16,
    group: Group,
    serves: Serves,
    /// The size of the server's output when it began to listen: the banner before that explains no error.
    banner: usize,
}

impl Server {
    /// Starts a server for a cell, and waits at most `patience` until it answers correctly. `prefix` is a tool that runs the
    /// server, such as valgrind, or empty.
    ///
    /// # Errors
    /// The server does not start, or answers wrongly. The error has the last lines of its output.
    pub fn start(
        installation: &Installation,
        setup: &Setup,
        cell: &Cell,
        prefix: &[String],
        patience: Duration,
    ) -> Result<Server, String> {
        let port = free_port()?;
        let directory = installation.directory(&format!("{}-{port}", setup.name))?;
        let places = Places {
            port,
            app: installation
                .bench
                .join("apps")
                .join(cell.answer.app())
                .with_extension(setup.apps.as_deref().unwrap_or_default()),
            directory: directory.clone(),
            oribi: installation.oribi.clone(),
            http2: cell.streams > 0,
            encrypted: cell.encryption != Encryption::None,
            pass: setup.pass.clone(),
        };
        if setup.tls {
            tls::make_certificate(&directory)?;
        }
        let write = |name: &str, bytes: &[u8]| {
            fs::write(directory.join(name), bytes).map_err(|e| format!("{}: {e}", directory.join(name).display()))
        };
        if let Some(template) = &setup.template {
            let path = installation.bench.join("servers").join(template);
            let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            write(template, places.fill(&text).as_bytes())?;
        }
        write(cell.name, &cell.body())?;
        // Peers without fixed answers find it under one name, in every cell.
        write(cell.answer.app(), &cell.body())?;
        let words = [prefix, &setup.command(cell.name, &places)?].concat();
        let group = Group::start(&words, &[installation.server_cpu], &directory.join("output"))?;
        let mut server = Server { port, group, serves: setup.serves, banner: 0 };
        server.wait_until_right(cell, patience)?;
        Ok(server)
    }

    fn wait_until_right(&mut self, cell: &Cell, patience: Duration) -> Result<(), String> {
        let end = Instant::now() + patience;
        loop {
            if let Some(status) = self.group.ended() {
                return Err(format!("ended with {status} before it listened: {}", self.group.last_words(0)));
            }
            match client::Connection::open(self.port, Duration::from_secs(1)) {
                // Something listens: from here on a wrong answer is wrong, not early.
                Ok(connection) => {
                    drop(connection);
                    self.banner = self.group.output().len();
                    return self.check_within(cell, patience);
                }
                Err(e) if Instant::now() > end => return Err(format!("{e}: {}", self.group.last_words(0))),
                Err(_) => interrupt::sleep(Duration::from_millis(50))?,
            }
        }
    }

    /// Checks that the server answers correctly now.
    ///
    /// # Errors
    /// The fault, with the last lines of the server's output.
    pub fn check(&self, cell: &Cell) -> Result<(), String> {
        self.check_within(cell, client::PATIENCE)
    }

    fn check_within(&self, cell: &Cell, patience: Duration) -> Result<(), String> {
        let checked = if cell.encryption != Encryption::None {
            tls::check(cell, self.port, patience)
        } else if cell.streams > 0 {
            http2::check(cell, self.port, patience)
        } else {
            client::check(cell, self.port, self.serves != Serves::OneRequest, patience)
        };
        checked.map_err(|e| match self.group.last_words(self.banner) {
            words if words.is_empty() => e,
            words => format!("{e} ({words})"),
        })
    }

    /// CPU time of all its processes so far.
    pub fn cpu(&self) -> Cpu {
        process_tree::cpu(self.group.pid())
    }

    /// Memory of all its processes in KiB.
    pub fn memory(&self) -> u64 {
        process_tree::memory(self.group.pid())
    }

    /// All its processes.
    pub fn members(&self) -> Vec<Member> {
        process_tree::members(self.group.pid())
    }

    /// Asks the server to end, and kills it after `grace`. Returns whether it ended by itself.
    pub fn end(mut self, grace: Duration) -> bool {
        self.group.end(grace)
    }
}

/// Returns a port on which no server listens.
///
/// # Errors
/// All ports are in use.
pub fn free_port() -> Result<u16, String> {
    for _ in 0..10_000 {
        let port = 21000 + NEXT_PORT.fetch_add(1, Ordering::Relaxed) % 10_000;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err("no free port between 21000 and 30999".to_owned())
}

/// Makes the scratch directory.
///
/// # Errors
/// If it cannot be made.
pub fn scratch() -> Result<PathBuf, String> {
    let path = std::env::temp_dir().join(format!("oribi-bench-{}", std::process::id()));
    fs::create_dir(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    // nginx's worker is another user when the bench is run by root, and must get through to its files.
    fs::set_permissions(&path, Permissions::from_mode(0o755)).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(path)
}

/// The `bench` directory, and the program that `make build` leaves.
pub fn checkout() -> (PathBuf, PathBuf) {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR")).to_owned();
    let oribi = bench.parent().unwrap_or(&bench).join("target/release/oribi");
    (bench, oribi)
}
