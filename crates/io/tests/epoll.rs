//! Tests that need a real kernel.

use oribi_io::{Accepted, Attempt, Backend, Epoll, Event, Token};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

fn listener() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback has a free port");
    listener.set_nonblocking(true).expect("it is ours");
    listener
}

fn connect(listener: &TcpListener) -> TcpStream {
    TcpStream::connect(listener.local_addr().expect("it is bound")).expect("the queue has room")
}

#[test]
fn a_wait_is_never_shorter_than_asked() {
    let mut backend = Epoll::new().expect("an epoll instance");
    for nanoseconds in [1, 999_999, 1_000_000, 1_000_001, 1_500_000, 2_999_999] {
        let timeout = Duration::from_nanos(nanoseconds);
        backend.read_clock();
        let start = backend.now();
        let mut events = Vec::new();
        backend.wait(Some(timeout), &mut events).expect("waiting works");
        // A shorter wait would make a server spin until its deadline.
        assert!(backend.now() - start >= timeout, "{timeout:?}");
        assert_eq!(events, []);
    }
}

#[test]
fn listeners_are_told_apart() {
    let mut backend = Epoll::new().expect("an epoll instance");
    let listeners = [listener(), listener(), listener()];
    for (number, listener) in listeners.iter().enumerate() {
        backend.listen(number, listener.as_fd()).expect("it can be listened on");
    }
    for number in [1, 0, 2] {
        let _far = connect(&listeners[number]);
        let mut events = Vec::new();
        backend.wait(Some(Duration::from_secs(10)), &mut events).expect("waiting works");
        assert_eq!(events, [Event::Connection(number)]);
        assert!(matches!(backend.accept(number, listeners[number].as_fd()), Accepted::Connection(..)));
    }
}

#[test]
fn a_second_descriptor_blocks_and_keeps_the_connection() {
    let mut backend = Epoll::new().expect("an epoll instance");
    let listener = listener();
    backend.listen(0, listener.as_fd()).expect("it can be listened on");
    let mut far = connect(&listener);
    backend.wait(Some(Duration::from_secs(10)), &mut Vec::new()).expect("waiting works");
    let Accepted::Connection(mut socket, _) = backend.accept(0, listener.as_fd()) else { panic!("one waits") };
    backend.open(&mut socket, Token(1)).expect("it can be opened");
    let (copy, received) = backend.give_away(&mut socket).expect("a descriptor");
    assert_eq!(received, b"");
    let mut copy = TcpStream::from(copy);
    // The backend's own calls do not block in either mode of the socket.
    assert_eq!(backend.receive(&mut socket, &mut [0; 10]), Attempt::Later);
    backend.close(socket);
    let speaker = std::thread::spawn(move || {
        copy.write_all(b"hello").expect("the client is there");
        let mut answer = [0; 3];
        // Blocks until the client has read and answered.
        copy.read_exact(&mut answer).expect("the client is there");
        answer
    });
    let mut hello = [0; 5];
    far.read_exact(&mut hello).expect("the server is there");
    far.write_all(b"bye").expect("the server is there");
    assert_eq!((&hello, speaker.join().expect("no panic")), (b"hello", *b"bye"));
    assert_eq!(far.read(&mut hello).expect("an orderly end"), 0);
}
