//! Routes that store responses.

mod errors;

use super::super::routes::{Action, Filters, Route, Routes};
use super::*;
use oribi_cache::Rules;
use oribi_filter::{FieldChanges, ResponsePlan};
use oribi_pool::Taken;
use oribi_route::Rule;

const CACHE_BYTES: usize = 16 << 10;
const FRESH: FieldPair<'_> = (b"Cache-Control", b"max-age=60");
const TAG: FieldPair<'_> = (b"ETag", b"\"a\"");

/// An edge with one app, whose responses are stored by these rules.
fn site_by(rules: Rules, response: ResponsePlan) -> Site {
    let action = Action::App { app: 0, mount: String::new() };
    let filters = Filters { cache: Some(rules), response, ..Filters::default() };
    let routes = vec![Route { rule: Rule::default(), action, filters }];
    let routes = Routes::compile(routes).expect("the rules are valid").with_cache_bytes(CACHE_BYTES);
    Site::with_apps(&Settings::default(), 1, Some(&Arc::new(routes)))
}

fn site() -> Site {
    site_by(Rules::default(), ResponsePlan::default())
}

fn with(target: &str, lines: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n{lines}\r\n").into_bytes()
}

/// The value of a field of a response.
fn value<'r>(received: &'r str, name: &str) -> Option<&'r str> {
    received.split("\r\n").find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// The names and values of the fields that the app has got.
fn fields_of(worker: &App) -> Vec<String> {
    let request = worker.stored.request(None, None).expect("all of it is in the slot");
    request.head.fields().map(|(_, name, value)| format!("{}: {}", text(name), text(value))).collect()
}

/// Asks for a target, and answers as the app.
#[track_caller]
fn ask(site: &mut Site, worker: &mut App, request: &[u8], fields: &[FieldPair<'_>], content: &str) -> String {
    let client = site.asking(request);
    let taken = worker.take();
    worker.answer_with(taken, 200, fields, content);
    site.received(&client)
}

#[track_caller]
fn hit(site: &mut Site, worker: &mut App, request: &[u8]) -> String {
    let client = site.asking(request);
    assert!(worker.worker.take().is_none(), "the app has nothing to do");
    site.received(&client)
}

fn begin(worker: &mut App, taken: &mut Taken, fields: &[FieldPair<'_>], content: &[u8]) {
    worker.worker.head(taken, &head(200, fields, Content::Started)).expect("it has room");
    assert_eq!(worker.worker.content(taken, content), content.len());
    worker.worker.flush(taken);
}

#[test]
fn a_stored_response_answers_until_it_is_stale() {
    let mut site = site();
    let mut worker = site.worker();
    let received = ask(&mut site, &mut worker, GET, &[FRESH, (b"X-A", b"1")], "one");
    assert_response(&received, "200", "one");
    assert_eq!(value(&received, "Cache-Status"), Some("oribi; fwd=miss; stored"));
    let date = value(&received, "Date").expect("a date").to_owned();
    site.advance(59 * SECOND);
    let received = hit(&mut site, &mut worker, GET);
    assert_response(&received, "200", "one");
    assert_eq!((value(&received, "Age"), value(&received, "Cache-Status")), (Some("59"), Some("oribi; hit")));
    assert_eq!((value(&received, "Date"), value(&received, "X-A")), (Some(&*date), Some("1")));
    // HEAD is answered as well, by the head alone.
    let received = hit(&mut site, &mut worker, b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(received.ends_with("\r\n\r\n") && value(&received, "Content-Length") == Some("3"), "{received}");
    // Other URIs, hosts and parameters are others.
    for request in [&get("/b")[..], &get("/?"), b"GET / HTTP/1.1\r\nHost: b\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a:80\r\n\r\n"] {
        assert_response(&ask(&mut site, &mut worker, request, &[], "other"), "200", "other");
    }
    site.advance(SECOND);
    assert_response(&ask(&mut site, &mut worker, GET, &[], "two"), "200", "two");
}

#[test]
fn a_response_in_pieces_is_stored_when_it_is_complete() {
    let mut site = site();
    let mut worker = site.worker();
    let client = site.asking(GET);
    let mut taken = worker.take();
    begin(&mut worker, &mut taken, &[FRESH], b"on");
    site.run();
    assert_eq!(worker.worker.content(&mut taken, b"e"), 1);
    worker.worker.finish(taken);
    assert_response(&site.received(&client), "200", "one");
    assert_response(&hit(&mut site, &mut worker, GET), "200", "one");
}

#[test]
fn an_incomplete_response_is_not_stored() {
    let mut site = site();
    let mut worker = site.worker();
    for announced in [false, true] {
        let client = site.asking(GET);
        let mut taken = worker.take();
        let fields: &[FieldPair<'_>] = if announced { &[FRESH, (b"Content-Length", b"5")] } else { &[FRESH] };
        begin(&mut worker, &mut taken, fields, b"one");
        if announced {
            worker.worker.finish(taken);
        } else {
            worker.worker.abandon(taken);
        }
        let received = site.received(&client);
        assert!(received.starts_with("HTTP/1.1 500 ") || !received.contains("one\r\n0"), "{received}");
    }
    assert_response(&ask(&mut site, &mut worker, GET, &[FRESH], "whole"), "200", "whole");
}

#[test]
fn a_large_response_is_passed_on_and_not_stored() {
    let mut site = site_by(Rules { max_object: 4, ..Rules::default() }, ResponsePlan::default());
    let mut worker = site.worker();
    assert_response(&ask(&mut site, &mut worker, GET, &[FRESH], "large"), "200", "large");
    let client = site.asking(&get("/pieces"));
    let mut taken = worker.take();
    begin(&mut worker, &mut taken, &[FRESH], b"abc");
    assert_eq!(site.received(&client), "");
    assert_eq!(worker.worker.content(&mut taken, b"def"), 3);
    worker.worker.flush(&taken);
    // Without waiting for the end.
    let received = site.received(&client);
    assert!(received.contains("3\r\nabc\r\n") && received.contains("3\r\ndef\r\n"), "{received}");
    assert_eq!(worker.worker.content(&mut taken, b"ghi"), 3);
    worker.worker.finish(taken);
    assert_eq!(site.received(&client), "3\r\nghi\r\n0\r\n\r\n");
    assert_response(&ask(&mut site, &mut worker, &get("/pieces"), &[FRESH], "four"), "200", "four");
    assert_response(&hit(&mut site, &mut worker, &get("/pieces")), "200", "four");
}

#[test]
fn incomplete_responses_have_no_more_memory_than_complete_ones() {
    let mut site = site();
    let mut worker = site.worker();
    let clients: Vec<_> = (0..3).map(|number| site.asking(&get(&format!("/{number}")))).collect();
    let mut taken: Vec<Taken> = (0..3).map(|_| worker.take()).collect();
    for taken in &mut taken {
        begin(&mut worker, taken, &[FRESH], &[b'x'; CACHE_BYTES / 2]);
    }
    site.run();
    let begun: Vec<bool> = clients.iter().map(|client| !client.received().is_empty()).collect();
    assert_eq!(begun, [false, false, true], "the third one is passed on");
    for taken in taken {
        worker.worker.finish(taken);
    }
    site.run();
    assert!(clients.iter().all(|client| !client.received().is_empty()), "all end");
    // The memory is free again.
    let client = site.asking(&get("/4"));
    let mut last = worker.take();
    begin(&mut worker, &mut last, &[FRESH], &[b'x'; CACHE_BYTES / 2]);
    assert_eq!(site.received(&client), "");
}

#[test]
fn requests_for_the_same_uri_wait_for_one_response() {
    let mut site = site();
    let mut worker = site.worker();
    let clients: Vec<_> = (0..20).map(|_| site.asking(GET)).collect();
    let taken = worker.take();
    assert!(worker.worker.take().is_none(), "one request is enough");
    // Some clients leave, and among them the first one.
    clients[0].reset();
    clients[7].reset();
    site.run();
    let late = site.asking(GET);
    worker.answer_with(taken, 200, &[FRESH], "one");
    for (number, client) in clients.iter().enumerate().filter(|(number, _)| ![0, 7].contains(number)) {
        let received = site.received(client);
        assert_response(&received, "200", "one");
        assert_eq!(value(&received, "Cache-Status"), Some("oribi; fwd=miss; collapsed"), "{number}");
    }
    assert_response(&site.received(&late), "200", "one");
    assert!(worker.worker.take().is_none());
}

#[test]
fn the_response_that_others_wait_for_may_be_private() {
    let mut site = site();
    let mut worker = site.worker();
    let clients: Vec<_> = (0..5).map(|_| site.asking(GET)).collect();
    let taken = worker.take();
    worker.answer_with(taken, 200, &[(b"Cache-Control", b"private")], "first");
    assert_response(&site.received(&clients[0]), "200", "first");
    // All others at once, none after the other.
    let taken: Vec<Taken> = (1..5).map(|_| worker.take()).collect();
    for (number, taken) in taken.into_iter().enumerate() {
        worker.answer_with(taken, 200, &[(b"Cache-Control", b"private")], &number.to_string());
    }
    for (number, client) in clients[1..].iter().enumerate() {
        assert_response(&site.received(client), "200", &number.to_string());
    }
    // For a while, requests do not wait for each other.
    let clients: Vec<_> = (0..2).map(|_| site.asking(GET)).collect();
    let (one, two) = (worker.take(), worker.take());
    worker.answer_with(one, 200, &[], "a");
    worker.answer_with(two, 200, &[FRESH], "b");
    assert_response(&site.received(&clients[0]), "200", "a");
    assert_response(&site.received(&clients[1]), "200", "b");
    assert_response(&hit(&mut site, &mut worker, GET), "200", "b");
}

#[test]
fn requests_that_vary_get_their_own_responses() {
    let mut site = site();
    let mut worker = site.worker();
    let vary: &[FieldPair<'_>] = &[FRESH, (b"Vary", b"Accept-Language")];
    let (english, german) = (with("/", "Accept-Language: en\r\n"), with("/", "Accept-Language: de\r\n"));
    let clients = [site.asking(&english), site.asking(&english), site.asking(&german)];
    let taken = worker.take();
    assert!(worker.worker.take().is_none());
    worker.answer_with(taken, 200, vary, "one");
    assert_response(&site.received(&clients[0]), "200", "one");
    assert_response(&site.received(&clients[1]), "200", "one");
    let taken = worker.take();
    worker.answer_with(taken, 200, vary, "eins");
    assert_response(&site.received(&clients[2]), "200", "eins");
    assert_response(&hit(&mut site, &mut worker, &english), "200", "one");
    assert_response(&hit(&mut site, &mut worker, &german), "200", "eins");
}

#[test]
fn a_stale_response_is_validated() {
    let mut site = site();
    let mut worker = site.worker();
    ask(&mut site, &mut worker, GET, &[FRESH, TAG, (b"X-A", b"1")], "one");
    site.advance(61 * SECOND);
    // The conditions of the client are not those of the cache.
    let client = site.asking(&with("/", "If-None-Match: \"other\"\r\n"));
    let taken = worker.take();
    assert_eq!(fields_of(&worker), ["Host: a", "If-None-Match: \"a\""]);
    worker.answer_with(taken, 304, &[(b"Cache-Control", b"max-age=10"), (b"X-A", b"2")], "");
    let received = site.received(&client);
    assert_response(&received, "200", "one");
    assert_eq!(value(&received, "Cache-Status"), Some("oribi; fwd=stale; fwd-status=304; stored"));
    assert_eq!((value(&received, "X-A"), value(&received, "Age")), (Some("2"), None));
    site.advance(9 * SECOND);
    assert_response(&hit(&mut site, &mut worker, GET), "200", "one");
    site.advance(SECOND);
    assert_response(&ask(&mut site, &mut worker, GET, &[FRESH], "two"), "200", "two");
    assert_response(&hit(&mut site, &mut worker, GET), "200", "two");
}

#[test]
fn a_response_is_not_stored_further_if_its_304_forbids_that() {
    let mut site = site();
    let mut worker = site.worker();
    ask(&mut site, &mut worker, GET, &[FRESH, TAG], "one");
    site.advance(61 * SECOND);
    let client = site.asking(GET);
    let taken = worker.take();
    assert_eq!(fields_of(&worker), ["Host: a", "If-None-Match: \"a\""]);
    worker.answer_with(taken, 304, &[(b"Set-Cookie", b"a=b"), (b"Cache-Control", b"private")], "");
    let received = site.received(&client);
    assert_response(&received, "200", "one");
    assert_eq!((value(&received, "Set-Cookie"), value(&received, "Cache-Control")), (Some("a=b"), Some("private")));
    assert_eq!((value(&received, "Cache-Status"), value(&received, "Age")), (Some("oribi; fwd=stale; fwd-status=304"), None));
    let client = site.asking(GET);
    let taken = worker.take();
    assert_eq!(fields_of(&worker), ["Host: a"]);
    worker.answer_with(taken, 200, &[FRESH], "two");
    assert_response(&site.received(&client), "200", "two");
}

#[test]
fn conditions_of_clients_are_answered_by_the_cache() {
    let mut site = site();
    let mut worker = site.worker();
    // The app sees no condition, so that its response can be stored.
    let conditional = with("/", "If-None-Match: \"a\"\r\n");
    let client = site.asking(&conditional);
    let taken = worker.take();
    assert_eq!(fields_of(&worker), ["Host: a"]);
    worker.answer_with(taken, 200, &[FRESH, TAG, (b"Content-Type", b"text/css")], "one");
    let not_modified = |received: &str| {
        assert!(received.starts_with("HTTP/1.1 304 ") && received.ends_with("\r\n\r\n"), "{received}");
        assert_eq!((value(received, "ETag"), value(received, "Content-Type")), (Some("\"a\""), None));
    };
    not_modified(&site.received(&client));
    not_modified(&hit(&mut site, &mut worker, &conditional));
    assert_response(&hit(&mut site, &mut worker, GET), "200", "one");
    assert_response(&hit(&mut site, &mut worker, &with("/", "If-None-Match: \"b\"\r\n")), "200", "one");
}

#[test]
fn a_stale_response_answers_while_the_app_is_asked() {
    let mut site = site();
    let mut worker = site.worker();
    let control: &[FieldPair<'_>] = &[(b"Cache-Control", b"max-age=1, stale-while-revalidate=10"), TAG];
    ask(&mut site, &mut worker, GET, control, "one");
    site.advance(5 * SECOND);
    for _ in 0..3 {
        let client = site.asking(GET);
        let received = site.received(&client);
        assert_response(&received, "200", "one");
        assert_eq!(value(&received, "Cache-Status"), Some("oribi; hit; ttl=-4"));
    }
    let taken = worker.take();
    assert_eq!(fields_of(&worker), ["Host: a", "If-None-Match: \"a\""]);
    assert!(worker.worker.take().is_none(), "the app is asked once");
    // The sweep of requests without clients leaves it alone.
    site.advance(SECOND);
    worker.answer_with(taken, 200, control, "two");
    site.run();
    assert_response(&hit(&mut site, &mut worker, GET), "200", "two");
}

#[test]
fn an_app_that_fails_is_asked_once_while_a_stale_response_answers() {
    let mut site = site();
    let mut worker = site.worker();
    let control: &[FieldPair<'_>] = &[(b"Cache-Control", b"max-age=1, stale-while-revalidate=60")];
    ask(&mut site, &mut worker, GET, control, "one");
    site.advance(5 * SECOND);
    let client = site.asking(GET);
    assert_response(&site.received(&client), "200", "one");
    let taken = worker.take();
    worker.answer_with(taken, 500, &[], "broken");
    site.run();
    for _ in 0..3 {
        let client = site.asking(GET);
        assert_response(&site.received(&client), "200", "one");
    }
    let taken = worker.take();
    assert!(worker.worker.take().is_none(), "the app is asked once");
    worker.answer_with(taken, 200, control, "two");
    site.run();
    assert_response(&hit(&mut site, &mut worker, GET), "200", "two");
}

#[test]
fn requests_that_wait_too_long_get_a_503() {
    let settings = Settings::default();
    let mut site = site();
    let mut worker = site.worker();
    let first = site.asking(GET);
    let taken = worker.take();
    let second = site.asking(GET);
    site.advance(settings.queue_timeout + SECOND);
    assert!(site.received(&second).starts_with("HTTP/1.1 503 "));
    worker.answer_with(taken, 200, &[FRESH], "one");
    assert_response(&site.received(&first), "200", "one");
}

#[test]
fn unsafe_methods_make_responses_invalid() {
    let mut site = site();
    let mut worker = site.worker();
    for target in ["/", "/list", "/other"] {
        ask(&mut site, &mut worker, &get(target), &[FRESH], "one");
    }
    // A failure changes nothing.
    let client = site.asking(&post("/", b"x"));
    let taken = worker.take();
    worker.answer_with(taken, 422, &[], "no");
    assert_response(&site.received(&client), "422", "no");
    assert_response(&hit(&mut site, &mut worker, GET), "200", "one");
    let client = site.asking(&post("/", b"x"));
    let taken = worker.take();
    worker.answer_with(taken, 303, &[(b"Location", b"/list")], "");
    assert!(site.received(&client).starts_with("HTTP/1.1 303 "));
    assert_response(&hit(&mut site, &mut worker, &get("/other")), "200", "one");
    for target in ["/", "/list"] {
        assert_response(&ask(&mut site, &mut worker, &get(target), &[FRESH], "two"), "200", "two");
    }
}

#[test]
fn unsafe_requests_make_nothing_invalid_before_a_worker_has_them() {
    let mut site = site();
    let mut worker = site.worker();
    let control: &[FieldPair<'_>] = &[(b"Cache-Control", b"max-age=600")];
    ask(&mut site, &mut worker, GET, control, "one");
    let client = site.asking(&post("/", b"x"));
    site.advance(Settings::default().queue_timeout + SECOND);
    assert!(site.received(&client).starts_with("HTTP/1.1 503 "));
    assert_response(&hit(&mut site, &mut worker, GET), "200", "one");
    let client = site.asking(&post("/", b"x"));
    client.reset();
    site.run();
    assert_response(&hit(&mut site, &mut worker, GET), "200", "one");
    // An app that has a request may have changed the resource when the client leaves.
    let client = site.asking(&post("/", b"x"));
    let _taken = worker.take();
    client.reset();
    site.run();
    assert_response(&ask(&mut site, &mut worker, GET, control, "two"), "200", "two");
}

#[test]
fn a_reload_of_the_app_empties_its_cache() {
    let mut site = site();
    let mut worker = site.worker();
    ask(&mut site, &mut worker, GET, &[FRESH], "one");
    let client = site.asking(&get("/late"));
    let late = worker.take();
    site.memory[0].begin_generation().expect("memory");
    assert_response(&ask(&mut site, &mut worker, GET, &[FRESH], "two"), "200", "two");
    // The answer of the app before the reload is not stored.
    worker.answer_with(late, 200, &[FRESH], "old");
    assert_response(&site.received(&client), "200", "old");
    assert_response(&ask(&mut site, &mut worker, &get("/late"), &[FRESH], "new"), "200", "new");
}

#[test]
fn requests_bypass_the_cache_that_are_not_plain() {
    let mut site = site();
    let mut worker = site.worker();
    ask(&mut site, &mut worker, GET, &[FRESH], "one");
    for lines in ["Range: bytes=0-0\r\n", "X-HTTP-Method-Override: DELETE\r\n", "Content-Length: 0\r\nIf-Match: \"a\"\r\n"] {
        assert_response(&ask(&mut site, &mut worker, &with("/", lines), &[FRESH], "own"), "200", "own");
    }
    let with_content = [&with("/", "Content-Length: 1\r\n")[..], b"x"].concat();
    assert_response(&ask(&mut site, &mut worker, &with_content, &[FRESH], "own"), "200", "own");
    // Directives of requests do not count, unless they are heeded.
    let unwanted = with("/", "Cache-Control: no-cache\r\nPragma: no-cache\r\n");
    assert_response(&hit(&mut site, &mut worker, &unwanted), "200", "one");
    // Credentials: the response is not for all.
    let authorized = with("/", "Authorization: Basic eDp5\r\n");
    assert_response(&ask(&mut site, &mut worker, &authorized, &[FRESH], "secret"), "200", "secret");
    assert_response(&hit(&mut site, &mut worker, GET), "200", "one");
    let public: &[FieldPair<'_>] = &[(b"Cache-Control", b"public, max-age=60")];
    assert_response(&ask(&mut site, &mut worker, &authorized, public, "public"), "200", "public");
    assert_response(&hit(&mut site, &mut worker, &authorized), "200", "public");
}

#[test]
fn directives_of_requests_count_if_they_are_heeded() {
    let mut site = site_by(Rules { heeds_requests: true, ..Rules::default() }, ResponsePlan::default());
    let mut worker = site.worker();
    ask(&mut site, &mut worker, GET, &[FRESH], "one");
    let control = |directive: &str| with("/", &format!("Cache-Control: {directive}\r\n"));
    assert_response(&hit(&mut site, &mut worker, &control("only-if-cached")), "200", "one");
    assert_response(&ask(&mut site, &mut worker, &control("no-cache"), &[FRESH], "two"), "200", "two");
    assert_response(&hit(&mut site, &mut worker, GET), "200", "two");
    assert_response(&ask(&mut site, &mut worker, &control("max-age=0"), &[FRESH], "three"), "200", "three");
    let received = hit(&mut site, &mut worker, &with("/x", "Cache-Control: only-if-cached\r\n"));
    assert!(received.starts_with("HTTP/1.1 504 "), "{received}");
}

#[test]
fn filters_change_stored_responses_for_each_client() {
    let mut fields = FieldChanges::default();
    fields.set("X-Frame-Options", "DENY").expect("valid");
    let mut site = site_by(Rules::default(), ResponsePlan { fields: fields.into(), ..ResponsePlan::default() });
    let mut worker = site.worker();
    for _ in 0..2 {
        let client = site.asking(GET);
        if let Some(taken) = worker.worker.take() {
            worker.answer_with(taken, 200, &[FRESH], "one");
        }
        let received = site.received(&client);
        assert_response(&received, "200", "one");
        assert_eq!(received.matches("X-Frame-Options: DENY").count(), 1, "{received}");
    }
}

#[test]
fn a_client_that_asks_and_leaves_costs_the_app_nothing_more() {
    let mut site = site();
    let mut worker = site.worker();
    let client = site.asking(GET);
    client.reset();
    site.run();
    assert!(worker.worker.take().is_none(), "the request was withdrawn");
    assert_response(&ask(&mut site, &mut worker, GET, &[FRESH], "one"), "200", "one");
}

/// Sends the edge an order to remove stored responses. Returns their number.
#[track_caller]
fn purge(site: &mut Site, app: Option<usize>, target: Option<&str>) -> u32 {
    let choice = super::super::purging::choice(app, target).expect("it is valid");
    site.edge_link.purge(choice.as_fd()).expect("there is room");
    site.edge.receive_descriptors();
    let report = site.edge_link.next().expect("the edge reports");
    assert_eq!(report.reason, parent_link::Reason::Purged);
    report.process
}

#[test]
fn responses_are_removed_by_order_and_those_under_way_are_not_stored() {
    let mut site = site();
    let mut worker = site.worker();
    for target in ["/a", "/a?x", "/b"] {
        ask(&mut site, &mut worker, &with(target, ""), &[FRESH], "one");
    }
    let client = site.asking(&with("/a/late", ""));
    let taken = worker.take();
    assert_eq!(purge(&mut site, Some(1), None), 0, "the responses are of another app");
    assert_eq!(purge(&mut site, Some(0), Some("a/a*")), 2);
    assert!(hit(&mut site, &mut worker, &with("/b", "")).ends_with("one"));
    worker.answer_with(taken, 200, &[FRESH], "late");
    assert!(site.received(&client).ends_with("late"));
    for target in ["/a", "/a?x", "/a/late"] {
        assert!(ask(&mut site, &mut worker, &with(target, ""), &[FRESH], "two").ends_with("two"), "{target}");
    }
    assert_eq!((purge(&mut site, None, None), purge(&mut site, None, None)), (4, 0));
    assert!(super::super::purging::choice(None, Some("nonsense")).is_err());
}
