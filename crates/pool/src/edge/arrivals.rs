//! Reports workers that have taken a place, so that the edge can watch their processes and notice their end.
//!
//! A worker writes its process id into its place, counts its arrival in the claims, and rings. The edge notes each arrival in
//! memory that only the edge can write. A place with a note is given to no other worker until the death of the noted worker was
//! [reported](Edge::report_death), even if the place was overwritten meanwhile.
//!
//! A worker may write the id of another process. If that process outlives the worker, the worker's end goes unnoticed: its
//! place stays in use, and the requests that it had taken wait until their deadlines. If that process ends earlier, the place
//! is released while the worker still runs: its requests are lost, and the next worker in the place may find the first one
//! still writing there. Such writes affect only that place, and the edge stops reading it if frames become invalid
//! ([`Broken`](super::Event::Broken)). The edge only watches the process. The process that kills a worker for the edge first
//! checks that it is a worker of this server.

use super::Edge;
use crate::shape::Layout;
use std::sync::atomic::Ordering::SeqCst;

/// A worker that has taken a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The index of the worker.
    pub worker: u32,
    /// The id of the worker's process, as written by the worker.
    pub process: u32,
}

impl Edge {
    /// The process id written in a place, perhaps before [`Edge::arrivals`] has reported it; `None` if the place is free or
    /// does not exist.
    #[must_use]
    pub fn occupant(&self, worker: u32) -> Option<u32> {
        let attached = self.workers.get(worker as usize)?.answers.words()[Layout::ATTACHED].load(SeqCst);
        u32::try_from(attached).ok().filter(|process| *process > 0)
    }

    /// The workers that have taken a place since the last call; after [`Edge::take_over`], all that are present. When one of
    /// these processes has ended, or had already ended and cannot be watched, [report](Edge::report_death) its death.
    pub fn arrivals(&mut self) -> Vec<Arrival> {
        let count = self.claims.words()[Layout::ARRIVALS].load(SeqCst);
        if self.arrivals.replace(count) == Some(count) {
            return Vec::new();
        }
        let mut found = Vec::new();
        for number in 0..self.layout.shape.workers {
            let worker_record = &mut self.workers[number as usize];
            let attached = worker_record.answers.words()[Layout::ATTACHED].load(SeqCst);
            let note = &self.requests.words()[self.layout.occupant(number)];
            // The note of the previous edge counts, not the current content of the place.
            let occupant = match note.load(SeqCst) {
                0 => attached,
                noted => noted,
            };
            if occupant != 0 && worker_record.answers.words()[Layout::EXECUTED].load(SeqCst) == occupant {
                self.executed.push(number);
            }
            if occupant == 0 || std::mem::replace(&mut worker_record.known, true) {
                continue;
            }
            note.store(occupant, SeqCst);
            match u32::try_from(occupant).ok().filter(|process| i32::try_from(*process).is_ok()) {
                Some(process) => found.push(Arrival { worker: number, process }),
                // There is no process to watch.
                None => self.mark_broken(number),
            }
        }
        found
    }

    /// The places of workers whose processes now execute other programs, as reported by the process that forked them.
    /// [Report](Edge::report_death) the death of each. A worker that writes this report about itself and continues is treated
    /// like a worker that writes the id of another process.
    pub fn take_executed(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.executed)
    }

    /// Determines which places may have workers, if any has arrived since the last call.
    #[inline]
    pub(super) fn count_workers(&mut self) {
        let count = self.claims.words()[Layout::ARRIVALS].load(SeqCst);
        if self.counted.replace(count) != Some(count) {
            let is_staffed = |worker_record: &super::WorkerRecord| {
                worker_record.known || worker_record.answers.words()[Layout::ATTACHED].load(SeqCst) != 0
            };
            let last = self.workers.iter().rposition(is_staffed).map_or(0, |last| last + 1);
            self.workers_in_use = self.workers_in_use.max(last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, Memory, Shape, Worker};

    const SHAPE: Shape = Shape { slots: 4, request_bytes: 64, workers: 3, areas: 2, area_bytes: 512 };

    fn arrival(worker: u32) -> Arrival {
        Arrival { worker, process: std::process::id() }
    }

    /// Reports the death of a worker, and reads all events that follow.
    fn report_death(edge: &mut Edge, worker: u32) {
        edge.report_death(worker);
        while edge.next(&mut Vec::new()).is_some() {}
    }

    fn overwrite(memory: &Memory, worker: u32, process: u64) {
        let answers = crate::mapping::Shared::map(rustix::fd::AsFd::as_fd(memory), memory.answers(worker)).expect("memory");
        answers.words()[Layout::ATTACHED].store(process, SeqCst);
    }

    #[test]
    fn workers_take_the_first_free_place_and_the_edge_is_told_once() {
        let memory = Memory::new(SHAPE).expect("memory");
        let mut edge = Edge::new(&memory).expect("memory");
        assert_eq!(edge.arrivals(), []);
        let first = Worker::attach_free(&memory).expect("a place");
        let _second = Worker::attach_free(&memory).expect("a place");
        assert_eq!(edge.arrivals(), [arrival(0), arrival(1)]);
        assert_eq!(edge.arrivals(), []);
        let _third = Worker::attach_free(&memory).expect("a place");
        let error = Worker::attach_free(&memory).expect_err("no place is left");
        assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
        drop(first);
        assert!(Worker::attach_free(&memory).is_err(), "its process may still write there");
        report_death(&mut edge, 0);
        let _fourth = Worker::attach_free(&memory).expect("the place of the first");
        assert_eq!(edge.arrivals(), [arrival(0), arrival(2)]);
    }

    #[test]
    fn an_edge_that_sleeps_is_told_of_an_arrival() {
        let memory = Memory::new(SHAPE).expect("memory");
        let mut edge = Edge::new(&memory).expect("memory");
        assert!(edge.prepare_to_sleep());
        let _worker = Worker::attach_free(&memory).expect("a place");
        let mut polled = [rustix::event::PollFd::from_borrowed_fd(edge.descriptor(), rustix::event::PollFlags::IN)];
        assert_eq!(rustix::event::poll(&mut polled, Some(&rustix::event::Timespec::default())), Ok(1));
    }

    #[test]
    fn the_next_edge_is_told_of_all_workers() {
        let memory = Memory::new(SHAPE).expect("memory");
        let mut edge = Edge::new(&memory).expect("memory");
        let _noticed = Worker::attach_free(&memory).expect("a place");
        assert_eq!(edge.arrivals(), [arrival(0)]);
        let _unnoticed = Worker::attach_free(&memory).expect("a place");
        drop(edge);
        overwrite(&memory, 0, 0);
        let mut edge = Edge::take_over(&memory).expect("memory");
        assert_eq!(edge.arrivals(), [arrival(0), arrival(1)]);
    }

    #[test]
    fn a_place_whose_word_was_overwritten_is_given_to_nobody_else() {
        let memory = Memory::new(SHAPE).expect("memory");
        let mut edge = Edge::new(&memory).expect("memory");
        let _worker = Worker::attach_free(&memory).expect("a place");
        assert_eq!(edge.arrivals(), [arrival(0)]);
        overwrite(&memory, 0, 0);
        let _other = Worker::attach_free(&memory).expect("the next place");
        assert_eq!(edge.arrivals(), [arrival(1)]);
    }

    #[test]
    fn an_audit_finds_arrivals_that_were_not_counted() {
        let memory = Memory::new(SHAPE).expect("memory");
        let mut edge = Edge::new(&memory).expect("memory");
        assert_eq!(edge.arrivals(), []);
        overwrite(&memory, 2, 77);
        assert_eq!(edge.arrivals(), []);
        edge.audit();
        assert_eq!(edge.arrivals(), [Arrival { worker: 2, process: 77 }]);
    }

    #[test]
    fn a_word_that_names_no_process_breaks_with_the_worker() {
        let memory = Memory::new(SHAPE).expect("memory");
        let mut edge = Edge::new(&memory).expect("memory");
        overwrite(&memory, 1, u64::MAX);
        edge.audit();
        assert_eq!(edge.arrivals(), []);
        assert!(matches!(edge.next(&mut Vec::new()), Some(Event::Broken(1))));
    }
}
