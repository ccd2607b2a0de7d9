//! Accepting without free descriptors. Runs alone in its process, whose limit it lowers.

use oribi_io::{Accepted, Backend, Event, Model, Restricted};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

#[test]
fn accepting_says_so_and_goes_on_afterwards() {
    // One after the other, because the limit belongs to the process.
    for model in Model::built_in() {
        for ahead in [0, 1, 4] {
            let mut backend = model.open(Restricted::No).unwrap_or_else(|refusal| panic!("{}: {refusal}", model.name()));
            backend.accept_ahead(0, ahead);
            says_so_and_goes_on(backend);
        }
    }
}

fn says_so_and_goes_on(mut backend: impl Backend) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback has a free port");
    listener.set_nonblocking(true).expect("it is ours");
    backend.listen(0, listener.as_fd()).expect("it can be listened on");
    let address = listener.local_addr().expect("it is bound");
    let far = TcpStream::connect(address).expect("the queue has room");
    let before = getrlimit(Resource::Nofile);
    // The next free descriptor is beyond the limit.
    let next = std::fs::File::open("/dev/null").expect("it is there").as_raw_fd();
    setrlimit(Resource::Nofile, Rlimit { current: Some(next as u64), ..before }).expect("lowering is allowed");
    told_of_a_connection(&mut backend);
    for _ in 0..3 {
        assert!(matches!(backend.accept(0, listener.as_fd()), Accepted::Exhausted(_)));
    }
    setrlimit(Resource::Nofile, before).expect("below the hard limit");
    let Accepted::Connection(socket, _) = backend.accept(0, listener.as_fd()) else { panic!("it still waits") };
    backend.close(socket);
    drop(far);
    backend.submit();
    // No connection waits, so the lack of descriptors is not an error.
    setrlimit(Resource::Nofile, Rlimit { current: Some(next as u64), ..before }).expect("lowering is allowed");
    let mut events = Vec::new();
    for _ in 0..3 {
        backend.wait(Some(Duration::from_millis(10)), &mut events).expect("waiting works");
    }
    assert_eq!(events, []);
    setrlimit(Resource::Nofile, before).expect("below the hard limit");
    for _ in 0..3 {
        let far = TcpStream::connect(address).expect("the queue has room");
        told_of_a_connection(&mut backend);
        let Accepted::Connection(socket, _) = backend.accept(0, listener.as_fd()) else { panic!("one waits") };
        backend.close(socket);
        drop(far);
    }
}

#[track_caller]
fn told_of_a_connection(backend: &mut impl Backend) {
    let mut events = Vec::new();
    // A wait may return without news.
    for _ in 0..3 {
        backend.wait(Some(Duration::from_secs(10)), &mut events).expect("waiting works");
        if !events.is_empty() {
            break;
        }
    }
    assert_eq!(events, [Event::Connection(0)]);
}
