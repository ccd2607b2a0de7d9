//! Unfinished answers: many of them at once, and their end when their clients disconnect.

use oribi_pool::{Edge, Event, HEAD_BYTES, Memory, Shape, Taken, Ticket, Worker};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const SHAPE: Shape = Shape { slots: 600, request_bytes: 64, workers: 2, areas: 512, area_bytes: 4096 };

fn submit(edge: &mut Edge, count: usize) -> Vec<Ticket> {
    let one = |_| {
        let reserved = edge.reserve().expect("a slot");
        edge.submit(reserved, 0)
    };
    (0..count).map(one).collect()
}

/// All events that the edge can read now, as text, with the bytes.
fn receive(edge: &mut Edge) -> Vec<(String, Vec<u8>)> {
    let (mut all, mut bytes) = (Vec::new(), Vec::new());
    edge.gather();
    while let Some(event) = edge.next(&mut bytes) {
        all.push((format!("{event:?}"), bytes.clone()));
    }
    edge.wake_workers();
    all
}

fn is_rung(worker: &Worker) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(worker.descriptor(), PollFlags::IN)];
    poll(&mut polled, Some(&Timespec::default())) == Ok(1)
}

#[test]
fn a_worker_has_as_many_answers_unfinished_as_there_are_areas() {
    let memory = Memory::new(SHAPE).expect("memory");
    let mut edge = Edge::new(&memory).expect("memory");
    let mut worker = Worker::attach(&memory, 1).expect("a place");
    let tickets = submit(&mut edge, 513);
    let mut taken: Vec<Taken> = std::iter::from_fn(|| worker.take()).collect();
    assert_eq!((taken.len(), worker.vacant()), (512, 0));
    for (number, taken) in taken.iter_mut().enumerate() {
        let text = format!("part {number}");
        assert_eq!(worker.content(taken, text.as_bytes()), text.len());
        worker.flush(taken);
    }
    let mut heard = receive(&mut edge);
    let mut expected: Vec<_> = tickets[..512]
        .iter()
        .enumerate()
        .map(|(number, ticket)| (format!("{:?}", Event::Content(*ticket)), format!("part {number}").into_bytes()))
        .collect();
    heard.sort();
    expected.sort();
    assert_eq!(heard, expected);
    // Answers without an end are lost when the worker dies, in all areas.
    let last = taken.pop().expect("the last one");
    worker.finish(last);
    drop(taken);
    edge.report_death(1);
    let mut heard: Vec<String> = receive(&mut edge).into_iter().map(|(event, _)| event).collect();
    assert_eq!(heard.remove(0), format!("{:?}", Event::Finished(tickets[511])));
    assert_eq!(heard.len(), 511);
    assert!(heard.iter().all(|event| event.starts_with("Lost")), "{heard:?}");
    // The place is like a new one.
    let mut worker = Worker::attach(&memory, 1).expect("the place is free");
    let taken = worker.take().expect("the one that waited");
    worker.finish(taken);
    assert_eq!(receive(&mut edge)[0].0, format!("{:?}", Event::Finished(tickets[512])));
}

#[test]
fn the_next_edge_reads_on_in_every_area() {
    let memory = Memory::new(SHAPE).expect("memory");
    let mut edge = Edge::new(&memory).expect("memory");
    let mut worker = Worker::attach(&memory, 0).expect("a place");
    submit(&mut edge, 200);
    let mut taken: Vec<Taken> = std::iter::from_fn(|| worker.take()).collect();
    for taken in &mut taken[..150] {
        worker.content(taken, b"one");
        worker.flush(taken);
    }
    receive(&mut edge);
    for taken in &mut taken {
        worker.content(taken, b"two");
        worker.flush(taken);
    }
    drop(edge);
    let mut edge = Edge::take_over(&memory).expect("memory");
    assert_eq!(receive(&mut edge), [], "their clients are gone");
    for taken in taken {
        assert!(worker.orders(&taken).gone);
        worker.abandon(taken);
    }
    assert_eq!(receive(&mut edge), []);
    assert_eq!(std::iter::from_fn(|| edge.reserve()).count(), 600, "every slot is free");
}

#[test]
fn a_head_that_does_not_fit_into_an_area_comes_in_one_piece() {
    let memory = Memory::new(SHAPE).expect("memory");
    let mut edge = Edge::new(&memory).expect("memory");
    let mut worker = Worker::attach(&memory, 0).expect("a place");
    for size in [10, 4096, 30_000, HEAD_BYTES] {
        let ticket = submit(&mut edge, 1)[0];
        let mut taken = worker.take().expect("a request");
        let head: Vec<u8> = (0..size).map(|number| number as u8).collect();
        let (mut written, mut heard) = (0, Vec::new());
        while worker.head_in_pieces(&mut taken, &head, &mut written).is_err() {
            worker.flush(&taken);
            heard.extend(receive(&mut edge));
        }
        worker.finish(taken);
        heard.extend(receive(&mut edge));
        let expected = [(format!("{:?}", Event::Head(ticket)), head), (format!("{:?}", Event::Finished(ticket)), Vec::new())];
        assert!(heard == expected, "{size}: {:?}", heard.iter().map(|(event, bytes)| (event, bytes.len())).collect::<Vec<_>>());
    }
    let ticket = submit(&mut edge, 1)[0];
    let mut taken = worker.take().expect("a request");
    let outcome = worker.head_in_pieces(&mut taken, &vec![b'x'; HEAD_BYTES + 1], &mut 0);
    assert!(matches!(outcome, Err(oribi_pool::NotWritten::Never(_))), "{outcome:?}");
    worker.abandon(taken);
    assert_eq!(receive(&mut edge)[0].0, format!("{:?}", Event::Abandoned(ticket)));
}

#[test]
fn a_worker_that_sleeps_is_woken_when_a_client_goes() {
    let memory = Memory::new(SHAPE).expect("memory");
    let mut edge = Edge::new(&memory).expect("memory");
    let mut worker = Worker::attach(&memory, 0).expect("a place");
    let ticket = submit(&mut edge, 1)[0];
    edge.wake_workers();
    let taken = worker.take().expect("a request");
    assert!(worker.prepare_to_sleep(false).is_none());
    edge.wake_workers();
    assert!(!is_rung(&worker));
    edge.withdraw(ticket);
    edge.wake_workers();
    assert!(is_rung(&worker), "its area can be free at once");
    worker.abandon(taken);
}

#[test]
fn a_worker_whose_process_executes_another_program_is_reported_to_the_edge() {
    let memory = Memory::new(SHAPE).expect("memory");
    let mut edge = Edge::new(&memory).expect("memory");
    let _other = Worker::attach(&memory, 0).expect("a place");
    edge.arrivals();
    memory.report_executed(std::process::id() + 1).expect("memory");
    edge.arrivals();
    assert_eq!(edge.take_executed(), [], "that is no worker");
    memory.report_executed(std::process::id()).expect("memory");
    edge.arrivals();
    assert_eq!(edge.take_executed(), [0]);
    edge.report_death(0);
    receive(&mut edge);
    let _next = Worker::attach(&memory, 0).expect("the place is free");
    assert_eq!(edge.arrivals().len(), 1);
    assert_eq!(edge.take_executed(), [], "that was another worker");
}
