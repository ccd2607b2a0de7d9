//! Frames that look like the whole response to a request but must not be accepted.

use super::*;
use crate::mapping::Shared;
use crate::{Memory, Shape};
use std::os::fd::AsFd;

const SHAPE: Shape = Shape { slots: 3, request_bytes: 64, workers: 2, areas: 2, area_bytes: 512 };

/// An edge, and all memory that workers may write, controlled by a test.
struct Table {
    edge: Edge,
    claims: Shared,
    answers: [Shared; 2],
    written: [[u64; 2]; 2],
}

impl Table {
    fn new() -> Self {
        let memory = Memory::new(SHAPE).expect("memory");
        let map = |range| Shared::map(memory.as_fd(), range).expect("memory");
        let answers = [0, 1].map(|worker| map(memory.answers(worker)));
        answers.iter().for_each(|answers| answers.words()[Layout::ATTACHED].store(1, SeqCst));
        let claims = map(memory.claims());
        claims.words()[Layout::ARRIVALS].store(2, SeqCst);
        Self { edge: Edge::new(&memory).expect("memory"), claims, answers, written: [[0; 2]; 2] }
    }

    /// Puts in a request that worker 0 takes.
    fn request(&mut self) -> Ticket {
        let reserved = self.edge.reserve().expect("a slot");
        let ticket = self.edge.submit(reserved, 0);
        self.take(ticket, 0);
        ticket
    }

    fn take(&self, ticket: Ticket, worker: u32) {
        let taken = Ownership::Taken(ticket.0.serial, worker);
        self.claims.words()[self.edge.layout.ownership(ticket.slot())].store(taken.bits(), SeqCst);
    }

    /// Publishes frames of a worker in an area.
    fn publish(&mut self, worker: usize, area: u32, write: impl FnOnce(RingBuffer<'_>, u64) -> u64) {
        let words = self.answers[worker].words();
        let written = &mut self.written[worker][area as usize];
        *written = write(RingBuffer(&words[self.edge.layout.area(area)]), *written);
        words[Layout::USED].fetch_max(u64::from(area) + 1, SeqCst);
        words[Layout::written(area)].store(*written, SeqCst);
        words[Layout::UNREAD].fetch_or(1 << area, SeqCst);
    }

    fn answer(&mut self, worker: usize, area: u32, ticket: Ticket) {
        self.publish(worker, area, |ring_buffer, position| {
            ring_buffer.write_whole(position, ticket.0.bits(), b"head", &[b"content"])
        });
    }

    /// The events that are available now, as text.
    fn events(&mut self) -> Vec<String> {
        let (mut bytes, mut events) = (Vec::new(), Vec::new());
        self.edge.gather();
        while let Some(event) = self.edge.next(&mut bytes) {
            events.push(match event {
                Event::Whole(ticket, head) => {
                    format!("{} {}", ticket.slot(), String::from_utf8_lossy(&[&bytes[..head], b" ", &bytes[head..]].concat()))
                }
                other => format!("{other:?}"),
            });
        }
        events
    }
}

#[test]
fn a_whole_response_is_passed_on_once() {
    let mut table = Table::new();
    let (first, second) = (table.request(), table.request());
    table.answer(0, 0, first);
    table.answer(0, 0, second);
    let (one, other) = (format!("{} head content", first.slot()), format!("{} head content", second.slot()));
    assert_eq!(table.events(), [one, other]);
    table.answer(0, 0, first);
    assert_eq!(table.events(), [""; 0]);
    // The edge's own record shows that the slot is free; the shared word does not matter.
    table.take(first, 0);
    table.answer(0, 0, first);
    assert_eq!(table.events(), [""; 0]);
    let free = std::iter::from_fn(|| table.edge.reserve()).count();
    assert_eq!(free, 3, "each slot is free once");
}

#[test]
fn a_response_to_the_request_of_another_worker_is_not_passed_on() {
    let mut table = Table::new();
    let ticket = table.request();
    table.answer(1, 0, ticket);
    assert_eq!(table.events(), [""; 0]);
    table.answer(0, 0, ticket);
    assert_eq!(table.events(), ["0 head content"]);
}

#[test]
fn a_response_to_the_former_request_of_a_slot_is_not_passed_on() {
    let mut table = Table::new();
    let former = table.request();
    table.answer(0, 0, former);
    assert_eq!(table.events().len(), 1);
    let present = table.request();
    assert_eq!(present.slot(), former.slot());
    // The shared word contradicts the edge's record.
    table.take(former, 0);
    table.answer(0, 0, former);
    assert_eq!(table.events(), [""; 0]);
    table.take(present, 0);
    table.answer(0, 0, present);
    assert_eq!(table.events().len(), 1);
}

#[test]
fn a_response_in_the_middle_of_another_breaks_with_the_worker_for_good() {
    let mut table = Table::new();
    let (begun, other) = (table.request(), table.request());
    table.publish(0, 0, |ring_buffer, position| {
        let position = ring_buffer.write(position, Kind::Begin, &begun.0.bits().to_ne_bytes());
        ring_buffer.write(position, Kind::Head, b"head")
    });
    table.answer(0, 0, other);
    let (events, [lost, too]) = (table.events(), [begun, other].map(|ticket| format!("Lost({ticket:?})")));
    assert_eq!(events, [format!("Head({begun:?})"), "Broken(0)".to_owned(), lost, too]);
    let third = table.request();
    table.answer(0, 1, third);
    assert_eq!(table.events(), [""; 0]);
}

#[test]
fn a_paused_area_is_read_when_its_client_goes_on() {
    let mut table = Table::new();
    let (slow, next) = (table.request(), table.request());
    table.publish(0, 0, |ring_buffer, position| {
        let position = ring_buffer.write(position, Kind::Begin, &slow.0.bits().to_ne_bytes());
        ring_buffer.write(position, Kind::Content, b"content")
    });
    assert_eq!(table.events().len(), 1);
    assert!(table.edge.pause(slow));
    table.publish(0, 0, |ring_buffer, position| ring_buffer.write(position, Kind::End, &[]));
    table.answer(0, 0, next);
    assert_eq!(table.events(), [""; 0]);
    table.edge.resume(slow);
    let events = table.events();
    assert!(matches!(&events[..], [end, whole] if end.starts_with("Finished") && whole == "1 head content"), "{events:?}");
}
