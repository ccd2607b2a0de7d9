//! Requests by their routes: each is counted once, on the route with the longest prefix, and nothing is lost when processes end.

use crate::client::get_from;
use crate::scrape::{MetricsAddress, Scrape};
use crate::server::{send, wait_for, wait_until};
use crate::{native, tcp};
use rustix::process::Signal;

#[test]
fn requests_are_counted_by_routes_whatever_ends() {
    for edge in ["off", "on"] {
        let routes = ["/api", "items=/shop/items/*", "/shop"].map(|route| ["--metrics-route", route]);
        let shape = ["--edge", edge, "--workers", "2", "--metrics", "0"];
        let mut server = native(&[&shape[..], routes.as_flattened()].concat());
        let (target, place) = (tcp(&mut server), MetricsAddress::said_in(&server.log()));
        let mut seen = Scrape::of(&place);
        let mut expected = [("/api", 0.0), ("items", 0.0), ("/shop", 0.0), ("other", 0.0)];
        let mut ask = |what: &str| {
            for path in ["/api", "/api/x?y", "/apix", "/shop/items/7", "/shop/", "/shop/item", "/shop"] {
                assert!(wait_for("an answer", || get_from(&target, path).ok()).text.ends_with("hello"), "{what}");
            }
            expected.iter_mut().zip([2.0, 1.0, 3.0, 1.0]).for_each(|((_, number), more)| *number += more);
            wait_until(what, || {
                let Some(now) = Scrape::ask(&place) else { return false };
                now.must_not_shrink(&seen);
                seen = now;
                expected.iter().all(|(route, number)| {
                    let answered = seen.get(&format!("oribi_route_responses_total{{route=\"{route}\",class=\"2xx\"}}"));
                    let timed = seen.get(&format!("oribi_route_request_seconds_count{{route=\"{route}\"}}"));
                    assert!(answered <= *number && timed <= *number, "{what}: {route} has {answered}, {timed} of {number}");
                    answered == *number && timed == *number
                })
            });
        };
        ask("the first requests");
        let worker = server.wait_for_workers(2)[0];
        send(worker, Signal::KILL);
        wait_until("another worker", || server.wait_for_workers(2).iter().all(|present| *present != worker));
        ask("requests when a worker was killed");
        if edge == "on" {
            let first = server.edges()[0];
            send(first, Signal::KILL);
            wait_until("another edge", || server.edges().iter().any(|present| *present != first));
            ask("requests when an edge was killed");
        }
        server.signal(Signal::HUP);
        server.wait_for_log("all workers have been replaced");
        ask("requests behind a reload");
        let length = server.log_length();
        server.signal(Signal::USR2);
        wait_until("the next program", || Scrape::ask(&place).is_some_and(|now| now.get("oribi_upgrades_total") == 1.0));
        ask("requests behind an upgrade");
        assert!(!server.log_since(length).contains("begin at zero"), "{}", server.log());
        server.signal(Signal::TERM);
        assert_eq!(server.wait(), 0, "{}", server.log());
    }
}

#[test]
fn without_routes_there_is_no_such_family_and_without_metrics_no_route() {
    let mut server = native(&["--metrics", "0"]);
    server.address();
    let text = MetricsAddress::said_in(&server.log()).request("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(!text.contains("oribi_route_"), "{text}");
    let mut server = native(&["--metrics-route", "/api"]);
    assert_ne!(server.wait(), 0);
    assert!(server.log().contains("it needs --metrics ADDRESS"), "{}", server.log());
}
