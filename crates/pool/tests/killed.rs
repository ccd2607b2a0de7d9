//! Worker processes are killed at random moments while they answer; others take their places.

use oribi_pool::{DOZE, Edge, Event, Memory, Rest, Shape, Ticket, Worker};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_parent_process_death_signal, waitpid};
use std::collections::HashMap;

const SHAPE: Shape = Shape { slots: 32, request_bytes: 64, workers: 3, areas: 4, area_bytes: 512 };
const REQUESTS: u32 = 20_000;
const KILLED: usize = 60;

fn fork_worker(memory: &Memory, number: u32) -> Pid {
    // SAFETY: the child uses only memory of its own and the pool's memory, which is made to be shared. The C library's
    // allocator may be used after a fork. The child ends without running anything of this process.
    match unsafe { libc::fork() } {
        0 => {
            // A test that fails kills its workers as well.
            set_parent_process_death_signal(Some(Signal::KILL)).expect("a signal that there is");
            serve(&mut Worker::attach(memory, number).expect("a free place"));
            unreachable!("a worker serves until it is killed")
        }
        pid => Pid::from_raw(pid).filter(|_| pid > 0).expect("a process is to be had"),
    }
}

/// Answers each request with its own bytes, more than an area can hold at once.
fn serve(worker: &mut Worker) {
    loop {
        let Some(mut taken) = worker.take().or_else(|| worker.prepare_to_sleep(false)) else {
            wait(worker);
            continue;
        };
        let text = worker.request(&taken).to_vec();
        let content = text.repeat(text[0] as usize);
        if text[0].is_multiple_of(2) {
            let write = |room: &mut [u8]| {
                room[..text.len()].copy_from_slice(&text);
                room[text.len()..].copy_from_slice(&content);
            };
            let outcome = worker.respond_in_place(taken, text.len(), content.len(), write);
            match outcome.or_else(|taken| worker.respond(taken, &text, &[&content])) {
                Ok(()) => continue,
                Err(unfit) => taken = unfit,
            }
        }
        // The area may be full of the previous response.
        while worker.head(&mut taken, &text).is_err() {
            if worker.prepare_to_wait_for_room(&taken, text.len()) {
                wait(worker);
            }
        }
        let mut written = 0;
        while written < content.len() {
            written += worker.content(&mut taken, &content[written..]);
            if written < content.len() && worker.prepare_to_wait_for_room(&taken, 64) {
                wait(worker);
            }
        }
        worker.finish(taken);
    }
}

fn wait(worker: &mut Worker) {
    poll(&mut [PollFd::from_borrowed_fd(worker.descriptor(), PollFlags::IN)], None).expect("poll");
    let _ = rustix::io::read(worker.descriptor(), &mut [0; 8]);
    worker.awake();
}

/// Lets the edge sleep until a worker rings; `false` if a process with something to publish or to take stayed asleep.
fn rest(edge: &mut Edge) -> bool {
    let most = match edge.prepare_to_rest() {
        Rest::No => return true,
        Rest::Doze => Timespec { tv_sec: 0, tv_nsec: DOZE.as_nanos() as i64 },
        Rest::Sleep => Timespec { tv_sec: 20, tv_nsec: 0 },
    };
    let mut doorbell = [PollFd::from_borrowed_fd(edge.descriptor(), PollFlags::IN)];
    let rung = poll(&mut doorbell, Some(&most)).expect("poll") == 1;
    let _ = rustix::io::read(edge.descriptor(), &mut [0; 8]);
    edge.awake();
    rung || most.tv_sec == 0
}

#[derive(Default)]
struct Asked {
    text: Vec<u8>,
    said: Vec<u8>,
}

struct Play {
    memory: Memory,
    edge: Edge,
    pids: Vec<Pid>,
    open: HashMap<Ticket, Asked>,
    asked: u32,
    finished: usize,
    whole: usize,
    lost: usize,
    numbers: u64,
}

impl Play {
    fn random(&mut self, below: u64) -> u64 {
        self.numbers ^= self.numbers << 13;
        self.numbers ^= self.numbers >> 7;
        self.numbers ^= self.numbers << 17;
        self.numbers % below
    }

    fn submit(&mut self) {
        while self.asked < REQUESTS
            && let Some(mut reserved) = self.edge.reserve()
        {
            self.asked += 1;
            let mut text = vec![self.random(40) as u8];
            text.extend(format!(" request {}", self.asked).bytes());
            self.edge.room(&mut reserved)[..text.len()].copy_from_slice(&text);
            let ticket = self.edge.submit(reserved, text.len());
            self.open.insert(ticket, Asked { text, ..Asked::default() });
        }
    }

    fn collect(&mut self) {
        let mut bytes = Vec::new();
        self.edge.gather();
        while let Some(event) = self.edge.next(&mut bytes) {
            match event {
                Event::Whole(ticket, head) => {
                    let asked = self.open.remove(&ticket).expect("a request ends once");
                    let (head, said) = bytes.split_at(head);
                    assert!(head == asked.text && said == asked.text.repeat(asked.text[0] as usize), "it is that to another");
                    self.finished += 1;
                    self.whole += 1;
                }
                Event::Head(ticket) => assert_eq!(self.open[&ticket].text, bytes),
                Event::Content(ticket) => self.open.get_mut(&ticket).expect("an open one").said.extend(&bytes),
                Event::Finished(ticket) => {
                    let asked = self.open.remove(&ticket).expect("a request ends once");
                    assert!(asked.said == asked.text.repeat(asked.text[0] as usize), "it has the answer to another");
                    self.finished += 1;
                }
                Event::Lost(ticket) => {
                    self.open.remove(&ticket).expect("a request ends once");
                    self.lost += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        self.edge.wake_workers();
    }

    /// Kills a worker at any point of its work, and puts another one in its place.
    fn kill(&mut self) {
        let number = self.random(self.pids.len() as u64) as usize;
        kill_process(self.pids[number], Signal::KILL).expect("it is our child");
        waitpid(Some(self.pids[number]), WaitOptions::empty()).expect("it is our child");
        let lost = self.lost;
        self.edge.report_death(number as u32);
        self.collect();
        assert!(self.lost <= lost + 1, "no more than it had");
        self.pids[number] = fork_worker(&self.memory, number as u32);
    }
}

#[test]
fn workers_killed_at_any_moment_cost_what_they_had_and_nothing_else() {
    let memory = Memory::new(SHAPE).expect("memory");
    let edge = Edge::new(&memory).expect("an edge");
    let pids = (0..SHAPE.workers).map(|number| fork_worker(&memory, number)).collect();
    let (open, numbers) = (HashMap::new(), 0x9E37_79B9_7F4A_7C15);
    let mut play = Play { memory, edge, pids, open, asked: 0, finished: 0, whole: 0, lost: 0, numbers };
    let mut killed = 0;
    while play.finished + play.lost < REQUESTS as usize {
        play.submit();
        play.collect();
        let ended = play.finished + play.lost;
        if ended > killed * REQUESTS as usize / KILLED {
            // Adds a random delay after a read.
            (0..play.random(30_000)).for_each(|_| std::hint::spin_loop());
            play.kill();
            killed += 1;
        }
        let is_done = play.finished + play.lost == REQUESTS as usize;
        if !is_done && !rest(&mut play.edge) {
            panic!("{} of {} are stranded", play.open.len(), play.asked);
        }
    }
    for pid in &play.pids {
        kill_process(*pid, Signal::KILL).expect("it is our child");
        waitpid(Some(*pid), WaitOptions::empty()).expect("it is our child");
    }
    assert!(killed > KILLED / 2, "{killed}");
    assert!(play.open.is_empty() && play.edge.depth() == 0);
    assert!(play.lost > 0, "no worker was killed while it had something");
    assert!(play.whole > REQUESTS as usize / 10, "{} whole responses", play.whole);
    println!("{} answered, {} lost with {killed} workers", play.finished, play.lost);
}

#[test]
fn a_request_that_comes_alone_is_never_slept_through() {
    let memory = Memory::new(Shape { slots: 1, workers: 1, ..SHAPE }).expect("memory");
    let mut edge = Edge::new(&memory).expect("an edge");
    let worker = fork_worker(&memory, 0);
    let mut bytes = Vec::new();
    for number in 0..40_000_u32 {
        let mut reserved = edge.reserve().expect("the one before has ended");
        edge.room(&mut reserved)[..2].copy_from_slice(&[1, b'x']);
        // The worker is about to sleep, sleeps, or has not looked yet.
        (0..number % 1000).for_each(|_| std::hint::spin_loop());
        let _ = edge.submit(reserved, 2);
        edge.wake_workers();
        let mut has_ended = false;
        while !has_ended {
            edge.gather();
            while let Some(event) = edge.next(&mut bytes) {
                has_ended |= matches!(event, Event::Finished(_) | Event::Whole(..));
            }
            assert!(has_ended || rest(&mut edge), "request {number} is stranded");
        }
    }
    kill_process(worker, Signal::KILL).expect("it is our child");
    waitpid(Some(worker), WaitOptions::empty()).expect("it is our child");
}
