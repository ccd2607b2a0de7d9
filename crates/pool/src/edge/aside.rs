//! Keeps requests out of the queue until others have had their turn.
//!
//! A request set aside has its slot and waits like any other, but no worker can take it. Putting it back appends it to the
//! queue. The edge's caller chooses these requests; this module only moves them.

use super::slot_records::{Record, State};
use super::{Edge, Reserved, Ticket};
use crate::words::Ownership;
use std::sync::atomic::Ordering::Release;

impl Edge {
    /// Like [`Edge::submit`], for a request that workers must not take before [`Edge::put_back`].
    #[expect(clippy::needless_pass_by_value, reason = "what was reserved is used once")]
    pub fn submit_aside(&mut self, reserved: Reserved, length: usize) -> Ticket {
        let entry = reserved.0;
        self.describe(entry, length);
        self.ownership(entry.slot).store(Ownership::Aside(entry.serial).bits(), Release);
        self.records[entry.slot as usize] = Record::new(entry.serial, State::Aside);
        Ticket(entry)
    }

    /// Takes out of the queue those requests that no worker has taken and for which `leaves` returns true. `leaves` is called
    /// for all of them, from the oldest position on. The tickets of the removed requests are appended to `left`.
    pub fn set_aside(&mut self, mut leaves: impl FnMut(Ticket) -> bool, left: &mut Vec<Ticket>) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|waiting| {
            let entry = waiting.entry;
            let (queued, aside) = (Ownership::Queued(entry.serial), Ownership::Aside(entry.serial));
            if self.owner(entry.slot) != queued {
                return false;
            }
            if !leaves(Ticket(entry)) {
                return true;
            }
            if self.swap(entry.slot, queued, aside) {
                // Clears the old entry: otherwise workers would find the request at this position even after `put_back` has
                // appended it.
                self.requests.words()[self.layout.entry(waiting.position)].store(0, Release);
                self.records[entry.slot as usize].state = State::Aside;
                left.push(Ticket(entry));
            }
            false
        });
        self.waiting = waiting;
    }

    /// Appends a request that was set aside to the queue; `false` if it has been withdrawn.
    pub fn put_back(&mut self, ticket: Ticket) -> bool {
        let is_aside = self.current(ticket.0).is_some_and(|record| record.state == State::Aside);
        if is_aside {
            self.enqueue(ticket.0);
        }
        is_aside
    }

    /// The requests in the queue, and perhaps some that workers have just taken, from the oldest position on.
    pub fn waiting(&self) -> impl Iterator<Item = Ticket> {
        self.waiting.iter().map(|waiting| Ticket(waiting.entry))
    }

    /// Whether a request is in the queue, and no worker has taken it.
    #[inline]
    #[must_use]
    pub fn is_queued(&self, ticket: Ticket) -> bool {
        self.owner(ticket.0.slot) == Ownership::Queued(ticket.0.serial)
    }

    /// Whether a request waits for a worker, in the queue or aside.
    #[must_use]
    pub fn waits(&self, ticket: Ticket) -> bool {
        self.current(ticket.0).is_some_and(|record| record.state == State::Aside) || self.is_queued(ticket)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Edge, Memory, Shape, Ticket, Withdrawal, Worker};

    const SHAPE: Shape = Shape { slots: 4, request_bytes: 64, workers: 2, areas: 2, area_bytes: 512 };

    fn submit(edge: &mut Edge, name: u8, aside: bool) -> Ticket {
        let mut reserved = edge.reserve().expect("a slot");
        edge.room(&mut reserved)[0] = name;
        if aside { edge.submit_aside(reserved, 1) } else { edge.submit(reserved, 1) }
    }

    /// The names of the requests that a worker can take, in the order in which it does.
    fn take_all(worker: &mut Worker) -> Vec<u8> {
        let mut names = Vec::new();
        while let Some(taken) = worker.take() {
            names.push(worker.request(&taken)[0]);
            worker.abandon(taken);
        }
        names
    }

    fn read_all(edge: &mut Edge) {
        edge.gather();
        while edge.next(&mut Vec::new()).is_some() {}
    }

    #[test]
    fn requests_that_were_put_back_come_behind_the_others() {
        let memory = Memory::new(SHAPE).expect("memory");
        let mut edge = Edge::new(&memory).expect("memory");
        let mut worker = Worker::attach_free(&memory).expect("a place");
        let _first = submit(&mut edge, b'a', false);
        let second = submit(&mut edge, b'b', false);
        let third = submit(&mut edge, b'c', true);
        let mut left = Vec::new();
        edge.set_aside(|ticket| ticket == second, &mut left);
        assert_eq!((left, edge.depth()), (vec![second], 1));
        assert!(edge.waits(second) && !edge.is_queued(second) && edge.waits(third));
        assert_eq!(take_all(&mut worker), b"a");
        let _fourth = submit(&mut edge, b'd', false);
        assert!(edge.put_back(second) && edge.put_back(third) && !edge.put_back(third));
        assert_eq!(take_all(&mut worker), b"dbc");
        assert!(!edge.put_back(second), "a worker has it");
    }

    #[test]
    fn a_request_that_was_put_back_is_taken_once_however_often_it_moves() {
        let memory = Memory::new(SHAPE).expect("memory");
        let mut edge = Edge::new(&memory).expect("memory");
        let mut worker = Worker::attach_free(&memory).expect("a place");
        for _ in 0..100 {
            let tickets = [b'a', b'b', b'c'].map(|name| submit(&mut edge, name, false));
            for _ in 0..10 {
                edge.set_aside(|ticket| ticket == tickets[0], &mut Vec::new());
                assert!(edge.put_back(tickets[0]));
                edge.audit();
            }
            assert_eq!(take_all(&mut worker), b"bca");
            read_all(&mut edge);
        }
        assert_eq!(edge.depth(), 0);
    }

    #[test]
    fn a_request_that_is_aside_can_be_withdrawn_and_outlives_no_edge() {
        let memory = Memory::new(SHAPE).expect("memory");
        let mut edge = Edge::new(&memory).expect("memory");
        let mut worker = Worker::attach_free(&memory).expect("a place");
        let aside = submit(&mut edge, b'a', true);
        assert_eq!(edge.holder(aside), None);
        assert_eq!(edge.withdraw(aside), Withdrawal::Unseen);
        assert_eq!(edge.withdraw(aside), Withdrawal::Ended);
        assert!(!edge.put_back(aside) && !edge.waits(aside));
        let all: Vec<Ticket> = (0..4).map(|_| submit(&mut edge, b'b', true)).collect();
        assert!(edge.reserve().is_none(), "they have slots");
        (0..3).for_each(|_| edge.audit());
        assert_eq!(take_all(&mut worker), b"", "nothing of that is for workers");
        assert!(edge.put_back(all[1]));
        drop(edge);
        let mut edge = Edge::take_over(&memory).expect("memory");
        assert_eq!(take_all(&mut worker), b"");
        assert!((0..4).all(|_| edge.reserve().is_some()), "all slots are free");
    }

    #[test]
    fn requests_of_dead_workers_are_not_those_that_are_aside() {
        let memory = Memory::new(SHAPE).expect("memory");
        let mut edge = Edge::new(&memory).expect("memory");
        let aside = submit(&mut edge, b'a', true);
        edge.report_death(0);
        read_all(&mut edge);
        assert!(edge.waits(aside));
    }
}
