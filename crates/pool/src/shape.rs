//! The sizes of a pool's memory, and the positions of its parts.

use std::io;
use std::ops::Range;

/// Bytes of a word: all shared memory consists of atomics of 64 bits.
pub(crate) const WORD: usize = 8;

/// Words of a cache line. Different processes write to different lines.
const LINE: usize = 8;

/// The alignment of mappings: the largest page size of the systems on which Linux runs with the kernel's usual options.
const PAGE: usize = 65_536;

/// The most areas of a worker: an answer that another thread writes, or that is deferred, keeps an area while its client stays
/// connected.
const MOST_AREAS: u32 = 4096;

/// The number of bits in the word [`Layout::UNREAD`]. Area `n` has bit `n % UNREAD_BITS`, so several areas may share a bit.
pub(crate) const UNREAD_BITS: u32 = 64;

/// The number of areas of full size. A worker that uses more mostly has clients that follow a stream, a few bytes at a time.
const LARGE_AREAS: u32 = 64;

/// The divisor of the full size for all other areas.
const PART_OF_AREA: usize = 8;

/// The smallest area: it has room for a response with a few fields and for the reserve of [`crate::frames`].
const LEAST_AREA: u32 = 512;

/// The sizes of a pool. All of its memory is reserved at once and never grows; pages that are not touched cost nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Requests that may be in the pool at once, waiting or with a worker: up to 65,535.
    pub slots: u32,
    /// The most bytes of a request in memory.
    pub request_bytes: u32,
    /// Places for workers, up to 65,535, counting all generations that may be alive together. Each thread that takes requests
    /// by itself needs a place.
    pub workers: u32,
    /// Exchanges that one worker may have unfinished at once: up to 4,096.
    pub areas: u32,
    /// Bytes of one unfinished response that may wait for the edge; rounded up to a power of two, at least 512. The 65th
    /// area and later ones have an eighth of that.
    pub area_bytes: u32,
}

impl Shape {
    /// The bytes of the file that all its processes share; 0 if the shape is out of range.
    #[must_use]
    pub fn size(self) -> usize {
        Layout::new(self).map_or(0, |layout| layout.size())
    }
}

/// The positions of all parts, in words from the beginning of each part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) shape: Shape,
    /// Entries of the queue: a power of two, at least twice the number of slots.
    pub(crate) queue: usize,
    /// Words of one of the first areas: a power of two.
    pub(crate) area: usize,
    /// Words of each of the other areas: also a power of two.
    small_area: usize,
    /// The first words of [`Layout::holding`] and [`Layout::area`].
    first_holding: usize,
    first_area: usize,
    /// Words of the bytes of one request.
    request: usize,
    /// The first word of the requests' bytes.
    bodies: usize,
    requests_size: usize,
    claims_size: usize,
    answers_size: usize,
}

/// The part that the edge writes and workers read.
impl Layout {
    /// The number of requests that were ever put into the queue.
    pub(crate) const TAIL: usize = 0;
    /// The last serial number that was used.
    pub(crate) const SERIAL: usize = 1;
    /// The id of the edge's process; 0 if there is no edge.
    pub(crate) const EDGE: usize = 2;
    /// The [`Availability`](crate::Availability) of the app. Only the parent process of edge and workers writes it, rarely.
    pub(crate) const AVAILABILITY: usize = 3;
    /// The generation of the app, which the same process counts.
    pub(crate) const GENERATION: usize = 4;
    /// See [`crate::sleep`].
    pub(crate) const EDGE_SLEEP: usize = LINE;
    const QUEUE: usize = 2 * LINE;
    /// The number of words of this part for each area: `consumed`, `answer_of` and `paused`.
    pub(crate) const OF_AREA: usize = 3;

    /// The word of the entry at a position of the queue. A position counts all entries that were ever put into the queue.
    #[inline]
    pub(crate) fn entry(&self, position: u64) -> usize {
        Self::QUEUE + (position as usize & (self.queue - 1))
    }

    /// The number of bytes of the request in a slot.
    #[inline]
    pub(crate) fn length(&self, slot: u32) -> usize {
        Self::QUEUE + self.queue + slot as usize * 2
    }

    /// The edge's orders to the worker that has taken the request in a slot.
    #[inline]
    pub(crate) fn orders(&self, slot: u32) -> usize {
        self.length(slot) + 1
    }

    /// The id of the process that uses a place, as the edge has noted it; 0 for none.
    #[inline]
    pub(crate) fn occupant(&self, worker: u32) -> usize {
        self.length(self.shape.slots) + worker as usize
    }

    /// The number of a place's areas, from the first one on, that edges have ever read; the others are unused.
    #[inline]
    pub(crate) fn looked_at(&self, worker: u32) -> usize {
        self.occupant(self.shape.workers) + worker as usize
    }

    /// The position up to which the edge has read an area.
    #[inline]
    pub(crate) fn consumed(&self, worker: u32, area: u32) -> usize {
        let number = worker as usize * self.shape.areas as usize + area as usize;
        self.looked_at(self.shape.workers) + number * Self::OF_AREA
    }

    /// The entry of the exchange whose answer the edge is reading in an area; 0 for none.
    #[inline]
    pub(crate) fn answer_of(&self, worker: u32, area: u32) -> usize {
        self.consumed(worker, area) + 1
    }

    /// Nonzero while the edge deliberately does not read an area.
    #[inline]
    pub(crate) fn paused(&self, worker: u32, area: u32) -> usize {
        self.consumed(worker, area) + 2
    }

    /// The words of this part before those of areas.
    pub(crate) fn before_areas(&self) -> Range<usize> {
        0..self.consumed(0, 0)
    }

    /// The words of the first `count` areas of a place: [`Layout::OF_AREA`] for each.
    pub(crate) fn of_areas(&self, worker: u32, count: u32) -> Range<usize> {
        self.consumed(worker, 0)..self.consumed(worker, count)
    }

    /// The words with the bytes of a request.
    #[inline]
    pub(crate) fn request(&self, slot: u32) -> Range<usize> {
        let start = self.bodies + slot as usize * self.request;
        start..start + self.request
    }
}

/// The edge's notes for the process that created the memory, in a separate file: see [`crate::progress_note`].
impl Layout {
    /// The arrival of the request in a slot, in nanoseconds.
    #[inline]
    pub(crate) fn since(slot: u32) -> usize {
        slot as usize * 2
    }

    /// The progress of the request in a slot: see [`crate::progress_note`].
    #[inline]
    pub(crate) fn progress_note(slot: u32) -> usize {
        slot as usize * 2 + 1
    }

    /// The size of the file with the notes, in bytes.
    pub(crate) fn notes_size(&self) -> usize {
        (Self::since(self.shape.slots) * WORD).next_multiple_of(PAGE)
    }
}

/// The part that all processes write.
impl Layout {
    /// The position at which workers begin to look for requests that no worker has taken.
    pub(crate) const HEAD: usize = 0;
    /// The number of times that a worker has taken a place.
    pub(crate) const ARRIVALS: usize = LINE;

    /// The word that names the owner of a slot.
    #[inline]
    pub(crate) fn ownership(&self, slot: u32) -> usize {
        2 * LINE + slot as usize * 2
    }

    /// The time at which the request in a slot was taken, in nanoseconds, as its worker reports. The word is not with the
    /// worker's answers, but beside the word by which the worker has claimed the slot: the worker may take its next request,
    /// and report its time, before the edge reads the answer to this request.
    #[inline]
    pub(crate) fn taken_at(&self, slot: u32) -> usize {
        self.ownership(slot) + 1
    }
}

/// The part that one worker and the edge write.
impl Layout {
    /// See [`crate::sleep`].
    pub(crate) const WORKER_SLEEP: usize = 0;
    /// The id of the process of the worker that uses the place; 0 for none.
    pub(crate) const ATTACHED: usize = LINE;
    /// The id of the process of the worker that uses the place, if the process that forked it saw it execute another program;
    /// otherwise a different value.
    pub(crate) const EXECUTED: usize = LINE + 1;
    /// Bits for the areas that have something to read: see [`UNREAD_BITS`].
    pub(crate) const UNREAD: usize = 2 * LINE;
    /// The number of areas that the place's workers have ever used, counted from the first one.
    pub(crate) const USED: usize = 2 * LINE + 1;
    const WRITTEN: usize = 3 * LINE;

    /// The number of words that were ever written into an area.
    #[inline]
    pub(crate) fn written(area: u32) -> usize {
        Self::WRITTEN + area as usize
    }

    /// The entry of the request that is being taken for an area, or was last taken for it.
    #[inline]
    pub(crate) fn holding(&self, area: u32) -> usize {
        self.first_holding + area as usize
    }

    /// The number of words of an area.
    #[inline]
    pub(crate) fn area_size(&self, area: u32) -> usize {
        if area < LARGE_AREAS { self.area } else { self.small_area }
    }

    /// The words of an area.
    #[inline]
    pub(crate) fn area(&self, area: u32) -> Range<usize> {
        let (large, size) = if area < LARGE_AREAS { (area, self.area) } else { (LARGE_AREAS, self.small_area) };
        let start = self.first_area + large as usize * self.area + (area - large) as usize * self.small_area;
        start..start + size
    }
}

/// The parts, as ranges of bytes in the file.
impl Layout {
    pub(crate) fn new(shape: Shape) -> io::Result<Self> {
        let Shape { slots, workers, areas, .. } = shape;
        let few = |count: u32| (1..=u32::from(u16::MAX)).contains(&count);
        if !few(slots) || !few(workers) || !(1..=MOST_AREAS).contains(&areas) {
            return Err(invalid("slots, workers or areas"));
        }
        if shape.request_bytes == 0 || shape.area_bytes > 1 << 30 || shape.request_bytes > 1 << 30 {
            return Err(invalid("sizes"));
        }
        let queue = (slots as usize * 2).next_power_of_two();
        let area = shape.area_bytes.max(LEAST_AREA).next_power_of_two() as usize / WORD;
        let small_area = (area / PART_OF_AREA).max(LEAST_AREA as usize / WORD);
        let request = (shape.request_bytes as usize).div_ceil(WORD * LINE) * LINE;
        let first_holding = Self::WRITTEN + (areas as usize).next_multiple_of(LINE);
        let first_area = (first_holding + areas as usize).next_multiple_of(LINE);
        let (bodies, requests_size, claims_size, answers_size) = (0, 0, 0, 0);
        let small = Self {
            shape,
            queue,
            area,
            small_area,
            first_holding,
            first_area,
            request,
            bodies,
            requests_size,
            claims_size,
            answers_size,
        };
        let bodies = small.consumed(workers, 0).next_multiple_of(LINE);
        let pages = |words: usize| words.checked_mul(WORD).and_then(|bytes| bytes.checked_next_multiple_of(PAGE));
        let all = || {
            let requests_size = pages(bodies.checked_add(request.checked_mul(slots as usize)?)?)?;
            let claims_size = pages(small.ownership(slots))?;
            let answers_size = pages(small.area(areas).start)?;
            requests_size.checked_add(claims_size)?.checked_add(answers_size.checked_mul(workers as usize)?)?;
            Some(Self { bodies, requests_size, claims_size, answers_size, ..small })
        };
        all().ok_or_else(|| invalid("sum"))
    }

    pub(crate) fn requests(&self) -> Range<usize> {
        0..self.requests_size
    }

    pub(crate) fn claims(&self) -> Range<usize> {
        self.requests_size..self.requests_size + self.claims_size
    }

    pub(crate) fn answers(&self, worker: u32) -> Range<usize> {
        let start = self.claims().end + worker as usize * self.answers_size;
        start..start + self.answers_size
    }

    pub(crate) fn size(&self) -> usize {
        self.answers(self.shape.workers).start
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("the {what} of a pool are out of range"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { slots: 5, request_bytes: 100, workers: 3, areas: 2, area_bytes: 600 };

    #[test]
    fn nothing_overlaps() {
        let layout = Layout::new(SHAPE).expect("a usual shape");
        let mut taken: Vec<Range<usize>> = vec![0..4, Layout::EDGE_SLEEP..Layout::EDGE_SLEEP + 1];
        taken.extend((0..layout.queue as u64).map(|position| layout.entry(position)).map(|at| at..at + 1));
        for slot in 0..SHAPE.slots {
            taken.push(layout.length(slot)..layout.orders(slot) + 1);
            taken.push(layout.request(slot));
        }
        for worker in 0..SHAPE.workers {
            taken.extend((0..SHAPE.areas).map(|area| layout.consumed(worker, area)).map(|at| at..at + 3));
            taken.push(layout.occupant(worker)..layout.occupant(worker) + 1);
            taken.push(layout.looked_at(worker)..layout.looked_at(worker) + 1);
            assert!(layout.looked_at(worker) < layout.before_areas().end);
        }
        taken.sort_by_key(|range| range.start);
        assert!(taken.windows(2).all(|pair| pair[0].end <= pair[1].start), "{taken:?}");
        assert!(taken.last().is_some_and(|last| last.end * WORD <= layout.requests().len()));
        assert!(layout.ownership(SHAPE.slots) * WORD <= layout.claims().len());
        assert!(layout.area(SHAPE.areas - 1).end * WORD <= layout.answers(0).len());
        assert_eq!((layout.requests().end, layout.claims().end), (layout.claims().start, layout.answers(0).start));
        assert_eq!((layout.area, layout.queue), (128, 16));
        assert!(layout.request(0).len() * WORD >= 100);
    }

    #[test]
    fn areas_behind_the_first_ones_are_small() {
        let layout = Layout::new(Shape { areas: 512, area_bytes: 256 << 10, ..SHAPE }).expect("a usual shape");
        let areas: Vec<Range<usize>> = (0..512).map(|area| layout.area(area)).collect();
        assert!(areas.windows(2).all(|pair| pair[0].end == pair[1].start), "{areas:?}");
        assert_eq!([0, 63, 64, 511].map(|area| areas[area].len() * WORD), [256 << 10, 256 << 10, 32 << 10, 32 << 10]);
        assert!(areas[511].end * WORD <= layout.answers(0).len());
        assert!(layout.answers(0).len() <= 32 << 20, "a place of a worker costs address space");
        let least = Layout::new(Shape { areas: 100, area_bytes: 512, ..SHAPE }).expect("a usual shape");
        assert_eq!(least.area(99).len() * WORD, 512);
    }

    #[test]
    fn shapes_that_cannot_be_are_refused() {
        for shape in [
            Shape { slots: 0, ..SHAPE },
            Shape { slots: 65_536, ..SHAPE },
            Shape { workers: 0, ..SHAPE },
            Shape { areas: 4097, ..SHAPE },
            Shape { request_bytes: 0, ..SHAPE },
            Shape { area_bytes: u32::MAX, ..SHAPE },
        ] {
            assert!(Layout::new(shape).is_err(), "{shape:?}");
        }
    }
}
