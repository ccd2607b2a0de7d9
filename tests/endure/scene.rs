//! A server and its clients, to which acts happen.

use crate::clients::Clients;
use crate::language::{Language, Site};
use crate::server::{children, descendants, send, title};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The time after which a test gives up a wait: far longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The number of workers that each server is started with.
pub const WORKERS: usize = 3;

pub struct Scene {
    pub site: Site,
    pub clients: Clients,
    pub language: Language,
    /// Whether the first process is start_server.
    pub starter: bool,
    pub control: PathBuf,
}

/// Waits until `condition` holds.
pub fn soon(what: &str, mut condition: impl FnMut() -> bool) -> Result<(), String> {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        if Instant::now() >= end {
            return Err(format!("waited in vain: {what}"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

impl Scene {
    /// The first process of the server.
    pub fn first(&self) -> Option<u32> {
        let root = self.site.server.pid();
        if self.starter { children(root).into_iter().max() } else { Some(root) }
    }

    pub fn signal(&self, signal: Signal) -> Result<(), String> {
        self.first().map(|first| send(first, signal)).ok_or_else(|| format!("there is no server for {signal:?}"))
    }

    /// The server's log so far; see [`Self::since`].
    pub fn mark(&self) -> u64 {
        self.site.server.log_length()
    }

    /// Returns the server's log since `mark`.
    pub fn since(&self, mark: u64) -> String {
        self.site.server.log_since(mark)
    }

    /// Waits until the log has `text` since `mark`.
    pub fn says(&self, mark: u64, text: &str) -> Result<(), String> {
        soon(&format!("the log says {text:?}"), || self.since(mark).contains(text))
    }

    /// Returns the ids of the processes whose titles begin with `oribi: ` and `role`.
    pub fn called(&self, role: &str) -> Vec<u32> {
        let below = descendants(self.site.server.pid());
        let is_called = |process: &u32| title(*process).strip_prefix("oribi: ").is_some_and(|title| title.starts_with(role));
        below.into_iter().chain([self.site.server.pid()]).filter(is_called).collect()
    }

    /// Gives an order to the control socket, and returns the answer.
    pub fn order(&self, order: &str) -> Result<String, String> {
        let failed = |error: std::io::Error| format!("ctl {order}: {error}");
        let mut stream = UnixStream::connect(&self.control).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        writeln!(stream, "{order}").map_err(failed)?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).map_err(failed)?;
        Ok(answer)
    }

    /// Gives an order that the server must carry out. If it does not, the error lists the existing processes.
    pub fn obeys(&self, order: &str) -> Result<(), String> {
        let failed = match self.order(order) {
            Ok(answer) if answer.contains("\"ok\":true") => return Ok(()),
            Ok(answer) => format!("ctl {order}: {answer:?}"),
            Err(why) => why,
        };
        Err(format!("{failed}, with these processes: {:?}", self.order("workers")))
    }

    /// Waits until some more requests of each kind have been answered.
    pub fn breathe(&self) -> Result<(), String> {
        let goal = self.clients.fewest_answers() + 5;
        soon("more answers", || self.clients.fewest_answers() >= goal)
    }
}
