//! A lane shared by the threads of a language that has one lock for all of them.

use super::contexts::{Reporter, draw_limit};
use oribi_engine::Engine;
use oribi_host::{Crew, GlobalLock, Host};
use oribi_io::Backend;
use oribi_listen::Listener;
use oribi_pool::Worker;
use oribi_source::{Next, Source};
use oribi_stats::scoreboard::WorkerState;
use oribi_tls::Tls;
use oribi_worker::boot::Boot;
use oribi_worker::intake::Intake;
use oribi_worker::lane::{Lane, LaneSetup};
use oribi_worker::threads::ThreadPool;
use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// A lane with one source for all threads of a worker: any free thread answers the next request, so no request waits for a slow
/// one while another thread is idle. The language's lock also protects the source. A thread that waits for requests holds
/// neither the lock nor the source.
pub(super) struct SharedLane<'a, S: Source> {
    lane: Lane<'a, S>,
    lock: &'a dyn GlobalLock,
    listeners: &'a [Listener],
    reporter: Reporter<'a>,
    answered: Cell<u64>,
    /// The number of answered requests after which the process is replaced. The maximum if there is no limit, or if the
    /// replacement has been requested.
    due: Cell<u64>,
    /// Whether the process has stopped accepting because the app has asked to retire, or because the process must end.
    retired: Cell<bool>,
    /// Whether it has been reported that the lane has stopped accepting connections.
    retires: Cell<bool>,
    ended: Cell<bool>,
    failed: Cell<bool>,
    /// Whether the app has answered the boot request.
    booted: Cell<bool>,
}

/// The result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// A request was answered, or will be later.
    Answered,
    /// There is no work until this time has passed, unless events arrive. `None` for any time.
    Idle(Option<Duration>),
    /// The worker ends, without a further turn.
    End,
}

impl<'a, B: Backend> SharedLane<'a, Engine<'a, Tls<B>>> {
    /// Creates a lane with an engine of its own.
    pub(super) fn new(backend: B, setup: &LaneSetup<'a>, lock: &'a dyn GlobalLock, reporter: Reporter<'a>) -> io::Result<Self> {
        let (engine, event_sources) = setup.engine(backend, setup.settings.workers.most())?;
        let lane = Lane::new(engine, setup.slot).woken_by(event_sources).with_settings(setup.settings)?;
        Self::of(lane.with_probe(setup.settings).watched(setup.running, setup.settings), setup, lock, reporter)
    }
}

impl<'a> SharedLane<'a, Intake<'a>> {
    /// Creates a lane behind edges, which answers the requests of `pools`.
    pub(super) fn behind(
        setup: &LaneSetup<'a>,
        pools: Vec<Worker>,
        lock: &'a dyn GlobalLock,
        reporter: Reporter<'a>,
    ) -> io::Result<Self> {
        let (intake, event_sources) = setup.intake(pools)?;
        let lane = Lane::new(intake, setup.slot).woken_by(event_sources).with_settings(setup.settings)?;
        Self::of(lane.without_front(), setup, lock, reporter)
    }
}

impl<'a, S: Source> SharedLane<'a, S> {
    fn of(lane: Lane<'a, S>, setup: &LaneSetup<'a>, lock: &'a dyn GlobalLock, reporter: Reporter<'a>) -> io::Result<Self> {
        let settings = setup.settings;
        let lane = lane.shared_by(lock, (settings.min_threads, settings.threads), settings.io_threads)?;
        lane.handle_command();
        Ok(Self {
            lane,
            lock,
            listeners: setup.listeners,
            reporter,
            answered: Cell::new(0),
            due: Cell::new(draw_limit(settings).unwrap_or(u64::MAX)),
            retired: Cell::new(false),
            retires: Cell::new(false),
            ended: Cell::new(false),
            failed: Cell::new(false),
            booted: Cell::new(false),
        })
    }

    /// Makes the language's threads answer requests until the worker ends. Before that, the app answers the request of `boot`.
    /// Called on the thread that loaded the app, with the lock held. Returns only after the last thread has left, even if the
    /// app has ended the main thread, because the caller then frees the threads' data.
    ///
    /// # Errors
    /// The app cannot answer the request of `boot`, or the threads could not continue.
    pub(super) fn work(self, boot: Option<Boot<'a>>) -> Result<(), String> {
        let Some(thread_pool) = self.lane.thread_pool() else { return Err("its lane is not shared".to_owned()) };
        self.lock.begin(&self, thread_pool.most());
        if let Err(message) = self.boot(boot.as_ref()) {
            self.lock.end();
            return Err(message);
        }
        self.reporter.report(WorkerState::Ready);
        if thread_pool.most() == 1 {
            // Apps and their libraries may expect to run on the main thread.
            thread_pool.add_thread();
            self.serve();
        } else {
            thread_pool.fill_up();
        }
        while !thread_pool.is_empty() {
            if !thread_pool.park_main() {
                // The app has ended the main thread, so the process must end.
                self.retire();
            }
            thread_pool.fill_up();
        }
        // Gives up the exchanges that the threads have left unanswered.
        self.lane.source().abandon_all();
        self.lock.end();
        // The language may have kept the address of the boot request until now.
        drop(boot);
        if self.failed.get() { Err("its threads could not continue".to_owned()) } else { Ok(()) }
    }

    /// Makes the app answer the boot request on the thread that loaded it, while the pool has no other threads.
    fn boot(&self, boot: Option<&Boot<'_>>) -> Result<(), String> {
        if let Some(boot) = boot {
            let mut host = self.lock.open()?;
            boot.ask(&mut *host, Some(self.lock))?;
        }
        self.booted.set(true);
        Ok(())
    }

    fn take_turns(&self, thread_pool: &ThreadPool<'_>, host: &mut dyn Host) {
        loop {
            // A panic concerns one request; the next turn may succeed.
            match catch_unwind(AssertUnwindSafe(|| self.turn(host))).unwrap_or(Turn::Answered) {
                Turn::Answered => {}
                Turn::Idle(timeout) => {
                    if !self.lane.idle(timeout) {
                        return;
                    }
                }
                Turn::End => {
                    thread_pool.end();
                    return;
                }
            }
            if !self.lock.see_to_interrupts() {
                if thread_pool.most() > 1 {
                    return;
                }
                // No other thread could replace the main thread. So the process ends after it has answered the accepted
                // requests.
                self.retire();
            }
        }
    }

    /// Answers the next request with `host`, the context of the calling thread. Never waits for a request. While the app runs,
    /// it may release the lock, so that other threads take their turns.
    fn turn(&self, host: &mut dyn Host) -> Turn {
        while !self.ended.get() {
            // The source must not be borrowed while the app runs.
            let next = self.lane.source_with_events().next_exchange_now();
            self.lane.resume_held_apps();
            match next {
                Ok(Next::Exchange(exchange)) => {
                    // The language handles its signals between turns, so a turn also ends after a file.
                    let Some(exchange) = self.lane.answer_in_front(exchange, self.listeners) else { return Turn::Answered };
                    if !self.is_alone() {
                        self.lane.wake_another_thread();
                    }
                    let retire = self.lane.answer(exchange, self.listeners, host);
                    self.count(retire);
                    return Turn::Answered;
                }
                Ok(Next::Command) => {
                    self.ended.set(!self.lane.handle_command());
                    self.report_stop();
                    if self.lane.call_woken_host(host) {
                        self.retire();
                    }
                }
                Ok(Next::Nothing(timeout)) if timeout == Some(Duration::ZERO) => {}
                Ok(Next::Nothing(timeout)) => {
                    self.lane.note_next_due();
                    return Turn::Idle(timeout);
                }
                Err(error) => self.fail(&error),
            }
        }
        Turn::End
    }

    /// Whether the pool never has another thread than the calling one.
    fn is_alone(&self) -> bool {
        self.lane.thread_pool().is_none_or(|thread_pool| thread_pool.most() == 1)
    }

    /// Counts an answered request. Asks for the replacement of the process if it has answered enough requests, or if the app
    /// has asked to `retire`.
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
        if self.retired.replace(true) {
            return;
        }
        self.lane.source().stop(false);
        self.report_stop();
        self.be_replaced();
        // The thread that waits for events does not know yet that idle connections end now.
        if let Some(thread_pool) = self.lane.thread_pool() {
            thread_pool.wake_watch();
        }
    }

    /// Reports, once, that the worker has stopped accepting connections.
    fn report_stop(&self) {
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

impl<S: Source> Crew for SharedLane<'_, S> {
    fn serve(&self) {
        let Some(thread_pool) = self.lane.thread_pool() else { return };
        let _place = thread_pool.arrive();
        match self.lock.open() {
            Ok(mut host) => {
                host.enter();
                self.take_turns(thread_pool, &mut *host);
                host.leave();
            }
            Err(message) => {
                log::error!("{message}");
                self.failed.set(true);
                self.ended.set(true);
                thread_pool.end();
            }
        }
    }

    fn before_unlocking(&self) {
        if let Some(thread_pool) = self.lane.thread_pool().filter(|_| self.booted.get()) {
            thread_pool.before_unlocking();
        }
    }

    fn mark_waiting(&self) -> bool {
        let Some(thread_pool) = self.lane.thread_pool().filter(|_| self.booted.get()) else { return false };
        thread_pool.mark_waiting();
        true
    }

    fn unmark_waiting(&self) -> bool {
        self.lane.thread_pool().is_none_or(ThreadPool::unmark_waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_config::{ListenAddress, Settings};
    use oribi_files::Mount;
    use oribi_host::{After, ExchangeId, Native, Outlet, Reply, Request, Wait};
    use oribi_io::Epoll;
    use oribi_listen::{Shard, listen_sockets, open};
    use oribi_message::ResponseHead;
    use oribi_stats::scoreboard::{WorkerCommand, WorkerSlot};
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::os::fd::AsFd;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

    /// A language whose only thread is the test's, and which counts the requests to start another one.
    #[derive(Default)]
    struct Lonely(AtomicUsize);

    impl GlobalLock for Lonely {
        fn begin(&self, _crew: &dyn Crew, _most: usize) {}

        fn end(&self) {}

        fn open(&self) -> Result<Box<dyn Host>, String> {
            Ok(Box::new(Native::new("whole")))
        }

        fn without_lock(&self, wait: &dyn Wait) -> bool {
            wait.wait();
            true
        }

        fn start_thread(&self) -> bool {
            self.0.fetch_add(1, Relaxed);
            false
        }
    }

    /// Takes turns, and waits between them, until a turn is not idle.
    fn busy_turn(shared: &SharedLane<'_, Engine<'_, Tls<Epoll>>>, host: &mut dyn Host) -> Turn {
        loop {
            match shared.turn(host) {
                Turn::Idle(timeout) => assert!(shared.lane.idle(timeout)),
                turn => return turn,
            }
        }
    }

    fn answer(client: &mut TcpStream) -> String {
        let mut buffer = [0; 4096];
        let size = client.read(&mut buffer).expect("the client can read");
        String::from_utf8_lossy(&buffer[..size]).into_owned()
    }

    /// Calls `act` with a shared lane of one thread, a client and a pipe that wakes the worker.
    fn with_shared_lane(
        settings: Settings,
        act: impl FnOnce(&SharedLane<'_, Engine<'_, Tls<Epoll>>>, &mut TcpStream, &WorkerSlot, &mut dyn Write),
    ) {
        with_shared_lane_of(&Lonely::default(), settings, act);
    }

    fn with_shared_lane_of(
        lock: &dyn GlobalLock,
        settings: Settings,
        act: impl FnOnce(&SharedLane<'_, Engine<'_, Tls<Epoll>>>, &mut TcpStream, &WorkerSlot, &mut dyn Write),
    ) {
        let _deadline = oribi_test_support::waits_for("a shared lane and its client");
        let listen = vec![ListenAddress::tcp("127.0.0.1", 0)];
        let settings = Settings { listen, workers: 1.into(), ..settings };
        let listeners = open(&settings).expect("loopback is there");
        let slot = WorkerSlot::unshared();
        let (woken, mut waker) = io::pipe().expect("a pipe is to be had");
        let (_reader, notice) = rustix::pipe::pipe().expect("a pipe is to be had");
        let listen_sockets = listen_sockets(&listeners, Shard::ONLY);
        let wake = woken.as_fd();
        let setup = LaneSetup {
            settings: &settings,
            listeners: &listeners,
            listen_sockets: &listen_sockets,
            slot: &slot,
            wake,
            running: &[],
            must_log: true,
        };
        let reporter = Reporter { slot: &slot, notice: &notice, set_title: &|_| () };
        let shared = SharedLane::new(Epoll::new().expect("epoll works"), &setup, lock, reporter).expect("a lane");
        let address = format!("127.0.0.1:{}", listeners[0].server_port);
        let mut client = TcpStream::connect(address).expect("it listens");
        act(&shared, &mut client, &slot, &mut waker);
        drop(client);
        slot.set_command(WorkerCommand::Retire);
        waker.write_all(b"x").expect("the pipe has room");
        shared.work(None).expect("nothing has failed");
    }

    #[test]
    fn a_turn_answers_one_request_and_does_not_wait_for_it() {
        with_shared_lane(Settings::default(), |shared, client, _, _| {
            let mut host = Native::new("whole");
            assert!(matches!(shared.turn(&mut host), Turn::Idle(_)));
            for _ in 0..3 {
                client.write_all(REQUEST).expect("it is connected");
                assert_eq!(busy_turn(shared, &mut host), Turn::Answered);
                assert!(answer(client).ends_with("whole"));
                let Turn::Idle(Some(left)) = shared.turn(&mut host) else { panic!("an idle connection has a deadline") };
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
        with_shared_lane(settings, |shared, client, slot, _| {
            let mut host = Native::new("whole");
            for (target, end) in [("/files/a.txt", "\r\n\r\na file"), ("/files/b.txt", "whole"), ("/a.txt", "whole")] {
                write!(client, "GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").expect("it is connected");
                assert_eq!(busy_turn(shared, &mut host), Turn::Answered);
                let answer = answer(client);
                assert!(answer.ends_with(end), "{target}: {answer}");
            }
            write!(client, "POST /files/a.txt HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").expect("it is connected");
            assert_eq!(busy_turn(shared, &mut host), Turn::Answered);
            assert!(answer(client).ends_with("whole"));
            assert_eq!(slot.requests.load(Relaxed), 4);
            assert_eq!(shared.answered.get(), 3, "the host's share is what it has answered");
        });
    }

    #[test]
    fn what_another_thread_finds_while_waiting_reaches_the_next_turn() {
        with_shared_lane(Settings::default(), |shared, client, _, _| {
            let mut host = Native::new("whole");
            client.write_all(REQUEST).expect("it is connected");
            // The connection is accepted before the request is read: the kernel reports each event once, and only to a waiting
            // thread.
            shared.lane.idle(None);
            while !matches!(shared.turn(&mut host), Turn::Answered) {
                shared.lane.idle(None);
            }
            assert!(answer(client).ends_with("whole"));
        });
    }

    #[test]
    fn a_thread_that_leaves_a_request_behind_has_another_one_come() {
        let language = Lonely::default();
        with_shared_lane_of(&language, Settings { threads: 2, ..Settings::default() }, |shared, client, _, _| {
            let mut host = Native::new("whole");
            client.write_all(REQUEST).expect("it is connected");
            assert_eq!(busy_turn(shared, &mut host), Turn::Answered);
            assert!(answer(client).ends_with("whole"));
            assert!(matches!(shared.turn(&mut host), Turn::Idle(_)));

            let before = language.0.load(Relaxed);
            let mut other = TcpStream::connect(client.peer_addr().expect("it is connected")).expect("it listens");
            client.write_all(REQUEST).expect("it is connected");
            other.write_all(REQUEST).expect("it is connected");
            assert_eq!(busy_turn(shared, &mut host), Turn::Answered);
            assert!(language.0.load(Relaxed) > before);
            assert_eq!(busy_turn(shared, &mut host), Turn::Answered);
            assert!(answer(client).ends_with("whole") && answer(&mut other).ends_with("whole"));
        });
    }

    const OK: ResponseHead<'static> = ResponseHead { status: 200, fields: &[] };

    /// An app that checks its client until another thread is called for the request that `0` sends in the meantime.
    struct Looking<'l>(TcpStream, &'l Lonely);

    impl Host for Looking<'_> {
        fn answer(&mut self, _: &Request<'_>, reply: Reply<'_>) -> After {
            let (outlet, id) = reply.detach();
            let before = self.1.0.load(Relaxed);
            self.0.write_all(REQUEST).expect("it is connected");
            while self.1.0.load(Relaxed) == before {
                assert!(!outlet.has_gone(id));
            }
            outlet.respond(id, OK, &[b"whole"]).expect("the client is there");
            After::default()
        }
    }

    #[test]
    fn an_app_that_looks_for_its_client_has_another_thread_come_for_the_news() {
        let language = Lonely::default();
        with_shared_lane_of(&language, Settings { threads: 2, ..Settings::default() }, |shared, client, _, _| {
            let mut other = TcpStream::connect(client.peer_addr().expect("it is connected")).expect("it listens");
            let mut host = Looking(other.try_clone().expect("there are descriptors"), &language);
            client.write_all(REQUEST).expect("it is connected");
            assert_eq!(busy_turn(shared, &mut host), Turn::Answered);
            assert_eq!(busy_turn(shared, &mut Native::new("whole")), Turn::Answered);
            assert!(answer(client).ends_with("whole") && answer(&mut other).ends_with("whole"));
        });
    }

    /// An app that does not answer within its call.
    struct Keeping(Option<ExchangeId>);

    impl Host for Keeping {
        fn answer(&mut self, _: &Request<'_>, reply: Reply<'_>) -> After {
            self.0 = Some(reply.detach().1);
            After::default()
        }
    }

    #[test]
    fn an_app_that_takes_a_socket_behind_its_call_has_another_thread_look_whether_the_worker_ends() {
        let language = Lonely::default();
        with_shared_lane_of(&language, Settings { threads: 2, ..Settings::default() }, |shared, client, _, _| {
            let mut host = Keeping(None);
            client.write_all(REQUEST).expect("it is connected");
            assert_eq!(busy_turn(shared, &mut host), Turn::Answered);
            let before = language.0.load(Relaxed);
            shared.lane.take_socket(host.0.expect("it has kept one")).expect("it can be taken");
            assert!(language.0.load(Relaxed) > before);
        });
    }

    #[test]
    fn a_worker_that_has_answered_its_share_asks_for_its_replacement_and_goes_on() {
        with_shared_lane(Settings { max_requests: Some(2), ..Settings::default() }, |shared, client, slot, _| {
            let mut host = Native::new("whole");
            for expected in [WorkerState::Ready, WorkerState::Retiring, WorkerState::Retiring] {
                slot.set_state(if expected == WorkerState::Ready { expected } else { slot.state() });
                client.write_all(REQUEST).expect("it is connected");
                assert_eq!(busy_turn(shared, &mut host), Turn::Answered);
                assert!(answer(client).ends_with("whole"));
                assert_eq!(slot.state(), expected);
            }
        });
    }

    #[test]
    fn a_command_ends_it_for_all_threads() {
        with_shared_lane(Settings::default(), |shared, client, slot, wake| {
            let (mut host, mut other) = (Native::new("whole"), Native::new("whole"));
            client.write_all(REQUEST).expect("it is connected");
            slot.set_command(WorkerCommand::Drain);
            wake.write_all(b"x").expect("the pipe has room");
            assert_eq!(busy_turn(shared, &mut host), Turn::Answered);
            assert!(answer(client).contains("Connection: close"));
            client.shutdown(std::net::Shutdown::Both).expect("it is connected");
            assert_eq!(busy_turn(shared, &mut host), Turn::End);
            assert_eq!(shared.turn(&mut other), Turn::End);
        });
    }
}
