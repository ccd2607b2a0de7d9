//! Tests in which a worker dies, or is overtaken by the edge, before every one of its writes to shared memory.

use crate::{DescriptorRequest, Edge, Event, Memory, Rest, Shape, Ticket, Worker, step};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const SHAPE: Shape = Shape { slots: 8, request_bytes: 256, workers: 2, areas: 2, area_bytes: 512 };

/// Longer than an area, so that the edge has to read some of it before the rest is written.
const LONG: usize = 1300;

fn submit(edge: &mut Edge, text: &str) -> Ticket {
    let mut reserved = edge.reserve().expect("a free slot");
    edge.room(&mut reserved)[..text.len()].copy_from_slice(text.as_bytes());
    edge.submit(reserved, text.len())
}

/// Answers one request with a head, content and an end; `false` if there was no request.
fn answer_one(worker: &mut Worker, length: usize) -> bool {
    let Some(mut taken) = worker.take() else { return false };
    let text = worker.request(&taken).to_vec();
    worker.head(&mut taken, &text).expect("an empty area has room for it");
    let content = text.repeat(length.div_ceil(text.len()));
    let mut written = 0;
    while written < content.len() {
        written += worker.content(&mut taken, &content[written..]);
        worker.flush(&taken);
        std::thread::yield_now();
    }
    worker.finish(taken);
    true
}

/// Answers one request with a whole response; `false` if there was no request.
fn answer_whole(worker: &mut Worker, inform: bool) -> bool {
    let Some(mut taken) = worker.take() else { return false };
    let text = worker.request(&taken).to_vec();
    if inform {
        worker.interim(&mut taken, &text).expect("an empty area has room for it");
        worker.flush(&taken);
    }
    worker.respond(taken, &text, &[&text, &text]).expect("an empty area has room for it");
    true
}

/// The events of one request: its response so far, and how it ended.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    said: Vec<u8>,
    finished: usize,
    lost: usize,
}

fn collect(edge: &mut Edge, outcomes: &mut HashMap<Ticket, Outcome>) {
    let mut bytes = Vec::new();
    edge.gather();
    while let Some(event) = edge.next(&mut bytes) {
        match event {
            Event::Whole(ticket, head) => {
                assert_eq!(head * 3, bytes.len());
                let outcome = outcomes.entry(ticket).or_default();
                outcome.said.extend(&bytes);
                outcome.finished += 1;
            }
            Event::Head(ticket) | Event::Interim(ticket) | Event::Content(ticket) => {
                outcomes.entry(ticket).or_default().said.extend(&bytes);
            }
            Event::Finished(ticket) => outcomes.entry(ticket).or_default().finished += 1,
            Event::DescriptorRequest(..) => {}
            Event::Lost(ticket) => outcomes.entry(ticket).or_default().lost += 1,
            other => panic!("{other:?}"),
        }
    }
    edge.wake_workers();
}

/// Runs `child` in a child process that dies before step number `last`, and `meanwhile` in this process until the child has
/// ended. Returns whether the child was killed.
#[allow(unsafe_code)]
fn run_until_step(last: u64, child: impl FnOnce(), mut meanwhile: impl FnMut()) -> bool {
    // SAFETY: the child touches shared memory and memory of its own, and ends by `_exit`, which runs no code of this process.
    // The C library's allocator may be used after a fork.
    match unsafe { libc::fork() } {
        0 => {
            step::LAST.store(last, Relaxed);
            child();
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) }
        }
        pid => {
            assert!(pid > 0, "no process to be had");
            let mut status = 0;
            loop {
                // SAFETY: the process is a child of this one, and `status` outlives the call.
                match unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) } {
                    0 => meanwhile(),
                    ended => {
                        assert_eq!(ended, pid);
                        return libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL;
                    }
                }
            }
        }
    }
}

#[test]
fn a_worker_that_dies_at_any_step_costs_the_request_that_it_had() {
    die_at_any_step(20, |worker| {
        for length in [3, LONG, 7] {
            answer_one(worker, length);
        }
    });
}

#[test]
fn a_worker_that_dies_at_any_step_of_a_whole_response_costs_the_request_that_it_had() {
    die_at_any_step(12, |worker| {
        for inform in [false, true, false] {
            answer_whole(worker, inform);
        }
    });
}

/// Lets a worker die at each step of `answer_three`, of which there are more than `steps`.
fn die_at_any_step(steps: u64, answer_three: impl Fn(&mut Worker)) {
    let mut died_with = [0, 0];
    for last in 0..1000 {
        let memory = Memory::new(SHAPE).expect("memory");
        let mut edge = Edge::new(&memory).expect("an edge");
        let texts = ["one", "two", "three", "four"];
        let tickets = texts.map(|text| submit(&mut edge, text));
        let mut outcomes = HashMap::new();
        let child = || {
            let mut worker = Worker::attach(&memory, 0).expect("a place");
            answer_three(&mut worker);
            assert!(worker.prepare_to_sleep(false).is_some());
            std::mem::forget(worker);
        };
        let died = run_until_step(last, child, || collect(&mut edge, &mut outcomes));
        edge.report_death(0);
        collect(&mut edge, &mut outcomes);
        let lost = outcomes.values().filter(|outcome| outcome.lost == 1).count();
        // A child that was not killed has taken the fourth request and then ended.
        assert!(lost <= 1 && (died || lost == 1), "at step {last}: {outcomes:?}");
        died_with[lost] += 1;

        // A worker in the same place answers the requests that are left.
        let mut worker = Worker::attach(&memory, 0).expect("the place is free again");
        while answer_one(&mut worker, 10) {
            collect(&mut edge, &mut outcomes);
        }
        for (ticket, text) in tickets.iter().zip(texts) {
            let outcome = &outcomes[ticket];
            assert_eq!(outcome.finished + outcome.lost, 1, "at step {last}: {text} {outcome:?}");
            let whole = outcome.said.iter().zip(text.bytes().cycle()).all(|(said, expected)| *said == expected);
            assert!(whole, "at step {last}: what was said of {text} is that of another");
        }
        edge.audit();
        assert_eq!((edge.depth(), edge.reserve_all()), (0, SHAPE.slots as usize), "at step {last}");
        if !died {
            assert!(died_with.iter().all(|count| *count > 3) && last > steps, "{died_with:?}");
            return;
        }
    }
    panic!("the worker has more steps than that");
}

#[test]
fn a_worker_behind_an_edge_that_was_replaced_answers_the_next_requests() {
    for steps in 0..12 {
        let memory = Memory::new(SHAPE).expect("memory");
        let mut edge = Edge::new(&memory).expect("an edge");
        let mut worker = Worker::attach(&memory, 1).expect("a place");
        submit(&mut edge, "first");
        submit(&mut edge, "second");
        let mut taken = worker.take().expect("the first");
        let _reserved = edge.reserve();
        // The worker has written this much, and the edge has read part of it.
        worker.head(&mut taken, b"head").expect("room");
        assert_eq!(worker.content(&mut taken, b"content"), 7);
        worker.flush(&taken);
        let mut unfinished = Some(taken);
        if steps % 2 == 0 {
            unfinished.take().into_iter().for_each(|taken| worker.finish(taken));
        }
        let mut bytes = Vec::new();
        edge.gather();
        for _ in 0..steps / 2 {
            let _ = edge.next(&mut bytes);
        }
        drop(edge);

        let mut edge = Edge::take_over(&memory).expect("another edge");
        let mut outcomes = HashMap::new();
        if let Some(taken) = unfinished {
            assert!(worker.orders(&taken).gone, "its client is");
            worker.finish(taken);
        }
        collect(&mut edge, &mut outcomes);
        assert!(worker.take().is_none(), "what nobody had taken is dropped");
        assert_eq!(outcomes, HashMap::new(), "nobody waits for what was before");
        let third = submit(&mut edge, "third");
        assert!(answer_one(&mut worker, 5));
        collect(&mut edge, &mut outcomes);
        assert_eq!(outcomes, HashMap::from([(third, Outcome { said: b"thirdthird".to_vec(), finished: 1, lost: 0 })]));
        edge.audit();
        edge.audit();
        assert_eq!(edge.reserve_all(), SHAPE.slots as usize, "after {steps} steps");
    }
}

#[test]
fn a_whole_response_that_a_replaced_edge_has_not_read_is_thrown_away() {
    for read in [false, true] {
        let memory = Memory::new(SHAPE).expect("memory");
        let mut edge = Edge::new(&memory).expect("an edge");
        let mut worker = Worker::attach(&memory, 1).expect("a place");
        submit(&mut edge, "first");
        assert!(answer_whole(&mut worker, true));
        edge.gather();
        if read {
            assert!(matches!(edge.next(&mut Vec::new()), Some(Event::Interim(_))));
        }
        drop(edge);
        let mut edge = Edge::take_over(&memory).expect("another edge");
        let mut outcomes = HashMap::new();
        let second = submit(&mut edge, "second");
        assert!(answer_whole(&mut worker, false));
        collect(&mut edge, &mut outcomes);
        let said = b"second".repeat(3);
        assert_eq!(outcomes, HashMap::from([(second, Outcome { said, finished: 1, lost: 0 })]));
        assert_eq!(edge.reserve_all(), SHAPE.slots as usize);
    }
}

#[test]
fn a_whole_response_is_written_only_if_it_fits() {
    let memory = Memory::new(SHAPE).expect("memory");
    let mut edge = Edge::new(&memory).expect("an edge");
    let mut worker = Worker::attach(&memory, 0).expect("a place");
    // The area has 64 words, of which a response can use all but three.
    for (length, fits) in [(488, true), (489, false), (0, true), (488, true)] {
        let ticket = submit(&mut edge, "one");
        let taken = worker.take().expect("a request");
        let (head, content) = (vec![b'h'; length / 2], vec![b'c'; length - length / 2]);
        let left = worker.respond(taken, &head, &[&content]).err();
        assert_eq!(left.is_none(), fits, "{length}");
        left.into_iter().for_each(|taken| worker.finish(taken));
        edge.gather();
        let mut bytes = Vec::new();
        match edge.next(&mut bytes) {
            Some(Event::Whole(of, size)) if fits => {
                assert_eq!((of, &bytes[..size], &bytes[size..]), (ticket, &head[..], &content[..]));
            }
            Some(Event::Finished(of)) if !fits => assert_eq!(of, ticket),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_whole_response_is_written_in_place_if_it_fits_in_one_piece() {
    let memory = Memory::new(SHAPE).expect("memory");
    let mut edge = Edge::new(&memory).expect("an edge");
    let mut worker = Worker::attach(&memory, 0).expect("a place");
    // The area has 64 words. A response takes three words more than its bytes.
    let (mut position, mut bytes) = (0, Vec::new());
    for length in (0..490).step_by(7).chain([488]) {
        let ticket = submit(&mut edge, "one");
        let taken = worker.take().expect("a request");
        let (head, words) = (length / 3, 3 + usize::div_ceil(length, 8));
        let write = |room: &mut [u8]| {
            assert_eq!(room.len(), length);
            room[..head].fill(b'h');
            room[head..].fill(b'c');
        };
        let left = worker.respond_in_place(taken, head, length - head, write).err();
        assert_eq!(left.is_none(), position % 64 + words <= 64, "{length} at {position}");
        let (head, content) = (vec![b'h'; head], vec![b'c'; length - head]);
        if let Some(taken) = left {
            worker.respond(taken, &head, &[&content]).expect("it fits in two pieces");
        }
        position += words;
        edge.gather();
        let Some(Event::Whole(of, size)) = edge.next(&mut bytes) else { panic!("no whole response") };
        assert_eq!((of, &bytes[..size], &bytes[size..]), (ticket, &head[..], &content[..]));
    }
}

#[test]
fn a_response_that_the_edge_has_not_read_is_not_overwritten() {
    let memory = Memory::new(Shape { areas: 1, ..SHAPE }).expect("memory");
    let mut edge = Edge::new(&memory).expect("an edge");
    let mut worker = Worker::attach(&memory, 0).expect("a place");
    // In an area of 64 words: the first 40, which are read; the last 24, which are not; then more than the first 40.
    for (words, is_read) in [(40, true), (24, false), (41, false)] {
        submit(&mut edge, "one");
        let taken = worker.take().expect("a request");
        let left = worker.respond_in_place(taken, (words - 3) * 8, 0, |room| room.fill(b'x')).err();
        assert_eq!(left.is_some(), words == 41);
        if is_read {
            edge.gather();
            assert!(matches!(edge.next(&mut Vec::new()), Some(Event::Whole(..))));
        }
    }
}

#[test]
fn orders_add_up_and_call_on_the_line() {
    let memory = Memory::new(SHAPE).expect("memory");
    let mut edge = Edge::new(&memory).expect("an edge");
    let mut worker = Worker::attach(&memory, 0).expect("a place");
    let calls = |worker: &Worker| rustix::io::ioctl_fionread(worker.line()).expect("a socket") / 8;
    let ticket = submit(&mut edge, "one");
    edge.warn(ticket);
    let taken = worker.take().expect("a request");
    assert_eq!((worker.orders(&taken).warned, calls(&worker)), (true, 0), "nobody had it");
    edge.interrupt(ticket);
    assert_eq!(worker.orders(&taken), crate::Orders { gone: false, interrupted: true, warned: true });
    assert_eq!(calls(&worker), 1);
    worker.receive().expect("the line works");
    assert_eq!(calls(&worker), 0);
    assert_eq!(edge.withdraw(ticket), crate::Withdrawal::Running);
    assert!(worker.orders(&taken).gone);
    edge.interrupt(ticket);
    assert_eq!(calls(&worker), 0, "nobody waits for it any more");
    worker.finish(taken);
}

#[test]
fn an_app_can_change_its_deadline() {
    let memory = Memory::new(SHAPE).expect("memory");
    let mut edge = Edge::new(&memory).expect("an edge");
    let mut worker = Worker::attach(&memory, 0).expect("a place");
    let ticket = submit(&mut edge, "one");
    assert_eq!(ticket.slot(), 0);
    let mut taken = worker.take().expect("a request");
    for time in [Some(Duration::from_millis(1500)), None] {
        worker.deadline(&mut taken, time).expect("room");
        edge.gather();
        let event = edge.next(&mut Vec::new());
        assert!(matches!(event, Some(Event::Deadline(of, then)) if of == ticket && then == time), "{event:?}");
    }
    worker.finish(taken);
}

#[test]
fn a_request_that_comes_while_a_worker_goes_to_sleep_is_not_slept_through() {
    for step in 0..20 {
        let memory = Memory::new(SHAPE).expect("memory");
        let edge = Rc::new(RefCell::new(Edge::new(&memory).expect("an edge")));
        let mut worker = Worker::attach(&memory, 0).expect("a place");
        let client = Rc::clone(&edge);
        let arrive = move || {
            let mut edge = client.borrow_mut();
            submit(&mut edge, "late");
            edge.wake_workers();
        };
        step::MEANWHILE.set(Some((step, Box::new(arrive))));
        let taken = worker.take().or_else(|| worker.prepare_to_sleep(false));
        let came = step::MEANWHILE.take().is_none();
        assert_eq!(came, taken.is_some() || is_rung(worker.descriptor()), "at step {step}");
        if !came {
            assert!(step > 0, "a worker that goes to sleep has a step");
            return;
        }
    }
    panic!("the worker has more steps than that");
}

#[test]
fn an_answer_that_comes_while_the_edge_goes_to_sleep_is_not_slept_through() {
    no_answer_is_slept_through(Edge::prepare_to_sleep);
}

#[test]
fn an_answer_that_comes_while_the_edge_goes_to_doze_is_not_slept_through() {
    no_answer_is_slept_through(|edge| match edge.prepare_to_rest() {
        Rest::No => false,
        Rest::Doze => true,
        Rest::Sleep => panic!("a request is in the pool"),
    });
}

/// The edge calls `sleep` at each step of a worker that has one request to answer.
fn no_answer_is_slept_through(sleep: fn(&mut Edge) -> bool) {
    for step in 0..20 {
        let memory = Memory::new(SHAPE).expect("memory");
        let edge = Rc::new(RefCell::new(Edge::new(&memory).expect("an edge")));
        let mut worker = Worker::attach(&memory, 0).expect("a place");
        assert!(is_rung(edge.borrow().descriptor()), "a worker that takes a place rings");
        submit(&mut edge.borrow_mut(), "one");
        let slept = Rc::new(Cell::new(false));
        let (sleeper, sleeps) = (Rc::clone(&edge), Rc::clone(&slept));
        let go_to_sleep = move || sleeps.set(sleep(&mut sleeper.borrow_mut()));
        step::MEANWHILE.set(Some((step, Box::new(go_to_sleep))));
        assert!(answer_one(&mut worker, 3));
        if step::MEANWHILE.take().is_some() {
            assert!(step > 3, "a worker that answers has more steps");
            return;
        }
        assert_eq!(is_rung(edge.borrow().descriptor()), slept.get(), "at step {step}");
    }
    panic!("the worker has more steps than that");
}

fn is_rung(doorbell: BorrowedFd<'_>) -> bool {
    rustix::io::read(doorbell, &mut [0; 8]).is_ok()
}

#[test]
fn a_dozing_edge_is_rung_when_its_workers_have_nothing_more_to_take() {
    let memory = Memory::new(SHAPE).expect("memory");
    let mut edge = Edge::new(&memory).expect("an edge");
    let mut workers = [0, 1].map(|number| Worker::attach(&memory, number).expect("a place"));
    assert!(is_rung(edge.descriptor()), "workers that take places ring");
    assert_eq!(edge.prepare_to_rest(), Rest::Sleep, "it waits for no worker");
    edge.awake();
    let _ = ["one", "two", "three"].map(|text| submit(&mut edge, text));
    assert_eq!(edge.prepare_to_rest(), Rest::Doze);
    for rings in [false, false, true] {
        assert!(answer_whole(&mut workers[0], false));
        assert_eq!(is_rung(edge.descriptor()), rings);
    }
    edge.awake();
    let mut outcomes = HashMap::new();
    collect(&mut edge, &mut outcomes);
    assert_eq!(outcomes.len(), 3);

    // Another worker takes the requests that this worker has seen.
    let _ = ["four", "five"].map(|text| submit(&mut edge, text));
    assert_eq!(edge.prepare_to_rest(), Rest::Doze);
    assert!(answer_whole(&mut workers[0], false) && !is_rung(edge.descriptor()));
    let mut taken = workers[1].take().expect("the second request");
    assert!(workers[0].take().is_none() && is_rung(edge.descriptor()), "it has nothing more to do");
    workers[1].interim(&mut taken, b"early").expect("room");
    edge.awake();
    collect(&mut edge, &mut outcomes);
    submit(&mut edge, "six");
    assert_eq!(edge.prepare_to_rest(), Rest::Doze);
    workers[1].flush(&taken);
    assert!(!is_rung(edge.descriptor()), "it can wait as long as a doze");
    workers[1].request_descriptor(&mut taken, DescriptorRequest::Socket).expect("room");
    assert!(is_rung(edge.descriptor()), "the app waits");
    workers[1].finish(taken);

    // A nap is a doze with its own length.
    edge.awake();
    collect(&mut edge, &mut outcomes);
    let _ = ["seven", "eight"].map(|text| submit(&mut edge, text));
    assert!(edge.prepare_to_nap());
    for rings in [false, false, true] {
        assert!(answer_whole(&mut workers[0], false));
        assert_eq!(is_rung(edge.descriptor()), rings);
    }
    assert!(!edge.prepare_to_nap(), "there is news");
}

#[test]
fn an_edge_that_has_dozed_in_vain_sleeps_and_is_rung_for_each_answer() {
    let memory = Memory::new(SHAPE).expect("memory");
    let mut edge = Edge::new(&memory).expect("an edge");
    let mut worker = Worker::attach(&memory, 0).expect("a place");
    assert!(is_rung(edge.descriptor()), "a worker that takes a place rings");
    let _ = ["one", "two", "three"].map(|text| submit(&mut edge, text));
    assert_eq!(edge.prepare_to_rest(), Rest::Doze);
    edge.awake();
    assert_eq!(edge.prepare_to_rest(), Rest::Sleep);
    edge.awake();
    let mut rest = || {
        edge.awake();
        collect(&mut edge, &mut HashMap::new());
        (edge.prepare_to_rest(), edge.descriptor().try_clone_to_owned().expect("a descriptor"))
    };
    let (rests, doorbell) = rest();
    assert_eq!(rests, Rest::Doze, "it tries again");
    assert!(answer_whole(&mut worker, false) && !is_rung(doorbell.as_fd()));
    assert_eq!(rest().0, Rest::Doze, "that was of use");
    // After two useless dozes the edge leaves out more of them.
    assert_eq!([rest().0, rest().0, rest().0, rest().0], [Rest::Sleep, Rest::Doze, Rest::Sleep, Rest::Sleep]);
    assert!(answer_whole(&mut worker, false) && is_rung(doorbell.as_fd()));
}

#[test]
fn an_edge_whose_dozes_only_clients_end_sleeps_as_well() {
    let memory = Memory::new(SHAPE).expect("memory");
    let mut edge = Edge::new(&memory).expect("an edge");
    let rests: Vec<Rest> = (0..6)
        .map(|_| {
            submit(&mut edge, "more");
            let rest = edge.prepare_to_rest();
            edge.awake();
            rest
        })
        .collect();
    assert_eq!(rests, [Rest::Doze, Rest::Doze, Rest::Doze, Rest::Doze, Rest::Sleep, Rest::Doze]);
}

#[test]
fn workers_are_woken_for_what_the_active_ones_do_not_take() {
    let memory = Memory::new(SHAPE).expect("memory");
    let mut edge = Edge::new(&memory).expect("an edge");
    let mut workers = [0, 1].map(|number| Worker::attach(&memory, number).expect("a place"));
    let rings = |workers: &[Worker; 2]| workers.each_ref().map(|worker| is_rung(worker.descriptor()));
    for worker in &mut workers {
        assert!(worker.prepare_to_sleep(false).is_none());
    }
    assert_eq!(edge.worker_counts().waiting, 2);
    let _ = ["one", "two"].map(|text| submit(&mut edge, text));
    assert_eq!(edge.prepare_to_rest(), Rest::Doze);
    assert_eq!(rings(&workers), [true, false], "one of them may be enough");
    assert_eq!(edge.worker_counts().waiting, 1, "the other one has something to do, although it has not said so yet");
    workers[0].awake();
    let taken = workers[0].take().expect("the first request");
    edge.awake();
    assert_eq!(edge.prepare_to_rest(), Rest::Sleep);
    assert_eq!(rings(&workers), [false, true], "the first is busy");
    workers[1].awake();
    while answer_one(&mut workers[1], 3) {}
    assert!(workers[1].prepare_to_sleep(false).is_none());
    workers[0].finish(taken);
    edge.awake();
    collect(&mut edge, &mut HashMap::new());

    // The first is active.
    submit(&mut edge, "three");
    let Rest::Doze = edge.prepare_to_rest() else { panic!("it dozes again") };
    assert_eq!(rings(&workers), [false, true], "nothing was read since the last round");
    workers[1].awake();
    assert!(answer_whole(&mut workers[0], false));
    assert!(workers[1].prepare_to_sleep(false).is_none());
    edge.awake();
    edge.gather();
    while edge.next(&mut Vec::new()).is_some() {}
    for round in 0..4 {
        submit(&mut edge, "more");
        edge.prepare_to_rest();
        edge.awake();
        // No worker takes them.
        assert_eq!(rings(&workers)[1], round == 1, "round {round}");
    }
}

impl Edge {
    /// Reserves and cancels all free slots; returns their number.
    fn reserve_all(&mut self) -> usize {
        let all: Vec<_> = std::iter::from_fn(|| self.reserve()).collect();
        let count = all.len();
        all.into_iter().for_each(|reserved| self.cancel(reserved));
        count
    }
}
