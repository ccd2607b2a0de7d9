//! Routes that change requests and responses.

use super::super::routes::{Action, Filters, Route, Routes};
use super::*;
use flate2::read::MultiGzDecoder;
use oribi_filter::{Compression, Cors, CorsOptions, ErrorPage, FieldChanges, ResponsePlan};
use oribi_route::Rule;
use std::io::Read;

/// An edge with one app, whose only route has these filters.
fn site(filters: Filters) -> Site {
    let action = Action::App { app: 0, mount: String::new() };
    let gone = Action::Respond { status: 410, content: b"gone\n".to_vec(), content_type: None };
    let rule = Rule { path: vec!["/gone".to_owned()], ..Rule::default() };
    let routes = vec![Route { rule, action: gone, filters: filters.clone() }, Route { rule: Rule::default(), action, filters }];
    let routes = Routes::compile(routes).expect("the rules are valid");
    Site::with_apps(&Settings::default(), 1, Some(&Arc::new(routes)))
}

fn changes() -> FieldChanges {
    let mut changes = FieldChanges::default();
    changes.set("X-Frame-Options", "DENY").expect("valid");
    changes.add("Link", "</b>").expect("valid");
    changes.remove("X-Powered-By").expect("valid");
    changes
}

/// The lines of a response's head without its first one, sorted.
fn fields(received: &str) -> Vec<&str> {
    let head = received.split("\r\n\r\n").next().unwrap_or_default();
    let mut lines: Vec<&str> = head.split("\r\n").skip(1).collect();
    lines.retain(|line| !line.starts_with("Date: ") && !line.starts_with("Server: "));
    lines.sort_unstable();
    lines
}

#[test]
fn fields_of_responses_are_set_added_and_removed() {
    let mut site =
        site(Filters { response: ResponsePlan { fields: changes().into(), ..ResponsePlan::default() }, ..Filters::default() });
    let mut worker = site.worker();
    let client = site.asking(&get("/"));
    let taken = worker.take();
    let own: &[FieldPair<'_>] =
        &[(b"x-frame-options", b"ALLOW"), (b"Link", b"</a>"), (b"X-POWERED-BY", b"x"), (b"X-Other", b"y")];
    worker.answer_with(taken, 200, own, "one");
    let received = site.received(&client);
    assert_response(&received, "200", "one");
    assert_eq!(fields(&received), ["Content-Length: 3", "Link: </a>", "Link: </b>", "X-Frame-Options: DENY", "X-Other: y"]);
    // The response of the edge itself, on the same connection.
    let received = site.exchange(&client, &get("/gone"));
    assert_response(&received, "410", "gone\n");
    assert!(fields(&received).contains(&"X-Frame-Options: DENY"), "{received}");
}

#[test]
fn a_response_in_pieces_has_the_fields_too() {
    let mut site =
        site(Filters { response: ResponsePlan { fields: changes().into(), ..ResponsePlan::default() }, ..Filters::default() });
    let mut worker = site.worker();
    let client = site.asking(&get("/"));
    let mut taken = worker.take();
    worker.worker.head(&mut taken, &head(200, &[(b"X-Powered-By", b"x")], Content::Started)).expect("it has room");
    worker.worker.flush(&taken);
    let received = site.received(&client);
    assert!(received.contains("X-Frame-Options: DENY\r\n") && !received.contains("X-Powered-By"), "{received}");
}

#[test]
fn an_app_sees_the_changed_fields_of_its_request() {
    let mut request = FieldChanges::default();
    request.set("X-Tenant", "shop").expect("valid");
    request.remove("Cookie").expect("valid");
    let mut site = site(Filters { request, ..Filters::default() });
    let mut worker = site.worker();
    for _ in 0..2 {
        site.asking(b"GET /?a=b HTTP/1.1\r\nHost: a\r\nx-tenant: evil\r\nCookie: secret\r\nAccept: c\r\n\r\n");
        let taken = worker.take();
        let request = worker.stored.request(None, None).expect("all of it is in the slot");
        let lines: Vec<_> = request.head.fields().map(|(_, name, value)| format!("{}: {}", text(name), text(value))).collect();
        assert_eq!(lines, ["Host: a", "Accept: c", "X-Tenant: shop"]);
        assert_eq!(text(request.head.target()), "/?a=b");
        worker.answer(taken, "");
    }
}

#[test]
fn a_client_cannot_make_a_proxy_drop_a_field_of_the_server() {
    let mut request = FieldChanges::default();
    request.set("X-Tenant", "shop").expect("valid");
    let mut site = site(Filters { request, ..Filters::default() });
    let mut worker = site.worker();
    for (options, seen) in [("close, x-TENANT", None), ("close, X-Other", Some("Connection: close, X-Other"))] {
        site.asking(format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: {options}\r\n\r\n").as_bytes());
        let taken = worker.take();
        let request = worker.stored.request(None, None).expect("all of it is in the slot");
        let lines: Vec<_> = request.head.fields().map(|(_, name, value)| format!("{}: {}", text(name), text(value))).collect();
        let expected: Vec<&str> = ["Host: a"].into_iter().chain(seen).chain(["X-Tenant: shop"]).collect();
        assert_eq!(lines, expected);
        worker.answer(taken, "");
    }
}

#[test]
fn a_preflight_request_is_answered_by_the_edge() {
    let options = CorsOptions { credentials: true, max_age: Some(600), fields: vec!["*".to_owned()], ..CorsOptions::default() };
    let cors = Cors::new(&["https://a.example"], &options).expect("valid");
    let plan = ResponsePlan { cors: Some(cors), ..ResponsePlan::default() };
    let mut site = site(Filters { response: plan, ..Filters::default() });
    let mut worker = site.worker();
    let ask = |origin: &str| {
        let lines = "Access-Control-Request-Method: PUT\r\nAccess-Control-Request-Headers: x-a, x-b\r\n";
        format!("OPTIONS /x HTTP/1.1\r\nHost: a\r\nOrigin: {origin}\r\n{lines}\r\n").into_bytes()
    };
    let client = site.asking(&ask("https://a.example"));
    let received = site.received(&client);
    assert!(received.starts_with("HTTP/1.1 204 "), "{received}");
    let expected = [
        "Access-Control-Allow-Credentials: true",
        "Access-Control-Allow-Headers: x-a, x-b",
        "Access-Control-Allow-Methods: GET, HEAD, POST",
        "Access-Control-Allow-Origin: https://a.example",
        "Access-Control-Max-Age: 600",
        "Vary: Origin",
    ];
    assert_eq!(fields(&received), expected);
    let received = site.exchange(&client, &ask("https://b.example"));
    assert!(received.starts_with("HTTP/1.1 403 ") && !received.contains("Access-Control-Allow"), "{received}");
    assert!(worker.worker.take().is_none(), "no app has seen them");
    // Other requests get to the app, which cannot allow more than the rule.
    for (origin, allowed) in [("https://a.example", 1), ("https://b.example", 0)] {
        let client = site.asking(format!("GET / HTTP/1.1\r\nHost: a\r\nOrigin: {origin}\r\n\r\n").as_bytes());
        let taken = worker.take();
        worker.answer_with(taken, 200, &[(b"Access-Control-Allow-Origin", b"*")], "x");
        let received = site.received(&client);
        assert_eq!(received.matches("Access-Control-Allow-Origin").count(), allowed, "{received}");
        assert_eq!(received.matches("Vary: Origin\r\n").count(), 1, "{received}");
    }
}

fn compressing() -> Site {
    let plan = ResponsePlan { compression: Some(Compression::default()), ..ResponsePlan::default() };
    site(Filters { response: plan, ..Filters::default() })
}

const GZIP: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n";

const HTML: FieldPair<'static> = (b"Content-Type", b"text/html");

/// The fields of a response, and its content without chunks.
fn content(received: &[u8]) -> (String, Vec<u8>) {
    let end = received.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head") + 4;
    let (head, mut rest) = received.split_at(end);
    let head = text(head);
    if !head.contains("Transfer-Encoding: chunked") {
        return (head, rest.to_vec());
    }
    let mut content = Vec::new();
    while let Some(line) = rest.windows(2).position(|bytes| bytes == b"\r\n") {
        let size = usize::from_str_radix(&text(&rest[..line]), 16).expect("a size");
        content.extend_from_slice(&rest[line + 2..line + 2 + size]);
        rest = &rest[line + size + 4..];
    }
    (head, content)
}

/// Decodes what there is so far.
fn gunzip(encoded: &[u8]) -> String {
    let mut decoded = Vec::new();
    // The end may be missing.
    let _ = MultiGzDecoder::new(encoded).read_to_end(&mut decoded);
    text(&decoded)
}

#[test]
fn a_whole_response_is_compressed_if_it_pays() {
    let mut site = compressing();
    let mut worker = site.worker();
    let long = "abc ".repeat(1000);
    let client = site.asking(GZIP);
    let taken = worker.take();
    worker.answer_with(taken, 200, &[HTML, (b"Content-Length", b"4000"), (b"ETag", b"\"x\"")], &long);
    site.run();
    let (head, encoded) = content(&client.received());
    for line in
        ["Content-Encoding: gzip", "Vary: Accept-Encoding", "ETag: W/\"x~z\"", &format!("Content-Length: {}", encoded.len())]
    {
        assert!(head.contains(&format!("{line}\r\n")), "{line}: {head}");
    }
    assert!(encoded.len() < 100 && gunzip(&encoded) == long);
    for (request, size, varies) in [(GZIP, 20, false), (&get("/")[..], 2000, true)] {
        let client = site.asking(request);
        let taken = worker.take();
        worker.answer_with(taken, 200, &[HTML], &"x".repeat(size));
        let received = site.received(&client);
        assert_response(&received, "200", &"x".repeat(size));
        assert_eq!(received.contains("Vary: Accept-Encoding"), varies, "{received}");
    }
}

#[test]
fn each_piece_of_a_compressed_stream_arrives_at_once() {
    let mut site = compressing();
    let mut worker = site.worker();
    let client = site.asking(GZIP);
    let mut taken = worker.take();
    worker.worker.head(&mut taken, &head(200, &[HTML], Content::Started)).expect("it has room");
    let mut received = Vec::new();
    let mut expected = String::new();
    for number in 0..20 {
        let piece = format!("piece {number}\n");
        worker.worker.content(&mut taken, piece.as_bytes());
        worker.worker.flush(&taken);
        site.run();
        received.extend_from_slice(&client.received());
        expected.push_str(&piece);
        assert_eq!(gunzip(&content(&received).1), expected);
    }
    worker.worker.finish(taken);
    site.run();
    received.extend_from_slice(&client.received());
    assert!(received.ends_with(b"0\r\n\r\n"));
    let mut decoded = String::new();
    MultiGzDecoder::new(&content(&received).1[..]).read_to_string(&mut decoded).expect("it has its end");
    assert_eq!(decoded, expected);
    // The connection goes on.
    let client = {
        client.send(GZIP);
        client
    };
    site.run();
    let taken = worker.take();
    worker.answer(taken, "next");
    assert_response(&site.received(&client), "200", "next");
}

#[test]
fn compressed_content_has_its_announced_size_or_is_cut_off() {
    let size = 3000;
    let length = size.to_string();
    for (written, whole) in [(size, true), (size - 1, false), (size + 1, true)] {
        let mut site = compressing();
        let mut worker = site.worker();
        let client = site.asking(GZIP);
        let mut taken = worker.take();
        let fields = [HTML, (&b"Content-Length"[..], length.as_bytes())];
        worker.worker.head(&mut taken, &head(200, &fields, Content::Started)).expect("it has room");
        worker.worker.content(&mut taken, &vec![b'x'; written]);
        worker.worker.finish(taken);
        site.run();
        let received = client.received();
        let (head, encoded) = content(&received);
        assert!(!head.contains("Content-Length"), "{head}");
        assert_eq!(received.ends_with(b"0\r\n\r\n"), whole, "{written} bytes");
        if whole {
            assert_eq!(gunzip(&encoded), "x".repeat(size));
        }
    }
}

#[test]
fn the_answer_to_head_has_the_fields_of_a_compressed_one() {
    let mut site = compressing();
    let mut worker = site.worker();
    let client = site.asking(b"HEAD / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    let taken = worker.take();
    let head = head(200, &[HTML, (b"Content-Length", b"4000")], Content::Whole { size: 0 });
    assert!(worker.worker.respond(taken, &head, &[]).is_ok(), "it has room");
    let received = site.received(&client);
    assert!(received.contains("Content-Encoding: gzip\r\n") && !received.contains("Content-Length"), "{received}");
    assert!(received.ends_with("\r\n\r\n"), "{received}");
    let received = site.exchange(&client, &get("/gone"));
    assert_response(&received, "410", "gone\n");
}

#[test]
fn pages_replace_the_errors_of_the_server_alone() {
    let page = ErrorPage { status: 410, media_type: "text/html", content: (*b"<p>gone</p>").into() };
    let plan = ResponsePlan { error_pages: vec![page], ..ResponsePlan::default() };
    let filters = Filters { response: plan, ..Filters::default() };
    let respond = |content: &[u8]| Action::Respond { status: 410, content: content.to_vec(), content_type: None };
    let route = |path: &str, action| {
        let rule = Rule { path: vec![path.to_owned()], ..Rule::default() };
        Route { rule, action, filters: filters.clone() }
    };
    let app = Action::App { app: 0, mount: String::new() };
    let routes = vec![route("/empty", respond(b"")), route("/own", respond(b"own")), route("/*", app)];
    let routes = Routes::compile(routes).expect("the rules are valid");
    let mut site = Site::with_apps(&Settings::default(), 1, Some(&Arc::new(routes)));
    let mut worker = site.worker();
    let client = site.asking(&get("/empty"));
    let received = site.received(&client);
    assert_response(&received, "410", "<p>gone</p>");
    assert!(received.contains("Content-Type: text/html\r\n") && received.contains("Content-Length: 11\r\n"), "{received}");
    let received = site.exchange(&client, b"HEAD /empty HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(received.ends_with("Content-Length: 11\r\n\r\n"), "{received}");
    let received = site.exchange(&client, &get("/own"));
    assert_response(&received, "410", "own");
    client.send(&get("/app"));
    site.run();
    let taken = worker.take();
    worker.answer_with(taken, 410, &[], "of the app");
    assert_response(&site.received(&client), "410", "of the app");
}

#[test]
fn a_whole_response_that_is_shorter_than_announced_is_cut_off() {
    let mut site = compressing();
    let mut worker = site.worker();
    let client = site.asking(GZIP);
    let taken = worker.take();
    worker.answer_with(taken, 200, &[HTML, (b"Content-Length", b"4500")], &"abc ".repeat(1000));
    let received = site.received(&client);
    assert!(received.contains("Content-Length: 4500\r\n") && !received.contains("Content-Encoding"), "{received}");
    assert!(client.saw_end() || client.saw_reset(), "the client learns that something is missing");
}

#[test]
fn an_app_gets_its_own_tag_back() {
    let mut site = compressing();
    let mut worker = site.worker();
    let lines = "Accept-Encoding: gzip\r\nIf-None-Match: \"a\", W/\"b~z\"\r\n";
    let client = site.asking(format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n").as_bytes());
    let taken = worker.take();
    let request = worker.stored.request(None, None).expect("all of it is in the slot");
    assert_eq!(request.head.field(oribi_message::KnownField::IfNoneMatch), Some(&b"\"a\", \"b\""[..]));
    worker.answer_with(taken, 304, &[(b"ETag", b"\"b\"")], "");
    let received = site.received(&client);
    assert!(received.contains("ETag: W/\"b~z\"\r\n") && received.contains("Vary: Accept-Encoding\r\n"), "{received}");
}

#[test]
fn much_content_at_once_is_sent_as_it_is() {
    let mut site = compressing();
    let mut worker = site.worker();
    let clients: Vec<Client> = (0..8).map(|_| site.asking(GZIP)).collect();
    let long = "abc ".repeat(50_000);
    for _ in &clients {
        let taken = worker.take();
        worker.answer_with(taken, 200, &[HTML], &long);
    }
    site.run();
    let encoded = clients.iter().filter(|client| text(&client.received()).contains("Content-Encoding: gzip")).count();
    assert!((1..8).contains(&encoded), "{encoded} of them");
}
