//! Received bytes that no machine has consumed yet, and the pool of their buffers.

use oribi_message::Span;

/// Size of a pooled buffer: nearly every head fits, with the content of a form after it.
pub(super) const BUFFER_BYTES: usize = 16 << 10;

/// The most buffers that are kept for the next receiving connections (8 MiB); more are freed. An edge under load may receive
/// the requests of hundreds of connections before it queues the first, and then all their buffers return together.
const POOLED: usize = 512;

/// Unused buffers. The last one given back is used first, because it is most likely in the cache.
#[derive(Debug, Default)]
pub(super) struct Pool(Vec<Vec<u8>>);

impl Pool {
    fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_else(|| vec![0; BUFFER_BYTES])
    }

    fn give(&mut self, buffer: Vec<u8>) {
        if buffer.len() == BUFFER_BYTES && self.0.len() < POOLED {
            self.0.push(buffer);
        }
    }
}

/// The received bytes of a connection: unread bytes, and the head of the current request, which is kept until the exchange is
/// over. An empty input owns no memory.
#[derive(Debug, Default)]
pub(super) struct Input {
    bytes: Vec<u8>,
    // These are `u32`, as in a span: no head exceeds 1 GiB, and no buffer has room for 4 GiB.
    start: u32,
    end: u32,
    /// The span of the current request's head.
    pub(super) head: Option<Span>,
    /// Whether this buffer contains content of the current request, so that nothing in it may move.
    pub(super) pinned: bool,
}

impl Input {
    /// An input with these unread bytes.
    pub(super) fn holding(bytes: Vec<u8>) -> Self {
        let end = bytes.len() as u32;
        Self { bytes, end, ..Self::default() }
    }

    /// The bytes that no machine has consumed.
    #[inline]
    pub(super) fn unread(&self) -> &[u8] {
        &self.bytes[self.start as usize..self.end as usize]
    }

    /// The same, for a protocol that changes them in place.
    pub(super) fn unread_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start as usize..self.end as usize]
    }

    #[inline]
    pub(super) fn has_unread(&self) -> bool {
        self.start < self.end
    }

    /// The position of the unread bytes.
    #[inline]
    pub(super) fn position(&self) -> usize {
        self.start as usize
    }

    /// All received bytes that are still kept.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.end as usize]
    }

    /// The bytes of memory that the input owns.
    pub(super) fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes of the current head.
    #[inline]
    pub(super) fn head_bytes(&self) -> &[u8] {
        self.head.map_or(&[], |span| span.of(&self.bytes))
    }

    #[inline]
    pub(super) fn consume(&mut self, count: usize) {
        self.start += count as u32;
    }

    /// Returns room to receive into, which is never empty. `largest_head` is the limit for the size of a head.
    #[inline]
    pub(super) fn room(&mut self, pool: &mut Pool, largest_head: usize) -> &mut [u8] {
        if self.bytes.is_empty() {
            self.bytes = pool.take();
        } else if self.end as usize == self.bytes.len() {
            self.make_room(pool, largest_head);
        }
        &mut self.bytes[self.end as usize..]
    }

    #[inline]
    pub(super) fn received(&mut self, count: usize) {
        self.end += count as u32;
    }

    #[cold]
    fn make_room(&mut self, pool: &mut Pool, largest_head: usize) {
        let kept = self.head.map_or(0, |span| span.end);
        if self.start > kept && !self.pinned {
            self.bytes.copy_within(self.start as usize..self.end as usize, kept as usize);
            self.end -= self.start - kept;
            self.start = kept;
        } else if self.bytes.len() < BUFFER_BYTES {
            let mut larger = pool.take();
            larger[..self.end as usize].copy_from_slice(self.bytes());
            self.bytes = larger;
        } else {
            // This is bounded: the machine refuses a head above its limit, and pinned content was chosen to fit.
            let larger = (self.bytes.len() * 2).max(largest_head + BUFFER_BYTES);
            self.bytes.resize(larger, 0);
        }
    }

    /// Ends the current request, and gives the buffer back if nothing is unread.
    #[inline]
    pub(super) fn end_request(&mut self, pool: &mut Pool) {
        self.head = None;
        self.pinned = false;
        if !self.has_unread() {
            self.release(pool);
        }
    }

    /// Gives the buffer back if nothing is unread.
    #[inline]
    pub(super) fn release_if_read(&mut self, pool: &mut Pool) {
        if !self.has_unread() {
            self.release(pool);
        }
    }

    /// Drops all bytes, and gives the buffer back.
    #[inline]
    pub(super) fn release(&mut self, pool: &mut Pool) {
        // The buffer of a request that waits for an app was given back when the app got the request.
        if !self.bytes.is_empty() {
            pool.give(std::mem::take(&mut self.bytes));
        }
        self.start = 0;
        self.end = 0;
        self.head = None;
        self.pinned = false;
    }

    /// Moves a short remainder out of a pooled buffer, so that a slow client does not hold 16 KiB for a few bytes.
    pub(super) fn park(&mut self, pool: &mut Pool) {
        let end = self.end as usize;
        if self.bytes.len() != BUFFER_BYTES || end > BUFFER_BYTES / 4 {
            return;
        }
        let mut small = vec![0; (end + 1).next_power_of_two()];
        small[..end].copy_from_slice(self.bytes());
        pool.give(std::mem::replace(&mut self.bytes, small));
    }
}
