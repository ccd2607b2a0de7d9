//! Responses that wait for slow clients in a file, so that their apps continue.

use super::frames::*;
use super::harness::*;
use super::response::read_only;
use oribi_host::{Outlet, Reply, ReplyError, Request};
use oribi_message::ResponseHead;
use oribi_server::config::Settings;
use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;

const SIZE: usize = 3_000_000;

/// Settings with far less memory for each response than the app writes.
fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.limits.output_bytes = 100_000;
    settings
}

/// Writes the content in pieces, each as soon as the server has taken the one before.
fn streams(_: &Request<'_>, reply: Reply<'_>) {
    let mut writer = reply.start(ok()).expect("the client is there");
    pattern(SIZE).chunks(30_000).for_each(|piece| writer.write(piece).expect("the client is there"));
    writer.finish().expect("the client is there");
}

/// All bytes that a client takes, in windows of a given size.
fn taken(server: &mut Server, client: &oribi_io::Client, window: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        client.set_window(window);
        server.run();
        let more = client.received();
        if more.is_empty() {
            return bytes;
        }
        bytes.extend(more);
    }
}

#[test]
fn an_app_does_not_wait_for_a_client_that_takes_nothing() {
    for window in [1000, 70_000, 400_000, usize::MAX] {
        let mut server = Server::new(settings(), streams);
        server.meanwhile(|| panic!("the app waits"));
        let client = server.connect();
        client.set_window(0);
        client.send(GET);
        assert!(server.run_one());
        server.no_meanwhile();
        assert_eq!(read_only(&taken(&mut server, &client, window)).body, pattern(SIZE), "in windows of {window}");
        // The connection continues.
        server.app(echo);
        client.set_window(usize::MAX);
        assert_eq!(read_only(&server.exchange(&client, &get("/next"))).text(), "GET /next ");
    }
}

#[test]
fn every_framing_keeps_its_bytes() {
    for (request, announced) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", true),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", false),
        ("GET / HTTP/1.0\r\n\r\n", false),
    ] {
        let mut server = Server::new(settings(), move |_, reply| {
            let size = SIZE.to_string();
            let fields: &[(&[u8], &[u8])] = &[(b"Content-Length", size.as_bytes())];
            let fields = if announced { fields } else { &[] };
            let mut writer = reply.start(ResponseHead { status: 200, fields }).expect("the client is there");
            for piece in pattern(SIZE).chunks(30_000) {
                if writer.write(piece).is_err() {
                    break;
                }
            }
            let _ = writer.finish();
        });
        server.meanwhile(|| panic!("the app waits"));
        let client = server.connect();
        client.set_window(100);
        client.send(request.as_bytes());
        assert!(server.run_one());
        server.no_meanwhile();
        let received = taken(&mut server, &client, 50_000);
        let start = received.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head") + 4;
        if request.contains("close") {
            assert_eq!(read_only(&received).body, pattern(SIZE), "{request}");
        } else {
            assert!(received[start..] == pattern(SIZE), "{request}");
        }
        assert_eq!(client.saw_end(), !announced, "{request}");
    }
    // There is no reason to wait.
    let mut server = Server::new(settings(), |_, reply| {
        let mut writer = reply.start(ok()).expect("the client is there");
        while writer.write(&pattern(30_000)).is_ok() {}
    });
    let client = server.connect();
    assert!(server.exchange(&client, b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n").ends_with(b"\r\n\r\n"));
}

#[test]
fn beyond_the_bound_of_the_file_the_app_waits() {
    let mut settings = settings();
    settings.limits.output_spool_bytes = 1_000_000;
    waits(settings, 1_000_000);
}

#[test]
fn without_a_file_the_app_waits() {
    let mut off = settings();
    off.limits.output_spool_bytes = 0;
    let nothing = Settings { temporary_directory: PathBuf::from("/nonexistent/oribi"), ..settings() };
    let none_in_total = {
        let mut settings = settings();
        settings.limits.output_spool_total = 0;
        settings
    };
    for settings in [off, nothing, none_in_total] {
        waits(settings, 0);
    }
}

/// Checks that an app must wait when about `in_file` bytes of its response are in the file, and that the client finally gets
/// all bytes.
fn waits(settings: Settings, in_file: usize) {
    let written = Rc::new(Cell::new(0));
    let count = written.clone();
    let in_memory = settings.limits.output_bytes;
    let mut server = Server::new(settings, move |_, reply| {
        let mut writer = reply.start(ok()).expect("the client is there");
        for piece in pattern(SIZE).chunks(30_000) {
            count.set(count.get() + piece.len());
            writer.write(piece).expect("the client is there");
        }
        writer.finish().expect("the client is there");
    });
    let client = server.connect();
    client.set_window(0);
    client.send(GET);
    let (most, received) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(Vec::new())));
    let (wire, seen, bytes) = (client.clone(), most.clone(), received.clone());
    server.meanwhile(move || {
        if seen.get() == 0 {
            seen.set(written.get());
        }
        bytes.borrow_mut().extend(wire.received());
        wire.set_window(200_000);
    });
    assert!(server.run_one());
    server.no_meanwhile();
    let waited_at = most.get();
    assert!(waited_at > in_file && waited_at <= in_file + 2 * in_memory + 60_000, "it waits at {waited_at}");
    received.borrow_mut().extend(taken(&mut server, &client, usize::MAX));
    assert_eq!(read_only(&received.borrow()).body, pattern(SIZE));
}

#[test]
fn whole_responses_leave_memory_when_all_hold_too_much() {
    let mut settings = Settings::default();
    settings.limits.output_memory_total = Some(0);
    for large in [5000, 300_000, SIZE] {
        let mut server = Server::new(settings.clone(), move |_, reply| {
            let content = pattern(large);
            reply.send(ok(), &[&content[..1000], &content[1000..]]).expect("the client is there");
        });
        let client = server.connect();
        client.set_window(100);
        client.send(GET);
        server.run();
        assert_eq!(read_only(&taken(&mut server, &client, 1000.max(large / 7))).body, pattern(large));
    }
}

#[test]
fn a_file_in_memory_moves_as_well() {
    let mut settings = Settings::default();
    settings.limits.output_memory_total = Some(0);
    let mut server = Server::new(settings, |_, reply| {
        use std::io::Write;
        let file = rustix::fs::memfd_create("response", rustix::fs::MemfdFlags::CLOEXEC).expect("memory is there");
        let mut file = std::fs::File::from(file);
        file.write_all(&pattern(SIZE)).expect("memory is there");
        // The creator of the file may change it, and the client gets the content from before.
        let again = file.try_clone().expect("a descriptor is free");
        reply.send_file(ok(), file, 1000, 2_000_000).expect("the client is there");
        again.set_len(0).expect("it is ours");
    });
    let client = server.connect();
    client.set_window(3000);
    client.send(GET);
    server.run();
    assert_eq!(read_only(&taken(&mut server, &client, 100_000)).body, pattern(SIZE)[1000..2_001_000]);
}

#[test]
fn an_app_that_gives_up_cuts_its_response_wherever_it_waits() {
    let mut server = Server::new(settings(), |_, reply| {
        let mut writer = reply.start(ok()).expect("the client is there");
        pattern(SIZE).chunks(30_000).for_each(|piece| writer.write(piece).expect("the client is there"));
        drop(writer);
    });
    let client = server.connect();
    client.set_window(10_000);
    client.send(GET);
    server.run();
    let received = taken(&mut server, &client, usize::MAX);
    assert!(client.saw_reset() && !received.ends_with(b"\r\n0\r\n\r\n"));
    assert_eq!(server.connections(), 0);
}

#[test]
fn a_client_that_takes_nothing_in_time_is_cut_though_its_app_has_ended() {
    let mut settings = settings();
    settings.timeouts.write = 10 * SECOND;
    let mut server = Server::new(settings, streams);
    let client = server.connect();
    client.set_window(1000);
    client.send(GET);
    server.run();
    server.advance(9 * SECOND);
    assert_eq!(server.connections(), 1);
    server.advance(SECOND);
    assert!(client.saw_reset() && server.connections() == 0);
}

#[test]
fn streams_without_room_do_not_hold_their_apps() {
    let mut server = Server::new(settings(), streams);
    server.meanwhile(|| panic!("the app waits"));
    let (client, mut frames) = (server.connect(), Frames::default());
    client.send(&[opening(&[(INITIAL_WINDOW, 0)]), asks(1, "/"), asks(3, "/"), asks(5, "/")].concat());
    for _ in 0..3 {
        assert!(server.run_one());
    }
    server.no_meanwhile();
    server.run();
    assert_eq!([1, 3].map(|id| frames.read(&client).content(id).0.len()), [0, 0]);
    // One client gives up, and the others continue.
    client.send(&frame(RST_STREAM, 0, 5, &[0, 0, 0, 8]));
    client.send(&[window_update(0, 1 << 24), window_update(1, 1000)].concat());
    server.run();
    assert_eq!(frames.read(&client).content(1).0.len(), 1000);
    client.send(&[window_update(1, 1 << 24), window_update(3, 1 << 24)].concat());
    for _ in 0..200 {
        client.set_window(50_000);
        server.run();
        frames.read(&client);
    }
    let whole = String::from_utf8(pattern(SIZE)).expect("text");
    assert!([1, 3].iter().all(|id| frames.content(*id) == (whole.clone(), true)));
    assert_eq!(frames.content(5), (String::new(), false));
}

#[test]
fn whole_responses_without_room_leave_memory_when_all_hold_too_much() {
    let mut settings = Settings::default();
    settings.limits.output_memory_total = Some(0);
    let mut server = Server::new(settings, |_, reply| {
        let trailers: [(&[u8], &[u8]); 1] = [(b"x-sum", b"1")];
        let mut writer = reply.start(ResponseHead { status: 200, fields: &[] }).expect("the client is there");
        writer.write(&pattern(SIZE)).expect("the client is there");
        writer.finish_with_trailers(&trailers).expect("the client is there");
    });
    let (client, mut frames) = (server.connect(), Frames::default());
    client.set_window(500);
    client.send(&[opening(&[]), asks(1, "/"), asks(3, "/")].concat());
    server.run();
    client.send(&[window_update(0, 1 << 24), window_update(1, 1 << 24), window_update(3, 1 << 24)].concat());
    for _ in 0..200 {
        client.set_window(60_000);
        server.run();
        frames.read(&client);
    }
    let whole = String::from_utf8(pattern(SIZE)).expect("text");
    assert!([1, 3].iter().all(|id| frames.content(*id) == (whole.clone(), true)));
    assert!(frames.of(RST_STREAM).is_empty());
}

#[test]
fn an_app_that_never_waits_learns_that_its_client_has_gone() {
    let client: Rc<RefCell<Option<oribi_io::Client>>> = Rc::default();
    let (leaves, written) = (client.clone(), Rc::new(Cell::new(0)));
    let count = written.clone();
    let mut server = Server::new(settings(), move |_, reply| {
        let mut writer = reply.start(ok()).expect("the client is there");
        while writer.write(&pattern(100_000)).is_ok() {
            count.set(count.get() + 1);
            if count.get() == 5 {
                leaves.borrow_mut().take().expect("it is there").reset();
            }
            assert!(count.get() < 100, "nobody tells the app");
        }
    });
    let connected = server.connect();
    connected.set_window(0);
    connected.send(GET);
    client.replace(Some(connected));
    server.run();
    assert_eq!(server.connections(), 0);
}

#[test]
fn an_app_whose_client_has_gone_is_told_while_its_response_waits() {
    let kept = Rc::default();
    let mut server = Server::new(settings(), keep(&kept));
    let client = server.connect();
    client.set_window(0);
    client.send(GET);
    server.run();
    let exchange = kept.borrow_mut().remove(0);
    server.lane.start(exchange, ok()).expect("the client is there");
    for piece in pattern(SIZE).chunks(30_000) {
        server.lane.write(exchange, piece).expect("the client is there");
    }
    client.reset();
    server.run();
    assert_eq!(server.lane.write(exchange, b"more"), Err(ReplyError::Gone));
}
