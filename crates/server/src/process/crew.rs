//! A lane that the threads of a runtime share, because the runtime has one lock for all of them.

use super::contexts::{Reporter, draw_limit};
use crate::config::Settings;
use crate::engine::Next;
use crate::lane::{Lane, LaneSetup};
use crate::listen::Listener;
use crate::scoreboard::WorkerState;
use oribi_host::{Crew, Host, Runtime, Turn};
use oribi_io::Epoll;
use std::cell::Cell;
use std::io;
use std::time::Duration;

/// One engine for all threads of a worker: any free thread answers the next request, so no request waits behind a slow one
/// while another thread has nothing to do. The runtime's lock is the engine's lock, too; only waiting needs neither.
pub(super) struct SharedLane<'a> {
    lane: Lane<'a, Epoll>,
    listeners: &'a [Listener],
    reporter: Reporter<'a>,
    answered: Cell<u64>,
    /// The number of answered requests at which the process is to be replaced.
    due: Cell<u64>,
    /// The lane accepts no more connections, and this has been reported.
    retires: Cell<bool>,
    ended: Cell<bool>,
    failed: Cell<bool>,
}

impl<'a> SharedLane<'a> {
    pub(super) fn new(
        setup: &LaneSetup<'a>,
        settings: &Settings,
        runtime: &'a dyn Runtime,
        reporter: Reporter<'a>,
    ) -> io::Result<Self> {
        let told = setup.log_opening();
        let (engine, attention) = setup.engine(Epoll::new()?, settings.workers)?;
        let lane = Lane::shared(engine, setup.slot, runtime, settings.threads)?.woken_by(attention);
        let lane = lane.watched(setup.running).with_logs_of(told).with_settings(settings)?;
        lane.obey();
        Ok(Self {
            lane,
            listeners: setup.listeners,
            reporter,
            answered: Cell::new(0),
            due: Cell::new(draw_limit(settings).unwrap_or(u64::MAX)),
            retires: Cell::new(false),
            ended: Cell::new(false),
            failed: Cell::new(false),
        })
    }

    /// Gives up the exchanges that the threads have left unanswered. Returns whether nothing has failed.
    pub(super) fn finish(self) -> bool {
        self.lane.engine().abandon_all();
        !self.failed.get()
    }

    /// Asks for the replacement of the process when it has answered its share of requests, or at once if its app asks for it.
    fn count(&self, retire: bool) {
        self.answered.set(self.answered.get() + 1);
        if retire {
            self.retire();
        } else if self.answered.get() >= self.due.get() {
            self.be_replaced();
        }
    }

    /// Stops accepting, because the process must be replaced.
    fn retire(&self) {
        self.lane.engine().stop(false);
        self.tell_of_stop();
        self.be_replaced();
    }

    /// Reports, once, that the worker accepts no more connections.
    fn tell_of_stop(&self) {
        if self.lane.stops() && !self.retires.replace(true) {
            self.reporter.retires();
        }
    }

    fn be_replaced(&self) {
        self.due.set(u64::MAX);
        self.reporter.report(WorkerState::Retiring);
    }

    fn fail(&self, error: &io::Error) {
        log::error!("cannot wait for requests: {error}");
        self.failed.set(true);
        self.ended.set(true);
    }
}

impl Crew for SharedLane<'_> {
    fn turn(&self, host: &mut dyn Host) -> Turn {
        while !self.ended.get() {
            // The engine must not be borrowed while the app runs.
            let next = self.lane.engine_with_news().next_exchange_now();
            self.lane.release_held();
            match next {
                Ok(Next::Exchange(exchange)) => {
                    // The runtime handles its signals between turns, so a turn ends after a file, too.
                    let Some(exchange) = self.lane.answer_with_file(exchange, self.listeners) else { return Turn::Answered };
                    self.lane.leave_to_others();
                    let retire = self.lane.answer(exchange, self.listeners, host);
                    self.count(retire);
                    return Turn::Answered;
                }
                Ok(Next::Command) => {
                    self.ended.set(!self.lane.obey());
                    self.tell_of_stop();
                    if self.lane.attend(host) {
                        self.retire();
                    }
                }
                Ok(Next::Nothing(timeout)) if timeout == Some(Duration::ZERO) => {}
                Ok(Next::Nothing(timeout)) => {
                    self.lane.foresee();
                    return Turn::Idle(timeout);
                }
                Err(error) => self.fail(&error),
            }
        }
        Turn::End
    }

    fn wait(&self, timeout: Option<Duration>) {
        if let Err(error) = self.lane.wait_aside(timeout) {
            // The next turn fails in the same way, and can report that with the lock held.
            log::error!("cannot wait: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ListenAddress;
    use crate::listen::{Seat, doors, open};
    use crate::scoreboard::{WorkerCommand, WorkerSlot};
    use oribi_files::Mount;
    use oribi_host::Native;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::os::fd::AsFd;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

    /// A runtime that counts how often it was asked to summon another thread.
    struct Summoner(AtomicUsize);

    impl Runtime for Summoner {
        fn open(&self, _own: bool) -> Result<Box<dyn Host>, String> {
            Ok(Box::new(Native::new("whole")))
        }

        fn summon(&self) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    /// Takes turns, and waits between them, until a turn is not idle.
    fn busy_turn(crew: &SharedLane<'_>, host: &mut dyn Host) -> Turn {
        loop {
            match crew.turn(host) {
                Turn::Idle(timeout) => crew.wait(timeout),
                turn => return turn,
            }
        }
    }

    fn answer(client: &mut TcpStream) -> String {
        let mut buffer = [0; 4096];
        let size = client.read(&mut buffer).expect("the client can read");
        String::from_utf8_lossy(&buffer[..size]).into_owned()
    }

    /// Calls `act` with a crew of one, a client and a way to wake the worker.
    fn with_crew(settings: Settings, act: impl FnOnce(&SharedLane<'_>, &mut TcpStream, &WorkerSlot, &mut dyn Write)) {
        with_crew_of(&Native::new("whole"), settings, act);
    }

    fn with_crew_of(
        runtime: &dyn Runtime,
        settings: Settings,
        act: impl FnOnce(&SharedLane<'_>, &mut TcpStream, &WorkerSlot, &mut dyn Write),
    ) {
        let listen = vec![ListenAddress::tcp("127.0.0.1", 0)];
        let settings = Settings { listen, workers: 1, ..settings };
        let listeners = open(&settings).expect("loopback is there");
        let slot = WorkerSlot::unshared();
        let (woken, mut waker) = io::pipe().expect("a pipe is to be had");
        let (_reader, notice) = rustix::pipe::pipe().expect("a pipe is to be had");
        let doors = doors(&listeners, Seat::ONLY);
        let wake = woken.as_fd();
        let setup = LaneSetup { settings: &settings, listeners: &listeners, doors: &doors, slot: &slot, wake, running: &[] };
        let reporter = Reporter { slot: &slot, notice: &notice, entitle: &|_| () };
        let crew = SharedLane::new(&setup, &settings, runtime, reporter).expect("epoll works");
        let address = format!("127.0.0.1:{}", listeners[0].server_port);
        let mut client = TcpStream::connect(address).expect("it listens");
        act(&crew, &mut client, &slot, &mut waker);
        assert!(crew.finish());
    }

    #[test]
    fn a_turn_answers_one_request_and_does_not_wait_for_it() {
        with_crew(Settings::default(), |crew, client, _, _| {
            let mut host = Native::new("whole");
            assert!(matches!(crew.turn(&mut host), Turn::Idle(_)));
            for _ in 0..3 {
                client.write_all(REQUEST).expect("it is connected");
                assert_eq!(busy_turn(crew, &mut host), Turn::Answered);
                assert!(answer(client).ends_with("whole"));
                let Turn::Idle(Some(left)) = crew.turn(&mut host) else { panic!("an idle connection has a deadline") };
                assert!(left <= Settings::default().timeouts.keepalive);
            }
        });
    }

    #[test]
    fn a_file_is_answered_without_the_host() {
        let directory = tempfile::tempdir().expect("a directory is to be had");
        std::fs::write(directory.path().join("a.txt"), "a file").expect("it is writable");
        let mut settings = Settings::default();
        settings.files.mounts.push(Mount { prefix: "/files".to_owned(), directory: directory.path().to_owned() });
        with_crew(settings, |crew, client, slot, _| {
            let mut host = Native::new("whole");
            for (target, end) in [("/files/a.txt", "\r\n\r\na file"), ("/files/b.txt", "whole"), ("/a.txt", "whole")] {
                write!(client, "GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").expect("it is connected");
                assert_eq!(busy_turn(crew, &mut host), Turn::Answered);
                let answer = answer(client);
                assert!(answer.ends_with(end), "{target}: {answer}");
            }
            write!(client, "POST /files/a.txt HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").expect("it is connected");
            assert_eq!(busy_turn(crew, &mut host), Turn::Answered);
            assert!(answer(client).ends_with("whole"));
            assert_eq!(slot.requests.load(Relaxed), 4);
            assert_eq!(crew.answered.get(), 3, "the host's share is what it has answered");
        });
    }

    #[test]
    fn what_another_thread_finds_while_waiting_reaches_the_next_turn() {
        with_crew(Settings::default(), |crew, client, _, _| {
            let mut host = Native::new("whole");
            client.write_all(REQUEST).expect("it is connected");
            // First the connection, then the request: the kernel reports each once, and only to a waiting thread.
            crew.wait(None);
            while !matches!(crew.turn(&mut host), Turn::Answered) {
                crew.wait(None);
            }
            assert!(answer(client).ends_with("whole"));
        });
    }

    #[test]
    fn a_thread_that_leaves_a_request_behind_has_another_one_come() {
        let summoner = Summoner(AtomicUsize::new(0));
        with_crew_of(&summoner, Settings::default(), |crew, client, _, _| {
            let mut host = Native::new("whole");
            client.write_all(REQUEST).expect("it is connected");
            assert_eq!(busy_turn(crew, &mut host), Turn::Answered);
            assert!(answer(client).ends_with("whole"));
            assert!(matches!(crew.turn(&mut host), Turn::Idle(_)));

            let before = summoner.0.load(Relaxed);
            let mut other = TcpStream::connect(client.peer_addr().expect("it is connected")).expect("it listens");
            client.write_all(REQUEST).expect("it is connected");
            other.write_all(REQUEST).expect("it is connected");
            assert_eq!(busy_turn(crew, &mut host), Turn::Answered);
            assert!(summoner.0.load(Relaxed) > before);
            assert_eq!(busy_turn(crew, &mut host), Turn::Answered);
            assert!(answer(client).ends_with("whole") && answer(&mut other).ends_with("whole"));
        });
    }

    #[test]
    fn a_worker_that_has_answered_its_share_asks_for_its_replacement_and_goes_on() {
        with_crew(Settings { max_requests: Some(2), ..Settings::default() }, |crew, client, slot, _| {
            let mut host = Native::new("whole");
            for expected in [WorkerState::Ready, WorkerState::Retiring, WorkerState::Retiring] {
                slot.set_state(if expected == WorkerState::Ready { expected } else { slot.state() });
                client.write_all(REQUEST).expect("it is connected");
                assert_eq!(busy_turn(crew, &mut host), Turn::Answered);
                assert!(answer(client).ends_with("whole"));
                assert_eq!(slot.state(), expected);
            }
        });
    }

    #[test]
    fn a_command_ends_it_for_all_threads() {
        with_crew(Settings::default(), |crew, client, slot, wake| {
            let (mut host, mut other) = (Native::new("whole"), Native::new("whole"));
            client.write_all(REQUEST).expect("it is connected");
            slot.set_command(WorkerCommand::Drain);
            wake.write_all(b"x").expect("the pipe has room");
            assert_eq!(busy_turn(crew, &mut host), Turn::Answered);
            assert!(answer(client).contains("Connection: close"));
            client.shutdown(std::net::Shutdown::Both).expect("it is connected");
            assert_eq!(busy_turn(crew, &mut host), Turn::End);
            assert_eq!(crew.turn(&mut other), Turn::End);
        });
    }
}
