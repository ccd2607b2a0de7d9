//! The edge's side of a pool: puts requests into the queue and reads the answers of workers.

mod answers;
mod arrivals;
mod aside;
mod availability;
mod notes;
mod recovery;
mod slot_records;
mod waking;

pub use answers::{Event, FilePart};
pub use arrivals::Arrival;
pub use waking::{DOZE, Rest};

use crate::mapping::Shared;
use crate::memory::Memory;
use crate::orders::Orders;
use crate::passing::DescriptorChannel;
use crate::progress_note;
use crate::shape::{Layout, Shape, WORD};
use crate::sleep::{Doorbell, Sleep};
use crate::words::{Entry, Ownership, Serial};
use answers::Reader;
use slot_records::{Record, State};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::time::Duration;
use waking::Pace;

/// A request in the pool, from [`Edge::submit`] to the event that ends it. After that event the ticket is no longer valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(Entry);

impl Ticket {
    /// The index of the request's slot, counted from 0. No other request uses the slot until the event that ends this request.
    #[inline]
    #[must_use]
    pub const fn slot(self) -> u32 {
        self.0.slot
    }
}

/// The numbers of workers in a pool, from the words that workers write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerCounts {
    /// The workers that are attached.
    pub attached: u32,
    /// The workers that wait for a request.
    pub waiting: u32,
}

/// A slot that is being filled: submit or cancel it.
#[derive(Debug)]
#[must_use = "a slot that is neither submitted nor cancelled is lost"]
pub struct Reserved(Entry);

impl Reserved {
    /// The number of the slot, counted from 0.
    #[must_use]
    pub const fn slot(&self) -> u32 {
        self.0.slot
    }
}

/// The outcome of [`Edge::withdraw`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawal {
    /// No worker has seen the request.
    Unseen,
    /// A worker has the request. Its answer will be discarded, and the app learns that from its [`Orders`].
    Running,
    /// The request has ended already.
    Ended,
}

/// A request that may still be in the queue.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    position: u64,
    entry: Entry,
}

/// The edge's records of a worker's place.
#[derive(Debug)]
struct WorkerRecord {
    answers: Shared,
    doorbell: Arc<Doorbell>,
    line: DescriptorChannel,
    /// The worker's last sleep for which the edge has rung.
    rung: Sleep,
    /// The worker's frames are invalid, and the edge no longer reads them.
    broken: bool,
    /// The worker's arrival was reported.
    known: bool,
    /// The worker is dead, and the edge reads the rest of its published frames.
    dying: bool,
    /// The edge has read some of the worker's frames, and has not yet checked whether the worker waits for room.
    read: bool,
    /// The edge has an order for the worker, which may be asleep.
    ordered: bool,
    /// The readers of its areas, up to the last area that the edge has checked.
    readers: Vec<Reader>,
}

/// The edge's side of a pool. There is only one edge at a time.
#[derive(Debug)]
pub struct Edge {
    layout: Layout,
    requests: Shared,
    claims: Shared,
    notes: Shared,
    doorbell: Arc<Doorbell>,
    workers: Vec<WorkerRecord>,
    /// Heads of responses of which only a part has arrived, by place and area.
    heads: HashMap<(u32, u32), Vec<u8>>,
    records: Vec<Record>,
    free: Vec<u32>,
    waiting: VecDeque<Waiting>,
    tail: u64,
    serial: Serial,
    sleep: Sleep,
    /// See [`Edge::take_executed`].
    executed: Vec<u32>,
    /// The count of arrivals at the last look; `None` to look in any case.
    arrivals: Option<u64>,
    /// The count of arrivals at which `workers_in_use` was determined.
    counted: Option<u64>,
    /// The number of places, counted from the first one, that may ever have had a worker. The edge skips the later places:
    /// workers take the first free place.
    workers_in_use: usize,
    /// A dead worker's last frames are still being read at some place.
    any_dying: bool,
    /// The number of requests in the queue for which no worker was woken yet.
    unannounced: usize,
    /// A worker was woken since the last call of [`Edge::take_woken`].
    rung: bool,
    /// The areas that have something to read, with their places.
    lively: VecDeque<(u32, u32)>,
    /// Events that do not come from frames.
    found: VecDeque<Event>,
    pace: Pace,
    /// The time: see [`Edge::set_time`].
    now: u64,
    /// The time that requests have waited for workers, in nanoseconds: the sum, and the longest wait.
    waits: (u64, u64),
}

/// The time that requests have waited for workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// The sum of all waits.
    pub all: Duration,
    /// The longest wait of a request.
    pub longest: Duration,
}

impl Edge {
    /// Creates the edge of new memory.
    ///
    /// # Errors
    /// The operating system refuses to map the memory, or the memory was [adopted](Memory::adopt)
    /// ([`io::ErrorKind::Unsupported`]).
    pub fn new(memory: &Memory) -> io::Result<Self> {
        let layout = memory.layout;
        let notes = memory.notes.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        let workers = memory.workers.iter().zip(0..).map(|(worker_record, number)| {
            let answers = Shared::map(memory.as_fd(), layout.answers(number))?;
            let edge_end = worker_record.edge_end.as_ref().ok_or(io::ErrorKind::Unsupported)?;
            let line = DescriptorChannel::new(Arc::clone(edge_end)).for_areas(layout.shape.areas);
            let doorbell = Arc::clone(&worker_record.doorbell);
            let (rung, readers) = (Sleep::AWAKE, Vec::new());
            let (broken, known, dying, read, ordered) = (false, false, false, false, false);
            Ok(WorkerRecord { answers, doorbell, line, rung, broken, known, dying, read, ordered, readers })
        });
        let shape = layout.shape;
        let requests = Shared::map(memory.as_fd(), layout.requests())?;
        requests.words()[Layout::EDGE].store(u64::from(std::process::id()), SeqCst);
        Ok(Self {
            layout,
            requests,
            claims: Shared::map(memory.as_fd(), layout.claims())?,
            notes: Shared::map(notes.as_fd(), 0..layout.notes_size())?,
            doorbell: Arc::clone(&memory.edge_doorbell),
            workers: workers.collect::<io::Result<_>>()?,
            heads: HashMap::new(),
            records: vec![Record::default(); shape.slots as usize],
            free: (0..shape.slots).rev().collect(),
            waiting: VecDeque::new(),
            tail: 0,
            serial: Serial::from_bits(0),
            sleep: Sleep::AWAKE,
            executed: Vec::new(),
            arrivals: None,
            counted: None,
            workers_in_use: 0,
            any_dying: false,
            unannounced: 0,
            rung: false,
            lively: VecDeque::new(),
            found: VecDeque::new(),
            pace: Pace::default(),
            now: 0,
            waits: (0, 0),
        })
    }

    /// The shape of the memory.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.layout.shape
    }

    /// Announces the end of the edge to the workers.
    pub fn leave(&mut self) {
        self.requests.words()[Layout::EDGE].store(0, SeqCst);
    }

    /// Reserves a slot for a request; `None` if all are in use.
    #[inline]
    pub fn reserve(&mut self) -> Option<Reserved> {
        let slot = self.free.pop()?;
        self.serial = self.serial.next();
        self.requests.words()[Layout::SERIAL].store(self.serial.bits(), Relaxed);
        self.records[slot as usize] = Record::new(self.serial, State::Filling);
        Some(Reserved(Entry { slot, serial: self.serial }))
    }

    /// The buffer for the bytes of the request; its size is [`Shape::request_bytes`].
    #[inline]
    #[allow(unsafe_code)]
    pub fn room(&mut self, reserved: &mut Reserved) -> &mut [u8] {
        let range = self.layout.request(reserved.0.slot);
        let most = self.layout.shape.request_bytes as usize;
        // SAFETY: no other process can write there: workers map this part for reading only, and there is one edge at a time.
        let room = unsafe { self.requests.bytes_mut(range) };
        &mut room[..most]
    }

    /// Frees a slot whose request will not be submitted.
    #[expect(clippy::needless_pass_by_value, reason = "what was reserved is used once")]
    pub fn cancel(&mut self, reserved: Reserved) {
        self.release(reserved.0);
    }

    /// Puts the request, of which `length` bytes were written, into the queue. [`Edge::wake_workers`] then wakes workers that
    /// sleep.
    #[inline]
    #[expect(clippy::needless_pass_by_value, reason = "what was reserved is used once")]
    pub fn submit(&mut self, reserved: Reserved, length: usize) -> Ticket {
        let entry = reserved.0;
        self.describe(entry, length);
        self.records[entry.slot as usize].state = State::Submitted;
        self.make_room();
        self.append(entry);
        Ticket(entry)
    }

    /// Writes the words that describe a new request.
    #[inline(always)]
    fn describe(&self, entry: Entry, length: usize) {
        let words = self.requests.words();
        words[self.layout.length(entry.slot)].store(length.min(self.layout.request(entry.slot).len() * WORD) as u64, Relaxed);
        words[self.layout.orders(entry.slot)].store(Orders::default().bits(entry.serial), Relaxed);
        let notes = self.notes.words();
        notes[Layout::since(entry.slot)].store(self.now, Relaxed);
        notes[Layout::progress_note(entry.slot)].store(progress_note::NOTHING, Relaxed);
    }

    /// Puts a request into the queue that was in the pool before.
    fn enqueue(&mut self, entry: Entry) {
        self.records[entry.slot as usize] = Record::new(entry.serial, State::Submitted);
        self.make_room();
        self.append(entry);
    }

    /// Makes room in the queue for one more entry.
    #[inline(always)]
    fn make_room(&mut self) {
        // Each turn of the edge forgets taken requests anyway, so a new request need not look for them.
        if self.is_full() {
            self.forget_taken();
            if self.is_full() {
                self.close_ranks();
            }
        }
    }

    /// Whether the next entry would overwrite that of a request that may still wait.
    #[inline]
    fn is_full(&self) -> bool {
        self.waiting.front().is_some_and(|oldest| self.tail - oldest.position >= self.layout.queue as u64)
    }

    /// Appends an entry to the queue.
    #[inline(always)]
    fn append(&mut self, entry: Entry) {
        self.ownership(entry.slot).store(Ownership::Queued(entry.serial).bits(), Release);
        let words = self.requests.words();
        words[self.layout.entry(self.tail)].store(entry.bits(), Release);
        self.waiting.push_back(Waiting { position: self.tail, entry });
        self.records[entry.slot as usize].position = self.tail;
        self.tail += 1;
        words[Layout::TAIL].store(self.tail, SeqCst);
        self.unannounced += 1;
    }

    /// Removes the oldest requests from the list once they no longer wait.
    #[inline]
    fn forget_taken(&mut self) {
        while let Some(waiting) = self.waiting.front()
            && self.owner(waiting.entry.slot) != Ownership::Queued(waiting.entry.serial)
        {
            self.waiting.pop_front();
        }
    }

    /// Makes room in a full queue: moves the requests that still wait to the tail, in their order, and so skips the gaps that
    /// withdrawn requests have left.
    #[cold]
    fn close_ranks(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        let still = waiting.into_iter().filter(|waiting| {
            let (queued, own) = (Ownership::Queued(waiting.entry.serial), Ownership::Edge(waiting.entry.serial));
            self.swap(waiting.entry.slot, queued, own)
        });
        let still: Vec<Waiting> = still.collect();
        for waiting in still {
            // There are at most as many of them as slots, and the queue has at least twice as many entries. Appending therefore
            // overwrites only entries before them, whose requests are no longer queued.
            self.append(waiting.entry);
        }
    }

    /// The number of requests that wait for a worker. Requests behind the oldest waiting one are counted even if a worker has
    /// just taken them.
    pub fn depth(&mut self) -> usize {
        self.forget_taken();
        self.waiting.len()
    }

    /// The request that has waited for a worker longest.
    pub fn oldest(&mut self) -> Option<Ticket> {
        self.forget_taken();
        self.waiting.front().map(|waiting| Ticket(waiting.entry))
    }

    /// The generation of the app, as the parent process has counted it.
    #[inline]
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.requests.words()[Layout::GENERATION].load(Relaxed)
    }

    /// The numbers of attached and of waiting workers.
    #[must_use]
    pub fn worker_counts(&self) -> WorkerCounts {
        let mut worker_counts = WorkerCounts::default();
        for worker_record in self.workers.iter().filter(|worker_record| !worker_record.broken && !worker_record.dying) {
            let words = worker_record.answers.words();
            let attached = words[Layout::ATTACHED].load(Relaxed) != 0;
            // A crew of threads may leave the announcement of a sleep in place while it works. A sleep for which the edge has
            // already rung therefore does not count.
            let sleep = Sleep::from_bits(words[Layout::WORKER_SLEEP].load(Relaxed));
            let waits = sleep.waits.for_work() && sleep.is_to_be_woken(worker_record.rung);
            worker_counts.attached += u32::from(attached);
            worker_counts.waiting += u32::from(attached && waits);
        }
        worker_counts
    }

    /// Withdraws a request, because its client has disconnected or it has waited too long. If a worker already runs it,
    /// there are no further events about it.
    pub fn withdraw(&mut self, ticket: Ticket) -> Withdrawal {
        let entry = ticket.0;
        let record = &self.records[entry.slot as usize];
        if record.serial != entry.serial || record.forsaken || matches!(record.state, State::Free | State::Filling) {
            return Withdrawal::Ended;
        }
        let (queued, own) = (Ownership::Queued(entry.serial), Ownership::Edge(entry.serial));
        let (submitted, position) = (record.state == State::Submitted, record.position);
        if record.state == State::Aside {
            self.release(entry);
            return Withdrawal::Unseen;
        }
        if submitted && self.swap(entry.slot, queued, own) {
            // A withdrawn request must not count against the limit of the queue while an older one still waits.
            if let Ok(at) = self.waiting.binary_search_by_key(&position, |waiting| waiting.position) {
                self.waiting.remove(at);
            }
            self.release(entry);
            return Withdrawal::Unseen;
        }
        self.order(entry, Orders { gone: true, ..Orders::default() });
        self.forsake(entry);
        Withdrawal::Running
    }

    /// Orders the worker to interrupt an app that exceeds its deadline. The app may still answer. The worker's
    /// [line](crate::Worker::line) also becomes readable, so that a process that has asked the kernel for a signal gets the
    /// signal even while it is busy.
    pub fn interrupt(&mut self, ticket: Ticket) {
        self.order_at_once(ticket, Orders { interrupted: true, ..Orders::default() });
    }

    /// Orders the worker to log the position of an app that takes long. The worker's line does not become readable: the signal
    /// would interrupt the system call in which the app waits, which is more than a warning.
    pub fn warn(&mut self, ticket: Ticket) {
        if self.can_order(ticket) {
            self.order(ticket.0, Orders { warned: true, ..Orders::default() });
        }
    }

    fn can_order(&self, ticket: Ticket) -> bool {
        self.current(ticket.0).is_some_and(|record| !record.forsaken && record.state != State::Filling)
    }

    fn order_at_once(&mut self, ticket: Ticket, orders: Orders) {
        if !self.can_order(ticket) {
            return;
        }
        self.order(ticket.0, orders);
        if let Some(worker) = self.holder(ticket)
            && let Some(worker_record) = self.workers.get(worker as usize)
        {
            worker_record.line.call(ticket.0.bits());
        }
    }

    /// The worker that has the request, as far as the edge knows; `None` if the request waits or has ended.
    #[must_use]
    pub fn holder(&self, ticket: Ticket) -> Option<u32> {
        let record = &self.records[ticket.0.slot as usize];
        if record.serial != ticket.0.serial {
            return None;
        }
        match (record.state, self.owner(ticket.0.slot)) {
            (State::Begun(worker, _), _) => Some(worker),
            (State::Submitted, Ownership::Taken(serial, worker)) if serial == record.serial => Some(worker),
            _ => None,
        }
    }

    /// Sends the descriptor that the worker asked for.
    ///
    /// # Errors
    /// No worker has the request ([`io::ErrorKind::NotFound`]), or the operating system refuses to send the descriptor.
    pub fn send_descriptor(&mut self, ticket: Ticket, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        let worker = self.holder(ticket).ok_or(io::ErrorKind::NotFound)?;
        let worker_record = self.workers.get(worker as usize).ok_or(io::ErrorKind::NotFound)?;
        worker_record.line.pass(ticket.0.bits(), descriptor)
    }

    /// The descriptor that becomes readable when a worker publishes something while the edge sleeps. If it is watched
    /// edge-triggered, it need not be read.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.doorbell.as_fd()
    }

    /// Whether there are descriptors that no frame has named yet.
    #[cfg(test)]
    pub(crate) fn keeps_descriptors(&self) -> bool {
        self.workers.iter().any(|worker_record| worker_record.line.keeps())
    }

    fn order(&mut self, entry: Entry, orders: Orders) {
        let word = &self.requests.words()[self.layout.orders(entry.slot)];
        let all = Orders::from_bits(word.load(Relaxed), entry.serial).and(orders);
        word.store(all.bits(entry.serial), SeqCst);
        // A sleeping worker would not see the order, and would keep the area of a client that has disconnected.
        if let Some(worker) = self.holder(Ticket(entry))
            && let Some(worker_record) = self.workers.get_mut(worker as usize)
        {
            (worker_record.read, worker_record.ordered) = (true, true);
        }
    }

    /// Stops reporting events of this request; its slot stays in use.
    fn forsake(&mut self, entry: Entry) {
        let record = &mut self.records[entry.slot as usize];
        record.forsaken = true;
        if let State::Begun(worker, area) = record.state {
            self.resume_reading(worker, area);
        }
    }

    /// Makes a slot free for another request.
    fn release(&mut self, entry: Entry) {
        self.ownership(entry.slot).store(Ownership::Edge(entry.serial).bits(), Release);
        let record = &mut self.records[entry.slot as usize];
        *record = Record { waited: record.waited, worker: record.worker, ..Record::new(entry.serial, State::Free) };
        self.free.push(entry.slot);
    }

    fn ownership(&self, slot: u32) -> &AtomicU64 {
        &self.claims.words()[self.layout.ownership(slot)]
    }

    fn owner(&self, slot: u32) -> Ownership {
        Ownership::from_bits(self.ownership(slot).load(Acquire))
    }

    fn swap(&self, slot: u32, from: Ownership, to: Ownership) -> bool {
        self.ownership(slot).compare_exchange(from.bits(), to.bits(), AcqRel, Relaxed).is_ok()
    }

    fn current(&self, entry: Entry) -> Option<&Record> {
        self.records.get(entry.slot as usize).filter(|record| record.serial == entry.serial && record.state != State::Free)
    }
}
