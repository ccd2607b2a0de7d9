//! Bounds for the memory and the files of a process's responses that wait for their clients.

use oribi_config::{Settings, memory_allowed};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The default bound of memory, unless the memory limit of the control group gives a lower one.
const MEMORY: u64 = 64 << 20;

/// The default bound is this fraction of a control group's memory: an eighth.
const PART_OF_GROUP: u64 = 8;

/// Responses are ended only if all hold more memory than this: what is about to be sent is in memory even if all the rest is in files.
const LEAST_BEFORE_ENDS: u64 = 4 << 20;

/// More bytes than this in files mean that clients are slow, and more may follow.
const SLOW_CLIENTS: u64 = 4 << 20;

/// The sums of all engines of a process.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    /// Bytes that responses hold in memory. A response counts as soon as its socket has not taken all of it.
    pub(super) memory: Sum,
    /// Bytes of responses in files.
    pub(super) spooled: Sum,
}

/// A sum of shares.
#[derive(Debug, Default)]
pub struct Sum(AtomicU64);

impl Budget {
    /// The budget of this process.
    pub(super) fn of_process() -> &'static Self {
        static BUDGET: Budget = Budget { memory: Sum::EMPTY, spooled: Sum::EMPTY };
        &BUDGET
    }

    /// Whether pages of files in memory must not get into the queues of sockets. This is so if the control group has a memory
    /// limit (`group`), and clients are slow: the queues of hundreds of sockets can exceed the limit, and then the kernel kills
    /// workers.
    pub(super) fn spares_sockets(&self, group: Option<u64>) -> bool {
        group.is_some() && self.spooled.bytes() >= SLOW_CLIENTS
    }
}

impl Sum {
    /// A sum without shares.
    #[expect(clippy::declare_interior_mutable_const, reason = "each use is a sum of its own")]
    pub(super) const EMPTY: Self = Self(AtomicU64::new(0));

    /// The sum of all shares.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A part of a sum. Dropping the share subtracts it from the sum.
#[derive(Debug, Default)]
pub(super) struct Share {
    sum: Option<&'static Sum>,
    bytes: u64,
}

impl Share {
    /// A share of `sum`, of zero bytes.
    pub(super) const fn of(sum: &'static Sum) -> Self {
        Self { sum: Some(sum), bytes: 0 }
    }

    /// The size of the share in bytes.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A share of the same sum, of zero bytes.
    pub(super) const fn another(&self) -> Self {
        Self { sum: self.sum, bytes: 0 }
    }

    /// A share of no sum.
    pub(super) const NONE: Self = Self { sum: None, bytes: 0 };

    /// Whether the share belongs to a sum.
    pub(super) const fn counts(&self) -> bool {
        self.sum.is_some()
    }

    /// Sets the size of the share, without a bound for the sum.
    pub(super) fn set(&mut self, bytes: u64) {
        let Some(Sum(sum)) = self.sum else { return };
        if bytes >= self.bytes {
            sum.fetch_add(bytes - self.bytes, Relaxed);
        } else {
            sum.fetch_sub(self.bytes - bytes, Relaxed);
        }
        self.bytes = bytes;
    }

    /// Enlarges the share by `bytes`. Returns `false`, and changes nothing, if the sum would exceed `most`.
    pub(super) fn grow(&mut self, bytes: u64, most: u64) -> bool {
        let Some(Sum(sum)) = self.sum else { return false };
        let grown = |before: u64| before.checked_add(bytes).filter(|after| *after <= most);
        let grows = sum.fetch_update(Relaxed, Relaxed, grown).is_ok();
        if grows {
            self.bytes += bytes;
        }
        grows
    }

    /// Reduces the share by `bytes`.
    pub(super) fn shrink(&mut self, bytes: u64) {
        self.set(self.bytes.saturating_sub(bytes));
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// The bounds of one engine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) budget: &'static Budget,
    /// Bytes of one response in memory; beyond them, bytes go to a file, or the app waits.
    pub(super) in_memory: u64,
    /// Bytes of one response in files; 0 to write no response to a file.
    pub(super) spooled: u64,
    /// Bytes of all responses in files.
    pub(super) spooled_total: u64,
    /// Bytes of all responses in memory.
    pub(super) memory_total: u64,
}

impl Bounds {
    pub(super) fn new(settings: &Settings, budget: &'static Budget) -> Self {
        let limits = &settings.limits;
        Self {
            budget,
            in_memory: limits.output_bytes as u64,
            spooled: limits.output_spool_bytes,
            spooled_total: limits.output_spool_total,
            memory_total: limits.output_memory_total.unwrap_or_else(|| usual(memory_allowed())),
        }
    }

    /// Whether responses hold more memory than allowed.
    #[inline]
    pub(super) fn are_exceeded(&self) -> bool {
        self.budget.memory.bytes() > self.memory_total
    }

    /// Whether so many bytes are more than all responses together should hold.
    pub(super) const fn are_exceeded_by(&self, held: u64) -> bool {
        held > self.memory_total
    }

    /// Whether responses hold so much memory that some must end. Up to twice the bound they may hold what no file takes, such as
    /// the beginnings of responses whose apps wait.
    #[inline]
    pub(super) fn are_far_exceeded(&self) -> bool {
        self.budget.memory.bytes() > self.memory_total.saturating_mul(2).max(LEAST_BEFORE_ENDS)
    }
}

/// The default bound in a control group with this much memory.
pub(super) fn usual(group: Option<u64>) -> u64 {
    group.map_or(MEMORY, |bytes| (bytes / PART_OF_GROUP).min(MEMORY))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget() -> &'static Budget {
        Box::leak(Box::default())
    }

    #[test]
    fn a_share_leaves_the_sum_with_its_owner() {
        let budget = budget();
        let mut one = Share::of(&budget.memory);
        one.set(100);
        {
            let mut other = Share::of(&budget.memory);
            other.set(50);
            other.set(20);
            assert_eq!(budget.memory.bytes(), 120);
        }
        assert_eq!(budget.memory.bytes(), 100);
        one.shrink(30);
        assert_eq!(budget.memory.bytes(), 70);
        drop(one);
        assert_eq!(budget.memory.bytes(), 0);
        assert_eq!(budget.spooled.bytes(), 0);
    }

    #[test]
    fn shares_together_stay_within_the_bound() {
        let budget = budget();
        let mut shares: Vec<Share> = (0..4).map(|_| Share::of(&budget.spooled)).collect();
        let grown: Vec<bool> = shares.iter_mut().map(|share| share.grow(30, 100)).collect();
        assert_eq!((grown, budget.spooled.bytes()), (vec![true, true, true, false], 90));
        assert!(shares[3].grow(10, 100) && !shares[3].grow(1, 100) && !shares[0].grow(u64::MAX, u64::MAX));
        drop(shares);
        assert_eq!(budget.spooled.bytes(), 0);
        assert!(!Share::default().grow(1, 100), "a share of no sum has nothing");
    }

    #[test]
    fn sockets_are_spared_in_a_control_group_while_clients_are_slow() {
        let budget = budget();
        let mut share = Share::of(&budget.spooled);
        for (bytes, spares) in [(0, false), (SLOW_CLIENTS - 1, false), (SLOW_CLIENTS, true), (SLOW_CLIENTS - 1, false)] {
            share.set(bytes);
            assert_eq!(budget.spares_sockets(Some(8 << 30)), spares, "{bytes}");
            assert!(!budget.spares_sockets(None));
        }
    }

    #[test]
    fn a_small_control_group_lowers_the_usual_bound() {
        assert_eq!(usual(None), 64 << 20);
        assert_eq!(usual(Some(8 << 30)), 64 << 20);
        assert_eq!(usual(Some(128 << 20)), 16 << 20);
    }
}
