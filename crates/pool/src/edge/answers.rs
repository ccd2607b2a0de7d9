//! Reads the frames of workers. The edge trusts nothing in them.

use super::slot_records::{Record, State};
use super::{Edge, Ticket};
use crate::frames::{HEAD_BYTES, Header, Kind, RingBuffer, numbers};
use crate::orders::{DescriptorRequest, NO_DEADLINE};
use crate::shape::{Layout, UNREAD_BITS};
use crate::words::{Entry, Ownership};
use std::fs::File;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::time::Duration;

/// An event of the pool. Its bytes, if it has any, are in the buffer that was passed to [`Edge::next`].
#[derive(Debug)]
pub enum Event {
    /// A whole response: its head has this many bytes, and the content follows it. The ticket is no longer valid.
    Whole(Ticket, usize),
    /// The head of a response.
    Head(Ticket),
    /// The head of an informational response.
    Interim(Ticket),
    /// A piece of content.
    Content(Ticket),
    /// The trailers. The end of the response is a separate event.
    Trailers(Ticket),
    /// A part of a file as content; `None` if its descriptor did not arrive, so that the response cannot be completed.
    File(Ticket, Option<File>, FilePart),
    /// A message for the error log of the client that sent the request.
    Message(Ticket),
    /// A part of the commands of the app for its connection: the bytes.
    Commands(Ticket),
    /// The worker asks for this descriptor: see [`Edge::send_descriptor`].
    DescriptorRequest(Ticket, DescriptorRequest),
    /// The app wants another deadline: this time from now, or none.
    Deadline(Ticket, Option<Duration>),
    /// The response is complete; the ticket is no longer valid.
    Finished(Ticket),
    /// The worker has abandoned the exchange; the ticket is no longer valid.
    Abandoned(Ticket),
    /// The worker that had the request is dead or broken; the ticket is no longer valid.
    Lost(Ticket),
    /// This worker wrote invalid frames. Kill it, and [report its death](Edge::report_death) when its process has ended. Until
    /// then the edge reads nothing from it and does not reuse its slots.
    Broken(u32),
}

/// A part of a file. The pool does not check whether the file has that many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePart {
    /// The position of the first byte in the file.
    pub offset: u64,
    /// The number of bytes.
    pub size: u64,
}

/// The progress of the edge in reading an area.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reader {
    pub(super) read: u64,
    /// The published position when the edge last loaded and checked it. The edge reads up to this position before it loads it
    /// again.
    limit: u64,
    pub(super) answer_of: AnswerOf,
    paused: bool,
    listed: bool,
}

impl Reader {
    /// A reader that has read an area up to `read`, in the middle of the answer to an exchange.
    pub(super) fn at(read: u64, answer_of: AnswerOf) -> Self {
        Self { read, limit: read, answer_of, paused: false, listed: false }
    }

    /// Skips the rest: nothing is left to read.
    pub(super) fn settle(&mut self) {
        *self = Self { listed: self.listed, ..Self::at(self.read, AnswerOf::Nothing) };
    }
}

/// The exchange to which the next frames of an area belong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AnswerOf {
    /// No exchange: the next frame must begin one.
    #[default]
    Nothing,
    Exchange(Entry),
    /// An exchange that is no longer in the pool.
    Past,
}

/// A violation of the frame format by a worker.
struct Breach;

impl Edge {
    /// Finds the workers that have published something since the last call; returns whether there may be events now. Call
    /// [`Edge::next`] afterwards until it returns nothing.
    pub fn gather(&mut self) -> bool {
        self.count_workers();
        for worker in 0..self.workers_in_use as u32 {
            let worker_record = &self.workers[worker as usize];
            let unread = &worker_record.answers.words()[Layout::UNREAD];
            if worker_record.broken || unread.load(Relaxed) == 0 {
                continue;
            }
            let mut unread = unread.swap(0, AcqRel);
            let used = self.used_areas(worker);
            self.pace.note_published();
            while unread != 0 {
                let mut area = unread.trailing_zeros();
                unread &= unread - 1;
                while area < used {
                    self.look_at(worker, area);
                    area += UNREAD_BITS;
                }
            }
        }
        self.may_have_events()
    }

    /// The number of areas of a place that may have frames: the worker's own number, limited to the number of areas that
    /// exist.
    #[inline]
    pub(super) fn used_areas(&self, worker: u32) -> u32 {
        let used = self.workers[worker as usize].answers.words()[Layout::USED].load(Acquire);
        u32::try_from(used).unwrap_or(u32::MAX).min(self.layout.shape.areas)
    }

    fn may_have_events(&self) -> bool {
        !self.lively.is_empty() || !self.found.is_empty() || self.any_dying
    }

    /// Loads the position up to which an area has been written, and checks it.
    #[inline]
    pub(super) fn look_at(&mut self, worker: u32, area: u32) {
        let written = self.workers[worker as usize].answers.words()[Layout::written(area)].load(Acquire);
        let most = self.layout.area_size(area) as u64;
        let reader = self.reader(worker, area);
        if written.wrapping_sub(reader.read) > most {
            return self.mark_broken(worker);
        }
        reader.limit = written;
        if !reader.listed && !reader.paused && reader.limit != reader.read {
            reader.listed = true;
            self.lively.push_back((worker, area));
        }
    }

    /// Returns the next event, and puts its bytes into `bytes`, whose former content is overwritten.
    #[inline]
    pub fn next(&mut self, bytes: &mut Vec<u8>) -> Option<Event> {
        if self.found.is_empty()
            && let Some(&(worker, area)) = self.lively.front()
            && let Some((entry, head)) = self.read_usual(worker, area, bytes)
        {
            return Some(Event::Whole(Ticket(entry), head));
        }
        if self.may_have_events() { self.next_of_any_kind(bytes) } else { None }
    }

    #[inline(never)]
    fn next_of_any_kind(&mut self, bytes: &mut Vec<u8>) -> Option<Event> {
        loop {
            if let Some(event) = self.found.pop_front() {
                return Some(event);
            }
            let Some(&(worker, area)) = self.lively.front() else {
                if self.release_dead() {
                    continue;
                }
                return None;
            };
            match self.read(worker, area, bytes) {
                Ok(Some(event)) => return Some(event),
                Ok(None) => self.unlist(),
                Err(Breach) => {
                    self.unlist();
                    self.mark_broken(worker);
                }
            }
        }
    }

    /// Reads the most frequent frame: the whole response to a request that its worker has taken and whose client waits.
    /// `None` if the frame may be of another kind or invalid; then nothing was changed.
    #[inline]
    fn read_usual(&mut self, worker: u32, area: u32, bytes: &mut Vec<u8>) -> Option<(Entry, usize)> {
        let worker_record = self.workers.get_mut(worker as usize)?;
        let reader = worker_record.readers.get_mut(area as usize)?;
        let position = reader.read;
        let most = reader.limit.wrapping_sub(position) as usize;
        if most == 0 || worker_record.broken || reader.paused || reader.answer_of != AnswerOf::Nothing {
            return None;
        }
        let ring_buffer = RingBuffer(&worker_record.answers.words()[self.layout.area(area)]);
        let header = ring_buffer.header(position, most)?;
        let length = header.bytes_of_whole()?;
        let [entry, head] = ring_buffer.numbers_of_whole(position);
        let (entry, head) = (Entry::from_bits(entry)?, usize::try_from(head).ok().filter(|head| *head <= length)?);
        let record = self.records.get_mut(entry.slot as usize)?;
        let ownership = &self.claims.words()[self.layout.ownership(entry.slot)];
        if record.serial != entry.serial
            || record.state != State::Submitted
            || record.forsaken
            || ownership.load(Acquire) != Ownership::Taken(entry.serial, worker).bits()
        {
            return None;
        }
        ring_buffer.read_parts_of_whole(position, length, bytes);
        worker_record.read = true;
        reader.read = position.wrapping_add(header.words() as u64);
        if reader.read == reader.limit {
            // This area, the first of the list, has no more to read.
            reader.listed = false;
            self.lively.pop_front();
        }
        ownership.store(Ownership::Edge(entry.serial).bits(), Release);
        *record = Record::new(entry.serial, State::Free);
        self.free.push(entry.slot);
        let words = self.requests.words();
        // If the edge dies between these writes, `take_over` repairs this for the next edge.
        words[self.layout.answer_of(worker, area)].store(0, Relaxed);
        words[self.layout.consumed(worker, area)].store(reader.read, Release);
        self.note_wait(entry.slot, worker);
        Some((entry, head))
    }

    fn unlist(&mut self) {
        if let Some((worker, area)) = self.lively.pop_front() {
            self.reader(worker, area).listed = false;
        }
    }

    /// Stops reading the answer to this request until [`Edge::resume`], so that its worker must wait once its area is full.
    /// Returns `false` if the answer is already complete, or if there is none. The edge must then read the rest, at most one
    /// area, because another answer may follow it.
    pub fn pause(&mut self, ticket: Ticket) -> bool {
        let Some(record) = self.current(ticket.0).filter(|record| !record.forsaken) else { return false };
        let State::Begun(worker, area) = record.state else { return false };
        let paused = self.layout.paused(worker, area);
        self.requests.words()[paused].store(1, SeqCst);
        // A worker that begins another answer in this area without seeing the pause has published the end of this answer
        // before.
        let is_complete = self.is_complete(worker, area);
        self.reader(worker, area).paused = true;
        if is_complete {
            self.resume_reading(worker, area);
        }
        !is_complete
    }

    /// Whether the answer that is being read from an area has been published to its end. An area with invalid frames also
    /// counts as ended.
    fn is_complete(&mut self, worker: u32, area: u32) -> bool {
        let mut position = self.reader(worker, area).read;
        let answers = self.workers[worker as usize].answers.words();
        let written = answers[Layout::written(area)].load(SeqCst);
        let ring_buffer = RingBuffer(&answers[self.layout.area(area)]);
        let mut left = written.wrapping_sub(position) as usize;
        if left > ring_buffer.0.len() {
            return true;
        }
        while left > 0 {
            match ring_buffer.header(position, left) {
                Some(header) if !header.kind.ends() => {
                    left -= header.words();
                    position = position.wrapping_add(header.words() as u64);
                }
                _ => return true,
            }
        }
        false
    }

    /// Continues reading after [`Edge::pause`].
    pub fn resume(&mut self, ticket: Ticket) {
        if let Some(record) = self.current(ticket.0)
            && let State::Begun(worker, area) = record.state
        {
            self.resume_reading(worker, area);
            self.note_progress(ticket.0);
        }
    }

    pub(super) fn resume_reading(&mut self, worker: u32, area: u32) {
        if std::mem::take(&mut self.reader(worker, area).paused) {
            self.requests.words()[self.layout.paused(worker, area)].store(0, SeqCst);
            // A worker that waits for an area can have this one now.
            self.workers[worker as usize].read = true;
            if !self.workers[worker as usize].broken {
                self.look_at(worker, area);
            }
        }
    }

    pub(super) fn reader(&mut self, worker: u32, area: u32) -> &mut Reader {
        let readers = &mut self.workers[worker as usize].readers;
        if readers.len() <= area as usize {
            readers.resize(area as usize + 1, Reader::default());
            // The next edge begins with as many areas.
            self.requests.words()[self.layout.looked_at(worker)].fetch_max(u64::from(area) + 1, Relaxed);
        }
        &mut readers[area as usize]
    }

    /// Reads frames until one is an event; `None` if nothing is left to read now.
    fn read(&mut self, worker: u32, area: u32, bytes: &mut Vec<u8>) -> Result<Option<Event>, Breach> {
        loop {
            let reader = *self.reader(worker, area);
            let worker_record = &mut self.workers[worker as usize];
            // At most one area: that was checked when the limit was set.
            let most = reader.limit.wrapping_sub(reader.read) as usize;
            if worker_record.broken || reader.paused || most == 0 {
                return Ok(None);
            }
            let ring_buffer = RingBuffer(&worker_record.answers.words()[self.layout.area(area)]);
            let header = ring_buffer.header(reader.read, most).ok_or(Breach)?;
            worker_record.read = true;
            let event = if header.kind == Kind::Whole {
                let numbers = ring_buffer.read_whole(reader.read, header, bytes).ok_or(Breach)?;
                self.understand_whole(worker, area, numbers, bytes.len())
            } else {
                ring_buffer.read(reader.read, header, bytes);
                if header.kind == Kind::Head && !self.heads.is_empty() {
                    self.complete_head(worker, area, bytes);
                }
                self.understand(worker, area, header, bytes)
            };
            let read = reader.read.wrapping_add(header.words() as u64);
            let reader = self.reader(worker, area);
            reader.read = read;
            let answer_of = if let AnswerOf::Exchange(entry) = reader.answer_of { entry.bits() } else { 0 };
            // If the edge dies between these two writes, `take_over` repairs this for the next edge.
            self.requests.words()[self.layout.answer_of(worker, area)].store(answer_of, Relaxed);
            self.requests.words()[self.layout.consumed(worker, area)].store(read, Release);
            if let Some(event) = event? {
                return Ok(Some(event));
            }
        }
    }

    /// Prepends the earlier pieces of a head to its last one.
    #[cold]
    fn complete_head(&mut self, worker: u32, area: u32, bytes: &mut Vec<u8>) {
        if let Some(first) = self.heads.remove(&(worker, area)) {
            bytes.splice(..0, first);
        }
    }

    fn understand(&mut self, worker: u32, area: u32, header: Header, bytes: &[u8]) -> Result<Option<Event>, Breach> {
        let answer_of = self.reader(worker, area).answer_of;
        let entry = match (header.kind, answer_of) {
            (Kind::Begin, _) => {
                let [bits] = numbers(bytes).ok_or(Breach)?;
                let entry = Entry::from_bits(bits).ok_or(Breach)?;
                match answer_of {
                    // The exchange that the previous edge was reading continues; no new one begins.
                    AnswerOf::Exchange(begun) if begun == entry => {}
                    AnswerOf::Exchange(_) => return Err(Breach),
                    AnswerOf::Nothing | AnswerOf::Past => {
                        self.reader(worker, area).answer_of = self.begin(worker, area, entry)?;
                    }
                }
                return Ok(None);
            }
            (_, AnswerOf::Nothing) => return Err(Breach),
            (Kind::MoreHead, AnswerOf::Exchange(_)) => {
                let head = self.heads.entry((worker, area)).or_default();
                if head.len() + bytes.len() > HEAD_BYTES {
                    return Err(Breach);
                }
                head.extend_from_slice(bytes);
                return Ok(None);
            }
            (Kind::End | Kind::Abandon, _) => {
                self.reader(worker, area).answer_of = AnswerOf::Nothing;
                self.heads.remove(&(worker, area));
                match answer_of {
                    AnswerOf::Exchange(entry) => entry,
                    _ => return Ok(None),
                }
            }
            (_, AnswerOf::Exchange(entry)) => entry,
            (_, AnswerOf::Past) => return Ok(None),
        };
        let ticket = Ticket(entry);
        let forsaken = self.records[entry.slot as usize].forsaken;
        self.note_progress(entry);
        let event = match header.kind {
            Kind::Begin | Kind::Whole | Kind::MoreHead => return Err(Breach),
            Kind::Head => Event::Head(ticket),
            Kind::Interim => Event::Interim(ticket),
            Kind::Content => Event::Content(ticket),
            Kind::Trailers => Event::Trailers(ticket),
            Kind::Message => Event::Message(ticket),
            Kind::Commands => Event::Commands(ticket),
            Kind::DescriptorRequest => {
                let [bits] = numbers(bytes).ok_or(Breach)?;
                Event::DescriptorRequest(ticket, DescriptorRequest::from_bits(bits).ok_or(Breach)?)
            }
            Kind::Deadline => {
                let [time] = numbers(bytes).ok_or(Breach)?;
                let time = (time != NO_DEADLINE).then(|| Duration::from_millis(time));
                self.note_deadline(entry, time);
                Event::Deadline(ticket, time)
            }
            Kind::File => {
                let [tag, offset, size] = numbers(bytes).ok_or(Breach)?;
                // The worker sent the descriptor before it published the frame.
                let file = self.workers[worker as usize].line.take(tag).ok().flatten();
                Event::File(ticket, file.map(File::from), FilePart { offset, size })
            }
            Kind::End | Kind::Abandon => {
                self.release(entry);
                self.drop_unclaimed(worker);
                if header.kind == Kind::End { Event::Finished(ticket) } else { Event::Abandoned(ticket) }
            }
        };
        Ok((!forsaken).then_some(event))
    }

    /// Drops the descriptors that a worker has sent but that no frame has named, once the worker has no request whose frames
    /// could name them.
    fn drop_unclaimed(&mut self, worker: u32) {
        if self.workers[worker as usize].line.keeps() && self.held_by(worker).is_empty() {
            self.workers[worker as usize].line.drop_kept();
        }
    }

    /// Interprets a frame with a whole response: the entry of its exchange, and the number of bytes of its head. `length` is
    /// the number of bytes of head and content.
    #[inline]
    fn understand_whole(
        &mut self,
        worker: u32,
        area: u32,
        [entry, head]: [u64; 2],
        length: usize,
    ) -> Result<Option<Event>, Breach> {
        let entry = Entry::from_bits(entry).ok_or(Breach)?;
        let head = usize::try_from(head).ok().filter(|head| *head <= length).ok_or(Breach)?;
        let answer_of = match self.reader(worker, area).answer_of {
            // The worker already sent a part, such as an informational response.
            answer_of @ AnswerOf::Exchange(begun) if begun == entry => answer_of,
            AnswerOf::Exchange(_) => return Err(Breach),
            AnswerOf::Nothing | AnswerOf::Past => self.begin(worker, area, entry)?,
        };
        self.reader(worker, area).answer_of = AnswerOf::Nothing;
        if !self.heads.is_empty() {
            self.heads.remove(&(worker, area));
        }
        let AnswerOf::Exchange(entry) = answer_of else { return Ok(None) };
        let forsaken = self.records[entry.slot as usize].forsaken;
        self.release(entry);
        Ok((!forsaken).then_some(Event::Whole(Ticket(entry), head)))
    }

    /// Begins the answer to a request.
    fn begin(&mut self, worker: u32, area: u32, entry: Entry) -> Result<AnswerOf, Breach> {
        let record = self.records.get(entry.slot as usize).ok_or(Breach)?;
        if record.serial != entry.serial || record.state != State::Submitted {
            return Ok(AnswerOf::Past);
        }
        let taken = Ownership::Taken(entry.serial, worker);
        match self.owner(entry.slot) {
            owner if owner == taken => {}
            Ownership::Taken(serial, other) if serial == entry.serial && (other as usize) < self.workers.len() => {
                // The shared word and the worker contradict each other: `audit` decides.
                self.records[entry.slot as usize].contested = true;
                return Ok(AnswerOf::Past);
            }
            // A stranger has overwritten the word, so only the answering worker's own statement is left. If another worker
            // takes the request at this moment, its answer comes too late.
            _ => self.ownership(entry.slot).store(taken.bits(), Release),
        }
        self.records[entry.slot as usize].state = State::Begun(worker, area);
        self.note_wait(entry.slot, worker);
        Ok(AnswerOf::Exchange(entry))
    }
}

#[cfg(test)]
mod tests;
