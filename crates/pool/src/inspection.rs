//! Lists the requests in a pool, for the process that made the memory.
//!
//! That process is neither the edge nor a worker, and waits for neither. It copies words by reading the file. The word of a
//! slot's owner has the serial number of the use of the slot, and changes before the slot is used again, so the process reads
//! these words before and after all others, and leaves out a slot that has changed meanwhile. Any process that may write to the
//! memory may have written anything there: every number is checked, and invalid ones are left out. A stranger that marks a slot
//! as taken can at worst make an ended request appear in the list.

use crate::memory::Memory;
use crate::orders::Orders;
use crate::progress_note::ProgressNote;
use crate::shape::{Layout, WORD};
use crate::words::{Entry, Ownership, Serial};
use rustix::io::{Errno, pread};
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// The progress of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestState {
    /// It waits for a worker after this many other requests.
    Queued(usize),
    /// A worker has the request.
    Taken {
        /// The index of the worker that has it.
        worker: u32,
        /// The id of the worker's process, as the edge has noted it; `None` if the edge has not noted it yet.
        process: Option<u32>,
        /// The worker has begun to answer.
        begun: bool,
        /// The edge does not read the answer now, because the client takes it slowly.
        paused: bool,
    },
}

/// A request that was in the pool at the time of the inspection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PooledRequest {
    entry: Entry,
    /// The progress of the request.
    pub state: RequestState,
    /// The time of its arrival, on the clock of the edge.
    pub since: Duration,
    /// The time, on the same clock, at which the worker last made progress; until then, the time at which the edge first found
    /// the request with a worker. `None` if the edge has noticed neither.
    pub progress: Option<Duration>,
    /// The deadline that the app asked for last, counted from `progress`. `None` if the app has not asked; `Some(None)` if it
    /// asked for no deadline.
    pub own_deadline: Option<Option<Duration>>,
    /// The edge's orders about the request.
    pub orders: Orders,
}

/// A copy of words of shared memory.
struct Words(Vec<u8>);

impl Words {
    fn at(&self, word: usize) -> u64 {
        self.0.as_chunks().0.get(word).map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    }
}

impl Memory {
    /// Lists the requests that are in the pool, in arbitrary order.
    ///
    /// # Errors
    /// The operating system refuses a read, or the memory was adopted.
    pub fn inspect(&self) -> io::Result<Vec<PooledRequest>> {
        let before = self.owners()?;
        let part = self.layout.before_areas();
        let words = Words(self.copy(self.layout.requests().start, part.len() * WORD)?);
        let speakers = self.speakers(&words)?;
        let notes = self.notes.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        let notes = Words(copy(notes, 0, self.layout.notes_size())?);
        let after = self.owners()?;
        let mut positions = self.queue_positions(&words, &after);
        self.add_positions_aside(&mut positions, &notes, &after);
        let see = |slot: u32| {
            let (now, entry) = in_use(slot, after.at(self.layout.ownership(slot)))?;
            let is_same = in_use(slot, before.at(self.layout.ownership(slot))).is_some_and(|(_, then)| then == entry);
            let orders = words.at(self.layout.orders(slot));
            // The edge writes its orders, which have the serial number, before it puts a request into the queue.
            if !is_same || Serial::from_bits(orders >> 24) != entry.serial {
                return None;
            }
            let state = match now {
                Ownership::Taken(_, worker) if worker < self.layout.shape.workers => {
                    let (begun, paused) = speakers.get(&entry.bits()).map_or((false, false), |paused| (true, *paused));
                    let process = u32::try_from(words.at(self.layout.occupant(worker))).ok().filter(|process| *process != 0);
                    RequestState::Taken { worker, process, begun, paused }
                }
                Ownership::Queued(_) | Ownership::Aside(_) => RequestState::Queued(*positions.get(&entry.bits())?),
                _ => return None,
            };
            let since = Duration::from_nanos(notes.at(Layout::since(slot)));
            let ProgressNote { progress, own_deadline } = ProgressNote::from_bits(notes.at(Layout::progress_note(slot)));
            let progress = progress.map(|progress| since.saturating_add(progress));
            Some(PooledRequest { entry, state, since, progress, own_deadline, orders: Orders::from_bits(orders, entry.serial) })
        };
        Ok((0..self.layout.shape.slots).filter_map(see).collect())
    }

    /// Returns the first bytes of an inspected request, at most `most` of them; `None` if the request has ended.
    ///
    /// # Errors
    /// The operating system refuses a read.
    pub fn look_at(&self, pooled: &PooledRequest, most: usize) -> io::Result<Option<Vec<u8>>> {
        let slot = pooled.entry.slot;
        let start = self.layout.requests().start;
        let length = Words(self.copy(start + self.layout.length(slot) * WORD, WORD)?).at(0);
        let room = self.layout.request(slot);
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(room.len() * WORD).min(most);
        let bytes = self.copy(start + room.start * WORD, length)?;
        let owner = Words(self.copy(self.layout.claims().start + self.layout.ownership(slot) * WORD, WORD)?).at(0);
        Ok(in_use(slot, owner).is_some_and(|(_, entry)| entry == pooled.entry).then_some(bytes))
    }

    /// Copies the words that name the owners of slots.
    fn owners(&self) -> io::Result<Words> {
        let Range { start, .. } = self.layout.claims();
        self.copy(start, self.layout.ownership(self.layout.shape.slots) * WORD).map(Words)
    }

    /// Returns the number of requests before each request in the queue, by the bits of its entry.
    fn queue_positions(&self, words: &Words, owners: &Words) -> HashMap<u64, usize> {
        let tail = words.at(Layout::TAIL);
        let mut positions = HashMap::new();
        for position in tail.saturating_sub(self.layout.queue as u64)..tail {
            let bits = words.at(self.layout.entry(position));
            let Some(entry) = Entry::from_bits(bits).filter(|entry| entry.slot < self.layout.shape.slots) else { continue };
            if owners.at(self.layout.ownership(entry.slot)) == Ownership::Queued(entry.serial).bits() {
                let position = positions.len();
                positions.entry(bits).or_insert(position);
            }
        }
        positions
    }

    /// Counts the requests set aside as if they followed all others, in the order of their age.
    fn add_positions_aside(&self, positions: &mut HashMap<u64, usize>, notes: &Words, owners: &Words) {
        let aside = |slot: u32| match Ownership::from_bits(owners.at(self.layout.ownership(slot))) {
            Ownership::Aside(serial) => Some((notes.at(Layout::since(slot)), Entry { slot, serial }.bits())),
            _ => None,
        };
        let mut all: Vec<(u64, u64)> = (0..self.layout.shape.slots).filter_map(aside).collect();
        all.sort_unstable();
        let queued = positions.len();
        positions.extend(all.into_iter().zip(queued..).map(|((_, bits), position)| (bits, position)));
    }

    /// Returns the requests whose answers the edge is reading, by the bits of their entries, and whether it has paused reading.
    fn speakers(&self, words: &Words) -> io::Result<HashMap<u64, bool>> {
        let mut speakers = HashMap::new();
        for worker in 0..self.layout.shape.workers {
            let count = u32::try_from(words.at(self.layout.looked_at(worker))).unwrap_or(u32::MAX).min(self.layout.shape.areas);
            if count == 0 {
                continue;
            }
            let part = self.layout.of_areas(worker, count);
            let start = self.layout.requests().start + part.start * WORD;
            let areas = Words(self.copy(start, part.len() * WORD)?);
            let word = |number: usize| areas.at(number - part.start);
            for area in 0..count {
                let bits = word(self.layout.answer_of(worker, area));
                if bits != 0 {
                    speakers.insert(bits, word(self.layout.paused(worker, area)) != 0);
                }
            }
        }
        Ok(speakers)
    }

    /// Copies the word that begins at this byte.
    pub(crate) fn word(&self, start: usize) -> io::Result<u64> {
        self.copy(start, WORD).map(|bytes| Words(bytes).at(0))
    }

    /// Copies bytes of the memory.
    fn copy(&self, start: usize, length: usize) -> io::Result<Vec<u8>> {
        copy(&self.file, start, length)
    }
}

/// Copies bytes of a file.
fn copy(file: &OwnedFd, start: usize, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut read = 0;
    while read < length {
        match pread(file, &mut bytes[read..], (start + read) as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => read += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}

/// Returns the owner of a slot and its use, if its request waits or a worker has the request. `owner` is the slot's word.
fn in_use(slot: u32, owner: u64) -> Option<(Ownership, Entry)> {
    let owner = Ownership::from_bits(owner);
    match owner {
        Ownership::Queued(serial) | Ownership::Aside(serial) | Ownership::Taken(serial, _) => {
            // A slot that was never used has number 0.
            (serial.bits() != 0).then_some((owner, Entry { slot, serial }))
        }
        Ownership::Edge(_) | Ownership::Senseless => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::Shared;
    use crate::{Edge, Shape, Ticket, Worker};
    use std::os::fd::AsFd;
    use std::sync::atomic::Ordering::SeqCst;

    const SHAPE: Shape = Shape { slots: 4, request_bytes: 64, workers: 3, areas: 2, area_bytes: 512 };
    const SECOND: Duration = Duration::from_secs(1);

    fn submit(edge: &mut Edge, text: &str, now: Duration) -> Ticket {
        edge.set_time(now);
        let mut reserved = edge.reserve().expect("a slot");
        edge.room(&mut reserved)[..text.len()].copy_from_slice(text.as_bytes());
        edge.submit(reserved, text.len())
    }

    fn collect(edge: &mut Edge, now: Duration) {
        edge.set_time(now);
        edge.gather();
        while edge.next(&mut Vec::new()).is_some() {}
    }

    /// The requests of an inspection, the oldest first, with their bytes.
    fn seen(memory: &Memory) -> Vec<(String, PooledRequest)> {
        let mut all = memory.inspect().expect("memory can be read");
        all.sort_by_key(|pooled| pooled.since);
        let text = |pooled: &PooledRequest| memory.look_at(pooled, 64).expect("it can be read").expect("it is still there");
        all.into_iter().map(|pooled| (String::from_utf8(text(&pooled)).expect("text"), pooled)).collect()
    }

    #[test]
    fn requests_are_seen_where_they_are() {
        let memory = Memory::new(SHAPE).expect("memory");
        let mut edge = Edge::new(&memory).expect("memory");
        assert_eq!(seen(&memory), []);
        let _first = Worker::attach(&memory, 0).expect("a place");
        let mut worker = Worker::attach(&memory, 1).expect("a place");
        edge.arrivals();
        let ticket = submit(&mut edge, "one", SECOND);
        submit(&mut edge, "two", SECOND * 2);
        submit(&mut edge, "three", SECOND * 3);
        let mut taken = worker.take().expect("the oldest");
        let all = seen(&memory);
        let own = Some(std::process::id());
        let stages: Vec<(&str, RequestState)> = all.iter().map(|(text, pooled)| (&text[..], pooled.state)).collect();
        let held = |begun, paused| RequestState::Taken { worker: 1, process: own, begun, paused };
        assert_eq!(stages, [("one", held(false, false)), ("two", RequestState::Queued(0)), ("three", RequestState::Queued(1))]);
        assert_eq!(all.iter().map(|(_, one)| one.since).collect::<Vec<_>>(), [SECOND, SECOND * 2, SECOND * 3]);
        assert_eq!(all[0].1.progress, None, "the edge has not looked");
        edge.set_time(SECOND * 4);
        edge.audit();
        assert_eq!(seen(&memory)[0].1.progress, Some(SECOND * 4));
        edge.set_time(SECOND * 5);
        edge.audit();
        assert_eq!(seen(&memory)[0].1.progress, Some(SECOND * 4), "it has only been seen again");

        worker.head(&mut taken, b"head").expect("room");
        worker.flush(&taken);
        collect(&mut edge, SECOND * 6);
        let one = seen(&memory)[0].1;
        assert_eq!((one.state, one.progress, one.own_deadline), (held(true, false), Some(SECOND * 6), None));
        worker.deadline(&mut taken, Some(SECOND * 9)).expect("room");
        collect(&mut edge, SECOND * 7);
        assert!(edge.pause(ticket));
        let one = seen(&memory)[0].1;
        assert_eq!((one.state, one.progress, one.own_deadline), (held(true, true), Some(SECOND * 7), Some(Some(SECOND * 9))));
        edge.set_time(SECOND * 8);
        edge.resume(ticket);
        edge.interrupt(ticket);
        edge.withdraw(ticket);
        let one = seen(&memory)[0].1;
        assert_eq!((one.state, one.progress), (held(true, false), Some(SECOND * 8)));
        assert!(one.orders.gone && one.orders.interrupted && !one.orders.warned);
        worker.finish(taken);
        collect(&mut edge, SECOND * 9);
        assert_eq!(seen(&memory).len(), 2);
        assert_eq!(memory.look_at(&one, 64).expect("it can be read"), None, "it has ended");
        submit(&mut edge, "four", SECOND * 10);
        assert_eq!(memory.look_at(&one, 64).expect("it can be read"), None, "another one is there");
    }

    #[test]
    fn requests_that_are_aside_wait_behind_the_others() {
        let memory = Memory::new(SHAPE).expect("memory");
        let mut edge = Edge::new(&memory).expect("memory");
        let tickets = ["one", "two", "three"].map(|text| submit(&mut edge, text, SECOND));
        edge.set_aside(|ticket| ticket != tickets[2], &mut Vec::new());
        let mut stages: Vec<(String, RequestState)> = seen(&memory).into_iter().map(|(text, one)| (text, one.state)).collect();
        stages.sort_by(|one, other| one.0.cmp(&other.0));
        let expected =
            [("one", 1), ("three", 0), ("two", 2)].map(|(text, position)| (text.to_owned(), RequestState::Queued(position)));
        assert_eq!(stages, expected);
    }

    #[test]
    fn a_request_that_is_put_back_keeps_its_age() {
        let memory = Memory::new(SHAPE).expect("memory");
        let mut edge = Edge::new(&memory).expect("memory");
        let ticket = submit(&mut edge, "again", SECOND * 9);
        edge.backdate(ticket, SECOND * 2);
        assert_eq!(seen(&memory)[0].1.since, SECOND * 2);
    }

    #[test]
    fn no_more_is_copied_than_was_asked_for() {
        let memory = Memory::new(SHAPE).expect("memory");
        let mut edge = Edge::new(&memory).expect("memory");
        submit(&mut edge, "a long text", SECOND);
        let pooled = memory.inspect().expect("it can be read")[0];
        assert_eq!(memory.look_at(&pooled, 6).expect("it can be read").as_deref(), Some(&b"a long"[..]));
        // Overwrites words of the edge, which are not trusted either.
        let words = Shared::map(memory.as_fd(), memory.layout.requests()).expect("memory");
        words.words()[memory.layout.length(pooled.entry.slot)].store(u64::MAX, SeqCst);
        let all = memory.look_at(&pooled, usize::MAX).expect("it can be read").expect("it is there");
        assert_eq!(all.len(), 64);
    }

    #[test]
    fn what_strangers_write_is_left_out() {
        let memory = Memory::new(SHAPE).expect("memory");
        let mut edge = Edge::new(&memory).expect("memory");
        submit(&mut edge, "one", SECOND);
        let claims = Shared::map(memory.as_fd(), memory.layout.claims()).expect("memory");
        let serial = memory.inspect().expect("it can be read")[0].entry.serial;
        let other = serial.next();
        let far = Ownership::Taken(serial, SHAPE.workers);
        for nonsense in [u64::MAX, 3, Ownership::Taken(other, 1).bits(), Ownership::Queued(other).bits(), far.bits()] {
            claims.words().iter().for_each(|word| word.store(nonsense, SeqCst));
            assert_eq!(memory.inspect().expect("it can be read"), [], "{nonsense:#x}");
        }
        let requests = Shared::map(memory.as_fd(), memory.layout.requests()).expect("memory");
        for nonsense in [0, u64::MAX, 0x01, 0x0101_0101_0101_0101] {
            requests.words().iter().for_each(|word| word.store(nonsense, SeqCst));
            for word in [u64::MAX, Ownership::Taken(Serial::from_bits(nonsense >> 24), 1).bits()] {
                claims.words().iter().for_each(|words| words.store(word, SeqCst));
                for pooled in memory.inspect().expect("it can be read") {
                    let _ = memory.look_at(&pooled, usize::MAX).expect("it can be read");
                }
            }
        }
    }
}
