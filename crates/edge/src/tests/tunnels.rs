//! Tests WebSockets on streams of HTTP/2 (RFC 8441).

use super::live::{masked, send};
use super::streams::{OPENING, frame, get_on};
use super::*;
use oribi_live::{Command, Kind, Wants};
use oribi_stats::scoreboard::WorkerCommand;
use oribi_websocket::Kind as FrameKind;

/// The kinds of frames, and END_STREAM.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const WINDOW_UPDATE: u8 = 8;
const END: u8 = 1;

fn site() -> Site {
    let mut settings = Settings::default();
    settings.websocket.http2 = true;
    Site::new(&settings)
}

/// An extended CONNECT for `protocol` on stream 1.
fn connect(protocol: &str) -> Vec<u8> {
    let literal = |name: &str, value: &str| {
        [&[0, name.len() as u8][..], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
    };
    let block = [
        literal(":method", "CONNECT"),
        literal(":protocol", protocol),
        literal(":scheme", "http"),
        literal(":path", "/chat"),
        literal(":authority", "a"),
        literal("sec-websocket-version", "13"),
    ];
    frame(HEADERS, 4, 1, &block.concat())
}

/// The frames on stream 1 that a client has received: kind, flags and content.
#[track_caller]
fn frames(site: &mut Site, client: &Client) -> Vec<(u8, u8, Vec<u8>)> {
    site.run();
    let received = client.received();
    let (mut rest, mut found) = (&received[..], Vec::new());
    while let Some((head, after)) = rest.split_first_chunk::<9>() {
        let size = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        if head[8] == 1 && [DATA, HEADERS, RESET].contains(&head[3]) {
            found.push((head[3], head[4], after[..size].to_vec()));
        }
        rest = &after[size..];
    }
    found
}

#[track_caller]
fn opened(site: &mut Site, app: &mut App, commands: &[Command<'_>]) -> Client {
    let client = site.world.connect();
    client.send(&[OPENING, &connect("websocket")].concat());
    site.run();
    app.handle(&[&[Command::Accept { fields: b"", data: b"mine" }], commands].concat());
    let found = frames(site, &client);
    assert_eq!((found[0].0, found[0].1 & END), (HEADERS, 0), "{found:?}");
    assert!(found[0].2[..2].contains(&0x88), "status 200: {found:?}");
    client
}

#[test]
fn a_stream_carries_messages_both_ways_until_it_is_closed() {
    let (mut site, client, mut app);
    site = self::site();
    app = site.worker();
    client = opened(&mut site, &mut app, &[Command::Subscribe(b"news")]);
    assert_eq!(site.edge.apps[0].table.used(), 0, "no worker has anything to do with it");
    client.send(&frame(DATA, 0, 1, &masked(FrameKind::Text, b"hello")));
    site.run();
    let mut taken = app.take();
    let head = app.stored.head();
    assert_eq!((head.method(), head.target()), (&b"GET"[..], &b"/chat"[..]), "as over HTTP/1.1");
    app.command(&mut taken, &[send("hi"), Command::Publish { kind: Kind::Text, channel: b"news", payload: b"all" }]);
    app.answer(taken, "");
    let content: Vec<u8> = frames(&mut site, &client).into_iter().flat_map(|(.., content)| content).collect();
    assert_eq!(content, b"\x81\x02hi\x81\x03all");
    // Other streams of the connection go on.
    client.send(&get_on(3, "/other"));
    site.run();
    app.echo();
    assert!(site.received(&client).contains("GET /other"));
    client.send(&frame(DATA, 0, 1, &masked(FrameKind::Close, b"\x03\xe8")));
    let found = frames(&mut site, &client);
    assert_eq!((&found[0].2[..], found[1].1 & END), (&b"\x88\x02\x03\xe8"[..], END), "{found:?}");
    let taken = app.take();
    assert_eq!(app.event().0, "close");
    app.answer(taken, "");
    site.run();
    assert_eq!(site.edge.lane.source().open_sockets(), 0);
    assert!(site.edge.live.borrow().is_idle());
    assert_eq!(site.edge.lane.source().answering(), 0);
}

#[test]
fn a_split_message_is_whole_and_early_bytes_are_kept() {
    let (mut site, client, mut app);
    site = self::site();
    app = site.worker();
    client = site.world.connect();
    let message = masked(FrameKind::Text, b"early");
    client.send(&[OPENING, &connect("websocket"), &frame(DATA, 0, 1, &message[..4])].concat());
    site.run();
    app.handle(&[Command::Accept { fields: b"", data: b"" }]);
    for byte in &message[4..] {
        client.send(&frame(DATA, 0, 1, &[*byte]));
        site.run();
    }
    let taken = app.take();
    assert_eq!(app.event().3, "early");
    app.answer(taken, "");
}

#[test]
fn messages_before_a_mistake_are_answered() {
    let mut site = site();
    let mut app = site.worker();
    let client = opened(&mut site, &mut app, &[]);
    let message = masked(FrameKind::Text, b"x");
    client.send(&frame(DATA, 0, 1, &[&message[..], b"\x81\x05hello"].concat()));
    client.send(&frame(DATA, 0, 1, &message));
    site.run();
    app.handle(&[send("y")]);
    let found = frames(&mut site, &client);
    let content: Vec<u8> = found.iter().flat_map(|(.., content)| content.clone()).collect();
    assert_eq!((&content[..4], &content[5..7]), (&b"\x81\x01y\x88"[..], &b"\x03\xea"[..]), "{found:?}");
    let taken = app.take();
    assert_eq!(app.event().0, "close");
    app.answer(taken, "");
    site.run();
    assert_eq!(site.edge.lane.source().open_sockets(), 0);
}

#[test]
fn the_last_message_and_the_end_of_the_server_have_events() {
    let mut site = site();
    let mut app = site.worker();
    let client = opened(&mut site, &mut app, &[Command::Want(Wants { drained: true, shutdown: true })]);
    client.send(&frame(DATA, 0, 1, &masked(FrameKind::Text, b"x")));
    site.run();
    // A client of HTTP/2 has room for 65,535 bytes at first.
    app.handle(&[Command::Send { connection: 0, kind: Kind::Binary, payload: &[b'x'; 100_000] }]);
    site.run();
    assert!(!app.worker.has_queued(), "the client has no room for all of it");
    for id in [0, 1] {
        client.send(&frame(WINDOW_UPDATE, 0, id, &100_000_u32.to_be_bytes()));
    }
    site.run();
    let taken = app.take();
    assert_eq!(app.event().0, "drained");
    app.answer(taken, "");
    frames(&mut site, &client);
    assert!(!app.worker.has_queued());
    site.slot.set_command(WorkerCommand::Drain);
    site.world.wake();
    site.run();
    let mut taken = app.take();
    assert_eq!(app.event().0, "shutdown");
    app.command(&mut taken, &[send("bye")]);
    app.answer(taken, "");
    let found = frames(&mut site, &client).into_iter().filter(|(kind, ..)| *kind == DATA);
    let content: Vec<u8> = found.flat_map(|(.., content)| content).collect();
    assert_eq!(content, b"\x81\x03bye\x88\x02\x03\xe9");
}

#[test]
fn a_client_that_resets_its_stream_or_leaves_is_known_to_the_app() {
    for how in ["reset", "end of the stream", "end of the connection"] {
        let (mut site, client, mut app);
        site = self::site();
        app = site.worker();
        client = opened(&mut site, &mut app, &[]);
        match how {
            "reset" => client.send(&frame(RESET, 0, 1, &[0, 0, 0, 8])),
            "end of the stream" => client.send(&frame(DATA, END, 1, b"")),
            _ => client.reset(),
        }
        site.run();
        let taken = app.take();
        assert_eq!((app.event().0, app.event().3.as_bytes()[0]), ("close".to_owned(), 3), "{how}");
        app.answer(taken, "");
        site.run();
        assert!(site.edge.live.borrow().is_idle(), "{how}");
        assert_eq!(site.edge.lane.source().open_sockets(), 0, "{how}");
    }
}

#[test]
fn silent_streams_are_pinged_and_those_that_do_not_answer_are_reset() {
    let (mut site, client, mut app);
    site = self::site();
    app = site.worker();
    client = opened(&mut site, &mut app, &[]);
    site.advance(SECOND * 31);
    assert_eq!(frames(&mut site, &client), [(DATA, 0, b"\x89\0".to_vec())]);
    site.advance(SECOND * 31);
    let found = frames(&mut site, &client);
    assert_eq!(found.last().map(|frame| frame.0), Some(RESET), "{found:?}");
    let taken = app.take();
    assert_eq!(app.event().0, "close");
    app.answer(taken, "");
}

#[test]
fn a_stream_whose_app_was_busy_is_pinged_before_it_is_reset() {
    let (mut site, client, mut app);
    site = self::site();
    app = site.worker();
    client = opened(&mut site, &mut app, &[]);
    client.send(&frame(DATA, 0, 1, &masked(FrameKind::Text, b"x").repeat(16)));
    site.run();
    let taken = app.take();
    site.advance(SECOND * 46);
    app.answer(taken, "");
    for _ in 0..15 {
        site.run();
        app.handle(&[]);
    }
    site.advance(SECOND * 31);
    assert_eq!(frames(&mut site, &client), [(DATA, 0, b"\x89\0".to_vec())]);
}

#[test]
fn a_message_that_is_larger_than_the_buffer_arrives() {
    let mut settings = Settings::default();
    settings.websocket.http2 = true;
    settings.websocket.buffer_bytes = 50_000;
    // Bytes in temporary files count, too.
    settings.limits.output_bytes = 10_000;
    let mut site = Site::new(&settings);
    let mut app = site.worker();
    let client = opened(&mut site, &mut app, &[Command::Subscribe(b"news")]);
    let payload = vec![b'x'; 150_000];
    let publish = Command::Publish { kind: Kind::Binary, channel: b"news", payload: &payload };
    let publisher = site.asking(&post("/", b""));
    app.handle(&[publish]);
    assert_response(&site.received(&publisher), "200", "");
    let mut found = frames(&mut site, &client);
    assert_eq!(size(&found), 65_535, "the window is full");
    client.send(&[0, 1].map(|id| frame(WINDOW_UPDATE, 0, id, &150_000_u32.to_be_bytes())).concat());
    found.extend(frames(&mut site, &client));
    assert_eq!(size(&found), payload.len() + 10);
    // The client has had its time for the first of two.
    for _ in 0..2 {
        let publisher = site.asking(&post("/", b""));
        app.handle(&[publish]);
        assert_response(&site.received(&publisher), "200", "");
    }
    assert_eq!(frames(&mut site, &client).last().map(|frame| frame.0), Some(RESET));
}

/// The bytes of content in frames.
fn size(frames: &[(u8, u8, Vec<u8>)]) -> usize {
    frames.iter().filter(|frame| frame.0 == DATA).map(|frame| frame.2.len()).sum()
}

#[test]
fn an_app_may_refuse_and_other_protocols_are_refused() {
    let (mut site, mut app);
    site = self::site();
    app = site.worker();
    let client = site.world.connect();
    client.send(&[OPENING, &connect("websocket")].concat());
    site.run();
    let taken = app.take();
    app.answer_with(taken, 403, &[], "no");
    let found = frames(&mut site, &client);
    assert!(found.iter().any(|(kind, flags, content)| (*kind, flags & END, &content[..]) == (DATA, END, b"no")), "{found:?}");
    // The client would take the page for a WebSocket.
    let client = site.world.connect();
    client.send(&[OPENING, &connect("websocket")].concat());
    site.run();
    let taken = app.take();
    app.answer(taken, "a page");
    let found = frames(&mut site, &client);
    assert!(!found[0].2[..2].contains(&0x88), "no 200: {found:?}");
    let client = site.world.connect();
    client.send(&[OPENING, &connect("connect-udp")].concat());
    let found = frames(&mut site, &client);
    assert!(String::from_utf8_lossy(&found[0].2).contains("501") || found.len() > 1, "{found:?}");
    assert!(app.worker.take().is_none());
    // Without the option, nothing announces tunnels.
    let mut site = Site::standard();
    let client = site.world.connect();
    client.send(&[OPENING, &connect("websocket")].concat());
    let found = frames(&mut site, &client);
    assert_eq!(found[0].0, RESET, "{found:?}");
}

#[test]
fn a_server_that_stops_closes_streams() {
    use oribi_stats::scoreboard::WorkerCommand;
    let (mut site, client, mut app);
    site = self::site();
    app = site.worker();
    client = opened(&mut site, &mut app, &[]);
    site.slot.set_command(WorkerCommand::Drain);
    site.world.wake();
    let found = frames(&mut site, &client);
    assert_eq!((&found[0].2[..], found[1].1 & END), (&b"\x88\x02\x03\xe9"[..], END), "{found:?}");
    let taken = app.take();
    app.answer(taken, "");
    client.end();
    site.advance(SECOND * 4);
    assert!(!site.run(), "nothing keeps it");
}
