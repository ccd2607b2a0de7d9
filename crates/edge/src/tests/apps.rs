//! Tests apps that take too long, and workers that die.

use super::*;
use oribi_config::Timeouts;
use parent_link::Reason;

fn deadlines(warning: Option<u64>, timeout: Option<u64>, kill: Option<u64>) -> Settings {
    let time = |seconds: Option<u64>| seconds.map_or(Timeouts::NEVER, Duration::from_secs);
    let mut settings = Settings { request_warning: time(warning), request_kill: Some(time(kill)), ..Settings::default() };
    settings.timeouts.request = time(timeout);
    settings
}

impl Site {
    /// Simulates the death of the worker with this index.
    pub(super) fn report_death(&mut self, place: u32) {
        self.edge.apps[0].pool.report_death(place);
        self.run();
    }
}

#[test]
fn a_client_gets_its_504_in_time_and_the_late_answer_reaches_nobody() {
    let mut site = Site::new(&deadlines(None, Some(5), None));
    let mut app = site.worker();
    let client = site.asking(GET);
    let taken = app.take();
    site.advance(SECOND * 5 - MOMENT);
    assert_eq!(site.received(&client), "");
    assert!(!app.worker.orders(&taken).interrupted);
    site.advance(MOMENT * 50);
    assert_response(&site.received(&client), "504", "Gateway Timeout\n");
    assert!(app.worker.orders(&taken).interrupted);
    site.exchange(&client, &get("/next"));
    app.answer(taken, "late");
    assert_eq!(site.received(&client), "");
    app.echo();
    assert_response(&site.received(&client), "200", "GET /next ");
}

#[test]
fn the_time_counts_from_when_a_worker_takes_the_request() {
    let mut site = Site::new(&deadlines(None, Some(5), None));
    let mut app = site.worker();
    let (first, second) = (site.asking(GET), site.asking(GET));
    let taken = app.take();
    site.advance(SECOND * 4);
    app.answer(taken, "in time");
    assert_response(&site.received(&first), "200", "in time");
    let taken = app.take();
    site.advance(SECOND * 4);
    assert_eq!(site.received(&second), "", "it waited for four seconds, and has run for four");
    site.advance(SECOND + MOMENT * 50);
    assert_response(&site.received(&second), "504", "Gateway Timeout\n");
    app.answer(taken, "");
}

#[test]
fn an_app_that_gets_on_is_not_interrupted_and_one_that_stops_has_its_response_cut() {
    let mut site = Site::new(&deadlines(None, Some(5), None));
    let mut app = site.worker();
    let client = site.asking(GET);
    let mut taken = app.take();
    app.worker.head(&mut taken, &head(200, &[], Content::Started)).expect("it has room");
    for _ in 0..4 {
        app.worker.content(&mut taken, b"piece");
        app.worker.flush(&taken);
        site.advance(SECOND * 4);
    }
    assert!(!app.worker.orders(&taken).interrupted && !client.closed());
    site.advance(SECOND + MOMENT * 50);
    assert!(app.worker.orders(&taken).interrupted && client.saw_reset());
}

#[test]
fn an_app_that_writes_nothing_again_and_again_is_interrupted() {
    let mut site = Site::new(&deadlines(None, Some(5), None));
    let mut app = site.worker();
    let client = site.asking(GET);
    let mut taken = app.take();
    app.worker.head(&mut taken, &head(200, &[], Content::Started)).expect("it has room");
    for _ in 0..3 {
        app.worker.content(&mut taken, b"");
        app.worker.flush(&taken);
        site.advance(SECOND * 2);
    }
    assert!(app.worker.orders(&taken).interrupted && client.saw_reset());
}

#[test]
fn an_app_that_waits_for_its_client_is_not_interrupted() {
    let mut settings = deadlines(None, Some(5), None);
    settings.limits.output_bytes = 1000;
    settings.limits.output_spool_bytes = 0;
    settings.timeouts.write = Timeouts::NEVER;
    let mut site = Site::new(&settings);
    let mut app = site.worker();
    let client = site.asking(GET);
    client.set_window(10);
    let mut taken = app.take();
    app.worker.head(&mut taken, &head(200, &[], Content::Started)).expect("it has room");
    app.worker.content(&mut taken, &[b'x'; 20_000]);
    app.worker.flush(&taken);
    site.advance(SECOND * 60);
    assert!(!app.worker.orders(&taken).interrupted);
    client.set_window(usize::MAX);
    site.advance(SECOND * 4);
    assert!(!app.worker.orders(&taken).interrupted, "its time begins anew");
    site.advance(SECOND * 2);
    assert!(app.worker.orders(&taken).interrupted);
}

#[test]
fn first_a_warning_then_an_interruption_then_the_end() {
    let mut site = Site::new(&deadlines(Some(2), Some(5), Some(8)));
    let mut app = site.worker();
    let client = site.asking(GET);
    let taken = app.take();
    site.advance(SECOND * 2 + MOMENT * 50);
    let orders = app.worker.orders(&taken);
    assert!(orders.warned && !orders.interrupted, "{orders:?}");
    let request = site.edge_link.next().expect("the keeper is asked to tell the worker");
    assert_eq!((request.process, request.reason), (std::process::id(), Reason::Slow));
    site.advance(SECOND * 3);
    assert!(app.worker.orders(&taken).interrupted);
    assert_response(&site.received(&client), "504", "Gateway Timeout\n");
    assert_eq!(site.edge_link.next(), None);
    site.advance(SECOND * 3);
    let request = site.edge_link.next().expect("the keeper is asked");
    assert_eq!((request.process, request.reason), (std::process::id(), Reason::Stuck));
    site.advance(SECOND * 30);
    assert_eq!(site.edge_link.next(), None, "once is enough");
    assert_eq!(site.received(&client), "");
    app.answer(taken, "");
}

#[test]
fn a_worker_is_ended_even_if_its_client_has_gone() {
    let mut site = Site::new(&deadlines(None, None, Some(8)));
    let mut app = site.worker();
    let client = site.asking(GET);
    let taken = app.take();
    site.advance(SECOND);
    client.reset();
    site.advance(SECOND * 8);
    assert_eq!(site.edge_link.next().map(|request| request.reason), Some(Reason::Stuck));
    app.answer(taken, "");
    // An app that has ended does not count as stuck.
    let client = site.asking(GET);
    let taken = app.take();
    site.advance(SECOND);
    client.reset();
    site.run();
    app.answer(taken, "");
    site.advance(SECOND * 20);
    assert_eq!(site.edge_link.next(), None);
    assert_eq!(site.edge.apps[0].table.used(), 0);
}

#[test]
fn an_app_may_extend_its_deadline_or_lift_it() {
    for (asked, interrupted) in [(Some(SECOND * 20), true), (None, false)] {
        let mut site = Site::new(&deadlines(None, Some(5), Some(8)));
        let mut app = site.worker();
        let client = site.asking(GET);
        let mut taken = app.take();
        site.advance(SECOND * 4);
        app.worker.deadline(&mut taken, asked).expect("it has room");
        site.advance(SECOND * 19);
        assert_eq!(site.received(&client), "");
        assert_eq!(site.edge_link.next(), None);
        site.advance(SECOND + MOMENT * 50);
        assert_eq!(app.worker.orders(&taken).interrupted, interrupted);
        site.advance(SECOND * 100);
        assert_eq!(site.edge_link.next().is_some(), interrupted);
        app.answer(taken, "");
    }
}

#[test]
fn requests_inside_a_worker_that_dies_get_a_502_and_others_go_to_the_next() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let (inside, begun, waiting) = (site.asking(&get("/1")), site.asking(&get("/2")), site.asking(&get("/3")));
    let _lost = app.take();
    let mut half = app.take();
    app.worker.head(&mut half, &head(200, &[], Content::Started)).expect("it has room");
    app.worker.content(&mut half, b"half");
    app.worker.flush(&half);
    site.run();
    site.report_death(0);
    assert_response(&site.received(&inside), "502", "Bad Gateway\n");
    assert!(begun.saw_reset(), "half of a response must not look like one");
    site.exchange(&inside, &get("/4"));
    let mut next = site.worker();
    for (client, target) in [(&waiting, "/3"), (&inside, "/4")] {
        next.echo();
        assert_response(&site.received(client), "200", &format!("GET {target} "));
    }
}

#[test]
fn what_a_dead_worker_had_finished_is_sent() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let client = site.asking(GET);
    app.echo();
    site.edge.apps[0].pool.report_death(0);
    assert_response(&site.received(&client), "200", "GET / ");
}

#[test]
fn the_edge_notices_that_a_process_has_ended() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let client = site.asking(GET);
    let _lost = app.take();
    let _deadline = oribi_test_support::waits_for("the end of another process");
    let mut other = std::process::Command::new("sleep").arg("60").spawn().expect("it can be started");
    // The worker of this test runs in the process of the test, so the edge gets the id of another process.
    site.edge.apps[0].watch(oribi_pool::Arrival { worker: 0, process: other.id() });
    site.advance(SECOND);
    assert_eq!(site.received(&client), "");
    other.kill().expect("it runs");
    other.wait().expect("it ends");
    site.world.wake();
    assert_response(&site.received(&client), "502", "Bad Gateway\n");
}

#[test]
fn an_idempotent_request_may_be_tried_again_once() {
    for (request, tried) in [(get("/"), true), (post("/", b"content"), false)] {
        let mut site = Site::new(&Settings { retry_lost: true, ..Settings::default() });
        let client = site.asking(&request);
        let mut app = site.worker();
        let _lost = app.take();
        site.run();
        site.report_death(0);
        let mut next = site.worker();
        if !tried {
            assert_response(&site.received(&client), "502", "Bad Gateway\n");
            continue;
        }
        assert_eq!(site.received(&client), "");
        let _lost = next.take();
        assert_eq!(next.seen(), "GET / ");
        site.run();
        site.report_death(0);
        assert_response(&site.received(&client), "502", "Bad Gateway\n");
        site.exchange(&client, GET);
        site.worker().echo();
        assert_response(&site.received(&client), "200", "GET / ");
    }
}

#[test]
fn content_in_a_file_is_there_for_another_try() {
    let mut site = Site::new(&Settings { retry_lost: true, ..Settings::default() });
    let content = vec![b'c'; 400_000];
    let mut request = format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", content.len()).into_bytes();
    request.extend_from_slice(&content);
    let client = site.asking(&request);
    for last in [false, true] {
        let mut app = site.worker();
        let mut taken = app.take();
        app.worker.request_descriptor(&mut taken, oribi_pool::DescriptorRequest::Content).expect("it has room");
        site.run();
        let file = app.worker.take_descriptor(&taken).expect("the line works").expect("the file has come");
        let mut read = Vec::new();
        std::io::Read::read_to_end(&mut std::fs::File::from(file), &mut read).expect("it can be read");
        assert!(read == content, "it is read from its start");
        if last {
            app.answer(taken, "read");
        } else {
            site.run();
            site.report_death(0);
        }
    }
    assert_response(&site.received(&client), "200", "read");
}
