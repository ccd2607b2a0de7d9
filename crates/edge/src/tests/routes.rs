//! Several apps behind one edge.

use super::super::routes::{Action, Filters, Route, Routes};
use super::*;
use crate::parent_link::{Reason, WorkerRequest};
use oribi_files::TypePatterns;
use oribi_pool::Availability;
use oribi_route::{PathExpressions, Rule, Template};

fn route(path: &str, action: Action) -> Route {
    Route { rule: Rule { path: vec![path.to_owned()], ..Rule::default() }, action, filters: Filters::default() }
}

const fn app(app: usize) -> Action {
    Action::App { app, mount: String::new() }
}

/// An edge with two apps: paths below `/b` belong to the second one, `/gone` to nobody, and all others to the first one.
fn site(settings: &Settings) -> Site {
    let gone = Action::Respond { status: 410, content: b"gone\n".to_vec(), content_type: None };
    let routes = vec![route("/b*", app(1)), route("/gone", gone), route("/*", app(0))];
    let routes = Routes::compile(routes).expect("the rules are valid");
    Site::with_apps(settings, 2, Some(&Arc::new(routes)))
}

#[test]
fn each_request_goes_to_the_app_of_its_route() {
    let mut site = site(&Settings::default());
    let (mut first, mut second) = (site.worker_of(0), site.worker_of(1));
    let clients = ["/a", "/b", "/gone", "/%62/c"].map(|target| site.asking(&get(target)));
    first.echo();
    assert!(first.worker.take().is_none(), "the others are for the second app");
    second.echo();
    second.echo();
    let expected = [("200", "GET /a "), ("200", "GET /b "), ("410", "gone\n"), ("200", "GET /%62/c ")];
    for (client, (status, content)) in clients.iter().zip(expected) {
        assert_response(&site.received(client), status, content);
    }
}

#[test]
fn requests_of_one_connection_go_to_several_apps_in_their_order() {
    let mut site = site(&Settings::default());
    let (mut first, mut second) = (site.worker_of(0), site.worker_of(1));
    let client = site.asking(&[get("/b"), get("/a"), get("/gone")].concat());
    second.echo();
    let received = site.received(&client);
    assert_response(&received, "200", "GET /b ");
    first.echo();
    let received = site.received(&client);
    assert!(received.contains("GET /a ") && received.ends_with("gone\n"), "{received}");
}

#[test]
fn an_app_without_a_worker_delays_no_other() {
    let mut site = site(&Settings::default());
    let mut second = site.worker_of(1);
    let waiting = site.asking(&get("/a"));
    for _ in 0..3 {
        let client = site.asking(&get("/b"));
        second.echo();
        assert_response(&site.received(&client), "200", "GET /b ");
    }
    site.advance(MOMENT * 29_000);
    assert_eq!(site.received(&waiting), "", "it may still be answered");
    let client = site.asking(&get("/b"));
    second.echo();
    assert_response(&site.received(&client), "200", "GET /b ");
    site.advance(MOMENT * 2_000);
    assert!(site.received(&waiting).starts_with("HTTP/1.1 503 "), "the queue timeout of its app has expired");
}

#[test]
fn an_app_that_is_unavailable_refuses_its_requests_at_once() {
    let mut site = site(&Settings::default());
    let (mut first, mut second) = (site.worker_of(0), site.worker_of(1));
    let waiting = site.asking(&get("/a"));
    site.memory[0].set_availability(Availability::Unavailable).expect("memory");
    let refused = site.asking(&get("/a"));
    assert!(site.received(&refused).starts_with("HTTP/1.1 503 "));
    site.advance(MOMENT * 200);
    assert!(site.received(&waiting).starts_with("HTTP/1.1 503 "), "no worker would take it");
    let other = site.asking(&get("/b"));
    second.echo();
    assert_response(&site.received(&other), "200", "GET /b ");
    site.memory[0].set_availability(Availability::Available).expect("memory");
    let client = site.asking(&get("/a"));
    first.echo();
    assert_response(&site.received(&client), "200", "GET /a ");
}

#[test]
fn the_first_request_for_an_app_that_sleeps_wakes_it_and_waits() {
    let mut site = site(&Settings::default());
    let mut first = site.worker_of(0);
    site.memory[1].set_availability(Availability::Asleep).expect("memory");
    let other = site.asking(&get("/a"));
    first.echo();
    assert_response(&site.received(&other), "200", "GET /a ");
    assert_eq!(site.edge_link.next(), None, "it was for an app that is awake");
    let client = site.asking(&get("/b"));
    assert_eq!(site.edge_link.next(), Some(WorkerRequest { process: 1, reason: Reason::Asleep }));
    site.advance(MOMENT * 5_000);
    assert_eq!(site.received(&client), "", "it waits");
    assert!(site.edge_link.next().is_some_and(|request| request.reason == Reason::Asleep), "in case that the message was lost");
    while site.edge_link.next().is_some() {}
    site.memory[1].set_availability(Availability::Available).expect("memory");
    let mut second = site.worker_of(1);
    second.echo();
    assert_response(&site.received(&client), "200", "GET /b ");
    site.advance(MOMENT * 5_000);
    assert_eq!(site.edge_link.next(), None, "it is awake");
}

#[test]
fn a_request_for_an_app_that_sleeps_waits_no_longer_than_any_other() {
    let mut site = site(&Settings { queue_timeout: SECOND * 5, ..Settings::default() });
    site.memory[0].set_availability(Availability::Asleep).expect("memory");
    let client = site.asking(&get("/a"));
    site.advance(SECOND * 4);
    assert_eq!(site.received(&client), "");
    site.advance(SECOND * 2);
    assert!(site.received(&client).starts_with("HTTP/1.1 503 "));
}

#[test]
fn a_client_that_leaves_is_known_to_its_app_only() {
    let mut site = site(&Settings::default());
    let (mut first, mut second) = (site.worker_of(0), site.worker_of(1));
    let (leaves, stays) = (site.asking(&get("/b")), site.asking(&get("/a")));
    leaves.reset();
    site.run();
    assert!(second.worker.take().is_none(), "its request was withdrawn");
    first.echo();
    assert_response(&site.received(&stays), "200", "GET /a ");
}

#[test]
fn a_request_without_a_route_is_not_found() {
    let routes = Routes::compile(vec![route("/b", app(1))]).expect("the rules are valid");
    let mut site = Site::with_apps(&Settings::default(), 2, Some(&Arc::new(routes)));
    let client = site.asking(&get("/a"));
    assert_response(&site.received(&client), "404", "404 Not Found: no route matches\n");
}

#[test]
fn an_app_sees_no_other_path_than_its_route() {
    let mut site = site(&Settings::default());
    let (mut first, _second) = (site.worker_of(0), site.worker_of(1));
    for target in ["/b/../a", "/b/%2e%2E/a", "/b%2f..%2fa", "/./a", "/a/..", "/a/%2e?b", "http://a/b/../c"] {
        let client = site.asking(&get(target));
        assert!(site.received(&client).starts_with("HTTP/1.1 400 "), "{target}");
    }
    for target in ["/a..b/...", "/.a/%2e.b?/../c", "/a/%2f"] {
        let client = site.asking(&get(target));
        first.echo();
        assert_response(&site.received(&client), "200", &format!("GET {target} "));
    }
    let client = site.asking(&get("/b/../gone"));
    assert_response(&site.received(&client), "410", "gone\n");
}

#[test]
fn a_directory_that_is_missing_harms_no_other_route() {
    let files = Action::Files {
        root: "/nonexistent/oribi".into(),
        index: None,
        listing: None,
        types: TypePatterns::default(),
        candidates: Vec::new(),
        fallback: None,
    };
    let routes = Routes::compile(vec![route("/f/*", files), route("/*", app(0))]).expect("the rules are valid");
    let mut site = Site::with_apps(&Settings::default(), 1, Some(&Arc::new(routes)));
    let mut worker = site.worker();
    let (missing, other) = (site.asking(&get("/f/a")), site.asking(&get("/a")));
    assert_response(&site.received(&missing), "404", "404 Not Found\n");
    worker.echo();
    assert_response(&site.received(&other), "200", "GET /a ");
}

#[test]
fn a_redirect_takes_parts_of_the_request_and_no_hostile_byte() {
    let redirect = |to: &str| Action::Redirect { to: Template::parse_lenient(to, &[]), status: 301 };
    let routes = vec![
        route("/whole/*", redirect("https://$host$request_uri")),
        route("/bare/*", redirect("/$uri")),
        route("/same/*", redirect("$scheme://b$uri")),
        route("/*", redirect("/to$uri?$x")),
    ];
    let routes = Routes::compile(routes).expect("the rules are valid");
    let mut site = Site::with_apps(&Settings::default(), 1, Some(&Arc::new(routes)));
    for (target, host, location) in [
        ("/whole/a%0d%0aX:y?b=%20", "example.com:80", Some("https://example.com/whole/a%0d%0aX:y?b=%20")),
        ("/whole/", "[::1]:80", Some("https://[::1]/whole/")),
        ("/same/x", "a", Some("http://b/same/x")),
        ("/whole/", "a@b", None),
        ("/bare/evil.example", "a", Some("/bare/evil.example")),
        ("/a%0d%0aX:%3f%25//b", "a", Some("/to/a%0D%0AX:%3F%25/b?$x")),
    ] {
        let client = site.asking(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
        let received = site.received(&client);
        match location {
            Some(location) => assert!(received.contains(&format!("\r\nLocation: {location}\r\n")), "{target}: {received}"),
            None => assert!(received.starts_with("HTTP/1.1 400 "), "{target}: {received}"),
        }
    }
}

fn rewrite(path: &str, to: &str, then: Option<Action>) -> Route {
    let groups = PathExpressions::of(&[path.to_owned()]).groups();
    let to = Template::parse(to, &groups).expect("it is valid");
    route(path, Action::Rewrite { to, then: then.map(Box::new) })
}

#[test]
fn an_app_sees_the_rewritten_path() {
    let routes = vec![
        rewrite("~^/user/([0-9]+)$", "/users?id=$1", Some(app(0))),
        rewrite("/old/*", "/new$uri", Some(app(1))),
        rewrite("/deep/*", "/$header_x_path/$args", Some(app(1))),
        route("/*", app(0)),
    ];
    let routes = Routes::compile(routes).expect("the rules are valid");
    let mut site = Site::with_apps(&Settings::default(), 2, Some(&Arc::new(routes)));
    let (mut first, mut second) = (site.worker_of(0), site.worker_of(1));
    for (target, seen) in [("/user/17?a=b", "/users?id=17"), ("/user/x?a=b", "/user/x?a=b")] {
        let client = site.asking(&get(target));
        first.echo();
        assert_response(&site.received(&client), "200", &format!("GET {seen} "));
    }
    for (target, path, seen) in [
        ("/old/a%20b?c=d", "", "/new/old/a%20b?c=d"),
        ("http://a/old/x", "", "/new/old/x"),
        ("/deep/?a=b", "../..//%0d%0a", "/%250d%250a/a=b?a=b"),
        ("/deep/?..", "..", "/?.."),
    ] {
        let client = site.asking(format!("GET {target} HTTP/1.1\r\nHost: a\r\nX-Path: {path}\r\n\r\n").as_bytes());
        second.echo();
        assert_response(&site.received(&client), "200", &format!("GET {seen} "));
    }
}

#[test]
fn a_rewritten_request_keeps_the_host_of_its_target() {
    let routes = vec![rewrite("/old/*", "/new", Some(app(0)))];
    let routes = Routes::compile(routes).expect("the rules are valid");
    let mut site = Site::with_apps(&Settings::default(), 1, Some(&Arc::new(routes)));
    let mut worker = site.worker();
    site.asking(b"GET http://public.example/old/x HTTP/1.1\r\nHost: admin.example\r\n\r\n");
    let taken = worker.take();
    let request = worker.stored.request(None, None).expect("all of it is in the slot");
    assert_eq!((request.head.host(), request.head.target()), (Some(&b"public.example"[..]), &b"/new"[..]));
    let hosts: Vec<&[u8]> = request.head.fields().map(|(_, _, value)| value).collect();
    assert_eq!(hosts, [b"public.example"]);
    worker.answer(taken, "");
}

#[test]
fn a_rewritten_request_without_an_action_is_routed_again() {
    let routes = vec![
        rewrite("/a", "/b", None),
        rewrite("/b", "/c?x=1", None),
        rewrite("/loop", "/pool", None),
        rewrite("/pool", "/loop", None),
        route("/c", app(0)),
    ];
    let routes = Routes::compile(routes).expect("the rules are valid");
    let mut site = Site::with_apps(&Settings::default(), 1, Some(&Arc::new(routes)));
    let mut worker = site.worker();
    let client = site.asking(&[get("/a"), get("/c")].concat());
    worker.echo();
    assert!(site.received(&client).ends_with("GET /c?x=1 "));
    worker.echo();
    assert_response(&site.received(&client), "200", "GET /c ");
    let client = site.asking(&get("/loop"));
    assert_response(&site.received(&client), "500", "500 Internal Server Error: the routes change the path without end\n");
}

#[test]
fn without_a_file_the_fallback_answers() {
    let files = |root: &str, fallback: Option<Action>| Action::Files {
        root: root.into(),
        index: None,
        listing: None,
        types: TypePatterns::default(),
        candidates: Vec::new(),
        fallback: fallback.map(Box::new),
    };
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("b"), "second\n").expect("a file");
    let gone = Action::Respond { status: 410, content: b"gone\n".to_vec(), content_type: None };
    let second = folder.path().to_str().expect("it is UTF-8");
    let routes = vec![
        route("/app", files("/nonexistent/oribi", Some(app(0)))),
        route("/*", files("/nonexistent/oribi", Some(files(second, Some(gone))))),
    ];
    let routes = Routes::compile(routes).expect("the rules are valid");
    let mut site = Site::with_apps(&Settings::default(), 1, Some(&Arc::new(routes)));
    let mut worker = site.worker();
    for (target, status, content) in [("/b", "200", "second\n"), ("/c", "410", "gone\n")] {
        let client = site.asking(&get(target));
        assert_response(&site.received(&client), status, content);
    }
    let client = site.asking(&get("/app"));
    worker.echo();
    assert_response(&site.received(&client), "200", "GET /app ");
}

#[test]
fn a_file_of_another_type_counts_as_missing() {
    let mut types = TypePatterns::default();
    ["text/*", "!text/csv"].iter().for_each(|text| types.add(text).expect(text));
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["a.txt", "a.csv", "a.png", "page/index.html", "data/index.csv"] {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, name).expect("a file");
    }
    let gone = Action::Respond { status: 410, content: b"gone\n".to_vec(), content_type: None };
    let files = Action::Files {
        root: folder.path().into(),
        index: Some(vec!["index.html".to_owned(), "index.csv".to_owned()]),
        listing: None,
        types,
        candidates: Vec::new(),
        fallback: Some(Box::new(gone)),
    };
    let routes = Routes::compile(vec![route("/*", files)]).expect("the rules are valid");
    let mut site = Site::with_apps(&Settings::default(), 1, Some(&Arc::new(routes)));
    for (target, status, content) in [
        ("/a.txt", "200", "a.txt"),
        ("/a.csv", "410", "gone\n"),
        ("/a.png", "410", "gone\n"),
        ("/a.png", "410", "gone\n"),
        ("/page/", "200", "page/index.html"),
        ("/data/", "410", "gone\n"),
    ] {
        let client = site.asking(&get(target));
        assert_response(&site.received(&client), status, content);
    }
}

#[test]
fn an_address_that_is_not_known_is_in_no_network() {
    let at = |destination: &str, status| Route {
        rule: Rule { destination: vec![destination.to_owned()], ..Rule::default() },
        action: Action::Respond { status, content: Vec::new(), content_type: None },
        filters: Filters::default(),
    };
    // The simulation knows only the port of its listener.
    let routes = vec![at("unix", 410), at("0.0.0.0/0", 411), at("::/0", 412), at("!*:1-65535", 413), at("*:1-65535", 204)];
    let routes = Routes::compile(routes).expect("the rules are valid");
    let mut site = Site::with_apps(&Settings::default(), 1, Some(&Arc::new(routes)));
    let client = site.asking(&get("/"));
    let answer = site.received(&client);
    assert!(answer.starts_with("HTTP/1.1 204 "), "{answer}");
}
