//! The event sources of a lane beside its connections: commands for its worker, its waker, its timer, and the descriptors
//! that its app watches.
//!
//! All of them are in an epoll instance of the lane, so a backend of any kind watches them as a single descriptor. A lane
//! behind an edge has no backend: it waits for this instance itself, which then also contains its pools.
//!
//! The timer, the watched descriptors and the waker make the lane call `Host::attend` between two exchanges. Any thread and any
//! signal handler may use the waker. The waker also interrupts an `Outlet::write` that waits for a slow client, so that a
//! language's own signal handlers run at once.

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};
use std::cell::OnceCell;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Wake, Waker};
use std::time::Duration;

/// The worker's pipe, which makes the lane read its command.
const COMMAND: u64 = 0;
/// The waker's eventfd.
const DOORBELL: u64 = 1;
/// The sources that cause a call of the host: the timer and the watched descriptors.
const APP: u64 = 2;
/// The eventfd of a pool, readable when there are requests, or room for answers.
const POOL: u64 = 3;
/// The socket of a pool, readable when descriptors or calls of the edge have arrived.
const LINE: u64 = 4;
/// Sockets on which another process of the server answers.
const ANSWER: u64 = 5;

/// The number of events read at once.
const EVENTS: usize = 8;

/// The event sources of a lane. Each source reports a change once, even if nothing is read from its descriptor.
#[derive(Debug)]
pub struct EventSources {
    poller: Arc<Poller>,
    waker: Arc<LaneWaker>,
    timer: OnceCell<OwnedFd>,
}

/// The sources as one descriptor. A thread may wait for them while another one uses the lane.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
    /// Whether the timer or a watched descriptor has changed since the last call of the host for it.
    app_changed: AtomicBool,
}

/// The events found by [`Poller::wait`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Whether there was any event of another source than a pool.
    pub(crate) other: bool,
    /// Whether there was an event of a pool's socket.
    pub(crate) line: bool,
    /// Whether there may be more.
    more: bool,
}

impl Poller {
    /// The descriptor that is readable as long as there are events.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Waits for at most `timeout` (`None` without a limit). May return without any event.
    ///
    /// # Errors
    /// The operating system refused a call.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> io::Result<Found> {
        let mut events = [MaybeUninit::uninit(); EVENTS];
        let timeout = timeout.map(Timespec::try_from).transpose().map_err(|_| io::ErrorKind::InvalidInput)?;
        let reported = match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            Ok((reported, _)) => reported,
            Err(Errno::INTR) => return Ok(Found::default()),
            Err(error) => return Err(error.into()),
        };
        let is = |name: u64| reported.iter().any(|event| event.data.u64() == name);
        if is(APP) {
            self.app_changed.store(true, SeqCst);
        }
        Ok(Found {
            other: [APP, DOORBELL, COMMAND, ANSWER].into_iter().any(is),
            line: is(LINE),
            more: reported.len() == EVENTS,
        })
    }
}

#[derive(Debug)]
struct LaneWaker {
    doorbell: OwnedFd,
    /// Whether it has been woken, and the lane has not handled that yet.
    rung: AtomicBool,
}

impl Wake for LaneWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    /// Signal handlers may call this: it uses an atomic, and a system call that preserves errno.
    fn wake_by_ref(self: &Arc<Self>) {
        if !self.rung.swap(true, SeqCst) {
            // It never blocks, because the counter goes up to 2^64 - 2; beyond that a lost wake-up would not matter.
            let _ = rustix::io::write(&self.doorbell, &1u64.to_ne_bytes());
        }
    }
}

/// Ends the wait for the lane's events without a call of the host. Usable from any thread and from signal handlers.
#[derive(Clone, Debug)]
pub(crate) struct Interrupter(Arc<LaneWaker>);

impl Interrupter {
    pub(crate) fn interrupt(&self) {
        // Does not block: see `wake_by_ref`.
        let _ = rustix::io::write(&self.0.doorbell, &1u64.to_ne_bytes());
    }
}

impl EventSources {
    /// Creates the event sources: `command`, the read end of the worker's pipe, and a waker.
    ///
    /// # Errors
    /// The operating system refused a call.
    pub(crate) fn new(command: BorrowedFd<'_>) -> io::Result<Self> {
        let poller = Arc::new(Poller { epoll: epoll::create(CreateFlags::CLOEXEC)?, app_changed: AtomicBool::new(false) });
        let doorbell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let event_sources =
            Self { poller, waker: Arc::new(LaneWaker { doorbell, rung: AtomicBool::new(false) }), timer: OnceCell::new() };
        event_sources.add(command, COMMAND)?;
        event_sources.add(event_sources.waker.doorbell.as_fd(), DOORBELL)?;
        Ok(event_sources)
    }

    /// Adds the eventfd and the socket of a pool.
    ///
    /// # Errors
    /// The operating system refused a call.
    pub(crate) fn listen_to_pool(&self, doorbell: BorrowedFd<'_>, line: BorrowedFd<'_>) -> io::Result<()> {
        self.add(doorbell, POOL)?;
        self.add(line, LINE)
    }

    /// Returns the sources, for a thread that waits for them itself.
    pub(crate) fn poller(&self) -> Arc<Poller> {
        Arc::clone(&self.poller)
    }

    /// Returns the descriptor for the lane's backend.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.poller.descriptor()
    }

    /// Returns the waker: see [`oribi_host::Outlet::waker`].
    pub fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.waker))
    }

    /// Returns a handle that ends a wait.
    pub(crate) fn interrupter(&self) -> Interrupter {
        Interrupter(Arc::clone(&self.waker))
    }

    /// Clears the reported changes, so that the next change is reported. Must be called whenever the backend has reported the
    /// descriptor.
    pub(crate) fn clear(&self) {
        while self.poller.wait(Some(Duration::ZERO)).is_ok_and(|found| found.more) {}
    }

    /// Whether the waker has been used since the last call.
    #[inline]
    pub(crate) fn take_ring(&self) -> bool {
        self.waker.rung.load(SeqCst) && self.waker.rung.swap(false, SeqCst)
    }

    /// Whether to call the host: the waker has been used, or the timer or a watched descriptor has changed.
    #[inline]
    pub fn take(&self) -> bool {
        self.take_ring() | (self.poller.app_changed.load(SeqCst) && self.poller.app_changed.swap(false, SeqCst))
    }

    /// Watches a descriptor: see [`oribi_host::Outlet::watch`].
    ///
    /// # Errors
    /// The operating system refused a call.
    pub fn watch(&self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        self.add(descriptor, APP)
    }

    /// Wakes the lane, without a call of the host, when data arrives on `socket`, until [`EventSources::unwatch`].
    ///
    /// # Errors
    /// The operating system refused a call.
    pub(crate) fn await_answer(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.add(socket, ANSWER)
    }

    /// Stops watching a descriptor: see [`oribi_host::Outlet::unwatch`].
    ///
    /// # Errors
    /// The operating system refused a call.
    pub fn unwatch(&self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::delete(&self.poller.epoll, descriptor)?)
    }

    /// Sets the timer: see [`oribi_host::Outlet::wake_after`].
    pub(crate) fn wake_after(&self, time: Option<Duration>) -> io::Result<()> {
        let timer = match self.timer.get() {
            Some(timer) => timer,
            None => {
                let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
                self.add(timer.as_fd(), APP)?;
                self.timer.get_or_init(|| timer)
            }
        };
        // A time of zero would stop the timer.
        let time = time.map_or(Duration::ZERO, |time| time.max(Duration::from_nanos(1)));
        let it_value = Timespec::try_from(time).map_err(|_| io::ErrorKind::InvalidInput)?;
        let setting = Itimerspec { it_interval: Timespec::default(), it_value };
        timerfd_settime(timer, TimerfdTimerFlags::empty(), &setting)?;
        Ok(())
    }

    /// Adds a source that reports each change once, even if it is not read.
    fn add(&self, source: BorrowedFd<'_>, name: u64) -> io::Result<()> {
        Ok(epoll::add(&self.poller.epoll, source, EventData::new_u64(name), EventFlags::IN | EventFlags::ET)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_io::{Backend, Epoll, Event};
    use std::io::Write;

    /// Returns the sources, the worker's end of the pipe, and a backend that watches the sources.
    fn watched() -> (EventSources, io::PipeWriter, Epoll) {
        let (command, worker) = io::pipe().expect("a pipe is to be had");
        let event_sources = EventSources::new(command.as_fd()).expect("epoll works");
        // The worker keeps its end open for life.
        std::mem::forget(command);
        let mut backend = Epoll::new().expect("epoll works");
        backend.watch(event_sources.descriptor()).expect("it can be watched");
        (event_sources, worker, backend)
    }

    #[track_caller]
    fn is_woken(backend: &mut Epoll, timeout: Option<Duration>) -> bool {
        let _deadline = oribi_test_support::waits_for("a lane to be woken");
        let mut events = Vec::new();
        backend.wait(timeout, &mut events).expect("it can wait");
        events.contains(&Event::Wake)
    }

    const NOW: Option<Duration> = Some(Duration::ZERO);

    #[test]
    fn a_waker_wakes_from_another_thread_and_once_for_all_that_came_before() {
        let (event_sources, _worker, mut backend) = watched();
        for _ in 0..3 {
            assert!(!is_woken(&mut backend, NOW) && !event_sources.take());
            let waker = event_sources.waker();
            let thread = std::thread::spawn(move || {
                waker.wake_by_ref();
                waker.wake();
            });
            assert!(is_woken(&mut backend, None));
            // The thread's second wake-up also arrives before the lane looks.
            thread.join().expect("the thread ends");
            event_sources.clear();
            assert!(event_sources.take() && !event_sources.take());
        }
    }

    #[test]
    fn a_ring_that_was_taken_before_it_was_reported_leaves_the_next_one_audible() {
        let (event_sources, _worker, mut backend) = watched();
        event_sources.waker().wake();
        assert!(event_sources.take_ring());
        event_sources.waker().wake();
        assert!(is_woken(&mut backend, None));
        assert!(event_sources.take());
    }

    #[test]
    fn an_interrupt_ends_a_wait_each_time_and_calls_no_host() {
        let (event_sources, _worker, mut backend) = watched();
        for _ in 0..3 {
            let interrupter = event_sources.interrupter();
            std::thread::spawn(move || interrupter.interrupt());
            assert!(is_woken(&mut backend, None));
            event_sources.clear();
            assert!(!event_sources.take() && !is_woken(&mut backend, NOW));
        }
    }

    #[test]
    fn a_command_wakes_the_lane_but_not_its_host() {
        let (event_sources, mut worker, mut backend) = watched();
        for _ in 0..2 {
            worker.write_all(&[0]).expect("the pipe has room");
            assert!(is_woken(&mut backend, None));
            event_sources.clear();
            assert!(!event_sources.take());
            assert!(!is_woken(&mut backend, NOW));
        }
    }

    #[test]
    fn a_timer_wakes_once_and_can_be_stopped() {
        let (event_sources, _worker, mut backend) = watched();
        event_sources.wake_after(Some(Duration::ZERO)).expect("there are timers");
        assert!(is_woken(&mut backend, None));
        event_sources.clear();
        assert!(event_sources.take());
        event_sources.wake_after(Some(Duration::from_secs(600))).expect("there are timers");
        event_sources.wake_after(None).expect("there are timers");
        event_sources.wake_after(Some(Duration::from_millis(1))).expect("there are timers");
        assert!(is_woken(&mut backend, None));
        event_sources.clear();
        assert!(event_sources.take() && !is_woken(&mut backend, NOW));
    }

    #[test]
    fn watched_descriptors_wake_with_each_change_until_they_are_watched_no_more() {
        let (event_sources, _worker, mut backend) = watched();
        let (reader, mut writer) = io::pipe().expect("a pipe is to be had");
        event_sources.watch(reader.as_fd()).expect("a pipe can be watched");
        for _ in 0..2 {
            writer.write_all(b"x").expect("the pipe has room");
            assert!(is_woken(&mut backend, None));
            event_sources.clear();
            assert!(event_sources.take() && !event_sources.take());
        }
        event_sources.unwatch(reader.as_fd()).expect("it is watched");
        writer.write_all(b"x").expect("the pipe has room");
        assert!(!is_woken(&mut backend, NOW));
        let file = std::fs::File::open("/proc/self/exe").expect("it is there");
        assert!(event_sources.watch(file.as_fd()).is_err(), "a file is always readable");
    }
}
