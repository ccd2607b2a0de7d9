//! Bytes in both directions.

use super::{Kernel, Pair, Peer};
use crate::pair::{PATIENCE, pattern, server};
use oribi_io::{Attempt, Backend, Event};
use rustls::version::{TLS12, TLS13};
use std::io::{IoSlice, Read, Seek, SeekFrom, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

pub fn a_request_and_its_response<B: Kernel>() {
    for (version, protocol, cipher) in [
        (&TLS12, "SSL_PROTOCOL=TLSv1.2", "SSL_CIPHER=ECDHE-ECDSA-AES256-GCM-SHA384"),
        (&TLS13, "SSL_PROTOCOL=TLSv1.3", "SSL_CIPHER=TLS_AES_256_GCM_SHA384"),
    ] {
        let mut pair = Pair::<B>::new(&server(), &Peer::speaking(&[version]));
        assert_eq!(pair.client.alpn_protocol(), Some(&b"http/1.1"[..]));
        let facts = pair.facts();
        let expected = [protocol, cipher, "SSL_CIPHER_USEKEYSIZE=256", "SSL_TLS_SNI=localhost", "SSL_SESSION_RESUMED=Initial"];
        for fact in expected {
            assert!(facts.iter().any(|found| found == fact), "{fact}: {facts:?}");
        }
        for _ in 0..3 {
            pair.client_writes(b"question");
            assert_eq!(pair.receive_all(8), b"question");
            assert_eq!(pair.receive(10), (Attempt::Later, Vec::new()));
            assert_eq!(pair.send(b"answer"), Attempt::Done(6));
            assert_eq!(pair.client_reads(6), (b"answer".to_vec(), false));
        }
        // Bytes without room stay, and a full result means that there may be more.
        pair.client_writes(b"a longer question");
        let mut first = Vec::new();
        pair.until(|pair| {
            first = pair.receive(10).1;
            !first.is_empty()
        });
        assert_eq!((first, pair.receive(10)), (b"a longer q".to_vec(), (Attempt::Done(7), b"uestion".to_vec())));
    }
}

pub fn large_content_passes_in_both_directions_and_waits_for_the_reader<B: Kernel>() {
    let mut pair = Pair::<B>::any();
    let content = pattern(3 << 20);
    let mut written = 0;
    let mut received = Vec::new();
    pair.until(|pair| {
        if written < content.len() {
            written += pair.client.writer().write(&content[written..]).expect("it takes some");
        }
        pair.exchange();
        while let (Attempt::Done(_), bytes) = pair.receive(100_000) {
            received.extend(bytes);
        }
        received.len() == content.len()
    });
    assert!(received == content);
    // The client does not read.
    let content = pattern(32 << 20);
    let mut sent = 0;
    pair.until(|pair| match pair.send(&content[sent..]) {
        Attempt::Done(count) => {
            sent += count;
            assert!(sent < content.len(), "a socket takes everything");
            false
        }
        attempt => {
            assert_eq!(attempt, Attempt::Later);
            true
        }
    });
    assert_eq!(pair.send(&content[sent..]), Attempt::Later);
    pair.events.clear();
    let (mut first, _) = pair.client_reads(1);
    pair.until(|pair| {
        let (bytes, _) = pair.client_reads(0);
        first.extend(bytes);
        pair.events.iter().any(|event| matches!(event, Event::Socket { writable: true, .. }))
    });
    pair.until(|pair| {
        while sent < content.len() {
            match pair.send(&content[sent..]) {
                Attempt::Done(count) => sent += count,
                attempt => {
                    assert_eq!(attempt, Attempt::Later);
                    break;
                }
            }
        }
        let (bytes, _) = pair.client_reads(0);
        first.extend(bytes);
        first.len() == content.len()
    });
    assert!(first == content);
}

pub fn gathered_pieces_are_one_record<B: Kernel>() {
    let mut pair = Pair::<B>::any();
    // The tickets arrive first.
    assert_eq!(pair.send(b"x"), Attempt::Done(1));
    pair.client_reads(1);
    for (sizes, wanted_records) in [(&[3_usize, 0, 5][..], 1), (&[100, 16_384], 2), (&[16_384, 100], 2), (&[1, 40_000, 1], 3)] {
        let content = pattern(sizes.iter().sum());
        let (mut pieces, mut start) = (Vec::new(), 0);
        for size in sizes {
            pieces.push(IoSlice::new(&content[start..start + size]));
            start += size;
        }
        let attempt = pair.backend.send_gathered(pair.socket.as_mut().expect("it is open"), &pieces);
        assert_eq!(attempt, Attempt::Done(content.len()));
        pair.backend.submit();
        // A record begins with its kind and the version; its size follows.
        let mut bytes = vec![0; content.len() + 200];
        let mut filled = 0;
        let (mut records, mut ends) = (0, 0);
        pair.until(|pair| {
            filled += pair.stream.peek(&mut bytes).ok().map_or(0, |count| count - filled);
            (records, ends) = (0, 0);
            while let Some(&[23, 3, 3, high, low]) = bytes[..filled].get(ends..ends + 5) {
                ends += 5 + usize::from(high) * 256 + usize::from(low);
                records += 1;
            }
            ends >= content.len() && ends == filled
        });
        assert_eq!(records, wanted_records, "{sizes:?}");
        assert!(pair.client_reads(content.len()).0 == content);
    }
}

pub fn files_are_sent_from_their_offset<B: Kernel>() {
    let mut pair = Pair::<B>::any();
    let content = pattern(200_000);
    let mut file = tempfile::tempfile().expect("a file is to be had");
    file.write_all(&content).expect("there is room");
    file.seek(SeekFrom::Start(17)).expect("it is a file");
    let mut sent = 0;
    let mut seen = Vec::new();
    pair.until(|pair| {
        while sent < 150_000 {
            let socket = pair.socket.as_mut().expect("it is open");
            match pair.backend.send_file(socket, file.as_fd(), 1000 + sent as u64, 150_000 - sent) {
                Attempt::Done(count) => sent += count,
                attempt => {
                    assert_eq!(attempt, Attempt::Later);
                    break;
                }
            }
        }
        seen.extend(pair.client_reads(0).0);
        seen.len() == 150_000
    });
    assert!(seen == content[1000..151_000]);
    let socket = pair.socket.as_mut().expect("it is open");
    assert_eq!(pair.backend.send_file(socket, file.as_fd(), 199_990, 100), Attempt::Done(10));
    let socket = pair.socket.as_mut().expect("it is open");
    assert_eq!(pair.backend.send_file(socket, file.as_fd(), 200_000, 90), Attempt::End, "the file has ended");
    assert_eq!(file.stream_position().expect("it is a file"), 17, "it is read by nobody else");
}

pub fn a_host_that_takes_the_connection_reads_and_writes_plain_bytes<B: Kernel>() {
    for app_ends_first in [false, true] {
        let mut pair = Pair::<B>::any();
        pair.client_writes(b"more than was asked for");
        let mut first = Vec::new();
        pair.until(|pair| {
            first = pair.receive(5).1;
            !first.is_empty()
        });
        let (descriptor, early) =
            pair.backend.give_away(pair.socket.as_mut().expect("it is open")).expect("it can be given away");
        assert!(early.is_empty());
        let mut app = UnixStream::from(descriptor);
        app.set_read_timeout(Some(PATIENCE)).expect("it is ours");
        let mut rest = vec![0; 18];
        app.read_exact(&mut rest).expect("it has come");
        assert_eq!([first, rest].concat(), b"more than was asked for");
        app.write_all(b"hello").expect("the thread reads");
        assert_eq!(pair.client_reads(5), (b"hello".to_vec(), false));
        if app_ends_first {
            app.shutdown(Shutdown::Write).expect("it is ours");
            assert_eq!(pair.client_reads(1), (Vec::new(), true));
            pair.client_writes(b"still here");
            let mut seen = [0; 10];
            app.read_exact(&mut seen).expect("the other direction is open");
            assert_eq!(&seen, b"still here");
        }
        pair.client.send_close_notify();
        pair.exchange();
        assert_eq!(app.read(&mut [0; 8]).expect("it ends well"), 0);
        if !app_ends_first {
            app.write_all(b"last").expect("the other direction is open");
            drop(app);
            pair.backend.shutdown(pair.socket.as_mut().expect("it is open"), oribi_io::Direction::Send);
            assert_eq!(pair.client_reads(5), (b"last".to_vec(), true));
        }
    }
}
