//! Tests the event before the end of the server.

use super::*;

const WANT: Command<'_> = Command::Want(Wants { drained: false, shutdown: true });

/// Stops the edge. Its last connection is this one, for some seconds: without any, the edge does not rest before apps have all events.
fn stop(site: &mut Site) -> Client {
    let idle = site.world.connect();
    site.run();
    site.slot.set_command(WorkerCommand::Drain);
    site.world.wake();
    site.run();
    idle
}

/// Has the client answer a close, and the edge end.
#[track_caller]
fn assert_ends(site: &mut Site, app: &mut App, clients: &[&Client]) {
    for client in clients {
        client.send(&masked(FrameKind::Close, b"\x03\xe9"));
        client.end();
        site.run();
    }
    while let Some(taken) = app.worker.take() {
        app.stored.read(app.worker.request(&taken)).expect("a sensible request");
        assert_eq!(app.event().0, "close");
        app.answer(taken, "");
    }
    site.advance(SECOND * 10);
    assert!(!site.run(), "nothing keeps it");
}

#[test]
fn an_app_sends_a_last_message_before_the_server_ends() {
    let (mut site, mut app, client) = opened("mine", &[WANT]);
    let other = open(&mut site, &mut app, "mine", &[]);
    let _idle = stop(&mut site);
    assert_eq!(client_bytes(&mut site, &other), b"\x88\x02\x03\xe9", "it does not want the event");
    assert_eq!(client_bytes(&mut site, &client), b"");
    app.handle_event("shutdown", &[send("bye")]);
    assert_eq!(client_bytes(&mut site, &client), b"\x81\x03bye\x88\x02\x03\xe9");
    assert_ends(&mut site, &mut app, &[&client, &other]);
}

#[test]
fn earlier_messages_come_first_and_the_app_may_close_by_itself() {
    let (mut site, mut app, client) = opened("", &[WANT]);
    client.send(&masked(FrameKind::Text, b"x").repeat(2));
    site.run();
    let taken = app.take();
    let _idle = stop(&mut site);
    app.answer(taken, "");
    site.run();
    app.handle_event("text", &[send("heard")]);
    site.run();
    app.handle_event("shutdown", &[Command::Close { connection: 0, code: 4000, reason: b"" }]);
    assert_eq!(client_bytes(&mut site, &client), b"\x81\x05heard\x88\x02\x0f\xa0");
    assert_ends(&mut site, &mut app, &[&client]);
}

#[test]
fn an_app_that_fails_closes_with_its_code() {
    let (mut site, mut app, client) = opened("", &[WANT]);
    let _idle = stop(&mut site);
    let taken = app.take();
    app.worker.abandon(taken);
    assert_eq!(client_bytes(&mut site, &client), b"\x88\x02\x03\xf3");
    assert_ends(&mut site, &mut app, &[&client]);
}

#[test]
fn an_app_has_half_of_the_time_for_a_stop() {
    let mut settings = Settings::default();
    settings.timeouts.graceful = SECOND * 8;
    let mut site = Site::new(&settings);
    let mut app = site.worker();
    let clients: Vec<Client> = (0..2).map(|_| open(&mut site, &mut app, "", &[WANT])).collect();
    let _idle = stop(&mut site);
    let mut first = app.take();
    site.advance(SECOND * 3);
    assert_eq!(clients.iter().map(|client| client_bytes(&mut site, client).len()).sum::<usize>(), 0);
    site.advance(SECOND + MOMENT);
    for client in &clients {
        assert_eq!(client_bytes(&mut site, client), b"\x88\x02\x03\xe9");
    }
    app.command(&mut first, &[send("too late")]);
    app.answer(first, "");
    let second = app.take();
    app.answer(second, "");
    assert_eq!(client_bytes(&mut site, &clients[0]), b"");
    assert_ends(&mut site, &mut app, &[&clients[0], &clients[1]]);
}

#[test]
fn without_time_or_workers_there_is_no_event() {
    for has_workers in [false, true] {
        let mut settings = Settings::default();
        if has_workers {
            settings.timeouts.graceful = Duration::ZERO;
        }
        let mut site = Site::new(&settings);
        let mut app = site.worker();
        let client = open(&mut site, &mut app, "", &[WANT]);
        if !has_workers {
            site.edge.apps[0].pool.report_death(0);
        }
        let _idle = stop(&mut site);
        assert_eq!(client_bytes(&mut site, &client), b"\x88\x02\x03\xe9");
        assert!(!app.worker.has_queued());
    }
}

#[test]
fn a_stream_of_events_ends_after_the_last_message() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let client = site.asking(STREAM);
    app.handle_stream(&[Command::Hold { data: b"mine" }, WANT]);
    assert!(site.received(&client).starts_with("HTTP/1.1 200 "));
    let _idle = stop(&mut site);
    assert_eq!(site.received(&client), "");
    app.handle_event("shutdown", &[send("bye")]);
    let received = site.received(&client);
    assert!(received.contains("data: bye\n\n") && received.ends_with("0\r\n\r\n"), "{received}");
    app.handle_event("close", &[]);
    client.end();
    site.advance(SECOND * 10);
    assert!(!site.run(), "nothing keeps it");
}

#[test]
fn a_client_that_leaves_first_has_no_event() {
    let (mut site, mut app, client) = opened("mine", &[WANT]);
    client.send(&masked(FrameKind::Text, b"x"));
    site.run();
    let taken = app.take();
    let _idle = stop(&mut site);
    client.reset();
    site.run();
    app.answer(taken, "");
    site.run();
    app.handle_event("close", &[]);
    site.advance(SECOND * 10);
    assert!(!site.run(), "nothing keeps it");
}
