//! Tests the event after the last message of an app.

use super::*;

const WANT: Command<'_> = Command::Want(Wants { drained: true, shutdown: false });

/// More than a client with a small window takes at once, and less than may wait for it.
const LARGE: usize = 200_000;

const fn binary(payload: &[u8]) -> Command<'_> {
    Command::Send { connection: 0, kind: Kind::Binary, payload }
}

/// Has the app handle a message of the client with these commands.
#[track_caller]
fn asked(site: &mut Site, app: &mut App, client: &Client, commands: &[Command<'_>]) {
    client.send(&masked(FrameKind::Text, b"x"));
    site.run();
    app.handle_event("text", commands);
    site.run();
}

#[track_caller]
fn assert_silent(site: &mut Site, app: &App) {
    site.run();
    assert!(!app.worker.has_queued(), "there is no event");
}

#[test]
fn there_is_one_event_after_several_messages() {
    let (mut site, mut app, client) = opened("mine", &[WANT]);
    assert_silent(&mut site, &app);
    asked(&mut site, &mut app, &client, &[send("one"), send("two")]);
    app.handle_event("drained", &[]);
    assert_silent(&mut site, &app);
    assert_eq!(site.received(&client), "\u{fffd}\u{3}one\u{fffd}\u{3}two");
    asked(&mut site, &mut app, &client, &[]);
    assert_silent(&mut site, &app);
    // Another request writes to it.
    let name = app.event().1;
    let other = site.asking(GET);
    app.handle(&[Command::Send { connection: name, kind: Kind::Text, payload: b"three" }]);
    assert_response(&site.received(&other), "200", "");
    app.handle_event("drained", &[]);
    assert_silent(&mut site, &app);
}

#[test]
fn only_those_that_want_it_have_the_event() {
    let (mut site, mut app, client) = opened("mine", &[]);
    client.set_window(0);
    asked(&mut site, &mut app, &client, &[binary(&[b'x'; LARGE])]);
    client.set_window(LARGE * 2);
    assert_silent(&mut site, &app);
    asked(&mut site, &mut app, &client, &[WANT, send("x"), Command::Want(Wants::default())]);
    assert_silent(&mut site, &app);
}

#[test]
fn the_event_waits_for_a_slow_client() {
    let (mut site, mut app, client) = opened("mine", &[WANT]);
    client.set_window(0);
    asked(&mut site, &mut app, &client, &[binary(&[b'x'; LARGE])]);
    assert_silent(&mut site, &app);
    client.send(&masked(FrameKind::Text, b"x"));
    site.run();
    let mut taken = app.take();
    assert_eq!((app.event().0, app.pending().as_deref()), ("text".to_owned(), Some("1")));
    app.command(&mut taken, &[send("more")]);
    app.answer(taken, "");
    client.set_window(LARGE);
    let mut received = client_bytes(&mut site, &client).len();
    assert!(received > LARGE / 2);
    assert_silent(&mut site, &app);
    client.set_window(LARGE);
    received += client_bytes(&mut site, &client).len();
    assert_eq!(received, LARGE + 10 + 6);
    app.handle_event("drained", &[]);
    assert_eq!(app.pending(), None);
    assert_silent(&mut site, &app);
}

#[test]
fn an_app_sends_one_part_after_the_other() {
    let (mut site, mut app, client) = opened("", &[WANT]);
    let part = [b'x'; 70_000];
    client.set_window(1000);
    asked(&mut site, &mut app, &client, &[binary(&part)]);
    for _ in 0..20 {
        assert_silent(&mut site, &app);
        client.set_window(part.len() + 10);
        site.run();
        client.set_window(1000);
        app.handle_event("drained", &[binary(&part)]);
    }
}

#[test]
fn messages_to_a_channel_lead_to_an_event_only_if_the_client_is_slow() {
    let (mut site, mut app, client) = opened("", &[WANT, Command::Subscribe(b"news")]);
    let publish = |payload| Command::Publish { kind: Kind::Binary, channel: b"news", payload };
    let publisher = site.asking(&post("/", b""));
    app.handle(&[publish(b"small")]);
    assert_response(&site.received(&publisher), "200", "");
    assert_silent(&mut site, &app);
    client.set_window(10);
    for _ in 0..2 {
        let publisher = site.asking(&post("/", b""));
        app.handle(&[publish(&[b'x'; LARGE])]);
        assert_response(&site.received(&publisher), "200", "");
    }
    assert_silent(&mut site, &app);
    client.set_window(LARGE * 3);
    site.run();
    app.handle_event("drained", &[]);
    assert_silent(&mut site, &app);
}

#[test]
fn the_event_comes_after_the_one_that_is_handled() {
    let (mut site, mut app, client) = opened("", &[WANT]);
    client.send(&masked(FrameKind::Text, b"x"));
    site.run();
    let mut taken = app.take();
    for text in ["one", "two"] {
        app.command(&mut taken, &[send(text)]);
        assert_silent(&mut site, &app);
    }
    app.answer(taken, "");
    site.run();
    app.handle_event("drained", &[]);
    assert_silent(&mut site, &app);
}

#[test]
fn a_client_that_leaves_drains_nothing() {
    for data in ["", "mine"] {
        let (mut site, mut app, client) = opened(data, &[WANT]);
        client.set_window(0);
        asked(&mut site, &mut app, &client, &[binary(&[b'x'; LARGE])]);
        client.reset();
        site.run();
        if !data.is_empty() {
            app.handle_event("close", &[]);
        }
        assert_silent(&mut site, &app);
        assert!(site.edge.live.borrow().is_idle());
    }
    // The event waits for the app when the client leaves.
    let (mut site, mut app, client) = opened("", &[WANT]);
    asked(&mut site, &mut app, &client, &[]);
    let name = app.event().1;
    let other = site.asking(GET);
    let mut taken = app.take();
    app.command(&mut taken, &[Command::Send { connection: name, kind: Kind::Text, payload: b"x" }]);
    client.reset();
    site.run();
    app.answer(taken, "");
    assert_response(&site.received(&other), "200", "");
    while let Some(taken) = app.worker.take() {
        app.answer(taken, "");
        site.run();
    }
    assert!(site.edge.live.borrow().is_idle());
}

#[test]
fn a_stream_of_events_has_the_event_too() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let client = site.asking(STREAM);
    app.handle_stream(&[Command::Hold { data: b"mine" }, WANT, send("early")]);
    assert!(site.received(&client).contains("data: early"));
    let large = "x".repeat(LARGE);
    client.set_window(1000);
    app.handle_event("drained", &[send(&large)]);
    assert_silent(&mut site, &app);
    client.set_window(LARGE * 2);
    site.run();
    // The app ends the stream in this event.
    app.handle_event("drained", &[send("last"), Command::Close { connection: 0, code: 1000, reason: b"" }]);
    let received = site.received(&client);
    assert!(received.contains("data: last\n\n") && received.ends_with("0\r\n\r\n"));
    app.handle_event("close", &[]);
    site.run();
    assert!(site.edge.live.borrow().is_idle());
}
