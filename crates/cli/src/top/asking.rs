//! Queries the server on a separate thread, so that keys work while a server is slow to respond.

use super::resources::{Resources, Usage};
use super::snapshot::{Snapshot, harmless};
use crate::control::{self, backtraces};
use crate::trouble::Trouble;
use oribi_control_api::{Answer, Order, Processes, Status};
use rustix::net::sockopt::socket_peercred;
use std::collections::HashMap;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The results of one query.
pub type Findings = (Snapshot, HashMap<u32, Usage>);

/// News from the server.
pub enum News {
    Findings(Result<Box<Findings>, Trouble>),
    /// The lines of the backtrace of a process, or the reason why there is none. With `by_key`, the user has requested this
    /// backtrace by a key.
    Backtrace {
        pid: u32,
        told: Result<Vec<String>, String>,
        by_key: bool,
    },
}

/// Finds the socket of the server that the options determine.
pub type Choice = Box<dyn Fn() -> Result<PathBuf, Trouble> + Send>;

/// A server, and the function that finds it.
pub struct Source {
    choice: Choice,
    path: PathBuf,
    resources: Resources,
    /// The process id of the server's first process as the server reports it, and whether it is also the id in this system. It
    /// is not if the server is in a container and this program is outside.
    numbering: Option<(u32, bool)>,
}

impl Source {
    /// Finds the server.
    ///
    /// # Errors
    /// There is no server, or there are several.
    pub fn find(choice: Choice) -> Result<Self, Trouble> {
        let path = choice()?;
        Ok(Self { choice, path, resources: Resources::default(), numbering: None })
    }

    /// Queries the server. If the server cannot be reached, this call fails, but finds the socket again for the next call: an
    /// upgrade may have changed the name of the socket.
    ///
    /// # Errors
    /// The reason why there is no response.
    pub fn ask(&mut self) -> Result<Findings, Trouble> {
        let findings = self.ask_here();
        if findings.is_err()
            && let Ok(path) = (self.choice)()
        {
            self.path = path;
        }
        findings
    }

    fn ask_here(&mut self) -> Result<Findings, Trouble> {
        let status = control::read(Answer::parse(&self.answer(&Order::Status)?))?;
        let processes = control::read(Answer::parse(&self.answer(&Order::Workers)?))?;
        let (status, processes): (Status, Processes) = (done(status)?, done(processes)?);
        // A server whose workers do not report their requests refuses only this query.
        let requests = control::read(Answer::parse(&self.answer(&Order::Requests)?))?;
        let snapshot = Snapshot::of(&status, &processes, &requests);
        let usage = if self.is_numbered_here(snapshot.server.pid) {
            let pids: Vec<u32> = snapshot.processes.iter().map(|process| process.pid).collect();
            self.resources.look(&pids)
        } else {
            HashMap::new()
        };
        Ok((snapshot, usage))
    }

    /// The current backtrace of a process.
    ///
    /// # Errors
    /// The reason why there is no backtrace.
    fn backtrace(&self, pid: u32) -> Result<Vec<String>, String> {
        let answer = self.answer(&Order::Backtrace { worker: Some(pid) });
        let answer = answer.and_then(|answer| control::read(Answer::parse(&answer)));
        match answer.map_err(|trouble| harmless(&trouble.message))? {
            Answer::Done(backtraces) => Ok(backtraces::of(&backtraces).lines().map(harmless).collect()),
            Answer::Failed(failure) => Err(harmless(failure.reason())),
        }
    }

    fn answer(&self, order: &Order) -> Result<String, Trouble> {
        control::ask(&self.path, order)
    }

    /// Whether the kernel's process id of the server's first process, as seen from here, is the id `pid` that the server
    /// reports.
    fn is_numbered_here(&mut self, pid: u32) -> bool {
        if let Some((_, here)) = self.numbering.filter(|(known, _)| *known == pid) {
            return here;
        }
        let listener = UnixStream::connect(&self.path).ok().and_then(|stream| socket_peercred(stream).ok());
        let here =
            listener.is_some_and(|listener| u32::try_from(listener.pid.as_raw_nonzero().get()).is_ok_and(|one| one == pid));
        self.numbering = Some((pid, here));
        here
    }
}

/// Returns the contents of a response that the picture cannot do without; a failed order is an error.
fn done<T>(answer: Answer<T>) -> Result<T, Trouble> {
    match answer {
        Answer::Done(contents) => Ok(contents),
        Answer::Failed(failure) => Err(Trouble::failure(format!("the server refused: {}", harmless(failure.reason())))),
    }
}

/// An order to the querying thread.
enum QueryCommand {
    Interval(Duration),
    /// Query the backtrace of this process now, and together with each later query.
    Backtrace(Option<u32>),
}

/// The thread that queries the server.
pub struct Asker {
    wishes: Sender<QueryCommand>,
    pub news: Receiver<News>,
}

impl Asker {
    /// Starts the thread. It makes the first query after one interval. With each piece of news it writes a byte to `doorbell`.
    ///
    /// # Errors
    /// The operating system cannot start a thread.
    pub fn begin(mut source: Source, mut interval: Duration, mut doorbell: UnixStream) -> std::io::Result<Self> {
        let (wishes, wished) = channel();
        let (sender, news) = channel();
        let ask = move || {
            let mut next = Instant::now() + interval;
            let mut process = None;
            loop {
                let (mut found, mut by_key) = (Vec::new(), false);
                match wished.recv_timeout(next.saturating_duration_since(Instant::now())) {
                    Ok(QueryCommand::Interval(wished)) => {
                        next = next + wished - interval;
                        interval = wished;
                    }
                    Ok(QueryCommand::Backtrace(wished)) => (process, by_key) = (wished, true),
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {
                        // Missed queries are not made up for.
                        next = (next + interval).max(Instant::now());
                        found.push(News::Findings(source.ask().map(Box::new)));
                    }
                }
                found.extend(process.map(|pid| News::Backtrace { pid, told: source.backtrace(pid), by_key }));
                for news in found {
                    if sender.send(news).is_err() || doorbell.write_all(b"!").is_err() {
                        return;
                    }
                }
            }
        };
        thread::Builder::new().name("asker".to_owned()).spawn(ask)?;
        Ok(Self { wishes, news })
    }

    pub fn ask_every(&self, interval: Duration) {
        // It does not fail, because the thread ends only with this program.
        let _ = self.wishes.send(QueryCommand::Interval(interval));
    }

    /// Queries the backtrace of a process now, and together with each later query; `None` for no more backtraces.
    pub fn ask_for_backtrace(&self, process: Option<u32>) {
        // It does not fail, because the thread ends only with this program.
        let _ = self.wishes.send(QueryCommand::Backtrace(process));
    }
}
