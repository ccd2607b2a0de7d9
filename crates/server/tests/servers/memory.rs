//! The memory of connections, counted by the allocator, not estimated from the process's size.

use oribi_host::Reply;
use oribi_io::{Backend, Client, Epoll, Sim, World};
use oribi_message::ResponseHead;
use oribi_server::config::{ListenAddress, Settings};
use oribi_server::engine::Engine;
use oribi_server::lane::Lane;
use oribi_server::listen::{Listener, open};
use oribi_server::scoreboard::WorkerSlot;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Duration;

/// The system's allocator, counting the bytes that each thread holds.
struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread that is ending no longer has a counter, and needs none.
    let _ = HELD.try_with(|held| held.set(held.get() + bytes));
}

fn held() -> isize {
    HELD.with(Cell::get)
}

// SAFETY: every call is passed on unchanged to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller gives the guarantees that the system's allocator requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: some client\r\nAccept: */*\r\n\r\n";

fn listeners() -> Vec<Listener> {
    let listen = vec![ListenAddress::tcp("127.0.0.1", 0)];
    open(&Settings { listen, ..Settings::default() }).expect("the loopback has a free port")
}

/// Answers all requests that can be answered without waiting.
fn serve<B: Backend>(lane: &Lane<'_, Engine<'_, B>>, listeners: &[Listener]) {
    loop {
        let Some(exchange) = lane.source().next_exchange().expect("waiting works") else {
            lane.source().take_wake();
            return;
        };
        let reply = Reply::new(lane, exchange.id());
        let content = exchange.request(listeners).content.size().unwrap_or_default().to_string();
        let head = ResponseHead { status: 200, fields: &[] };
        reply.send(head, &[content.as_bytes()]).expect("the client is there");
        lane.source().give_back(exchange);
    }
}

fn serve_world(world: &World, lane: &Lane<'_, Engine<'_, Sim>>, listeners: &[Listener]) {
    let asleep = Rc::new(Cell::new(false));
    let (wake, flag) = (world.clone(), asleep.clone());
    world.when_idle(move |_| {
        flag.set(true);
        wake.wake();
    });
    while !asleep.get() {
        serve(lane, listeners);
    }
}

/// Returns the memory, in bytes, of each of `count` idle connections whose requests were answered before.
fn cost(requests: &[&[u8]], count: usize) -> f64 {
    let settings = Settings::default();
    let listeners = listeners();
    let wake = std::io::pipe().expect("a pipe").0;
    let world = World::new();
    let engine = Engine::new(Sim::new(&world), &settings, &listeners, wake.as_fd(), None).expect("nothing can refuse");
    let slot = WorkerSlot::unshared();
    let lane = Lane::new(engine, &slot);
    let converse = |clients: &[Client]| {
        for some in clients.chunks(100) {
            for request in requests {
                some.iter().for_each(|client| client.send(request));
                serve_world(&world, &lane, &listeners);
                some.iter().for_each(|client| assert!(client.received().starts_with(b"HTTP/1.1 200 OK\r\n")));
            }
        }
    };
    // The first connections allocate the shared pools, queues and buffers.
    let first: Vec<Client> = (0..100).map(|_| world.connect()).collect();
    converse(&first);
    let clients: Vec<Client> = (0..count).map(|_| world.connect()).collect();
    let before = held();
    converse(&clients);
    let bytes = held() - before;
    assert_eq!(lane.source().connections(), count + first.len());
    // A simulated socket is a number; a real one is larger.
    let socket = size_of::<<Epoll as Backend>::Socket>() - size_of::<<Sim as Backend>::Socket>();
    bytes as f64 / count as f64 + socket as f64
}

#[test]
fn an_idle_connection_costs_at_most_512_bytes() {
    let bytes = cost(&[GET], 10_000);
    println!("{bytes:.0} bytes for each of 10,000 idle connections");
    assert!(bytes <= 512.0, "{bytes} bytes");
}

#[test]
fn what_a_connection_did_before_makes_it_no_dearer() {
    let content = [b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20000\r\n\r\n".as_slice(), &[b'x'; 20_000]].concat();
    let bytes = cost(&[GET, &content, &[GET, GET].concat()], 10_000);
    println!("{bytes:.0} bytes for each of 10,000 idle connections");
    assert!(bytes <= 512.0, "{bytes} bytes");
}

/// As long as requests arrive, the pools keep their memory for the next ones.
#[test]
fn pools_are_emptied_when_a_burst_is_over() {
    let settings = Settings::default();
    let listeners = listeners();
    let wake = std::io::pipe().expect("a pipe").0;
    let world = World::new();
    let engine = Engine::new(Sim::new(&world), &settings, &listeners, wake.as_fd(), None).expect("nothing can refuse");
    let slot = WorkerSlot::unshared();
    let lane = Lane::new(engine, &slot);
    let clients: Vec<Client> = (0..100).map(|_| world.connect()).collect();
    let converse = |request: &[u8]| {
        clients.iter().for_each(|client| client.send(request));
        serve_world(&world, &lane, &listeners);
        clients.iter().for_each(|client| assert!(client.received().starts_with(b"HTTP/1.1 200 OK\r\n")));
    };
    let pass = |time: Duration| {
        world.advance(time);
        serve_world(&world, &lane, &listeners);
    };
    let content = [b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20000\r\n\r\n".as_slice(), &[b'x'; 20_000]].concat();
    converse(GET);
    let before = held();
    pass(Duration::from_secs(1));
    assert_eq!(held(), before, "there was no burst");
    (0..10).for_each(|_| converse(&content));
    let pooled = held();
    // The burst was noticed before its last requests.
    pass(Duration::from_secs(1));
    pass(Duration::from_millis(999));
    assert_eq!(held(), pooled, "more requests may come at any moment");
    pass(Duration::from_millis(1));
    let left = held() - before;
    println!("{before} bytes before the burst, {pooled} in it, {left} more than before behind it");
    assert!(left < 0, "even buffers of the first requests are gone");
    converse(&content);
    pass(Duration::from_secs(10));
    assert!(held() > before, "few requests are no burst");
}
