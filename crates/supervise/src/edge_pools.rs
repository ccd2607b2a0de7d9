//! The places of a worker's lanes in the pools of the edges.

use oribi_pool::{Memory, Worker};
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The interval at which a worker without a free place looks for one, until another worker ends.
const LOOK: Duration = Duration::from_millis(50);

/// The memory that a worker shares with each edge. It is dropped when all lanes have taken their places, because a worker needs
/// nothing else of it.
#[derive(Debug)]
pub(super) struct EdgePools {
    /// The memory, and the number of lanes that have not taken their places yet.
    memory: Mutex<(Vec<Memory>, usize)>,
    edges: usize,
}

impl EdgePools {
    /// Creates the value for a worker with `lanes` lanes.
    pub(super) fn new(pools: Vec<Memory>, lanes: usize) -> Self {
        Self { edges: pools.len(), memory: Mutex::new((pools, lanes)) }
    }

    /// Whether there are no edges, so that the worker has connections of its own.
    pub(super) const fn is_empty(&self) -> bool {
        self.edges == 0
    }

    /// Takes a place for a lane in the pool of each edge. All places of a pool can only be in use while other workers take long
    /// to end; then it waits for a free place as long as `serves` returns `true`. `None` if `serves` has returned `false`,
    /// because the worker is no longer needed.
    ///
    /// # Errors
    /// The system refuses the memory.
    pub(super) fn attach(&self, serves: impl Fn() -> bool) -> Result<Option<Vec<Worker>>, String> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let (pools, lanes) = &mut *memory;
        let mut attachments = Vec::new();
        let mut logged = false;
        for pool in &*pools {
            let attachment = loop {
                match Worker::attach_free(pool) {
                    Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                        if !serves() {
                            return Ok(None);
                        }
                        if !std::mem::replace(&mut logged, true) {
                            log::warn!("{error}: waiting for another worker to end");
                        }
                        std::thread::sleep(LOOK);
                    }
                    outcome => break outcome,
                }
            };
            attachments
                .push(attachment.map_err(|error| {
                    format!("cannot join the pool of an edge: {}", oribi_engine::shortage::explain(&error))
                })?);
        }
        *lanes = lanes.saturating_sub(1);
        if *lanes == 0 {
            pools.clear();
        }
        Ok(Some(attachments))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_pool::{Edge, Shape};
    use std::cell::{Cell, RefCell};

    const SHAPE: Shape = Shape { slots: 4, request_bytes: 64, workers: 2, areas: 2, area_bytes: 512 };

    #[test]
    fn each_lane_has_a_place_at_each_edge_and_the_memory_is_dropped_then() {
        let pools = EdgePools::new(vec![Memory::new(SHAPE).expect("memory"), Memory::new(SHAPE).expect("memory")], 2);
        assert!(!pools.is_empty());
        let attach = || pools.attach(|| true).expect("memory").expect("places").len();
        assert_eq!(attach(), 2);
        assert_eq!(pools.memory.lock().expect("nobody panics").0.len(), 2);
        assert_eq!(attach(), 2);
        assert!(pools.memory.lock().expect("nobody panics").0.is_empty());
        assert!(!pools.is_empty());
        assert!(EdgePools::new(Vec::new(), 1).is_empty());
    }

    #[test]
    fn a_lane_waits_for_a_place_while_it_is_needed() {
        let memory = Memory::new(SHAPE).expect("memory");
        let mut edge = Edge::new(&memory).expect("memory");
        let pools = EdgePools::new(vec![memory], 4);
        let _first = pools.attach(|| true).expect("a place");
        let _second = pools.attach(|| true).expect("a place");
        assert!(pools.attach(|| false).expect("memory").is_none(), "nobody needs it");
        let looks = Cell::new(0);
        let edge = RefCell::new(&mut edge);
        let serves = || {
            looks.set(looks.get() + 1);
            if looks.get() == 2 {
                let mut edge = edge.borrow_mut();
                edge.report_death(0);
                while edge.next(&mut Vec::new()).is_some() {}
            }
            true
        };
        assert!(pools.attach(serves).expect("memory").is_some(), "the place of one that has ended");
        assert_eq!(looks.get(), 2);
    }
}
