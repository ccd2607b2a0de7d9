use super::{Flushed, Output, Pool, SEGMENT_BYTES, SHARED_BYTES, Segment};
use oribi_host::Piece;
use oribi_io::{Accepted, Backend, Client, Sim, World};
use oribi_stats::totals::{Account, Counter, Tally};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::Arc;

/// The bytes for a client whose socket takes `window` bytes at a time, and the most bytes that waited in memory meanwhile.
fn drained(output: &mut Output, window: usize) -> (Vec<u8>, usize) {
    let (mut backend, mut socket, client) = connected();
    client.set_window(window);
    let (mut received, mut memory) = (Vec::new(), 0);
    let account = Account::unshared();
    let tally = Tally::of_only_lane(account);
    loop {
        let flushed = output.flush(&mut backend, &mut socket, false, &tally);
        received.extend(client.received());
        assert_eq!(account.read().of(Counter::BytesSent), received.len() as u64, "what was sent is counted");
        memory = memory.max(output.memory() - output.waiting());
        match flushed {
            Flushed::All => return (received, memory),
            Flushed::Later => client.set_window(window),
            other => panic!("{other:?}"),
        }
    }
}

/// A backend with a client, and the socket of its connection.
fn connected() -> (Sim, <Sim as Backend>::Socket, Client) {
    let world = World::new();
    let client = world.connect();
    let mut backend = Sim::new(&world);
    let (pipe, _) = std::io::pipe().expect("pipes are there");
    backend.watch(pipe.as_fd()).expect("this backend refuses nothing");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let Accepted::Connection(socket, _) = backend.accept(0, listener.as_fd()) else { panic!("a client waits") };
    (backend, socket, client)
}

impl Output {
    /// The bytes in its segments, sent or not.
    fn memory(&self) -> usize {
        self.closed_bytes + self.tail.len()
    }
}

#[test]
fn what_has_left_is_freed() {
    let bytes: Vec<u8> = (0..2_000_000_u32).map(|number| number as u8).collect();
    for window in [1000, SEGMENT_BYTES, SEGMENT_BYTES + 1, 300_000] {
        let mut output = Output::default();
        bytes.chunks(7000).for_each(|piece| output.push(piece));
        assert_eq!(output.waiting(), bytes.len());
        let (received, kept) = drained(&mut output, window);
        assert!(received == bytes, "with a window of {window}");
        assert!(kept <= SEGMENT_BYTES, "{kept} bytes were kept that had left");
        assert_eq!((output.waiting(), output.is_empty()), (0, true));
    }
}

/// An output with a file in memory after some bytes.
fn with_memory_file(bytes: &[u8]) -> (Output, Arc<File>) {
    let mut file: File = memfd_create("test", MemfdFlags::ALLOW_SEALING).expect("a file").into();
    file.write_all(bytes).expect("there is memory");
    let (file, mut output) = (Arc::new(file), Output::default());
    output.push(b"head");
    output.push_piece(&Piece::File { file: &file, offset: 1, size: bytes.len() as u64 - 1 });
    output.look_at_files();
    (output, file)
}

#[test]
fn a_file_that_is_known_to_be_in_memory_is_copied() {
    let bytes: Vec<u8> = (0..2_000_000_u32).map(|number| number as u8).collect();
    for window in [1000, SEGMENT_BYTES, SEGMENT_BYTES + 1, 300_000] {
        let (mut output, _file) = with_memory_file(&bytes);
        assert_eq!(output.held(), 4 + bytes.len() as u64 - 1);
        output.push(b"end");
        let (received, _) = drained(&mut output, window);
        assert!(received == [b"head", &bytes[1..], b"end"].concat(), "with a window of {window}");
        assert_eq!((output.held(), output.is_empty()), (0, true));
    }
}

#[test]
fn a_file_in_memory_that_has_become_shorter_ends_the_response() {
    let (mut output, file) = with_memory_file(&[7; 200_000]);
    file.set_len(100_000).expect("a file can be cut");
    let (mut backend, mut socket, client) = connected();
    client.set_window(1_000_000);
    let flushed = output.flush(&mut backend, &mut socket, false, &Tally::of_only_lane(Account::unshared()));
    assert_eq!(flushed, Flushed::FileEnded);
    assert!(client.received().len() <= 4 + 100_000);
}

#[test]
fn what_has_left_in_part_is_not_added_to() {
    let mut output = Output::default();
    output.tail().extend_from_slice(b"abc");
    output.left(1);
    output.tail().extend_from_slice(b"def");
    assert_eq!((output.waiting(), output.closed.len(), output.tail.as_slice()), (5, 1, &b"def"[..]));
    output.left(2);
    assert_eq!((output.waiting(), output.closed.len()), (3, 0));
    output.left(2);
    assert_eq!((output.waiting(), output.sent), (1, 2));
}

#[test]
fn the_last_segment_leaves_with_those_in_front_of_it() {
    let mut output = Output::default();
    output.push(&vec![1; SEGMENT_BYTES + 10]);
    output.left(SEGMENT_BYTES + 4);
    assert_eq!((output.waiting(), output.closed.len()), (6, 0));
    let (received, _) = drained(&mut output, 100);
    assert_eq!(received, [1; 6]);
}

#[test]
fn what_is_passed_on_is_not_copied() {
    let bytes: Vec<u8> = (0..300_000_u32).map(|number| (number % 251) as u8).collect();
    for (size, window) in
        [(16_384, 70_000), (16_384, 5000), (9000, 100_000), (4096, usize::MAX), (100, 50_000), (300_000, 1000)]
    {
        let (mut waiting, mut output) = (Output::default(), Output::default());
        bytes.chunks(7000).for_each(|piece| waiting.push(piece));
        let mut expected = Vec::new();
        for chunk in bytes.chunks(size) {
            output.tail().extend_from_slice(b"header");
            waiting.pass_on(chunk.len() as u64, &mut output).expect("all of it is in memory");
            expected.extend_from_slice(b"header");
            expected.extend_from_slice(chunk);
            assert_eq!(waiting.waiting() + output.waiting(), bytes.len() - chunk_end(&bytes, chunk) + expected.len());
        }
        assert!(waiting.is_empty());
        let copied: usize =
            output.closed.iter().map(|segment| if let Segment::Bytes(bytes) = segment { bytes.len() } else { 0 }).sum();
        if size >= SHARED_BYTES {
            let headers = expected.len() - bytes.len();
            // Where a frame spans two segments, its smaller part may be copied.
            assert!(copied <= headers + 12 * SHARED_BYTES, "{copied} bytes were copied in frames of {size}");
        }
        assert!(drained(&mut output, window).0 == expected, "in frames of {size} with a window of {window}");
        assert_eq!((output.waiting(), output.is_empty()), (0, true));
    }
}

/// The number of bytes passed on up to the end of this chunk.
fn chunk_end(bytes: &[u8], chunk: &[u8]) -> usize {
    chunk.as_ptr() as usize - bytes.as_ptr() as usize + chunk.len()
}

#[test]
fn kept_outputs_own_little() {
    let (mut pool, mut output) = (Pool::default(), Box::<Output>::default());
    output.push(&vec![0; 3 * SEGMENT_BYTES]);
    drained(&mut output, usize::MAX);
    pool.give(output);
    let output = pool.take();
    assert!(output.spare.capacity().max(output.tail.capacity()) <= super::POOLED_BYTES);
}
