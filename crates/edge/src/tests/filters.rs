//! Routes that change requests and responses.

use super::super::routes::{Action, Filters, Route, Routes};
use super::*;
use oribi_filter::{Cors, CorsOptions, FieldChanges, ResponsePlan};
use oribi_route::Rule;

/// An edge with one app, whose only route has these filters.
fn site(filters: Filters) -> Site {
    let action = Action::App { app: 0, mount: String::new() };
    let gone = Action::Respond { status: 410, content: b"gone\n".to_vec(), content_type: None };
    let rule = Rule { path: vec!["/gone".to_owned()], ..Rule::default() };
    let routes = vec![Route { rule, action: gone, filters: filters.clone() }, Route { rule: Rule::default(), action, filters }];
    let routes = Routes::compile(routes).expect("the rules are valid");
    Site::with_apps(&Settings::default(), 1, Some(Box::leak(Box::new(routes))))
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
    let mut site = site(Filters { response: ResponsePlan { fields: changes(), cors: None }, ..Filters::default() });
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
    let mut site = site(Filters { response: ResponsePlan { fields: changes(), cors: None }, ..Filters::default() });
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
