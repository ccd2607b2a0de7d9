//! Routes that ask an app whether requests may go on.

use super::super::routes::{Action, AskRule, Filters, Route, Routes};
use super::*;
use oribi_route::Rule;

/// An edge with the app of the routes, which has the number 0, and the app that is asked, which has the number 1.
fn site(settings: &Settings) -> Site {
    let ask = AskRule { app: 1, path: "/check?a=b".to_owned(), fields: vec!["X-User".to_owned(), "X-Groups".to_owned()] };
    let route = |path: &str, action: Action| Route {
        rule: Rule { path: vec![path.to_owned()], ..Rule::default() },
        action,
        filters: Filters { ask: Some(ask.clone()), ..Filters::default() },
    };
    let gone = Action::Respond { status: 410, content: b"gone\n".to_vec(), content_type: None };
    let routes = vec![route("/gone", gone), route("/*", Action::App { app: 0, mount: String::new() })];
    let routes = Routes::compile(routes).expect("the rules are valid");
    Site::with_apps(settings, 2, Some(&Arc::new(routes)))
}

/// The lines of the request that was taken last, the first one without its version.
fn lines(app: &App) -> Vec<String> {
    let request = app.stored.request(None, None).expect("all of it is in the slot");
    let first = format!("{} {}", text(request.head.method()), text(request.head.target()));
    let fields = request.head.fields().map(|(_, name, value)| format!("{}: {}", text(name), text(value)));
    std::iter::once(first).chain(fields).collect()
}

#[test]
fn a_request_that_is_allowed_goes_on_with_the_fields_of_the_answer() {
    let mut site = site(&Settings::default());
    let (mut shop, mut guard) = (site.worker_of(0), site.worker_of(1));
    let fields =
        "Cookie: c\r\nIf-None-Match: \"x\"\r\nx-user: evil\r\nX_Groups: evil\r\nX-Original-URI: /evil\r\nX-Other: o\r\n";
    let content = format!("POST /a?b=c HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n{fields}\r\nhello");
    let client = site.asking(content.as_bytes());
    assert!(shop.worker.take().is_none(), "it waits for the answer");
    let taken = guard.take();
    let told = ["X-Original-Method: POST", "X-Forwarded-Method: POST", "X-Original-URI: /a?b=c", "X-Forwarded-Uri: /a?b=c"];
    let expected = [&["GET /check?a=b", "Host: a", "Cookie: c", "X-Other: o"][..], &told].concat();
    assert_eq!(lines(&guard), expected);
    assert_eq!(guard.seen(), "GET /check?a=b ", "without content");
    guard.answer_with(taken, 204, &[(b"x-user", b"alice"), (b"Set-Cookie", b"d"), (b"X-Groups", b"one, two")], "");
    site.run();
    let taken = shop.take();
    let fields = ["Content-Length: 5", "Cookie: c", "If-None-Match: \"x\"", "X-Original-URI: /evil", "X-Other: o"];
    let expected = [&["POST /a?b=c", "Host: a"][..], &fields, &["X-User: alice", "X-Groups: one, two"]].concat();
    assert_eq!(lines(&shop), expected);
    assert_eq!(shop.seen(), "POST /a?b=c hello");
    shop.answer(taken, "served");
    assert_response(&site.received(&client), "200", "served");
    // The next request of the connection.
    client.send(&get("/gone"));
    site.run();
    let taken = guard.take();
    guard.answer(taken, "yes");
    assert_response(&site.received(&client), "410", "gone\n");
}

#[test]
fn a_refusal_goes_to_the_client() {
    let mut site = site(&Settings::default());
    let (mut shop, mut guard) = (site.worker_of(0), site.worker_of(1));
    let client = site.asking(b"");
    for (status, field) in [(401, "WWW-Authenticate: Basic"), (403, "X-A: b"), (302, "Location: /login")] {
        client.send(&post("/a", b"hello"));
        site.run();
        let (name, value) = field.split_once(": ").expect("a field");
        let taken = guard.take();
        guard.answer_with(taken, status, &[(name.as_bytes(), value.as_bytes()), (b"Set-Cookie", b"c=d")], "who are you?");
        let received = site.received(&client);
        assert_response(&received, &status.to_string(), "who are you?");
        assert!(received.contains(field) && received.contains("Set-Cookie: c=d"), "{received}");
    }
    // In pieces.
    client.send(&get("/a"));
    site.run();
    let mut taken = guard.take();
    guard.worker.head(&mut taken, &head(403, &[], Content::Started)).expect("it has room");
    guard.worker.content(&mut taken, b"no");
    guard.worker.finish(taken);
    let received = site.received(&client);
    assert!(received.starts_with("HTTP/1.1 403 ") && received.contains("no"), "{received}");
    assert!(shop.worker.take().is_none(), "nothing went on");
}

#[test]
fn a_request_that_waits_is_routed_anew_when_the_routes_change() {
    let mut site = site(&Settings::default());
    let (mut shop, mut guard) = (site.worker_of(0), site.worker_of(1));
    let client = site.asking(&get("/a"));
    let taken = guard.take();
    let route = |path: &str, app: usize| Route {
        rule: Rule { path: vec![path.to_owned()], ..Rule::default() },
        action: Action::App { app, mount: String::new() },
        filters: Filters::default(),
    };
    let routes = Arc::new(Routes::compile(vec![route("/b", 1), route("/*", 0)]).expect("the rules are valid"));
    site.edge.route_by(Some(&routes), 0);
    // The answer of before counts for nothing.
    guard.answer(taken, "allowed");
    site.run();
    let taken = shop.take();
    assert_eq!(shop.seen(), "GET /a ");
    shop.answer(taken, "served");
    assert_response(&site.received(&client), "200", "served");
    assert!(shop.worker.take().is_none() && guard.worker.take().is_none(), "it was passed on once");
}

#[test]
fn an_answer_in_pieces_counts_by_its_head() {
    let mut site = site(&Settings::default());
    let (mut shop, mut guard) = (site.worker_of(0), site.worker_of(1));
    let client = site.asking(&get("/a"));
    let mut taken = guard.take();
    guard.worker.interim(&mut taken, &head(103, &[(b"Link", b"</a>")], Content::Interim)).expect("it has room");
    guard.worker.head(&mut taken, &head(200, &[(b"X-User", b"alice")], Content::Started)).expect("it has room");
    guard.worker.content(&mut taken, b"yes");
    guard.worker.flush(&taken);
    site.run();
    shop.echo();
    assert_response(&site.received(&client), "200", "GET /a ");
    guard.worker.finish(taken);
    client.send(&get("/b"));
    site.run();
    let taken = guard.take();
    guard.answer(taken, "");
    site.run();
    shop.echo();
    assert_response(&site.received(&client), "200", "GET /b ");
}

#[test]
fn whatever_else_happens_is_no_consent() {
    let settings = Settings { queue_timeout: SECOND, ..Settings::default() };
    let mut site = site(&settings);
    let mut shop = site.worker_of(0);
    let client = site.asking(&get("/a"));
    site.advance(SECOND * 2);
    assert!(site.received(&client).starts_with("HTTP/1.1 503 "), "no worker has taken the question");
    let mut guard = site.worker_of(1);
    for status in [400, 404, 500, 503] {
        client.send(&get("/a"));
        site.run();
        let taken = guard.take();
        guard.answer_with(taken, status, &[(b"X-User", b"alice")], "secret");
        assert_response(&site.received(&client), "502", "Bad Gateway\n");
    }
    // A worker that gives up.
    client.send(&get("/a"));
    site.run();
    let taken = guard.take();
    guard.worker.abandon(taken);
    let received = site.received(&client);
    assert!(!received.starts_with("HTTP/1.1 2"), "{received}");
    assert!(shop.worker.take().is_none(), "nothing went on");
    // Others are served as before.
    let client = site.asking(&get("/b"));
    let taken = guard.take();
    guard.answer(taken, "");
    site.run();
    shop.echo();
    assert_response(&site.received(&client), "200", "GET /b ");
}

#[test]
fn a_client_that_leaves_takes_its_question_along() {
    let mut site = site(&Settings::default());
    let (mut shop, mut guard) = (site.worker_of(0), site.worker_of(1));
    let (first, second) = (site.asking(&get("/1")), site.asking(&get("/2")));
    let taken = guard.take();
    first.reset();
    site.run();
    guard.answer(taken, "");
    site.run();
    assert!(shop.worker.take().is_none(), "nobody waits for it");
    second.reset();
    site.run();
    assert!(guard.worker.take().is_none(), "nor for this one");
    let third = site.asking(&get("/3"));
    let taken = guard.take();
    guard.answer(taken, "");
    site.run();
    shop.echo();
    assert_response(&site.received(&third), "200", "GET /3 ");
}
