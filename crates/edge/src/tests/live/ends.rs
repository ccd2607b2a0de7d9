//! The ends of live connections, in each way and at each moment.

use super::super::super::routes::{Action, Filters, Limit, Route, Routes};
use super::*;
use oribi_cache::Rules;
use oribi_filter::{Compression, ResponsePlan};
use oribi_limit::{LimitBy, LimitOf};
use oribi_pool::DescriptorRequest;
use oribi_route::Rule;

/// A site with a client that waits for a response that its app holds, and the request.
#[track_caller]
fn held(data: &[u8]) -> (Site, App, Client, Taken) {
    let mut site = Site::standard();
    let mut app = site.worker();
    let client = site.asking(STREAM);
    let mut taken = app.take();
    app.command(&mut taken, &[Command::Hold { data }, Command::Subscribe(b"news")]);
    site.run();
    (site, app, client, taken)
}

/// Takes the event of the end of a connection.
#[track_caller]
fn take_close(site: &mut Site, app: &mut App) {
    site.run();
    let taken = app.take();
    assert_eq!(app.event().0, "close");
    app.answer(taken, "");
    site.run();
}

#[track_caller]
fn assert_forgotten(site: &mut Site) {
    site.run();
    assert!(site.edge.live.borrow().is_idle(), "no connection is left");
    assert!(site.edge.apps[0].has_no_commands(), "no commands are left");
    assert_eq!(site.edge.apps[0].table.used(), 0);
}

#[test]
fn a_message_that_is_larger_than_a_slot_comes_in_a_file() {
    let (mut site, mut app, client) = opened("mine", &[]);
    let message = vec![b'x'; 900_000];
    client.send(&masked(FrameKind::Binary, &message));
    site.run();
    let mut taken = app.take();
    assert!(app.stored.has_content_file());
    app.worker.request_descriptor(&mut taken, DescriptorRequest::Content).expect("it has room");
    site.run();
    let file = app.worker.take_descriptor(&taken).expect("the line works").expect("the file has come");
    assert!(event::split(&read(file, 8 + message.len())) == Some((b"mine", &message)));
    app.command(&mut taken, &[send("got it")]);
    app.answer(taken, "");
    assert_eq!(site.received(&client), "\u{fffd}\u{6}got it");
}

#[test]
fn a_client_that_leaves_before_its_held_response_is_forgotten() {
    for data in [&b""[..], b"mine"] {
        for begins in [false, true] {
            let (mut site, mut app, client, mut taken) = held(data);
            if begins {
                app.worker.head(&mut taken, &head(200, &[EVENT_STREAM], Content::Started)).expect("room");
                site.run();
            }
            client.reset();
            site.run();
            if begins {
                app.worker.finish(taken);
            } else {
                app.answer_with(taken, 200, &[EVENT_STREAM], "");
            }
            if !data.is_empty() {
                take_close(&mut site, &mut app);
            }
            assert_forgotten(&mut site);
        }
    }
}

#[test]
fn a_held_response_that_is_closed_ends() {
    for begins in [false, true] {
        let (mut site, mut app, client, mut taken) = held(b"");
        app.command(&mut taken, &[send("last"), Command::Close { connection: 0, code: 1000, reason: b"" }]);
        site.run();
        if begins {
            app.worker.head(&mut taken, &head(200, &[EVENT_STREAM], Content::Started)).expect("room");
            app.worker.finish(taken);
        } else {
            app.answer_with(taken, 200, &[EVENT_STREAM], "");
        }
        let received = site.received(&client);
        assert!(received.contains("data: last\n\n"), "{received}");
        assert!(received.ends_with("0\r\n\r\n"), "{received}");
        assert_forgotten(&mut site);
    }
}

#[test]
fn a_held_response_that_its_app_completes_is_forgotten() {
    for trailers in [false, true] {
        let (mut site, mut app, client, mut taken) = held(b"mine");
        let length: &[FieldPair<'_>] = if trailers { &[EVENT_STREAM] } else { &[EVENT_STREAM, (b"Content-Length", b"2")] };
        app.worker.head(&mut taken, &head(200, length, Content::Started)).expect("room");
        app.worker.content(&mut taken, b":\n");
        if trailers {
            app.worker.trailers(&mut taken, &head(0, &[(b"A", b"b")], Content::Trailers)).expect("room");
        }
        app.worker.finish(taken);
        let received = site.received(&client);
        assert!(received.starts_with("HTTP/1.1 200 "), "{received}");
        take_close(&mut site, &mut app);
        assert_forgotten(&mut site);
    }
}

#[test]
fn responses_without_content_are_not_held_for_ever() {
    for status in [204, 304] {
        let (mut site, mut app, client, taken) = held(b"");
        app.answer_with(taken, status, &[], "");
        assert!(site.received(&client).starts_with(&format!("HTTP/1.1 {status} ")));
        client.send(GET);
        site.run();
        app.echo();
        assert!(site.received(&client).starts_with("HTTP/1.1 200 "));
        assert_forgotten(&mut site);
    }
}

#[test]
fn a_request_that_may_stay_open_is_tried_again_only_if_others_are() {
    for retry_lost in [false, true] {
        for request in [HANDSHAKE, STREAM] {
            let mut site = Site::new(&Settings { retry_lost, ..Settings::default() });
            let mut app = site.worker();
            let client = site.asking(request);
            let _taken = app.take();
            site.edge.apps[0].pool.report_death(0);
            site.edge.apps[0].handle_answers(true);
            let received = site.received(&client);
            assert_eq!(received.starts_with("HTTP/1.1 502 "), !retry_lost, "{received}");
        }
    }
}

#[test]
fn a_handshake_that_is_tried_again_opens_a_websocket() {
    let mut site = Site::new(&Settings { retry_lost: true, ..Settings::default() });
    let mut app = site.worker();
    let client = site.asking(HANDSHAKE);
    let _taken = app.take();
    site.edge.apps[0].pool.report_death(0);
    site.edge.apps[0].handle_answers(true);
    let mut next = site.worker();
    next.handle(&[Command::Accept { fields: b"", data: b"" }]);
    let received = site.received(&client);
    assert!(received.starts_with("HTTP/1.1 101 "), "{received}");
}

#[test]
fn only_requests_for_it_are_held() {
    for retry_lost in [false, true] {
        for method in ["HEAD", "PUT", "GET"] {
            let mut site = Site::new(&Settings { retry_lost, ..Settings::default() });
            let mut app = site.worker();
            let client = site.asking(format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
            app.handle(&[Command::Hold { data: b"mine" }]);
            let received = site.received(&client);
            assert!(received.starts_with("HTTP/1.1 200 ") && !received.contains("chunked"), "{received}");
            assert_forgotten(&mut site);
        }
    }
}

#[test]
fn half_a_command_does_not_outlive_its_request() {
    let mut half = bytes(&[send("hello")]);
    half.pop();
    for way in 0..4 {
        let mut site = Site::standard();
        let mut app = site.worker();
        let client = site.asking(GET);
        let mut taken = app.take();
        assert_eq!(app.worker.commands(&mut taken, &half), half.len());
        app.worker.flush(&taken);
        site.run();
        match way {
            0 => app.answer(taken, ""),
            1 => {
                app.worker.head(&mut taken, &head(200, &[], Content::Started)).expect("room");
                app.worker.finish(taken);
            }
            2 => {
                client.reset();
                site.run();
                app.answer(taken, "");
            }
            _ => app.worker.abandon(taken),
        }
        assert_forgotten(&mut site);
    }
}

#[test]
fn frames_right_behind_a_handshake_are_read() {
    let early = [HANDSHAKE, &masked(FrameKind::Text, b"early"), &masked(FrameKind::Close, b"\x03\xe8")].concat();
    for leaves in [false, true] {
        let mut site = Site::standard();
        let mut app = site.worker();
        let client = site.asking(&early);
        if leaves {
            client.end();
            site.run();
        }
        app.handle(&[Command::Accept { fields: b"", data: b"mine" }]);
        site.run();
        let taken = app.take();
        assert_eq!((app.event().0, app.event().3), ("text".to_owned(), "early".to_owned()));
        app.answer(taken, "");
        take_close(&mut site, &mut app);
        assert_forgotten(&mut site);
        assert_eq!(site.edge.lane.source().open_sockets(), 0);
    }
}

#[test]
fn connections_that_open_while_the_server_stops_are_closed_at_once() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let (socket, stream) = (site.asking(HANDSHAKE), site.asking(STREAM));
    let (of_socket, mut of_stream) = (app.take(), app.take());
    let early = site.asking(STREAM);
    let mut of_early = app.take();
    app.command(&mut of_early, &[Command::Hold { data: b"" }]);
    site.run();
    site.slot.set_command(WorkerCommand::Drain);
    site.world.wake();
    site.run();
    app.answer_with(of_early, 200, &[EVENT_STREAM], "");
    assert!(site.received(&early).ends_with("0\r\n\r\n"), "it was held before");
    app.command(&mut of_stream, &[Command::Hold { data: b"" }]);
    app.answer_with(of_stream, 200, &[EVENT_STREAM], "");
    assert!(site.received(&stream).ends_with("0\r\n\r\n"), "it was held afterwards");
    let mut of_socket = of_socket;
    app.command(&mut of_socket, &[Command::Accept { fields: b"", data: b"" }]);
    app.answer(of_socket, "");
    assert!(client_bytes(&mut site, &socket).ends_with(b"\x88\x02\x03\xe9"));
    for client in [&socket, &stream, &early] {
        client.end();
    }
    site.advance(SECOND * 3);
    assert!(!site.run(), "nothing keeps it");
}

#[test]
fn a_client_that_takes_its_messages_slowly_is_not_silent() {
    let (mut site, mut app, client) = opened("", &[]);
    client.set_window(0);
    client.send(&masked(FrameKind::Text, b"x"));
    site.run();
    app.handle(&[Command::Send { connection: 0, kind: Kind::Binary, payload: &[b'x'; 200_000] }]);
    for _ in 0..30 {
        site.advance(SECOND * 3);
        client.set_window(5000);
        assert!(!client_bytes(&mut site, &client).is_empty(), "it is there");
        client.set_window(0);
    }
    assert_eq!(site.edge.lane.source().open_sockets(), 1);
}

#[test]
fn messages_before_a_close_reach_a_slow_client() {
    let (mut site, mut app, client) = opened("", &[]);
    client.set_window(0);
    client.send(&masked(FrameKind::Text, b"x"));
    site.run();
    let message = vec![b'x'; 100_000];
    app.handle(&[
        Command::Send { connection: 0, kind: Kind::Binary, payload: &message },
        Command::Close { connection: 0, code: 1000, reason: b"" },
    ]);
    let mut seen = client_bytes(&mut site, &client);
    for _ in 0..30 {
        site.advance(SECOND);
        client.set_window(10_000);
        seen.extend(client_bytes(&mut site, &client));
        client.set_window(0);
    }
    client.set_window(1 << 20);
    seen.extend(client_bytes(&mut site, &client));
    assert!(seen.len() > message.len() && seen.ends_with(b"\x88\x02\x03\xe8"), "{} bytes", seen.len());
    // The client never answers the close, and sends on.
    for _ in 0..10 {
        client.send(&masked(FrameKind::Text, b"more"));
        site.advance(SECOND * 10);
    }
    assert_eq!(site.edge.lane.source().open_sockets(), 0);
}

#[test]
fn a_route_that_stores_responses_has_live_connections() {
    let action = Action::App { app: 0, mount: String::new() };
    let filters = Filters { cache: Some(Rules::default()), ..Filters::default() };
    let routes = vec![Route { rule: Rule::default(), action, filters }];
    let routes = Routes::compile(routes).expect("the rules are valid").with_cache_bytes(16 << 10);
    let mut site = Site::with_apps(&Settings::default(), 1, Some(&Arc::new(routes)));
    let mut app = site.worker();
    let client = site.asking(STREAM);
    let mut taken = app.take();
    app.command(&mut taken, &[Command::Hold { data: b"mine" }]);
    app.answer_with(taken, 200, &[EVENT_STREAM], "");
    let received = site.received(&client);
    assert!(received.starts_with("HTTP/1.1 200 ") && received.contains("chunked"), "{received}");
    let socket = open(&mut site, &mut app, "", &[]);
    socket.send(&masked(FrameKind::Text, b"x"));
    site.run();
    app.handle(&[send("y")]);
    assert_eq!(site.received(&socket), "\u{fffd}\u{1}y");
    client.reset();
    take_close(&mut site, &mut app);
}

#[test]
fn events_of_a_compressed_stream_are_not_kept_back() {
    let action = Action::App { app: 0, mount: String::new() };
    let response = ResponsePlan { compression: Some(Compression::default()), ..ResponsePlan::default() };
    let routes = vec![Route { rule: Rule::default(), action, filters: Filters { response, ..Filters::default() } }];
    let routes = Routes::compile(routes).expect("the rules are valid");
    let mut site = Site::with_apps(&Settings::default(), 1, Some(&Arc::new(routes)));
    let mut app = site.worker();
    let client = site.asking(b"GET /news HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\nAccept-Encoding: gzip\r\n\r\n");
    app.handle_stream(&[Command::Hold { data: b"" }, Command::Subscribe(b"news")]);
    let received = site.received(&client);
    assert!(received.starts_with("HTTP/1.1 200 "), "{received}");
    for _ in 0..3 {
        let publisher = site.asking(&post("/", b""));
        app.handle(&[Command::Publish { kind: Kind::Text, channel: b"news", payload: b"next" }]);
        site.received(&publisher);
        assert!(!client.received().is_empty(), "an event");
    }
}

#[test]
fn a_limit_counts_a_handshake_until_it_is_answered() {
    let route =
        Route { rule: Rule::default(), action: Action::App { app: 0, mount: String::new() }, filters: Filters::default() };
    let limit = Limit { label: "oribi.toml:1".to_owned(), of: LimitOf::Open(1), by: LimitBy::All, dry_run: false };
    let routes = Routes::compile(vec![route]).expect("the rules are valid");
    let routes = routes.with_limits(vec![limit], vec![vec![0]], 2).expect("memory");
    let mut site = Site::with_apps(&Settings::default(), 1, Some(&Arc::new(routes)));
    let mut app = site.worker();
    let _one = open(&mut site, &mut app, "", &[]);
    let _two = open(&mut site, &mut app, "", &[]);
    let client = site.asking(STREAM);
    app.handle_stream(&[Command::Hold { data: b"" }]);
    assert!(site.received(&client).starts_with("HTTP/1.1 200 "));
    let other = site.asking(GET);
    assert!(site.received(&other).starts_with("HTTP/1.1 503 ") || site.edge.apps[0].table.used() == 0);
    client.reset();
    site.run();
    let other = site.asking(GET);
    app.echo();
    assert_response(&site.received(&other), "200", "GET / ");
}

#[test]
fn commands_in_wrong_states_do_no_harm() {
    let (mut site, mut app, client) = opened("mine", &[]);
    client.send(&masked(FrameKind::Text, b"x"));
    site.run();
    let close = |code, reason| Command::Close { connection: 0, code, reason };
    app.handle(&[
        Command::Accept { fields: b"", data: b"" },
        Command::Hold { data: b"" },
        Command::Send { connection: 0, kind: Kind::Text, payload: b"\xff" },
        Command::Send { connection: 77 << 48, kind: Kind::Text, payload: b"" },
        Command::Send { connection: u64::MAX, kind: Kind::Text, payload: b"" },
        Command::Unsubscribe(b"nothing"),
        Command::Subscribe(&[b'c'; 2000]),
        close(0, b"\xff"),
        close(1006, &[b'r'; 500]),
        close(1000, b""),
        Command::Subscribe(b"news"),
        Command::Data(b"last"),
    ]);
    assert_eq!(client_bytes(&mut site, &client), b"\x82\x01\xff\x88\0");
    client.reset();
    take_close(&mut site, &mut app);
    assert_forgotten(&mut site);
    // A request that accepts twice, holds too, and answers as well.
    for commands in [
        &[Command::Accept { fields: b"", data: b"" }, Command::Accept { fields: b"", data: b"" }, Command::Hold { data: b"" }]
            [..],
        &[Command::Hold { data: b"" }, Command::Hold { data: b"" }, Command::Accept { fields: b"", data: b"" }],
        &[Command::Accept { fields: b"A: b\r\n\r\nX\r\n: c\r\nB:\x01\r\n", data: b"" }],
    ] {
        let client = site.asking(HANDSHAKE);
        app.handle(commands);
        assert!(site.received(&client).starts_with("HTTP/1.1 "));
        client.reset();
        assert_forgotten(&mut site);
    }
}

#[test]
fn a_handshake_whose_client_has_gone_is_forgotten() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let client = site.asking(HANDSHAKE);
    let mut taken = app.take();
    client.reset();
    site.run();
    app.command(&mut taken, &[Command::Accept { fields: b"", data: b"mine" }]);
    app.answer(taken, "");
    assert_forgotten(&mut site);
}

#[test]
fn an_app_that_takes_too_long_over_an_event_closes_its_connection() {
    let mut settings = Settings::default();
    settings.timeouts.request = SECOND;
    for is_stream in [false, true] {
        let mut site = Site::new(&settings);
        let mut app = site.worker();
        let client = if is_stream {
            let client = site.asking(STREAM);
            let mut taken = app.take();
            app.command(&mut taken, &[Command::Hold { data: b"mine" }]);
            site.advance(SECOND * 2);
            assert!(site.received(&client).starts_with("HTTP/1.1 504 "));
            app.answer(taken, "");
            take_close(&mut site, &mut app);
            client
        } else {
            let client = open(&mut site, &mut app, "mine", &[]);
            client.send(&masked(FrameKind::Text, b"x"));
            site.run();
            let mut taken = app.take();
            site.advance(SECOND * 2);
            assert_eq!(client_bytes(&mut site, &client), b"\x88\x02\x03\xf3");
            app.command(&mut taken, &[send("late"), Command::Data(b"x")]);
            app.answer(taken, "");
            client.reset();
            take_close(&mut site, &mut app);
            client
        };
        client.reset();
        assert_forgotten(&mut site);
    }
}

#[test]
fn an_event_that_waits_too_long_for_a_worker_closes_its_connection() {
    let mut site = Site::new(&Settings { queue_timeout: SECOND, ..Settings::default() });
    let mut app = site.worker();
    let client = open(&mut site, &mut app, "", &[]);
    client.send(&masked(FrameKind::Text, b"x"));
    site.run();
    site.advance(SECOND * 2);
    assert_eq!(client_bytes(&mut site, &client), b"\x88\x02\x03\xf3");
    client.reset();
    assert_forgotten(&mut site);
}

#[test]
fn events_that_wait_for_their_response_have_a_bound() {
    let mut settings = Settings::default();
    settings.websocket.buffer_bytes = 4096;
    let mut site = Site::new(&settings);
    let mut app = site.worker();
    let client = site.asking(STREAM);
    let mut taken = app.take();
    app.command(&mut taken, &[Command::Hold { data: b"" }, Command::Subscribe(b"news")]);
    let payload = [b'x'; 1000];
    for _ in 0..10 {
        app.command(&mut taken, &[Command::Publish { kind: Kind::Text, channel: b"news", payload: &payload }]);
        site.run();
    }
    app.answer_with(taken, 200, &[EVENT_STREAM], "");
    let received = site.received(&client);
    assert_eq!(received.matches("data: ").count(), 4, "as many as there is room for");
    assert!(received.ends_with("0\r\n\r\n"), "{received}");
    assert_forgotten(&mut site);
}

#[test]
fn the_app_hears_at_once_of_a_client_that_is_cut_off() {
    let (mut site, mut app, _client) = opened("mine", &[]);
    for _ in 0..4 {
        // The edge notices the time when it rests for the first time.
        assert!(site.run());
        site.world.advance(SECOND * 16);
    }
    site.run();
    take_close(&mut site, &mut app);
    assert_forgotten(&mut site);
}

#[test]
fn too_much_data_is_refused() {
    let data = vec![b'x'; 70_000];
    let mut site = Site::standard();
    let mut app = site.worker();
    let client = site.asking(HANDSHAKE);
    app.handle(&[Command::Accept { fields: b"", data: &data }]);
    assert!(site.received(&client).starts_with("HTTP/1.1 500 "));
    let client = site.asking(STREAM);
    app.handle(&[Command::Hold { data: &data }]);
    assert_response(&site.received(&client), "200", "");
    assert_forgotten(&mut site);
}

#[test]
fn a_client_that_has_ended_its_side_before_the_handshake_is_known_to_the_app() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let client = site.asking(HANDSHAKE);
    client.end();
    site.run();
    app.handle(&[Command::Accept { fields: b"", data: b"mine" }]);
    take_close(&mut site, &mut app);
    assert_forgotten(&mut site);
}

#[test]
fn connections_of_an_app_end_with_it() {
    let (mut site, mut app, client) = opened("mine", &[]);
    let stream = site.asking(STREAM);
    app.handle_stream(&[Command::Hold { data: b"mine" }]);
    assert!(site.received(&stream).starts_with("HTTP/1.1 200 "));
    site.edge.live.borrow_mut().leave_app(&mut site.edge.lane.source(), 0);
    assert_eq!(client_bytes(&mut site, &client), b"\x88\x02\x03\xe9");
    assert_eq!(site.received(&stream), "0\r\n\r\n");
    client.reset();
    site.run();
    assert!(app.worker.take().is_none(), "the place may be that of another app");
    assert_forgotten(&mut site);
}

#[test]
fn a_client_of_http2_gets_events_but_no_websocket() {
    use super::super::streams::{OPENING, frame};
    let mut site = Site::standard();
    let mut app = site.worker();
    let client = site.world.connect();
    client.send(OPENING);
    site.run();
    let _ = client.received();
    // GET / of http, and Accept as a literal with its name from the static table.
    let block = [b"\x82\x86\x84\x01\x01a\x0f\x04\x11", &b"text/event-stream"[..]].concat();
    client.send(&frame(1, 5, 1, &block));
    site.run();
    app.handle(&[Command::Accept { fields: b"", data: b"" }]);
    assert!(!client_bytes(&mut site, &client).is_empty(), "500");
    client.send(&frame(1, 5, 3, &block));
    site.run();
    app.handle_stream(&[Command::Hold { data: b"mine" }, send("hello")]);
    assert!(site.received(&client).contains("data: hello\n\n"));
    client.send(&frame(3, 0, 3, b"\0\0\0\x08"));
    take_close(&mut site, &mut app);
    assert_forgotten(&mut site);
}
