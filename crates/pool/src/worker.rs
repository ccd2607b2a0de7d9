//! A worker's side of a pool: takes a request when it is idle, and writes the answer.

mod edge_process;
mod sleeping;

use edge_process::EdgeProcess;

use crate::frames::{HEAD_BYTES, Header, Kind, RESERVE, ROOM_TO_BEGIN, RingBuffer};
use crate::mapping::{Readable, Shared};
use crate::memory::Memory;
use crate::orders::{DescriptorRequest, NO_DEADLINE, Orders};
use crate::passing::DescriptorChannel;
use crate::queue::Queue;
use crate::shape::{Layout, Shape, UNREAD_BITS, WORD};
use crate::sleep::{Doorbell, Sleep, Waits};
use crate::step::step;
use crate::words::Entry;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::time::Duration;

/// The most answers, or pieces of answers, that a worker publishes without ringing while the edge dozes. For the next one it
/// rings, so that the edge sends them while the worker answers more.
const MOST_UNRUNG: u32 = 16;

/// A request that this worker has taken. The worker must respond to it, finish it or abandon it; if this value is dropped, the
/// request stays open until the worker ends.
#[derive(Debug)]
#[must_use = "its client waits for an answer"]
pub struct Taken {
    entry: Entry,
    area: u32,
    begun: bool,
}

/// The reason why a part of a response was not written.
#[derive(Debug)]
pub enum NotWritten {
    /// There is no room now: the edge must first read the written part. See [`Worker::prepare_to_wait_for_room`].
    Full,
    /// The part would not fit even into an empty area, or the operating system refused to send the descriptor.
    Never(io::Error),
}

#[derive(Clone, Debug)]
struct Area {
    /// The indexes of the words in which the edge publishes how far it has read, and whether it has paused reading.
    consumed: usize,
    paused: usize,
    /// The number of words that were ever written, and how many of them the edge may see.
    written: u64,
    published: u64,
    busy: bool,
    /// The number of words of the area.
    size: usize,
}

/// A worker's side of a pool.
#[derive(Debug)]
pub struct Worker {
    number: u32,
    layout: Layout,
    requests: Readable,
    claims: Shared,
    answers: Shared,
    doorbell: Arc<Doorbell>,
    edge_doorbell: Arc<Doorbell>,
    line: DescriptorChannel,
    areas: Vec<Area>,
    /// The number of areas that have an exchange.
    busy: u32,
    /// The number of areas that have ever had frames.
    used: u32,
    edge: EdgeProcess,
    /// The number of descriptors sent.
    passed: u64,
    sleep: Sleep,
    /// The edge's last sleep for which this worker has rung.
    rung: Sleep,
    /// The number of answers, or pieces of them, for which the worker did not ring for the dozing edge.
    unrung: u32,
    /// The time: see [`Worker::set_time`].
    now: u64,
}

impl Worker {
    /// Takes the first place of the pool that is free. The process should then drop `memory`, to keep the rest of it out of
    /// reach.
    ///
    /// # Errors
    /// All places are in use ([`io::ErrorKind::AddrInUse`]), or the operating system refuses to map the memory.
    pub fn attach_free(memory: &Memory) -> io::Result<Self> {
        for number in 0..memory.shape().workers {
            match Self::attach(memory, number) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                outcome => return outcome,
            }
        }
        let what = format!("all {} places of the pool are in use", memory.shape().workers);
        Err(io::Error::new(io::ErrorKind::AddrInUse, what))
    }

    /// Takes the place `number` of the pool, counted from 0. The process should then drop `memory`, to keep the rest of it out
    /// of reach.
    ///
    /// # Errors
    /// The place does not exist ([`io::ErrorKind::NotFound`]), another worker uses it or has died there and the edge has not
    /// yet handled its death ([`io::ErrorKind::AddrInUse`]), or the operating system refuses to map the memory.
    pub fn attach(memory: &Memory, number: u32) -> io::Result<Self> {
        let layout = memory.layout;
        let ends = memory.workers.get(number as usize).ok_or(io::ErrorKind::NotFound)?.clone();
        let requests = Readable::map(memory.as_fd(), layout.requests())?;
        let claims = Shared::map(memory.as_fd(), layout.claims())?;
        let answers = Shared::map(memory.as_fd(), layout.answers(number))?;
        // A stranger may have overwritten the word of a place whose worker is alive, so the word in which the edge has noted
        // the worker is checked as well.
        let is_free = requests.load(layout.occupant(number), SeqCst) == 0;
        let process = u64::from(std::process::id());
        if !is_free || answers.words()[Layout::ATTACHED].compare_exchange(0, process, SeqCst, SeqCst).is_err() {
            let what =
                format!("place {number} of the pool belongs to another worker, or to one whose death its edge has not handled");
            return Err(io::Error::new(io::ErrorKind::AddrInUse, what));
        }
        let looked_at = requests.load(layout.looked_at(number), Acquire);
        let area = |area| {
            let (consumed, paused) = (layout.consumed(number, area), layout.paused(number, area));
            let written = if u64::from(area) < looked_at { requests.load(consumed, Acquire) } else { 0 };
            Area { consumed, paused, written, published: written, busy: false, size: layout.area_size(area) }
        };
        let areas = (0..layout.shape.areas).map(area).collect();
        // The edge must watch this process from now on, even if it is idle.
        claims.words()[Layout::ARRIVALS].fetch_add(1, SeqCst);
        memory.edge_doorbell.ring();
        let (edge_doorbell, line) = (Arc::clone(&memory.edge_doorbell), DescriptorChannel::new(ends.worker_end));
        let (sleep, rung) = (Sleep::from_bits(answers.words()[Layout::WORKER_SLEEP].load(SeqCst)), Sleep::AWAKE);
        let doorbell = ends.doorbell;
        let mut worker = Self {
            number,
            layout,
            requests,
            claims,
            answers,
            doorbell,
            edge_doorbell,
            line,
            areas,
            busy: 0,
            used: 0,
            edge: EdgeProcess::default(),
            passed: 0,
            sleep,
            rung,
            unrung: 0,
            now: 0,
        };
        worker.watch_edge();
        Ok(worker)
    }

    /// Sets the time, in nanoseconds of a clock that the edge also uses. Until the next call, the worker reports this time as
    /// the one at which it takes requests.
    #[inline]
    pub fn set_time(&mut self, nanoseconds: u64) {
        self.now = nanoseconds;
    }

    /// Takes the oldest waiting request; `None` if no request waits or if all areas are in use.
    #[inline]
    pub fn take(&mut self) -> Option<Taken> {
        let taken = self.take_oldest();
        if taken.is_none() && self.unrung > 0 {
            self.wake_edge(false);
        }
        taken
    }

    #[inline]
    fn take_oldest(&mut self) -> Option<Taken> {
        // Most calls find nothing, and need no area for it.
        if self.queue().is_empty() {
            return None;
        }
        let area = self.usable_area()?;
        let holding = &self.answers.words()[self.layout.holding(area)];
        let entry = self.queue().take(self.number, holding)?;
        self.claims.words()[self.layout.taken_at(entry.slot)].store(self.now, Relaxed);
        self.areas[area as usize].busy = true;
        self.busy += 1;
        Some(Taken { entry, area, begun: false })
    }

    #[inline]
    fn queue(&self) -> Queue<'_> {
        Queue { layout: &self.layout, requests: &self.requests, claims: self.claims.words() }
    }

    /// The number of further exchanges that this worker may have unfinished.
    #[must_use]
    pub fn vacant(&self) -> u32 {
        self.layout.shape.areas - self.busy
    }

    /// The shape of the memory.
    #[must_use]
    pub const fn shape(&self) -> Shape {
        self.layout.shape
    }

    /// The bytes of a request.
    #[inline]
    #[must_use]
    #[allow(unsafe_code)]
    pub fn request(&self, taken: &Taken) -> &[u8] {
        let slot = taken.entry.slot;
        let length = usize::try_from(self.requests.load(self.layout.length(slot), Acquire)).unwrap_or(usize::MAX);
        // SAFETY: only the edge can write there. It uses the slot again only after this worker has reported the end of the
        // request, or has ended itself. That report borrows the worker mutably, so the result no longer lives then.
        unsafe { self.requests.bytes(self.layout.request(slot), length) }
    }

    /// The edge's orders for this exchange.
    #[inline]
    #[must_use]
    pub fn orders(&self, taken: &Taken) -> Orders {
        Orders::from_bits(self.requests.load(self.layout.orders(taken.entry.slot), SeqCst), taken.entry.serial)
    }

    /// Reads the messages on the [line](Self::line): calls, whose meaning is in [`Worker::orders`], and late descriptors,
    /// which are dropped. Call it when the line is readable and no exchange waits for [`Worker::take_descriptor`].
    ///
    /// # Errors
    /// The operating system refuses to receive.
    pub fn receive(&mut self) -> io::Result<()> {
        // No exchange has this tag.
        self.line.take_only(u64::MAX).map(drop)
    }

    /// Writes a whole response, whose content is the concatenation of `parts`, and ends it. From then on, the memory of the
    /// request's bytes may hold another request. This is the cheapest way to answer, because the edge reads the response in one
    /// piece.
    ///
    /// # Errors
    /// There is no room for the response now, or even an empty area is too small for it. Nothing was written, and the exchange
    /// continues with the returned value.
    #[inline]
    pub fn respond(&mut self, taken: Taken, head: &[u8], parts: &[&[u8]]) -> Result<(), Taken> {
        let bytes = head.len() + parts.iter().map(|part| part.len()).sum::<usize>();
        if Header::words_of_whole(bytes) > self.room(taken.area) {
            return Err(taken);
        }
        let ring_buffer = RingBuffer(&self.answers.words()[self.layout.area(taken.area)]);
        let written = &mut self.areas[taken.area as usize].written;
        step();
        *written = ring_buffer.write_whole(*written, taken.entry.bits(), head, parts);
        self.let_go(&taken);
        Ok(())
    }

    /// Writes a whole response as [`Worker::respond`] does, but in place: `write` gets a buffer for the `head` bytes of the
    /// head and the `content` bytes of the content together, and fills all of it.
    ///
    /// # Errors
    /// There is no room for the response, or only in two pieces. Nothing was written, and the exchange continues with the
    /// returned value.
    #[inline]
    #[allow(unsafe_code)]
    pub fn respond_in_place(
        &mut self,
        taken: Taken,
        head: usize,
        content: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<(), Taken> {
        let (bytes, number) = (head + content, taken.area as usize);
        let words = Header::words_of_whole(bytes);
        let position = self.areas[number].written;
        let area = self.layout.area(taken.area);
        let Some(run) = RingBuffer::bytes_of_whole(position, area.len(), words) else { return Err(taken) };
        if words > self.room(taken.area) {
            return Err(taken);
        }
        step();
        // SAFETY: only this worker writes into its areas, and an edge reads there only published words. Because there is room,
        // the edge has already read the former content of these words; it reads the new content only after it is published.
        let room = unsafe { self.answers.bytes_mut(area.start + run.start..area.start + run.end) };
        write(&mut room[..bytes]);
        let ring_buffer = RingBuffer(&self.answers.words()[area]);
        self.areas[number].written = ring_buffer.write_numbers_of_whole(position, taken.entry.bits(), head, bytes);
        self.let_go(&taken);
        Ok(())
    }

    /// Returns the word with the edge's orders for this exchange, and the serial number of the exchange, for a signal handler.
    /// The upper 40 bits of the word are the serial number of the exchange for which the orders are meant; orders with another
    /// serial number do not count. The word stays mapped until the process ends.
    #[must_use]
    pub fn order_word(&self, taken: &Taken) -> (&'static AtomicU64, u64) {
        (self.requests.keep(self.layout.orders(taken.entry.slot)), taken.entry.serial.bits())
    }

    /// Writes the head of the response, in a form that the edge can read.
    ///
    /// # Errors
    /// [`NotWritten::Full`]: there is no room for the head now. [`NotWritten::Never`]: even an empty area is too small for it.
    pub fn head(&mut self, taken: &mut Taken, bytes: &[u8]) -> Result<(), NotWritten> {
        self.write_whole(taken, Kind::Head, bytes)
    }

    /// Writes the head of the response in as many pieces as necessary. `written` is the number of bytes that earlier calls have
    /// written; this call increases it.
    ///
    /// # Errors
    /// There is no room for the rest now ([`NotWritten::Full`]), or the head is larger than [`HEAD_BYTES`]
    /// ([`NotWritten::Never`]).
    pub fn head_in_pieces(&mut self, taken: &mut Taken, bytes: &[u8], written: &mut usize) -> Result<(), NotWritten> {
        loop {
            let rest = &bytes[*written..];
            match self.head(taken, rest) {
                Err(NotWritten::Never(_)) if bytes.len() <= HEAD_BYTES => {}
                outcome => return outcome,
            }
            let room = self.room(taken.area).saturating_sub(Self::needed(taken, 0)) * WORD;
            if room == 0 {
                return Err(NotWritten::Full);
            }
            let piece = &rest[..rest.len().min(room)];
            self.write(taken, Kind::MoreHead, piece);
            *written += piece.len();
        }
    }

    /// Writes the head of an informational response, which precedes the final one.
    ///
    /// # Errors
    /// The same as for [`Worker::head`].
    pub fn interim(&mut self, taken: &mut Taken, bytes: &[u8]) -> Result<(), NotWritten> {
        self.write_whole(taken, Kind::Interim, bytes)
    }

    /// Writes the trailers. Then [finish](Worker::finish) the exchange.
    ///
    /// # Errors
    /// The same as for [`Worker::head`].
    pub fn trailers(&mut self, taken: &mut Taken, bytes: &[u8]) -> Result<(), NotWritten> {
        self.write_whole(taken, Kind::Trailers, bytes)
    }

    /// Writes a message for the error log of the client that sent the request.
    ///
    /// # Errors
    /// The same as for [`Worker::head`].
    pub fn message(&mut self, taken: &mut Taken, bytes: &[u8]) -> Result<(), NotWritten> {
        self.write_whole(taken, Kind::Message, bytes)
    }

    /// Writes as many bytes of commands for the connection as there is room for, and returns that number.
    pub fn commands(&mut self, taken: &mut Taken, bytes: &[u8]) -> usize {
        self.pieces(taken, Kind::Commands, bytes)
    }

    /// Asks the edge for a descriptor that belongs to the request: see [`Worker::take_descriptor`].
    ///
    /// # Errors
    /// There is no room now ([`NotWritten::Full`]).
    pub fn request_descriptor(&mut self, taken: &mut Taken, request: DescriptorRequest) -> Result<(), NotWritten> {
        self.write_whole(taken, Kind::DescriptorRequest, &request.bits().to_ne_bytes())?;
        self.flush_before_waiting(taken);
        Ok(())
    }

    /// Returns the descriptor that was asked for; `None` if it has not arrived yet. [`Worker::line`] becomes readable when it
    /// arrives. Descriptors for other exchanges are dropped: a worker waits for one descriptor at a time.
    ///
    /// # Errors
    /// The process may not have more descriptors (`EMFILE`), or the operating system refuses.
    pub fn take_descriptor(&mut self, taken: &Taken) -> io::Result<Option<OwnedFd>> {
        self.line.take_only(taken.entry.bits())
    }

    /// Writes as much of a piece of content as there is room for, and returns that number of bytes.
    #[inline]
    pub fn content(&mut self, taken: &mut Taken, piece: &[u8]) -> usize {
        self.pieces(taken, Kind::Content, piece)
    }

    #[inline]
    fn pieces(&mut self, taken: &mut Taken, kind: Kind, piece: &[u8]) -> usize {
        let mut taken_bytes = 0;
        while taken_bytes < piece.len() {
            let begin = if taken.begun { 0 } else { 2 };
            let room = self.room(taken.area).saturating_sub(RESERVE + begin + 1) * WORD;
            if room == 0 {
                break;
            }
            let part = &piece[taken_bytes..piece.len().min(taken_bytes + room)];
            self.write(taken, kind, part);
            taken_bytes += part.len();
        }
        taken_bytes
    }

    /// Passes a part of a file to the edge, which sends that part to the client.
    ///
    /// # Errors
    /// There is no room in the area or on the line now ([`NotWritten::Full`]), or the operating system refuses to send the
    /// descriptor ([`NotWritten::Never`]).
    pub fn file(&mut self, taken: &mut Taken, file: BorrowedFd<'_>, offset: u64, size: u64) -> Result<(), NotWritten> {
        if self.room(taken.area) < Self::needed(taken, 3 * WORD) {
            return Err(NotWritten::Full);
        }
        let tag = self.passed;
        self.line.pass(tag, file).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => NotWritten::Full,
            _ => NotWritten::Never(error),
        })?;
        self.passed += 1;
        let mut bytes = [0; 3 * WORD];
        for (target, number) in bytes.as_chunks_mut().0.iter_mut().zip([tag, offset, size]) {
            *target = number.to_ne_bytes();
        }
        self.write(taken, Kind::File, &bytes);
        Ok(())
    }

    /// Passes the deadline that the app has set for this request to the edge: `time` from now, or no deadline if it is `None`.
    ///
    /// # Errors
    /// There is no room now ([`NotWritten::Full`]).
    pub fn deadline(&mut self, taken: &mut Taken, time: Option<Duration>) -> Result<(), NotWritten> {
        let most = NO_DEADLINE - 1;
        let time = time.map_or(NO_DEADLINE, |time| u64::try_from(time.as_millis()).unwrap_or(most).min(most));
        self.write_whole(taken, Kind::Deadline, &time.to_ne_bytes())?;
        self.flush(taken);
        Ok(())
    }

    /// Publishes all frames of this exchange that were written so far. An edge that dozes or naps need not be rung for them
    /// while other requests wait in the queue: it reads the frames at the latest after its doze or nap.
    pub fn flush(&mut self, taken: &Taken) {
        self.publish(taken.area, true);
    }

    /// Like [`Worker::flush`], for a worker that then waits for the edge: also wakes an edge that dozes or naps.
    fn flush_before_waiting(&mut self, taken: &Taken) {
        self.publish(taken.area, false);
        if self.unrung > 0 {
            self.wake_edge(false);
        }
    }

    /// Ends the response. From then on, the memory of the request's bytes may hold another request.
    #[inline]
    pub fn finish(&mut self, mut taken: Taken) {
        self.write(&mut taken, Kind::End, &[]);
        self.let_go(&taken);
    }

    /// Abandons the exchange: the response, if one has begun, stays incomplete.
    pub fn abandon(&mut self, mut taken: Taken) {
        self.write(&mut taken, Kind::Abandon, &[]);
        self.let_go(&taken);
    }

    #[inline]
    fn let_go(&mut self, taken: &Taken) {
        self.areas[taken.area as usize].busy = false;
        self.busy -= 1;
        self.publish(taken.area, true);
    }

    fn write_whole(&mut self, taken: &mut Taken, kind: Kind, bytes: &[u8]) -> Result<(), NotWritten> {
        let needed = Self::needed(taken, bytes.len());
        if needed > self.areas[taken.area as usize].size {
            return Err(NotWritten::Never(io::ErrorKind::InvalidInput.into()));
        }
        if needed > self.room(taken.area) {
            return Err(NotWritten::Full);
        }
        self.write(taken, kind, bytes);
        Ok(())
    }

    /// Words that must be free for a frame with that many bytes.
    fn needed(taken: &Taken, bytes: usize) -> usize {
        let begin = if taken.begun { 0 } else { 2 };
        begin + 1 + bytes.div_ceil(WORD) + RESERVE
    }

    /// Writes a frame for which there is room.
    fn write(&mut self, taken: &mut Taken, kind: Kind, bytes: &[u8]) {
        let ring_buffer = RingBuffer(&self.answers.words()[self.layout.area(taken.area)]);
        let written = &mut self.areas[taken.area as usize].written;
        step();
        if !taken.begun {
            taken.begun = true;
            *written = ring_buffer.write(*written, Kind::Begin, &taken.entry.bits().to_ne_bytes());
        }
        *written = ring_buffer.write(*written, kind, bytes);
    }

    /// Makes the written frames visible to the edge. `can_wait`: see `wake_edge`.
    #[inline]
    fn publish(&mut self, number: u32, can_wait: bool) {
        let area = &mut self.areas[number as usize];
        if area.published == area.written {
            return;
        }
        area.published = area.written;
        if number >= self.used {
            // Written before the frames can be read, because the edge reads only the used areas of a dead worker.
            self.used = number + 1;
            step();
            self.answers.words()[Layout::USED].fetch_max(u64::from(self.used), Release);
        }
        step();
        self.answers.words()[Layout::written(number)].store(area.written, Release);
        step();
        self.answers.words()[Layout::UNREAD].fetch_or(1 << (number % UNREAD_BITS), SeqCst);
        self.wake_edge(can_wait);
    }

    /// Rings for the edge if it sleeps. With `can_wait`, the edge need not be woken at once if it only dozes.
    #[inline]
    fn wake_edge(&mut self, can_wait: bool) {
        let edge = Sleep::from_bits(self.requests.load(Layout::EDGE_SLEEP, SeqCst));
        if !edge.is_to_be_woken(self.rung) {
            self.unrung = 0;
        } else if edge.waits == Waits::Dozes && can_wait && self.unrung < MOST_UNRUNG && self.queue().has_more() {
            self.unrung += 1;
        } else {
            (self.rung, self.unrung) = (edge, 0);
            step();
            self.edge_doorbell.ring();
        }
    }

    /// The number of words that may be written into an area.
    #[inline]
    fn room(&self, number: u32) -> usize {
        self.room_in(&self.areas[number as usize])
    }

    #[inline]
    fn room_in(&self, area: &Area) -> usize {
        let used = area.written.wrapping_sub(self.requests.load(area.consumed, SeqCst));
        area.size.saturating_sub(used as usize)
    }

    /// An area for another exchange, preferably one that is at least half empty, because a whole response that does not fit is
    /// costly. `None` if no area is usable.
    #[inline]
    fn usable_area(&self) -> Option<u32> {
        self.area_with(|area| area.size / 2).or_else(|| self.area_with(|_| ROOM_TO_BEGIN))
    }

    /// The first area for another exchange that has at least that many free words.
    #[inline]
    fn area_with(&self, room: impl Fn(&Area) -> usize) -> Option<u32> {
        // A response in a paused area would wait for the slow client of the response before it.
        let paused = |area: &Area| self.requests.load(area.paused, SeqCst) != 0;
        let usable = |area: &Area| !area.busy && self.room_in(area) >= room(area) && !paused(area);
        self.areas.iter().position(usable).map(|number| number as u32)
    }
}

#[cfg(test)]
impl Worker {
    /// The line, for tests that send messages that a correct worker never sends.
    pub(crate) fn passing(&self) -> &DescriptorChannel {
        &self.line
    }
}
