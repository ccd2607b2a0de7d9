//! Orders to the code that runs for an exchange. A signal makes the thread of that code read its orders.
//!
//! Another process writes orders into memory that it shares with this process, and then sends this process a signal, or makes
//! the kernel send it ([`signal_on_input`]). Each thread that runs an app has a place in a table of fixed size. The signal
//! handler looks through this table for new orders. If it finds orders for another thread, it sends the signal to that thread.
//!
//! Two signals have this handler. [`signal`] ends a system call in which the app waits, as an interruption requires. After
//! [`gentle_signal`] the kernel restarts the call (SA_RESTART), so that an app that is only warned gets no error.
#![allow(unsafe_code)]

use rustix::process::Pid;
use rustix::thread::gettid;
use std::cell::Cell;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, compiler_fence};

/// Order: the app must be interrupted. This and [`WARN`] are bits of a word of orders; above them is the number of the run that
/// the orders are for.
pub const INTERRUPT: u64 = 2;
/// Order: log where the app is.
pub const WARN: u64 = 4;
/// The position of the run's number in a word of orders: the number of bits below it.
const RUN: u32 = 24;

/// Returns the word that gives `orders` (bits) to the run with the number `run`.
#[must_use]
pub const fn order_word(run: u64, orders: u64) -> u64 {
    run << RUN | orders
}

/// A command of fcntl(2) that `libc` lacks.
const F_SETSIG: libc::c_int = 10;

/// The most threads of a process that can receive orders at the same time. Further threads run their apps without orders, so
/// that no deadline interrupts these apps. A worker has at most this many lanes.
const PLACES: usize = 1024;

/// The code that gets orders.
pub trait Receiver {
    /// Receives new orders: one or more of the bits [`INTERRUPT`] and [`WARN`]. It runs on the thread that is inside [`obey`]
    /// with this receiver, usually in a signal handler. So it may do only what a signal handler may do (signal-safety(7)), and
    /// must preserve errno.
    fn receive(&self, orders: u64);
}

/// The source of the orders for a run.
#[derive(Clone, Copy, Debug)]
pub struct Mailbox {
    /// The word of orders. Another process writes it.
    pub orders: &'static AtomicU64,
    /// The number of the current run.
    pub run: Run,
}

/// The number of a run of an app. Orders carry its lowest 40 bits, so that orders for an earlier run do not count.
#[derive(Clone, Copy, Debug)]
pub enum Run {
    /// The number does not change.
    Fixed(u64),
    /// The number is in this word, and changes as the app proceeds. Orders for an earlier number are void.
    In(&'static AtomicU64),
}

/// The place of a thread that runs an app. That thread writes the fields, except `passed_on`, which the handler writes on any
/// thread. The handler reads them on any thread.
#[repr(align(64))]
struct ThreadSlot {
    /// A thread has the place.
    taken: AtomicU32,
    /// The fields below are valid for the handler.
    busy: AtomicU32,
    thread: AtomicI32,
    orders: AtomicPtr<AtomicU64>,
    run: AtomicPtr<AtomicU64>,
    fixed_run: AtomicU64,
    /// The word of orders that was received last.
    received: AtomicU64,
    /// The last word of orders for which the signal was sent on to the thread. A second signal for the same word would only end
    /// another system call of the app.
    passed_on: AtomicU64,
    /// Points into the frame of [`obey`]. So only the thread of this place may read through it, and only while the place is
    /// busy.
    receiver: AtomicPtr<&'static dyn Receiver>,
}

impl ThreadSlot {
    const fn empty() -> Self {
        Self {
            taken: AtomicU32::new(0),
            busy: AtomicU32::new(0),
            thread: AtomicI32::new(0),
            orders: AtomicPtr::new(null_mut()),
            run: AtomicPtr::new(null_mut()),
            fixed_run: AtomicU64::new(0),
            received: AtomicU64::new(0),
            passed_on: AtomicU64::new(0),
            receiver: AtomicPtr::new(null_mut()),
        }
    }

    fn take(&self) -> bool {
        self.taken.load(Relaxed) == 0 && self.taken.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
    }

    /// Returns the word of orders if it contains orders for the current run that were not received yet.
    fn news(&self) -> Option<u64> {
        if self.busy.load(Acquire) == 0 {
            return None;
        }
        // SAFETY: both pointers were set before the place became busy, and lead to memory that is never freed: to the words of
        // a `Mailbox`, or to `fixed_run`. If another thread takes the place at this moment, the pointers may lead to the words
        // of the new run. That is harmless, because the thread of the new run checks the orders again.
        let (orders, run) = unsafe { (&*self.orders.load(Relaxed), &*self.run.load(Relaxed)) };
        let (word, run) = (orders.load(Acquire), run.load(Relaxed));
        (word >> RUN == run << RUN >> RUN && self.new_orders(word) != 0).then_some(word)
    }

    fn new_orders(&self, word: u64) -> u64 {
        let received = self.received.load(Relaxed);
        let before = if received >> RUN == word >> RUN { received } else { 0 };
        word & !before & (INTERRUPT | WARN)
    }
}

static TABLE: [ThreadSlot; PLACES] = [const { ThreadSlot::empty() }; PLACES];
/// The places below this number have been used.
static USED: AtomicUsize = AtomicUsize::new(0);
/// The id of the process that has called [`receive_orders`]. A process that it forks has the handler and a copy of the table,
/// but its threads run no app of this server.
static PROCESS: AtomicI32 = AtomicI32::new(0);

thread_local! {
    /// The index of the place that this thread had last.
    static LAST: Cell<usize> = const { Cell::new(0) };
}

/// The signal that makes a process look for orders. Runtimes and libraries rarely use signals this far from both ends of the
/// real-time signals; glibc takes the first two.
#[must_use]
pub fn signal() -> i32 {
    libc::SIGRTMIN() + 3
}

/// Like [`signal`], but does not end system calls that can be restarted (signal(7) lists those that cannot). The Ruby host
/// uses the signal between the two.
#[must_use]
pub fn gentle_signal() -> i32 {
    libc::SIGRTMIN() + 5
}

/// The signal for these orders.
fn signal_for(orders: u64) -> i32 {
    if orders & INTERRUPT != 0 { signal() } else { gentle_signal() }
}

/// Installs the handler of [`signal`] and [`gentle_signal`] in this process.
///
/// # Errors
/// An error of the system.
pub fn receive_orders() -> io::Result<()> {
    PROCESS.store(rustix::process::getpid().as_raw_nonzero().get(), Relaxed);
    for (signal, flags) in [(signal(), 0), (gentle_signal(), libc::SA_RESTART)] {
        // SAFETY: all zeros are a valid action with an empty mask, and the handler does only what a handler may do.
        let status = unsafe {
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as usize;
            action.sa_flags = flags;
            libc::sigaction(signal, &raw const action, null_mut())
        };
        if status != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // Unblocks the signals in this thread; threads that it starts later have the same mask. The signal between the two is the
    // Ruby host's, and is unblocked as well.
    (signal()..=gentle_signal()).try_for_each(super::signal::unblock)
}

/// Runs `work`. Meanwhile the orders of `mailbox` reach `receiver` on this thread. If all places are taken, no orders reach it.
pub fn obey<T>(mailbox: Mailbox, receiver: &dyn Receiver, work: impl FnOnce() -> T) -> T {
    let Some(place) = free_place() else { return work() };
    place.orders.store(std::ptr::from_ref(mailbox.orders).cast_mut(), Relaxed);
    let run = match mailbox.run {
        Run::Fixed(run) => {
            place.fixed_run.store(run, Relaxed);
            &raw const place.fixed_run
        }
        Run::In(word) => std::ptr::from_ref(word),
    };
    place.run.store(run.cast_mut(), Relaxed);
    place.thread.store(gettid().as_raw_pid(), Relaxed);
    place.received.store(0, Relaxed);
    place.passed_on.store(0, Relaxed);
    // Only this frame's own thread reads through the pointer, and only until the place is given back below.
    place.receiver.store((&raw const receiver).cast_mut().cast(), Relaxed);
    let _busy = Busy(place);
    place.busy.store(1, Release);
    // The orders may have arrived before the place was busy.
    if place.news().is_some() {
        read_orders(place);
    }
    work()
}

/// Gives a place back, even when an app panics.
struct Busy(&'static ThreadSlot);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.store(0, Relaxed);
        // The handler on this thread must find the place idle before anything else of it changes.
        compiler_fence(Release);
        self.0.taken.store(0, Release);
    }
}

fn free_place() -> Option<&'static ThreadSlot> {
    let last = LAST.get();
    if let Some(place) = TABLE.get(last)
        && last < USED.load(Relaxed)
        && place.take()
    {
        return Some(place);
    }
    let index = TABLE.iter().position(ThreadSlot::take)?;
    USED.fetch_max(index + 1, Release);
    LAST.set(index);
    TABLE.get(index)
}

/// Passes new orders of a place to its receiver.
fn read_orders(place: &ThreadSlot) {
    if let Some(word) = place.news() {
        let orders = place.new_orders(word);
        place.received.store(word, Relaxed);
        compiler_fence(Acquire);
        // SAFETY: the place is busy and belongs to this thread, so the thread is inside `obey`, whose frame has the receiver.
        // If this runs in a signal handler, the handler has interrupted that frame or a function that it has called, and
        // returns before the interrupted code continues.
        let receiver = unsafe { &*place.receiver.load(Relaxed) };
        receiver.receive(orders);
    }
}

extern "C" fn on_signal(_signal: libc::c_int) {
    // SAFETY: the calls ask for the ids of the process and the thread and send a signal. The address of errno is that of this
    // thread, and errno is restored.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let (process, thread) = (libc::getpid(), gettid().as_raw_pid());
        if PROCESS.load(Relaxed) == process {
            for place in TABLE.iter().take(USED.load(Acquire)) {
                let Some(word) = place.news() else { continue };
                let owner = place.thread.load(Relaxed);
                if owner == thread {
                    read_orders(place);
                } else if place.passed_on.swap(word, Relaxed) != word {
                    // If that thread ends meanwhile, or has a new run, the signal does nothing.
                    libc::syscall(libc::SYS_tgkill, process, owner, signal_for(place.new_orders(word)));
                }
            }
        }
        *errno = before;
    }
}

/// Sends a process the signal for these orders. The process must have called [`receive_orders`].
///
/// # Errors
/// The process does not exist, or belongs to another user.
pub fn tell_of_orders(process: Pid, orders: u64) -> io::Result<()> {
    // SAFETY: sends a signal.
    let status = unsafe { libc::kill(process.as_raw_nonzero().get(), signal_for(orders)) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the kernel send this process [`signal`] whenever something arrives at `socket`. The setting belongs to the socket, not
/// to the descriptor: if several processes have the socket, only the last process that called this gets the signal.
///
/// # Errors
/// An error of the system.
pub fn signal_on_input(socket: BorrowedFd<'_>) -> io::Result<()> {
    let descriptor = socket.as_raw_fd();
    // SAFETY: the descriptor is open, and the commands take numbers.
    let done = unsafe {
        let flags = libc::fcntl(descriptor, libc::F_GETFL);
        flags >= 0
            && libc::fcntl(descriptor, libc::F_SETOWN, libc::getpid()) == 0
            && libc::fcntl(descriptor, F_SETSIG, signal()) == 0
            && libc::fcntl(descriptor, libc::F_SETFL, flags | libc::O_ASYNC) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
    use std::os::fd::AsFd;
    use std::sync::mpsc;
    use std::thread;
    use std::time::{Duration, Instant};

    /// Records the received orders, and the thread.
    #[derive(Default)]
    struct Notes {
        orders: AtomicU64,
        times: AtomicU64,
        thread: AtomicI32,
    }

    impl Receiver for Notes {
        fn receive(&self, orders: u64) {
            self.orders.fetch_or(orders, Relaxed);
            self.times.fetch_add(1, Relaxed);
            self.thread.store(gettid().as_raw_pid(), Relaxed);
        }
    }

    fn word() -> &'static AtomicU64 {
        Box::leak(Box::default())
    }

    fn wait_until(what: &str, done: impl Fn() -> bool) {
        let start = Instant::now();
        while !done() {
            assert!(start.elapsed() < Duration::from_secs(60), "{what}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn tell() {
        tell_of_orders(rustix::process::getpid(), INTERRUPT).expect("this process is there");
    }

    #[test]
    fn signals_that_were_blocked_come_through() {
        let mut mask = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the pointers are valid for the calls, the first of which initializes the set. The mask is that of this
        // thread.
        let is_blocked = unsafe {
            libc::sigemptyset(mask.as_mut_ptr());
            libc::sigaddset(mask.as_mut_ptr(), signal());
            libc::sigaddset(mask.as_mut_ptr(), gentle_signal());
            libc::pthread_sigmask(libc::SIG_BLOCK, mask.as_ptr(), null_mut());
            receive_orders().expect("handlers may be set");
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), mask.as_mut_ptr());
            [signal(), gentle_signal()].map(|signal| libc::sigismember(mask.as_ptr(), signal))
        };
        assert_eq!(is_blocked, [0, 0]);
    }

    #[test]
    fn an_order_reaches_the_thread_of_its_run_and_wakes_it() {
        receive_orders().expect("handlers may be set");
        let (orders, (started, starts)) = (word(), mpsc::channel());
        let running = thread::spawn(move || {
            let notes = Notes::default();
            let this = gettid().as_raw_pid();
            started.send(this).expect("the test waits");
            let rest = obey(Mailbox { orders, run: Run::Fixed(7) }, &notes, || {
                let long = libc::timespec { tv_sec: 600, tv_nsec: 0 };
                // SAFETY: the pointer is good for the call.
                unsafe { libc::nanosleep(&raw const long, null_mut()) }
            });
            assert_eq!(notes.thread.load(Relaxed), this);
            (rest, notes.orders.load(Relaxed))
        });
        let call = format!("/proc/self/task/{}/syscall", starts.recv().expect("it starts"));
        let sleeping = format!("{} ", libc::SYS_clock_nanosleep);
        wait_until("the sleep", || std::fs::read_to_string(&call).is_ok_and(|text| text.starts_with(&sleeping)));
        orders.store(order_word(7, WARN | INTERRUPT), Release);
        tell();
        assert_eq!(running.join().expect("it ends"), (-1, WARN | INTERRUPT));
    }

    #[test]
    fn a_warning_does_not_end_a_read() {
        receive_orders().expect("handlers may be set");
        let (orders, (started, starts)) = (word(), mpsc::channel());
        let (mut here, mut there) = io::pipe().expect("a pipe is to be had");
        let running = thread::spawn(move || {
            let notes = Notes::default();
            started.send(gettid().as_raw_pid()).expect("the test waits");
            let mut byte = [0];
            let read = obey(Mailbox { orders, run: Run::Fixed(9) }, &notes, || io::Read::read(&mut here, &mut byte));
            (read.expect("it is not interrupted"), notes.orders.load(Relaxed))
        });
        let call = format!("/proc/self/task/{}/syscall", starts.recv().expect("it starts"));
        let reading = format!("{} ", libc::SYS_read);
        let reads = || std::fs::read_to_string(&call).is_ok_and(|text| text.starts_with(&reading));
        wait_until("the read", reads);
        orders.store(order_word(9, WARN), Release);
        let this = rustix::process::getpid();
        tell_of_orders(this, WARN).expect("it is this process");
        wait_until("the read again", || {
            TABLE.iter().any(|place| place.received.load(Relaxed) == order_word(9, WARN)) && reads()
        });
        io::Write::write_all(&mut there, b"x").expect("it is read");
        assert_eq!(running.join().expect("it ends"), (1, WARN));
    }

    #[test]
    fn an_order_is_received_once_and_by_its_run_only() {
        receive_orders().expect("handlers may be set");
        let (orders, notes, number) = (word(), Notes::default(), word());
        number.store(3, Relaxed);
        let received = || (notes.times.load(Relaxed), notes.orders.load(Relaxed));
        // Any thread may get the signal of the process; it is passed on to this one.
        let tell_and_wait = || {
            tell();
            // Signals are passed on at once, so this thread has the signal by now if it gets one. The pause makes a late
            // signal, which would be a mistake, likely to arrive before the check.
            thread::sleep(Duration::from_millis(20));
        };
        orders.store(order_word(2, INTERRUPT), Release);
        obey(Mailbox { orders, run: Run::In(number) }, &notes, || {
            tell_and_wait();
            assert_eq!(received(), (0, 0), "for an earlier run");
            orders.store(order_word(3, WARN), Release);
            tell();
            wait_until("the warning", || received() == (1, WARN));
            tell_and_wait();
            assert_eq!(received(), (1, WARN), "once");
            orders.store(order_word(3, WARN | INTERRUPT), Release);
            tell();
            wait_until("the interruption", || received() == (2, WARN | INTERRUPT));
            number.store(5, Relaxed);
            tell_and_wait();
            assert_eq!(received().0, 2, "the app has got on");
        });
        orders.store(order_word(5, INTERRUPT), Release);
        tell_and_wait();
        assert_eq!(received().0, 2, "the run is over");
        obey(Mailbox { orders, run: Run::In(number) }, &notes, || assert_eq!(received().0, 3, "it came before the run began"));
    }

    #[test]
    fn what_arrives_at_a_socket_makes_the_process_look() {
        receive_orders().expect("handlers may be set");
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (here, there) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("sockets are to be had");
        signal_on_input(here.as_fd()).expect("it is a socket");
        let (orders, notes) = (word(), Notes::default());
        obey(Mailbox { orders, run: Run::Fixed(1) }, &notes, || {
            for (round, order) in [WARN, WARN | INTERRUPT].into_iter().enumerate() {
                orders.store(order_word(1, order), Release);
                send(&there, b"look", SendFlags::empty()).expect("it is connected");
                wait_until("the order", || notes.times.load(Relaxed) == round as u64 + 1);
            }
        });
    }

    #[test]
    fn places_are_given_back() {
        for _ in 0..3 * PLACES {
            obey(Mailbox { orders: word_of_none(), run: Run::Fixed(1) }, &Notes::default(), || ());
        }
        assert!(TABLE.iter().any(|place| place.taken.load(Relaxed) == 0));
        let left = TABLE.iter().filter(|place| place.taken.load(Relaxed) == 1).count();
        assert!(left < 10, "{left} are taken");
    }

    fn word_of_none() -> &'static AtomicU64 {
        static NONE: AtomicU64 = AtomicU64::new(0);
        &NONE
    }
}
