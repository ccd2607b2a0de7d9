//! Recovers from the death of a worker or of the previous edge, and from stray writes to shared memory.

use super::answers::{AnswerOf, Reader};
use super::slot_records::{Record, State};
use super::{Edge, Event, Ticket};
use crate::memory::Memory;
use crate::orders::Orders;
use crate::shape::Layout;
use crate::sleep::Sleep;
use crate::words::{Entry, Ownership, Serial};
use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

impl Edge {
    /// Creates the edge of memory whose previous edge has died. Requests that no worker has taken are dropped. Requests that
    /// workers are answering keep their slots until the workers have finished; there are no events about them.
    ///
    /// # Errors
    /// The same as for [`Edge::new`].
    pub fn take_over(memory: &Memory) -> io::Result<Self> {
        let mut edge = Self::new(memory)?;
        let layout = edge.layout;
        let shape = layout.shape;
        let own = |word: usize| edge.requests.words()[word].load(Acquire);
        (edge.tail, edge.serial) = (own(Layout::TAIL), Serial::from_bits(own(Layout::SERIAL)));
        let sleep = Sleep::from_bits(own(Layout::EDGE_SLEEP));
        // Only words that edges wrote can be trusted. The orders carry the serial number of the last request in a slot.
        let serials: Vec<Serial> = (0..shape.slots).map(|slot| Serial::from_bits(own(layout.orders(slot)) >> 24)).collect();
        edge.sleep = sleep;
        edge.awake();
        edge.free.clear();
        for (slot, serial) in (0..shape.slots).rev().zip(serials.into_iter().rev()) {
            let entry = Entry { slot, serial };
            let (queued, own) = (Ownership::Queued(serial), Ownership::Edge(serial));
            // The slot is free if the previous edge owned it, or if its request is still queued and no worker takes it at this
            // moment.
            let free = matches!(edge.owner(slot), Ownership::Edge(_) | Ownership::Aside(_)) || edge.swap(slot, queued, own);
            if free {
                edge.release(entry);
            } else {
                edge.records[slot as usize] = Record { forsaken: true, ..Record::new(serial, State::Submitted) };
                edge.order(entry, Orders { gone: true, ..Orders::default() });
            }
        }
        let looked_at =
            |worker| u32::try_from(edge.requests.words()[layout.looked_at(worker)].load(Acquire)).unwrap_or(u32::MAX);
        let count = |worker| looked_at(worker).min(shape.areas).max(edge.used_areas(worker));
        let counts: Vec<u32> = (0..shape.workers).map(count).collect();
        for (worker, area) in (0..).zip(counts).flat_map(|(worker, count)| (0..count).map(move |area| (worker, area))) {
            let words = edge.requests.words();
            words[layout.paused(worker, area)].store(0, SeqCst);
            let read = words[layout.consumed(worker, area)].load(Acquire);
            let noted = Entry::from_bits(words[layout.answer_of(worker, area)].load(Acquire));
            let answer_of = match noted.filter(|entry| edge.current(*entry).is_some()) {
                Some(entry) => {
                    edge.records[entry.slot as usize].state = State::Begun(worker, area);
                    AnswerOf::Exchange(entry)
                }
                None => AnswerOf::Past,
            };
            *edge.reader(worker, area) = Reader::at(read, answer_of);
            edge.look_at(worker, area);
        }
        // Idle workers would otherwise learn of this process with the next request, when it may have ended.
        (0..shape.workers).filter(|worker| edge.occupant(*worker).is_some()).for_each(|worker| {
            edge.workers[worker as usize].doorbell.ring();
        });
        Ok(edge)
    }

    /// Reports that the process of a worker has ended and can no longer write. [`Edge::next`] first returns the rest of its
    /// published frames, and then its unfinished requests as lost. After that its place is free for another worker.
    pub fn report_death(&mut self, worker: u32) {
        let Some(worker_record) = self.workers.get_mut(worker as usize) else { return };
        worker_record.dying = true;
        self.any_dying = true;
        if worker_record.broken {
            return;
        }
        let looked_at = self.workers[worker as usize].readers.len() as u32;
        for area in 0..self.used_areas(worker).max(looked_at) {
            self.resume_reading(worker, area);
            self.look_at(worker, area);
        }
    }

    /// Cleans up after dead workers whose last frames have been read; returns whether there were any.
    pub(super) fn release_dead(&mut self) -> bool {
        if !std::mem::take(&mut self.any_dying) {
            return false;
        }
        let dead: Vec<u32> =
            (0..).zip(&self.workers).filter(|(_, worker_record)| worker_record.dying).map(|(worker, _)| worker).collect();
        for &worker in &dead {
            for entry in self.held_by(worker) {
                if !self.records[entry.slot as usize].forsaken {
                    self.found.push_back(Event::Lost(Ticket(entry)));
                }
                self.release(entry);
            }
            self.clear(worker);
        }
        // The dead worker may have been woken for a waiting request.
        if !dead.is_empty() {
            self.wake_another();
        }
        !dead.is_empty()
    }

    /// Makes a place free for another worker.
    fn clear(&mut self, worker: u32) {
        for area in 0..self.layout.shape.areas {
            let read = self.workers[worker as usize].readers.get(area as usize).map_or(0, |reader| reader.read);
            // Memory that was never written stays untouched.
            let words = self.workers[worker as usize].answers.words();
            for (word, value) in [(Layout::written(area), read), (self.layout.holding(area), 0)] {
                if words[word].load(Relaxed) != value {
                    words[word].store(value, Relaxed);
                }
            }
            if let Some(reader) = self.workers[worker as usize].readers.get_mut(area as usize) {
                reader.settle();
                let words = self.requests.words();
                words[self.layout.answer_of(worker, area)].store(0, Relaxed);
                words[self.layout.paused(worker, area)].store(0, Relaxed);
                words[self.layout.consumed(worker, area)].store(read, Release);
            }
        }
        self.heads.retain(|(worker_record, _), _| *worker_record != worker);
        let worker_record = &mut self.workers[worker as usize];
        (worker_record.known, worker_record.dying, worker_record.broken, worker_record.rung) =
            (false, false, false, Sleep::AWAKE);
        worker_record.line.clear();
        self.requests.words()[self.layout.occupant(worker)].store(0, SeqCst);
        let words = self.workers[worker as usize].answers.words();
        words[Layout::UNREAD].store(0, Relaxed);
        words[Layout::WORKER_SLEEP].store(Sleep::AWAKE.bits(), Relaxed);
        words[Layout::EXECUTED].store(0, Relaxed);
        words[Layout::ATTACHED].store(0, SeqCst);
    }

    /// Stops reading a worker that has written invalid frames.
    pub(super) fn mark_broken(&mut self, worker: u32) {
        if std::mem::replace(&mut self.workers[worker as usize].broken, true) {
            return;
        }
        self.found.push_back(Event::Broken(worker));
        for entry in self.held_by(worker) {
            self.lose(entry);
        }
    }

    /// Reports the request as lost; its slot stays in use.
    fn lose(&mut self, entry: Entry) {
        let record = &mut self.records[entry.slot as usize];
        if !std::mem::replace(&mut record.forsaken, true) {
            self.found.push_back(Event::Lost(Ticket(entry)));
        }
    }

    /// The requests that a worker has.
    pub(super) fn held_by(&self, worker: u32) -> Vec<Entry> {
        let has = |entry: Entry, record: &Record| match (record.state, self.owner(entry.slot)) {
            (State::Begun(owner, _), _) => owner == worker,
            (State::Submitted, Ownership::Taken(serial, owner)) if serial == entry.serial => owner == worker,
            (State::Submitted, Ownership::Queued(serial)) if serial == entry.serial => false,
            // A stranger has overwritten the word.
            (State::Submitted, _) => self.says_it_holds(worker, entry),
            (State::Free | State::Filling | State::Aside, _) => false,
        };
        let entries = (0..).zip(&self.records).map(|(slot, record)| (Entry { slot, serial: record.serial }, record));
        entries.filter(|(entry, record)| has(*entry, record)).map(|(entry, _)| entry).collect()
    }

    fn says_it_holds(&self, worker: u32, entry: Entry) -> bool {
        let words = self.workers[worker as usize].answers.words();
        let held = &words[self.layout.holding(0)..self.layout.holding(self.layout.shape.areas)];
        held.iter().any(|word| word.load(SeqCst) == entry.bits())
    }

    /// Compares shared memory with the edge's own records, and repairs words that a stranger has overwritten. Call it from
    /// time to time, after [`Edge::next`] has returned nothing. A request that is in doubt at two audits in a row, and that
    /// no worker claims, is put into the queue again.
    pub fn audit(&mut self) {
        self.forget_taken();
        // A stranger may have overwritten the count of arrivals.
        (self.arrivals, self.counted) = (None, None);
        let head = &self.claims.words()[Layout::HEAD];
        if let Some(oldest) = self.waiting.front().map(|waiting| waiting.position)
            && head.load(Acquire).wrapping_sub(oldest) as i64 > 0
        {
            // Workers search from the head on, so none would find the oldest request.
            head.store(oldest, Release);
        }
        // Free slots are used from the lowest number on, so those in use are mostly the first ones.
        let mut left = self.records.len() - self.free.len();
        for slot in 0..self.layout.shape.slots {
            if left == 0 {
                break;
            }
            let record = self.records[slot as usize];
            left -= usize::from(record.state != State::Free);
            if record.state == State::Submitted {
                self.audit_request(Entry { slot, serial: record.serial }, record);
            }
        }
        if !self.waiting.is_empty() {
            self.wake_another();
        }
    }

    fn audit_request(&mut self, entry: Entry, record: Record) {
        let owner = self.owner(entry.slot);
        if owner == Ownership::Queued(entry.serial) && !record.forsaken {
            let found = self.waiting.binary_search_by_key(&record.position, |waiting| waiting.position);
            if found.is_err() {
                // A worker had taken the request, but a stranger has marked it as queued again.
                self.enqueue(entry);
            }
            return;
        }
        let is_sensible = matches!(owner, Ownership::Taken(serial, worker)
            if serial == entry.serial && (worker as usize) < self.workers.len() && self.says_it_holds(worker, entry));
        let slot = entry.slot as usize;
        self.records[slot].suspicious = !is_sensible;
        if is_sensible {
            self.note_taken(entry);
        }
        if is_sensible || !record.suspicious {
            return;
        }
        match (0..self.layout.shape.workers).find(|worker| self.says_it_holds(*worker, entry)) {
            None if record.forsaken => self.release(entry),
            None if record.contested => {
                self.lose(entry);
                self.release(entry);
            }
            None => self.enqueue(entry),
            Some(worker) => {
                self.ownership(entry.slot).store(Ownership::Taken(entry.serial, worker).bits(), Release);
                if record.contested || self.workers[worker as usize].broken {
                    self.lose(entry);
                }
            }
        }
    }
}
