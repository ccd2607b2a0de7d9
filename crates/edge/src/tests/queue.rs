//! Tests waiting for workers.

use super::*;

/// Returns the value of a field in a response.
fn field<'r>(response: &'r str, name: &str) -> Option<&'r str> {
    response.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

fn queue_of(limit: usize) -> Site {
    Site::new(&Settings { queue_limit: limit, ..Settings::default() })
}

#[test]
fn a_full_queue_refuses_more_and_says_when_to_come_back() {
    let mut site = queue_of(2);
    let mut app = site.worker();
    let held = site.asking(&get("/held"));
    let taken = app.take();
    let waiting: Vec<Client> = (0..2).map(|number| site.asking(&get(&format!("/{number}")))).collect();
    site.advance(SECOND * 3);
    let client = site.world.connect();
    for _ in 0..2 {
        let refused = site.exchange(&client, GET);
        assert_response(&refused, "503", "Service Unavailable\n");
        assert_eq!(field(&refused, "Retry-After"), Some("4"), "as long as the oldest has waited, and a second more");
    }
    app.answer(taken, "held");
    assert_response(&site.received(&held), "200", "held");
    for (number, client) in waiting.iter().enumerate() {
        app.echo();
        assert_response(&site.received(client), "200", &format!("GET /{number} "));
    }
    site.exchange(&client, GET);
    app.echo();
    assert_response(&site.received(&client), "200", "GET / ");
}

#[test]
fn content_for_which_there_is_no_descriptor_is_refused_for_now() {
    let name = "tests::queue::content_for_which_there_is_no_descriptor_is_refused_for_now";
    if oribi_test_support::run_with_few_descriptors(name) {
        return;
    }
    let mut site = Site::standard();
    let mut app = site.worker();
    let request = post("/", &[b'x'; 900_000]);
    let client = site.asking(&request[..1000]);
    // The engine has its file already; the edge needs a copy of the descriptor.
    let all = oribi_test_support::take_all_descriptors();
    let refused = site.exchange(&client, &request[1000..]);
    drop(all);
    assert_response(&refused, "503", "Service Unavailable\n");
    assert_eq!(field(&refused, "Retry-After"), Some("1"));
    site.exchange(&client, GET);
    app.echo();
    assert_response(&site.received(&client), "200", "GET / ");
}

/// Returns a connection of HTTP/2 with a hundred incomplete requests whose contents are too large for slots.
fn unfinished_uploads() -> Vec<u8> {
    let frame = |kind: u8, flags: u8, id: u32, content: &[u8]| {
        let length = &(content.len() as u32).to_be_bytes()[1..];
        [length, &[kind, flags], &id.to_be_bytes(), content].concat()
    };
    let mut bytes = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(4, 0, 0, &[])].concat();
    for id in (0..100).map(|number| 2 * number + 1) {
        // POST, http, / and a.
        bytes.extend(frame(1, 4, id, &[0x83, 0x86, 0x84, 0x01, 0x01, b'a']));
        (0..3).for_each(|_| bytes.extend(frame(0, 0, id, &[b'x'; 16_000])));
    }
    bytes
}

#[test]
fn unfinished_uploads_leave_descriptors_to_others() {
    if oribi_test_support::run_with_few_descriptors("tests::queue::unfinished_uploads_leave_descriptors_to_others") {
        return;
    }
    let mut site = Site::standard();
    let mut app = site.worker();
    let _holders = [(); 3].map(|()| site.asking(&unfinished_uploads()));
    let request = post("/", &[b'x'; 50_000]);
    let client = site.asking(&request[..1000]);
    assert_eq!(site.exchange(&client, &request[1000..]), "");
    let taken = app.take();
    assert!(app.stored.has_content_file());
    app.answer(taken, "read");
    assert_response(&site.received(&client), "200", "read");
}

#[test]
fn who_has_gone_does_not_count_in_a_queue_that_does_not_move() {
    let mut site = queue_of(2);
    let mut app = site.worker();
    let _held = site.asking(&get("/held"));
    let _taken = app.take();
    let stays = site.asking(&get("/stays"));
    site.asking(&get("/gone")).reset();
    site.run();
    let comes = site.asking(&get("/comes"));
    for (client, target) in [(&stays, "/stays"), (&comes, "/comes")] {
        app.echo();
        assert_response(&site.received(client), "200", &format!("GET {target} "));
    }
}

#[test]
fn a_request_that_has_waited_too_long_gets_a_503() {
    let mut site = Site::new(&Settings { queue_timeout: SECOND * 5, ..Settings::default() });
    let mut app = site.worker();
    let held = site.asking(&get("/held"));
    let taken = app.take();
    let first = site.asking(GET);
    site.advance(SECOND * 2);
    let second = site.asking(GET);
    site.advance(SECOND * 3 - MOMENT);
    assert_eq!(site.received(&first), "");
    site.advance(MOMENT * 101);
    let refused = site.received(&first);
    assert_response(&refused, "503", "Service Unavailable\n");
    assert_eq!(field(&refused, "Retry-After"), Some("4"));
    assert_eq!(site.received(&second), "");
    site.advance(SECOND * 2);
    assert_response(&site.received(&second), "503", "Service Unavailable\n");
    app.answer(taken, "a request that a worker has does not wait in the queue");
    assert!(site.received(&held).starts_with("HTTP/1.1 200"));
    assert!(app.worker.take().is_none(), "nobody waits any more");
}

#[test]
fn a_queue_without_a_limit_of_time_waits() {
    let mut site = Site::new(&Settings { queue_timeout: oribi_config::Timeouts::NEVER, ..Settings::default() });
    let client = site.asking(GET);
    site.advance(SECOND * 3600);
    assert_eq!(site.received(&client), "");
    site.worker().echo();
    assert_response(&site.received(&client), "200", "GET / ");
}

#[test]
fn the_app_is_told_when_the_request_came_unless_a_proxy_has_said_so() {
    let mut site = Site::new(&Settings { request_start: true, ..Settings::default() });
    let mut app = site.worker();
    site.advance(Duration::from_micros(1_500_001));
    for (sent, seen) in [("", "t=1795219201.500001"), ("x-request-start: t=7\r\n", "t=7")] {
        let client = site.asking(format!("GET / HTTP/1.1\r\nHost: a\r\n{sent}\r\n").as_bytes());
        let taken = app.take();
        let values: Vec<String> = app
            .stored
            .head()
            .fields()
            .filter(|(_, name, _)| name.eq_ignore_ascii_case(b"X-Request-Start"))
            .map(|(_, _, value)| text(value))
            .collect();
        assert_eq!(values, [seen]);
        app.answer(taken, "");
        site.received(&client);
    }
}

#[test]
fn another_worker_is_woken_if_the_first_does_not_come() {
    let mut site = Site::standard();
    let (mut one, mut other) = (site.worker(), site.worker());
    assert!(one.worker.prepare_to_sleep(false).is_none() && other.worker.prepare_to_sleep(false).is_none());
    let rung = |app: &App| {
        let mut polled = [rustix::event::PollFd::from_borrowed_fd(app.worker.descriptor(), rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut polled, Some(&rustix::event::Timespec::default())).expect("it can be polled") == 1
    };
    let _client = site.asking(GET);
    site.advance(MOMENT);
    assert_eq!([rung(&one), rung(&other)], [true, true], "the first one has had its time");
}

#[test]
fn the_log_says_what_requests_wait_for() {
    let mut site = Site::standard();
    assert_eq!(site.edge.apps[0].describe_workers(), "there is no worker yet");
    let mut one = site.worker();
    assert_eq!(site.edge.apps[0].describe_workers(), "the only one is busy");
    assert!(one.worker.prepare_to_sleep(false).is_none());
    assert_eq!(site.edge.apps[0].describe_workers(), "1 of 1 are free");
    one.worker.awake();
    let _clients: Vec<Client> = (0..4).map(|_| site.asking(GET)).collect();
    let taken = [one.take(), one.take(), one.take()];
    assert_eq!(site.edge.apps[0].describe_workers(), "the only one is busy with 3 unfinished answers");
    let mut other = site.worker();
    let last = other.take();
    assert_eq!(site.edge.apps[0].describe_workers(), "all 2 are busy with 4 unfinished answers, one of them with 3");
    taken.into_iter().for_each(|taken| one.answer(taken, ""));
    other.answer(last, "");
    site.run();
    assert_eq!(site.edge.apps[0].describe_workers(), "all 2 are busy");
}

#[test]
fn the_probe_says_how_it_is_and_needs_no_worker() {
    let mut site = Site::new(&Settings { probe: Some("/healthz".to_owned()), ..Settings::default() });
    let client = site.world.connect();
    let probe = |site: &mut Site, status: &str, said: &str| {
        let response = site.exchange(&client, &get("/healthz?verbose"));
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{response}");
        assert!(response.ends_with(&format!("\r\n\r\n{said}\n")), "{response}");
    };
    probe(&mut site, "503", r#"{"state":"alive","queue":0,"oldest_wait":0.000,"workers":0,"waiting_workers":0}"#);
    let mut app = site.worker();
    probe(&mut site, "200", r#"{"state":"ready","queue":0,"oldest_wait":0.000,"workers":1,"waiting_workers":0}"#);
    assert!(app.worker.prepare_to_sleep(false).is_none());
    probe(&mut site, "200", r#"{"state":"ready","queue":0,"oldest_wait":0.000,"workers":1,"waiting_workers":1}"#);
    let stuck = site.asking(GET);
    app.worker.awake();
    let taken = app.take();
    let _waits = site.asking(GET);
    site.advance(SECOND * 2);
    probe(&mut site, "200", r#"{"state":"ready","queue":1,"oldest_wait":2.000,"workers":1,"waiting_workers":0}"#);
    site.advance(SECOND * 4);
    probe(&mut site, "503", r#"{"state":"alive","queue":1,"oldest_wait":6.000,"workers":1,"waiting_workers":0}"#);
    app.answer(taken, "after all");
    assert_response(&site.received(&stuck), "200", "after all");
    probe(&mut site, "200", r#"{"state":"ready","queue":1,"oldest_wait":6.000,"workers":1,"waiting_workers":0}"#);
    let head = site.exchange(&client, b"HEAD /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
    assert_eq!(site.exchange(&client, &get("/healthz/more")), "", "that is for the app");
}
