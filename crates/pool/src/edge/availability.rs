//! Whether workers answer the requests of the app, as the edge reads it.

use super::Edge;
use crate::availability::Availability;
use crate::shape::Layout;
use std::sync::atomic::Ordering::Relaxed;

impl Edge {
    /// Whether workers will answer requests, as the parent process has said.
    #[inline]
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.availability_word() == Availability::Available as u64
    }

    /// Whether the parent process must be told of a request, so that it starts a worker.
    #[must_use]
    pub fn is_asleep(&self) -> bool {
        self.availability_word() == Availability::Asleep as u64
    }

    #[inline]
    fn availability_word(&self) -> u64 {
        self.requests.words()[Layout::AVAILABILITY].load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;
    use crate::shape::Shape;

    const SHAPE: Shape = Shape { slots: 4, request_bytes: 64, workers: 2, areas: 2, area_bytes: 512 };

    #[test]
    fn the_edge_reads_what_its_parent_says_and_the_parent_counts_the_requests_of_the_edge() {
        let memory = Memory::new(SHAPE).expect("memory");
        let mut edge = Edge::new(&memory).expect("memory");
        for (availability, available, asleep) in [
            (Availability::Asleep, false, true),
            (Availability::Unavailable, false, false),
            (Availability::Available, true, false),
        ] {
            memory.set_availability(availability).expect("memory");
            assert_eq!((edge.is_available(), edge.is_asleep()), (available, asleep), "{availability:?}");
        }
        assert_eq!(memory.arrived().expect("memory"), 0);
        let reserved = edge.reserve().expect("room");
        edge.submit(reserved, 0);
        assert_eq!(memory.arrived().expect("memory"), 1);
    }
}
