//! Buffers that the kernel receives into, and the bytes in them.
//!
//! The buffers are provided as a group: a socket that has received something takes the next buffer, so an idle socket holds
//! none. At first only a few buffers are in circulation: the kernel takes them in turn, and a buffer stays in the cache only if
//! its turn comes soon. Whenever the buffers run out, more are added.
#![allow(unsafe_code)]

use super::lent::Lent;
use io_uring::IoUring;
use io_uring::types::BufRingEntry;
use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

/// The number of the only group.
pub(super) const GROUP: u16 = 0;

/// Bytes of a buffer. Nearly every request fits. With one page each, pages of unused buffers are never allocated.
pub(super) const BUFFER_BYTES: usize = 4 << 10;

/// The most buffers in circulation, a power of two: 2 MiB.
const MOST: u16 = 512;

/// Buffers in circulation at first.
const FEWEST: u16 = 32;

/// No buffer.
const NONE: u16 = u16::MAX;

/// Aligned as the kernel requires for the ring of entries.
#[repr(C, align(4096))]
struct Page([u8; 4096]);

const ENTRY_PAGES: usize = (MOST as usize * size_of::<BufRingEntry>()).div_ceil(4096);

/// The buffers of one ring. The memory must outlive the ring: see [`super::ring::Ring`].
pub(super) struct Buffers {
    /// The entries in which the kernel finds the buffers.
    entries: Lent<[Page]>,
    /// [`MOST`] times [`BUFFER_BYTES`].
    memory: Lent<[u8]>,
    /// The number of bytes in each buffer, and the next buffer of the same socket.
    links: Box<[Link]>,
    tail: u16,
    in_circulation: u16,
}

#[derive(Clone, Copy)]
struct Link {
    size: u16,
    next: u16,
}

/// Buffers that one socket has received, in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    first: u16,
    last: u16,
    /// The number of bytes of the first buffer that have been taken.
    taken: u16,
}

impl Chain {
    pub(super) const EMPTY: Self = Self { first: NONE, last: NONE, taken: 0 };

    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.first == NONE
    }
}

impl Buffers {
    pub(super) fn new() -> Self {
        let page = |_| Page([0; 4096]);
        Self {
            entries: Lent::new((0..ENTRY_PAGES).map(page).collect()),
            memory: Lent::new(vec![0; MOST as usize * BUFFER_BYTES].into_boxed_slice()),
            links: vec![Link { size: 0, next: NONE }; MOST as usize].into_boxed_slice(),
            tail: 0,
            in_circulation: 0,
        }
    }

    /// Registers the group with `ring`.
    ///
    /// # Safety
    /// `self` must not be dropped before the ring.
    pub(super) unsafe fn register(&mut self, ring: &IoUring) -> io::Result<()> {
        // SAFETY: the entries are aligned and long enough, and by the contract of this function they exist as long as the ring.
        unsafe { ring.submitter().register_buf_ring_with_flags(self.entries.start::<Page>() as u64, MOST, GROUP, 0)? };
        self.circulate(FEWEST);
        Ok(())
    }

    /// Adds more buffers after they have run out.
    pub(super) fn grow(&mut self) {
        self.circulate(self.in_circulation);
    }

    fn circulate(&mut self, more: u16) {
        let end = (self.in_circulation + more).min(MOST);
        for number in self.in_circulation..end {
            self.provide(number);
        }
        self.in_circulation = end;
    }

    /// Gives a buffer (back) to the kernel.
    #[inline]
    fn provide(&mut self, number: u16) {
        let base = self.entries.start::<BufRingEntry>();
        let address = self.memory.start::<u8>().wrapping_add(usize::from(number) * BUFFER_BYTES);
        // SAFETY: the index is below the number of entries, and zeroed memory is a valid entry. The kernel writes no entry, and
        // reads an entry only after the tail has passed it. The tail is stored afterwards, so nothing else uses this entry
        // meanwhile.
        unsafe {
            let entry = &mut *base.add(usize::from(self.tail & (MOST - 1)));
            entry.set_addr(address as u64);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(number);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail lies inside the first entry, in a part that is not written above. It is aligned; the kernel only
        // reads it, and only this code writes it.
        unsafe { (*BufRingEntry::tail(base).cast::<AtomicU16>()).store(self.tail, Ordering::Release) };
    }

    /// Records that the kernel has put `size` bytes into the buffer `number` for the owner of `chain`.
    #[inline]
    pub(super) fn append(&mut self, chain: &mut Chain, number: u16, size: usize) {
        self.links[usize::from(number)] = Link { size: size.min(BUFFER_BYTES) as u16, next: NONE };
        if chain.is_empty() {
            chain.first = number;
        } else {
            self.links[usize::from(chain.last)].next = number;
        }
        chain.last = number;
    }

    /// Moves bytes from a chain into `room` and gives emptied buffers back to the kernel. Returns the number of bytes.
    #[inline]
    pub(super) fn take(&mut self, chain: &mut Chain, room: &mut [u8]) -> usize {
        let mut count = 0;
        while !chain.is_empty() && count < room.len() {
            let link = self.links[usize::from(chain.first)];
            let start = usize::from(chain.first) * BUFFER_BYTES + usize::from(chain.taken);
            let size = usize::from(link.size - chain.taken).min(room.len() - count);
            // SAFETY: buffer numbers are below MOST and sizes at most BUFFER_BYTES, so these bytes lie in the memory. The
            // kernel has completed its receive into this buffer, and gets it back below.
            let received = unsafe { std::slice::from_raw_parts(self.memory.start::<u8>().add(start), size) };
            room[count..count + size].copy_from_slice(received);
            count += size;
            chain.taken += size as u16;
            if chain.taken == link.size {
                self.provide(chain.first);
                chain.first = link.next;
                chain.taken = 0;
            }
        }
        count
    }

    /// The number of bytes in a chain.
    pub(super) fn size(&self, chain: Chain) -> usize {
        let mut size = 0;
        let mut number = chain.first;
        while number != NONE {
            let link = self.links[usize::from(number)];
            size += usize::from(link.size);
            number = link.next;
        }
        size - usize::from(chain.taken)
    }

    /// Gives all buffers of a chain back unread.
    pub(super) fn drop_chain(&mut self, chain: Chain) {
        let mut number = chain.first;
        while number != NONE {
            let next = self.links[usize::from(number)].next;
            self.provide(number);
            number = next;
        }
    }

    /// Gives one buffer back that belongs to no chain.
    pub(super) fn drop_one(&mut self, number: u16) {
        self.provide(number);
    }
}
