//! Limits of routes.

use super::super::routes::{Action, Filters, Limit, Route, Routes};
use super::*;
use oribi_limit::{LimitBy, LimitOf, Rule as Rate};
use oribi_route::Rule;

/// An edge with one app and one limit. All requests count together, because clients of the simulation have no addresses.
fn site(of: LimitOf, by: LimitBy, dry_run: bool) -> Site {
    let route = |path: &str| Route {
        rule: Rule { path: vec![path.to_owned()], ..Rule::default() },
        action: Action::App { app: 0, mount: String::new() },
        filters: Filters::default(),
    };
    let limit = Limit { label: "oribi.toml:1".to_owned(), of, by, dry_run };
    let routes = Routes::compile(vec![route("/free"), route("/*")]).expect("the rules are valid");
    let routes = routes.with_limits(vec![limit], vec![vec![], vec![0]], 2).expect("memory");
    Site::with_apps(&Settings::default(), 1, Some(&Arc::new(routes)))
}

fn rate(requests: u32, burst: u32) -> LimitOf {
    LimitOf::Rate(Rate { requests, per: Duration::from_secs(1), burst })
}

#[test]
fn requests_beyond_the_rate_are_refused_until_time_has_passed() {
    let mut site = site(rate(2, 3), LimitBy::Client, false);
    let mut worker = site.worker();
    let client = site.asking(b"");
    for _ in 0..3 {
        client.send(&get("/a"));
        site.run();
        worker.echo();
        assert_response(&site.received(&client), "200", "GET /a ");
    }
    let received = site.exchange(&client, &get("/a"));
    assert_response(&received, "429", "429 Too Many Requests\n");
    for line in ["Retry-After: 1", "RateLimit-Policy: \"limit 1\";q=2;w=1;oribi-burst=3", "RateLimit: \"limit 1\";r=0;t=1"] {
        assert!(received.contains(&format!("\r\n{line}\r\n")), "{line}: {received}");
    }
    client.send(&get("/free"));
    site.run();
    worker.echo();
    assert_response(&site.received(&client), "200", "GET /free ");
    site.advance(Duration::from_millis(501));
    client.send(&get("/a"));
    site.run();
    worker.echo();
    assert_response(&site.received(&client), "200", "GET /a ");
    assert!(site.exchange(&client, &get("/a")).starts_with("HTTP/1.1 429 "), "the next one follows after half a second");
}

#[test]
fn values_of_a_field_count_apart() {
    let mut site = site(rate(1, 1), LimitBy::Field("X-Key".to_owned()), false);
    let mut worker = site.worker();
    let ask = |key: &str| format!("GET / HTTP/1.1\r\nHost: a\r\nx-key: {key}\r\n\r\n").into_bytes();
    for (key, allowed) in [("one", true), ("one", false), ("two", true), ("two", false)] {
        let client = site.asking(&ask(key));
        if allowed {
            worker.echo();
        }
        let status = if allowed { "200" } else { "429" };
        assert!(site.received(&client).starts_with(&format!("HTTP/1.1 {status} ")), "{key}");
    }
}

#[test]
fn a_dry_run_refuses_nothing() {
    let mut site = site(rate(1, 1), LimitBy::All, true);
    let mut worker = site.worker();
    for _ in 0..3 {
        let client = site.asking(&get("/"));
        worker.echo();
        assert_response(&site.received(&client), "200", "GET / ");
    }
}

#[test]
fn a_request_is_open_until_its_response_has_been_sent_or_its_client_has_gone() {
    let mut site = site(LimitOf::Open(2), LimitBy::All, false);
    let mut worker = site.worker();
    let first = site.asking(&get("/1"));
    let second = site.asking(&get("/2"));
    let refused = site.asking(&get("/3"));
    assert!(site.received(&refused).starts_with("HTTP/1.1 429 "), "two are open");
    worker.echo();
    assert_response(&site.received(&first), "200", "GET /1 ");
    let third = site.asking(&get("/4"));
    assert_eq!(site.received(&third), "", "it waits for the worker");
    second.reset();
    site.run();
    let fourth = site.asking(&get("/5"));
    assert_eq!(site.received(&fourth), "", "the second client has gone");
    let refused = site.asking(&get("/6"));
    assert!(site.received(&refused).starts_with("HTTP/1.1 429 "), "two are open again");
}

#[test]
fn a_client_over_its_own_limit_does_not_count_for_all() {
    let route =
        Route { rule: Rule::default(), action: Action::App { app: 0, mount: String::new() }, filters: Filters::default() };
    let limit = |of, by| Limit { label: "oribi.toml:1".to_owned(), of, by, dry_run: false };
    let limits = vec![limit(rate(3, 3), LimitBy::All), limit(rate(1, 1), LimitBy::Field("X-Key".to_owned()))];
    let routes = Routes::compile(vec![route]).expect("the rules are valid");
    let routes = routes.with_limits(limits, vec![vec![0, 1]], 1).expect("memory");
    let mut site = Site::with_apps(&Settings::default(), 1, Some(&Arc::new(routes)));
    let mut worker = site.worker();
    for (key, status) in [("a", "200"), ("a", "429"), ("a", "429"), ("a", "429"), ("b", "200"), ("c", "200"), ("d", "429")] {
        let client = site.asking(format!("GET / HTTP/1.1\r\nHost: a\r\nX-Key: {key}\r\n\r\n").as_bytes());
        if status == "200" {
            worker.echo();
        }
        assert!(site.received(&client).starts_with(&format!("HTTP/1.1 {status} ")), "{key}");
    }
}

#[test]
fn a_request_that_a_later_limit_refuses_counts_for_none() {
    let route =
        Route { rule: Rule::default(), action: Action::App { app: 0, mount: String::new() }, filters: Filters::default() };
    let limit = |of, by| Limit { label: "oribi.toml:1".to_owned(), of, by, dry_run: false };
    let of_key = LimitOf::Rate(Rate { requests: 2, per: Duration::from_secs(60), burst: 2 });
    let limits = vec![limit(of_key, LimitBy::Field("X-Key".to_owned())), limit(rate(1, 1), LimitBy::All)];
    let routes = Routes::compile(vec![route]).expect("the rules are valid");
    let routes = routes.with_limits(limits, vec![vec![0, 1]], 1).expect("memory");
    let mut site = Site::with_apps(&Settings::default(), 1, Some(&Arc::new(routes)));
    let mut worker = site.worker();
    for (status, pause) in [("200", 0), ("429", 1100), ("200", 1100), ("429", 0)] {
        let client = site.asking(b"GET / HTTP/1.1\r\nHost: a\r\nX-Key: a\r\n\r\n");
        if status == "200" {
            worker.echo();
        }
        assert!(site.received(&client).starts_with(&format!("HTTP/1.1 {status} ")), "{status}, then {pause} ms");
        site.advance(Duration::from_millis(pause));
    }
}

#[test]
fn a_request_is_open_while_its_client_takes_the_response() {
    let mut site = site(LimitOf::Open(1), LimitBy::All, false);
    let mut worker = site.worker();
    let slow = site.world.connect();
    slow.set_window(100);
    slow.send(&get("/slow"));
    site.run();
    let taken = worker.take();
    worker.answer(taken, &"x".repeat(10_000));
    site.run();
    let refused = site.asking(&get("/"));
    assert!(site.received(&refused).starts_with("HTTP/1.1 429 "), "the response is not sent");
    slow.set_window(100_000);
    site.run();
    assert_eq!(text(&slow.received()).matches('x').count(), 10_000);
    let next = site.asking(&get("/next"));
    worker.echo();
    assert_response(&site.received(&next), "200", "GET /next ");
}

#[test]
fn while_the_queue_is_old_requests_are_shed_at_once() {
    let mut site = site(LimitOf::Queue(SECOND / 2), LimitBy::All, false);
    let first = site.asking(&get("/free"));
    let second = site.asking(&get("/a"));
    site.advance(SECOND / 2);
    assert_eq!(site.received(&first) + &site.received(&second), "", "they wait for a worker");
    site.advance(MOMENT);
    let third = site.asking(&get("/a"));
    let received = site.received(&third);
    assert_response(&received, "503", "503 Service Unavailable\n");
    assert!(received.contains("\r\nRetry-After: 1\r\n"), "{received}");
    let fourth = site.asking(&get("/free"));
    assert_eq!(site.received(&fourth), "", "other routes go on to wait");
    let mut worker = site.worker();
    for (client, target) in [(&first, "/free"), (&second, "/a"), (&fourth, "/free")] {
        worker.echo();
        assert_response(&site.received(client), "200", &format!("GET {target} "));
    }
    third.send(&get("/a"));
    site.run();
    worker.echo();
    assert_response(&site.received(&third), "200", "GET /a ");
}
