//! Web servers as clients: requests side by side on one connection.

use super::harness::*;
use super::records::*;
use oribi_host::{Content, Piece, Reply, ReplyError, Request};
use oribi_message::{PreparedFields, ResponseHead, Role};
use oribi_server::config::{Protocol, Settings};
use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;
use std::sync::Arc;

fn settings() -> Settings {
    Settings { protocol: Protocol::FastCgi, ..Settings::default() }
}

fn server(app: impl FnMut(&Request<'_>, Reply<'_>) + 'static) -> Server {
    Server::new(settings(), app)
}

#[test]
fn a_request_is_answered_as_cgi_and_the_connection_is_kept() {
    let mut server = server(echo);
    let (client, mut reader) = (server.connect(), Reader::default());
    for id in [1, 1, 700] {
        client.send(&request(id, "GET", "/path?q=1", b""));
        server.run();
        let answer = reader.read(&client).take(id);
        assert!(answer.is_whole());
        assert_eq!(answer.parts().0, ["Status: 200 OK", "Content-Type: text/plain", "Content-Length: 14"]);
        assert_eq!(answer.text(), "GET /path?q=1 ");
        assert!(!client.closed());
    }
}

#[test]
fn a_connection_that_is_not_kept_is_closed_behind_the_answer() {
    let mut server = server(echo);
    let (client, mut reader) = (server.connect(), Reader::default());
    let variables = pairs(&[("REQUEST_METHOD", "GET"), ("REQUEST_URI", "/")]);
    client.send(&[begin(1, RESPONDER, false), stream(PARAMS, 1, &variables, 7), stream(STDIN, 1, b"", 1)].concat());
    server.run();
    assert!(reader.read(&client).take(1).is_whole());
    assert!(client.saw_end() && !client.saw_reset());
    client.end();
    server.run();
    assert_eq!(server.connections(), 0);
}

#[test]
fn fields_that_were_written_beforehand_stand_in_the_head() {
    let mut file = tempfile::tempfile().expect("there is a temporary directory");
    file.write_all(b"in a file").expect("there is room");
    let file = Arc::new(file);
    let fields = PreparedFields::new(&[(b"Content-Type", b"text/plain"), (b"ETag", b"\"a\"")]).expect("they are valid");
    let mut server = server(move |request, reply| {
        let content = match request.head.target() {
            b"/file" => Piece::File { file: &file, offset: 3, size: 6 },
            _ => Piece::Bytes(b"bytes!"),
        };
        reply.send_prepared(&fields, content).expect("the client is there");
    });
    let (client, mut reader) = (server.connect(), Reader::default());
    for (method, target, expected) in [("GET", "/", "bytes!"), ("GET", "/file", "a file"), ("HEAD", "/", "")] {
        client.send(&request(1, method, target, b""));
        server.run();
        let answer = reader.read(&client).take(1);
        assert!(answer.is_whole());
        assert_eq!(answer.parts().0, ["Status: 200 OK", "Content-Type: text/plain", "ETag: \"a\"", "Content-Length: 6"]);
        assert_eq!(answer.text(), expected, "{method} {target}");
    }
}

#[test]
fn bytes_and_parts_of_a_file_follow_one_another() {
    let content = pattern(200_000);
    let mut file = tempfile::tempfile().expect("there is a temporary directory");
    file.write_all(&content).expect("there is room");
    let (file, expected) = (Arc::new(file), content.clone());
    let mut server = server(move |_, reply| {
        // Neither the pieces nor their ends coincide with those of records.
        let part = |offset, size| Piece::File { file: &file, offset, size };
        let pieces =
            [Piece::Bytes(&content[..10]), part(10, 140_000), Piece::Bytes(&content[140_010..140_020]), part(140_020, 59_980)];
        let (outlet, exchange) = reply.detach();
        let head = ResponseHead { status: 206, fields: &[] };
        outlet.respond_pieces(exchange, head, &pieces).expect("the client is there");
    });
    let (client, mut reader) = (server.connect(), Reader::default());
    for method in ["GET", "HEAD", "GET"] {
        client.send(&request(1, method, "/", b""));
        server.run();
        let answer = reader.read(&client).take(1);
        assert!(answer.is_whole());
        let (head, body) = answer.parts();
        assert_eq!(head, ["Status: 206 Partial Content", "Content-Length: 200000"]);
        assert!(body == if method == "GET" { &expected[..] } else { b"" }, "{method}");
    }
}

#[test]
fn however_a_request_is_cut_it_is_the_same() {
    let content = pattern(300);
    let bytes = [request(3, "POST", "/a", &content), request(9, "GET", "/b", b"")].concat();
    for cut in 0..bytes.len() {
        let mut server = server(echo);
        let (client, mut reader) = (server.connect(), Reader::default());
        client.send(&bytes[..cut]);
        server.run();
        client.send(&bytes[cut..]);
        server.run();
        assert_eq!(reader.read(&client).take(3).text().as_bytes(), [b"POST /a ", &content[..]].concat(), "{cut}");
        assert_eq!(reader.take(9).text(), "GET /b ", "{cut}");
    }
}

#[test]
fn requests_side_by_side_are_answered_in_the_order_in_which_they_are_complete() {
    let mut server = server(echo);
    let (client, mut reader) = (server.connect(), Reader::default());
    let names = ["/a", "/b", "/c"];
    let variables = |uri| pairs(&[("REQUEST_METHOD", "POST"), ("REQUEST_URI", uri), ("CONTENT_LENGTH", "4")]);
    for (id, uri) in (1..).zip(names) {
        client.send(&[begin(id, RESPONDER, true), stream(PARAMS, id, &variables(uri), 5), record(STDIN, id, b"ab")].concat());
    }
    server.run();
    assert!(reader.read(&client).answers.is_empty());
    for id in [3, 1, 2] {
        client.send(&stream(STDIN, id, b"cd", 1));
        server.run();
        let answer = reader.read(&client).take(id);
        assert_eq!(answer.text(), format!("POST {} abcd", names[usize::from(id) - 1]));
        assert!(answer.is_whole() && reader.answers.is_empty());
    }
}

#[test]
fn a_thousand_interleaved_requests_with_aborts_are_answered_right() {
    let mut server = server(echo);
    let (client, mut reader) = (server.connect(), Reader::default());
    let bytes = |id: u16| request(id, "POST", &format!("/{id}"), &pattern(usize::from(id)));
    let mut left: Vec<(u16, Vec<u8>)> = (1..=1000).map(|id| (id, bytes(id))).collect();
    let mut turn = 0;
    while !left.is_empty() {
        // Sends one record of each request in turn, and aborts every seventh request in the middle.
        left.retain_mut(|(id, bytes)| {
            if *id % 7 == 0 && turn == 2 {
                client.send(&record(ABORT, *id, b""));
                return false;
            }
            let length = usize::from(u16::from_be_bytes([bytes[4], bytes[5]])) + usize::from(bytes[6]) + 8;
            client.send(&bytes.drain(..length).collect::<Vec<_>>());
            !bytes.is_empty()
        });
        turn += 1;
        server.run();
        reader.read(&client);
    }
    assert_eq!(reader.answers.len(), 1000);
    for id in 1..=1000 {
        let answer = reader.take(id);
        if id % 7 == 0 {
            assert_eq!((answer.output.len(), answer.end), (0, Some((0, COMPLETE))));
        } else {
            assert_eq!(answer.text().into_bytes(), [format!("POST /{id} ").as_bytes(), &pattern(usize::from(id))].concat());
            assert!(answer.is_whole());
        }
    }
}

#[test]
fn the_app_sees_what_the_web_server_says() {
    let mut server = server(|request, reply| {
        let gateway = request.gateway.expect("it is one of a web server");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (remote, server) = (request.remote, request.server);
        let fields: Vec<_> = request.head.fields().map(|(_, name, value)| format!("{}={}", text(name), text(value))).collect();
        let others = gateway.variables().filter(|(known, ..)| known.is_none());
        let others: Vec<_> = others.map(|(_, name, value)| format!("{}={}", text(name), text(value))).collect();
        let body = format!(
            "{}:{} {}:{} {} {:?} {fields:?} {others:?}",
            text(remote.address),
            text(remote.port),
            text(server.address),
            text(server.port),
            request.https,
            gateway.role
        );
        reply.send(ok(), &[body.as_bytes()]).expect("it is there");
    });
    let (client, mut reader) = (server.connect(), Reader::default());
    let variables = [
        ("REQUEST_METHOD", "GET"),
        ("REQUEST_URI", "/"),
        ("REMOTE_ADDR", "192.0.2.1"),
        ("REMOTE_PORT", "4711"),
        ("SERVER_NAME", "www.example.org"),
        ("SERVER_PORT", "443"),
        ("HTTPS", "on"),
        ("HTTP_ACCEPT_LANGUAGE", "de"),
        ("GEOIP_COUNTRY", "DE"),
    ];
    client.send(&request_with(1, &variables, b""));
    server.run();
    assert_eq!(
        reader.read(&client).take(1).text(),
        r#"192.0.2.1:4711 www.example.org:443 true Responder ["accept-language=de"] ["GEOIP_COUNTRY=DE"]"#
    );
}

#[test]
fn every_role_is_told_to_the_app() {
    let mut server = server(|request, reply| {
        let gateway = request.gateway.expect("it is one of a web server");
        let Content::Memory(data) = gateway.data else { return assert_ne!(gateway.role, Role::Filter) };
        let parts = [gateway.role.as_str().as_bytes(), b" ", &content(request), b" ", data];
        reply.send(ok(), &parts).expect("it is there");
    });
    let (client, mut reader) = (server.connect(), Reader::default());
    let variables = pairs(&[
        ("REQUEST_METHOD", "POST"),
        ("REQUEST_URI", "/"),
        ("CONTENT_LENGTH", "2"),
        ("FCGI_DATA_LENGTH", "4"),
        ("FCGI_DATA_LAST_MOD", "1"),
    ]);
    let filter =
        [begin(1, FILTER, true), stream(PARAMS, 1, &variables, 100), stream(STDIN, 1, b"in", 1), stream(DATA, 1, b"data", 3)];
    client.send(&filter.concat());
    server.run();
    assert_eq!(reader.read(&client).take(1).text(), "FILTER in data");
    // An authorizer has no content, but some web servers nevertheless end the stream.
    server.app(|request, reply| {
        let role = request.gateway.expect("it is one of a web server").role;
        let fields = &[(&b"Variable-ROLE"[..], role.as_str().as_bytes())];
        reply.send(ResponseHead { status: 200, fields }, &[b"nobody reads this"]).expect("it is there");
    });
    let variables = pairs(&[("REQUEST_METHOD", "GET"), ("REQUEST_URI", "/")]);
    for tail in [stream(STDIN, 2, b"", 1), Vec::new()] {
        client.send(&[begin(2, AUTHORIZER, true), stream(PARAMS, 2, &variables, 100), tail].concat());
        server.run();
        let agreed = reader.read(&client).take(2);
        assert_eq!(
            (agreed.parts().0.join(", "), agreed.text()),
            ("Status: 200 OK, Variable-ROLE: AUTHORIZER".to_owned(), String::new())
        );
    }
    client.send(&begin(3, 9, true));
    server.run();
    assert_eq!(reader.read(&client).take(3).end, Some((0, UNKNOWN_ROLE)));
}

#[test]
fn questions_about_the_server_are_answered_at_any_time() {
    let mut server = server(echo);
    let (client, mut reader) = (server.connect(), Reader::default());
    let bytes = request(1, "GET", "/", b"");
    client.send(&bytes[..20]);
    server.run();
    client.send(&bytes[20..]);
    client.send(&record(GET_VALUES, 0, &pairs(&[("FCGI_MPXS_CONNS", ""), ("FCGI_MAX_REQS", ""), ("WHAT", "")])));
    client.send(&record(77, 0, b"?"));
    server.run();
    let management = std::mem::take(&mut reader.read(&client).management);
    let [(GET_VALUES_RESULT, values), (UNKNOWN_TYPE, kind)] = management.as_slice() else { panic!("{management:?}") };
    let text = String::from_utf8_lossy(values);
    assert!(text.contains("FCGI_MPXS_CONNS1") && text.contains("FCGI_MAX_REQS") && !text.contains("WHAT"), "{text:?}");
    assert_eq!(kind[0], 77);
    assert!(reader.take(1).is_whole());
}

#[test]
fn more_requests_than_allowed_are_told_so_and_harm_nobody() {
    let mut settings = settings();
    settings.limits.fastcgi_requests = 2;
    let mut server = Server::new(settings, echo);
    let (client, mut reader) = (server.connect(), Reader::default());
    client.send(&[begin(1, RESPONDER, true), begin(2, RESPONDER, true), request(3, "GET", "/3", b"")].concat());
    server.run();
    assert_eq!(reader.read(&client).take(3).end, Some((0, OVERLOADED)));
    for id in [1, 2] {
        client.send(&request(id, "GET", "/", b"")[begin(id, RESPONDER, true).len()..]);
    }
    server.run();
    client.send(&request(3, "GET", "/3", b""));
    server.run();
    reader.read(&client);
    assert!([1, 2, 3].into_iter().all(|id| reader.take(id).is_whole()));
}

#[test]
fn an_aborted_request_is_forgotten_and_its_app_is_told() {
    let kept: Rc<RefCell<Vec<_>>> = Rc::default();
    let mut server = server(keep(&kept));
    let (client, mut reader) = (server.connect(), Reader::default());
    client.send(&[request(1, "GET", "/1", b""), request(2, "GET", "/2", b"")].concat());
    server.run();
    client.send(&record(ABORT, 1, b""));
    server.run();
    let cancelled = reader.read(&client).take(1);
    assert_eq!((cancelled.output.len(), cancelled.end), (0, Some((0, COMPLETE))));
    let [first, second] = kept.borrow()[..] else { panic!("two are kept") };
    assert_eq!(server.lane.source().answering(), 1);
    assert_eq!(oribi_host::Outlet::respond(&server.lane, first, ok(), &[b"late"]), Err(ReplyError::Gone));
    // The id is free for another request, which the late answer does not reach.
    client.send(&request(1, "GET", "/again", b""));
    server.run();
    assert_eq!(oribi_host::Outlet::respond(&server.lane, first, ok(), &[b"late"]), Err(ReplyError::Gone));
    let again = kept.borrow()[2];
    answer(&server, again, "again");
    answer(&server, second, "second");
    server.run();
    reader.read(&client);
    assert_eq!((reader.take(1).text(), reader.take(2).text()), ("again".to_owned(), "second".to_owned()));
    assert_eq!(server.lane.source().answering(), 0);
}

#[test]
fn a_lost_connection_cancels_what_it_carried() {
    let kept: Rc<RefCell<Vec<_>>> = Rc::default();
    let mut server = server(keep(&kept));
    let client = server.connect();
    client.send(&[request(1, "GET", "/1", b""), begin(2, RESPONDER, true)].concat());
    server.run();
    assert_eq!(server.lane.source().answering(), 1);
    client.end();
    server.run();
    assert_eq!((server.connections(), server.lane.source().answering()), (0, 0));
    let exchange = kept.borrow()[0];
    assert_eq!(oribi_host::Outlet::respond(&server.lane, exchange, ok(), &[b"late"]), Err(ReplyError::Gone));
}

#[test]
fn large_answers_come_whole_in_records() {
    let text = pattern(300_000);
    let shared = text.clone();
    let mut server = server(move |request, reply| {
        let (left, right) = shared.split_at(100_001);
        let parts: &[&[u8]] = if request.head.target() == b"/parts" { &[left, b"", right] } else { &[&shared] };
        reply.send(ok(), parts).expect("it is there");
    });
    let (client, mut reader) = (server.connect(), Reader::default());
    for (target, room) in [("/whole", usize::MAX), ("/parts", 997), ("/whole", 70_000), ("/parts", usize::MAX)] {
        client.send(&request(1, "GET", target, b""));
        for _ in 0..1000 {
            client.set_window(room);
            server.run();
            if reader.read(&client).answers.get(&1).is_some_and(|answer| answer.end.is_some()) {
                break;
            }
        }
        let answer = reader.take(1);
        assert!(answer.is_whole());
        assert_eq!(answer.parts().1, text);
    }
}

#[test]
fn pieces_leave_one_by_one() {
    let kept: Rc<RefCell<Vec<_>>> = Rc::default();
    let mut server = server(keep(&kept));
    let (client, mut reader) = (server.connect(), Reader::default());
    client.send(&request(1, "GET", "/", b""));
    server.run();
    let exchange = kept.borrow()[0];
    let outlet: &dyn oribi_host::Outlet = &server.lane;
    outlet.start(exchange, ok()).expect("it is there");
    for piece in ["one", "two", "three"] {
        outlet.write(exchange, piece.as_bytes()).expect("it is there");
        assert!(reader.read(&client).answers[&1].output.ends_with(piece.as_bytes()));
    }
    outlet.write(exchange, &pattern(100_000)).expect("it is there");
    outlet.finish(exchange).expect("it is there");
    let answer = reader.read(&client).take(1);
    assert!(answer.is_whole());
    assert_eq!(answer.parts().1, [b"onetwothree", &pattern(100_000)[..]].concat());
    assert_eq!(answer.parts().0, ["Status: 200 OK", "Content-Type: text/plain"]);
}

#[test]
fn messages_of_the_app_reach_the_web_servers_log() {
    let mut server = server(|_, reply| {
        let (outlet, exchange) = reply.detach();
        assert!(outlet.report(exchange, b"careful"));
        outlet.respond(exchange, ok(), &[b"done"]).expect("it is there");
        assert!(!outlet.report(exchange, b"too late"));
    });
    let (client, mut reader) = (server.connect(), Reader::default());
    client.send(&request(1, "GET", "/", b""));
    server.run();
    let answer = reader.read(&client).take(1);
    assert_eq!((answer.errors.as_slice(), answer.text().as_str()), (&b"careful"[..], "done"));
    assert!(answer.ended.contains(&STDERR) && answer.is_whole());
}

#[test]
fn an_app_that_gives_up_is_answered_for_and_what_was_begun_never_looks_whole() {
    let mut server = server(|_, reply| drop(reply));
    let (client, mut reader) = (server.connect(), Reader::default());
    client.send(&request(1, "GET", "/", b""));
    server.run();
    let answer = reader.read(&client).take(1);
    assert_eq!((answer.status(), answer.is_whole()), (500, true));
    server.app(|_, reply| {
        let mut writer = reply.start(ok()).expect("it is there");
        writer.write(b"half").expect("it is there");
    });
    client.send(&request(2, "GET", "/", b""));
    server.run();
    let answer = reader.read(&client).take(2);
    assert!(!answer.is_whole() && client.saw_reset());
}

#[test]
fn what_is_too_large_or_makes_no_sense_is_refused_and_the_others_go_on() {
    let mut settings = settings();
    settings.limits.head_bytes = 1000;
    settings.limits.content_bytes = 10;
    let mut server = Server::new(settings, echo);
    let (client, mut reader) = (server.connect(), Reader::default());
    let long = "x".repeat(2000);
    let uri = ("REQUEST_URI", "/");
    for (variables, content, status) in [
        (vec![uri, ("HTTP_X", &long)], &b""[..], 431),
        (vec![uri, ("CONTENT_LENGTH", "11")], b"12345678901", 413),
        (vec![uri], b"12345678901", 413),
        (vec![uri, ("CONTENT_LENGTH", "x")], b"", 400),
        (vec![uri, ("CONTENT_LENGTH", "5")], b"1234", 400),
        (vec![uri, ("HTTP_X", "a\r\nb")], b"", 400),
    ] {
        client.send(&request_with(1, &variables, content));
        server.run();
        let answer = reader.read(&client).take(1);
        assert_eq!(answer.status(), status, "{variables:?}");
        assert_eq!(answer.end, Some((0, COMPLETE)), "{variables:?}");
    }
    client.send(&request(1, "GET", "/", b""));
    server.run();
    assert_eq!(reader.read(&client).take(1).text(), "GET / ");
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    server.run();
    assert!(client.closed());
}

#[test]
fn a_refusal_reaches_a_web_server_that_still_sends_and_keeps_no_connection() {
    let mut settings = settings();
    settings.limits.content_bytes = 10;
    let variables = |more| pairs(&[("REQUEST_METHOD", "POST"), ("REQUEST_URI", "/"), more]);
    let params = |more| [begin(1, RESPONDER, false), stream(PARAMS, 1, &variables(more), 60000)].concat();
    let large = [params(("HTTP_X", "y")), record(STDIN, 1, &pattern(11))].concat();
    for (bytes, status) in [(params(("CONTENT_LENGTH", "20")), 413), (large, 413), (params(("CONTENT_LENGTH", "x")), 400)] {
        let mut server = Server::new(settings.clone(), echo);
        let (client, mut reader) = (server.connect(), Reader::default());
        client.send(&bytes);
        server.run();
        let answer = reader.read(&client).take(1);
        assert_eq!((answer.status(), answer.end), (status, Some((0, COMPLETE))));
        assert!(client.saw_end() && !client.closed(), "{status}: it lingers");
        client.send(&record(STDIN, 1, &pattern(9)));
        server.run();
        assert!(!client.saw_reset(), "{status}");
        client.end();
        server.run();
        assert_eq!(server.connections(), 0, "{status}");
    }
    // A request that does not even begin.
    let mut server = Server::new(settings, echo);
    let (client, mut reader) = (server.connect(), Reader::default());
    client.send(&begin(1, 9, false));
    server.run();
    assert_eq!(reader.read(&client).take(1).end, Some((0, UNKNOWN_ROLE)));
    client.send(&stream(PARAMS, 1, &variables(("HTTP_X", "y")), 60000));
    server.run();
    assert!(client.saw_end() && !client.closed());
    // One that keeps sending is waited for as long as a client of HTTP, and no longer.
    server.advance(Settings::default().timeouts.linger);
    assert!(client.closed());
}

#[test]
fn a_kept_connection_may_be_idle_but_not_in_the_middle_of_a_request() {
    let mut server = server(echo);
    let (idle, silent, slow) = (server.connect(), server.connect(), server.connect());
    let mut reader = Reader::default();
    idle.send(&request(1, "GET", "/", b""));
    slow.send(&request(1, "POST", "/", b"content")[..120]);
    server.run();
    assert!(reader.read(&idle).take(1).is_whole());
    server.advance(3600 * SECOND);
    assert!(!idle.closed());
    assert!(silent.closed(), "it has never said anything");
    assert_eq!(Reader::default().read(&slow).take(1).status(), 408);
    idle.send(&request(1, "GET", "/", b""));
    server.run();
    assert!(reader.read(&idle).take(1).is_whole());
}

#[test]
fn a_record_that_began_to_come_during_a_request_is_not_waited_for_without_end() {
    // Half of a header, and a skipped record with missing content.
    for begun in [&begin(2, RESPONDER, true)[..3], &record(STDIN, 9, b"content")[..12]] {
        for stops in [false, true] {
            let kept: Rc<RefCell<Vec<_>>> = Rc::default();
            let mut server = server(keep(&kept));
            let (client, mut reader) = (server.connect(), Reader::default());
            client.send(&request(1, "GET", "/", b""));
            server.run();
            client.send(begun);
            server.run();
            let exchange = kept.borrow_mut().remove(0);
            answer(&server, exchange, "done");
            server.run();
            assert_eq!(reader.read(&client).take(1).text(), "done");
            if stops {
                server.stop(false);
            }
            server.advance(if stops { 6 } else { 60 } * SECOND);
            assert!(client.closed(), "behind {} bytes", begun.len());
            assert_eq!((server.connections(), server.finished()), (0, stops));
        }
    }
}

#[test]
fn a_server_that_stops_answers_what_was_begun_and_closes_kept_connections() {
    let kept: Rc<RefCell<Vec<_>>> = Rc::default();
    let mut server = server(keep(&kept));
    let (idle, busy) = (server.connect(), server.connect());
    let mut reader = Reader::default();
    idle.send(&request(1, "GET", "/", b""));
    busy.send(&[request(1, "GET", "/", b""), request(2, "GET", "/", b"")].concat());
    server.run();
    let exchanges = kept.borrow().clone();
    answer(&server, exchanges[0], "x");
    server.stop(false);
    server.advance(2 * SECOND);
    assert!(idle.closed() && !busy.closed());
    answer(&server, exchanges[1], "one");
    server.run();
    assert!(!busy.saw_end());
    answer(&server, exchanges[2], "two");
    server.run();
    reader.read(&busy);
    assert_eq!((reader.take(1).text(), reader.take(2).text()), ("one".to_owned(), "two".to_owned()));
    assert!(busy.saw_end() && !busy.saw_reset());
    busy.end();
    server.run();
    assert!(server.finished());
}

#[test]
fn head_requests_and_statuses_without_content_have_none() {
    let mut server = server(|request, reply| {
        let status = if request.head.method() == b"HEAD" { 200 } else { 304 };
        reply.send(ResponseHead { status, fields: &[(b"ETag", b"\"x\"")] }, &[b"content"]).expect("it is there");
    });
    let (client, mut reader) = (server.connect(), Reader::default());
    for (method, status) in [("HEAD", 200), ("GET", 304)] {
        client.send(&request(1, method, "/", b""));
        server.run();
        let answer = reader.read(&client).take(1);
        assert_eq!((answer.status(), answer.text().as_str()), (status, ""));
        assert!(answer.is_whole());
    }
}
