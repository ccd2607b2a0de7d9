//! Measures the cost of a request on its way through a pool, without sockets and without parsing: an edge keeps a number of
//! requests outstanding, and a number of workers answer them.
//!
//! ```text
//! cargo run --release -p oribi-pool --example throughput -- OUTSTANDING WORKERS MICROSECONDS REQUESTS
//! strace -f -c -e trace='!wait4' target/release/examples/throughput 64 1 0 100000
//! ```

use oribi_pool::{DOZE, Edge, Event, Memory, Rest, Shape, Worker};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_parent_process_death_signal, waitpid};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// About the size of a browser's request.
const REQUEST: &[u8] = &[b'r'; 400];
const HEAD: &[u8] = &[b'h'; 120];
const CONTENT: &[u8] = &[b'c'; 80];

fn main() -> io::Result<()> {
    let numbers: Vec<u64> = std::env::args().skip(1).map_while(|number| number.parse().ok()).collect();
    let [outstanding, workers, burn, requests] = numbers[..] else {
        return Err(io::Error::other("usage: throughput OUTSTANDING WORKERS MICROSECONDS REQUESTS"));
    };
    let shape =
        Shape { slots: outstanding as u32, request_bytes: 16_384, workers: workers as u32, areas: 8, area_bytes: 65_536 };
    let memory = Memory::new(shape)?;
    let pids: Vec<Pid> = (0..shape.workers).map(|number| fork(&memory, number, burn)).collect();
    let mut edge = Edge::new(&memory)?;
    let started = Instant::now();
    drive(&mut edge, requests)?;
    let took = started.elapsed();
    for pid in &pids {
        kill_process(*pid, Signal::KILL)?;
        waitpid(Some(*pid), WaitOptions::empty())?;
    }
    let each = took.as_nanos() as f64 / requests as f64;
    println!("{requests} requests, {:.2} us each, {:.0} a second", each / 1000.0, 1e9 / each);
    Ok(())
}

fn fork(memory: &Memory, number: u32, burn: u64) -> Pid {
    // SAFETY: this process has one thread.
    match unsafe { libc::fork() } {
        0 => {
            let outcome = set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from);
            let outcome = outcome.and_then(|()| work(Worker::attach(memory, number)?, Duration::from_micros(burn)));
            eprintln!("worker {number}: {outcome:?}");
            std::process::exit(1)
        }
        pid => Pid::from_raw(pid).filter(|_| pid > 0).unwrap_or_else(|| panic!("fork: {}", io::Error::last_os_error())),
    }
}

fn drive(edge: &mut Edge, requests: u64) -> io::Result<()> {
    let events = watch(edge.descriptor())?;
    let (mut asked, mut answered) = (0, 0);
    let mut bytes = Vec::new();
    while answered < requests {
        while asked < requests
            && let Some(mut reserved) = edge.reserve()
        {
            edge.room(&mut reserved)[..REQUEST.len()].copy_from_slice(REQUEST);
            let _ = edge.submit(reserved, REQUEST.len());
            asked += 1;
        }
        match edge.prepare_to_rest() {
            Rest::No => {}
            Rest::Doze => doze(&events)?,
            Rest::Sleep => wait(&events, None)?,
        }
        edge.awake();
        edge.gather();
        while let Some(event) = edge.next(&mut bytes) {
            match event {
                Event::Whole(_, head) => {
                    assert_eq!((&bytes[..head], &bytes[head..]), (HEAD, CONTENT));
                    answered += 1;
                }
                other => return Err(io::Error::other(format!("{other:?}"))),
            }
        }
    }
    Ok(())
}

fn work(mut worker: Worker, burn: Duration) -> io::Result<()> {
    let events = watch(worker.descriptor())?;
    loop {
        let Some(taken) = worker.take().or_else(|| worker.prepare_to_sleep(false)) else {
            wait(&events, None)?;
            worker.awake();
            continue;
        };
        assert_eq!(worker.request(&taken).len(), REQUEST.len());
        if !burn.is_zero() {
            let begun = Instant::now();
            while begun.elapsed() < burn {
                std::hint::spin_loop();
            }
        }
        worker.respond(taken, HEAD, &[CONTENT]).map_err(|_| io::Error::other("it does not fit"))?;
    }
}

fn watch(descriptor: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let events = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&events, descriptor, EventData::new_u64(0), EventFlags::IN | EventFlags::ET)?;
    Ok(events)
}

fn wait(events: &OwnedFd, most: Option<&Timespec>) -> io::Result<()> {
    let mut room = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }];
    epoll::wait(events, &mut room[..], most)?;
    Ok(())
}

/// Waits with `poll`, because the shortest timeout of `epoll_wait` is a millisecond, which is longer than a doze.
fn doze(events: &OwnedFd) -> io::Result<()> {
    let most = Timespec { tv_sec: 0, tv_nsec: DOZE.as_nanos() as i64 };
    poll(&mut [PollFd::from_borrowed_fd(events.as_fd(), PollFlags::IN)], Some(&most))?;
    wait(events, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))
}
