//! Tests the times of the parts of requests in counters and in the access log.

use super::*;
use oribi_config::{AccessFormat, AccessPattern, LogTarget};
use oribi_stats::totals::RequestPhase;

/// The access log of a test.
struct Log(tempfile::NamedTempFile);

impl Log {
    fn new() -> Self {
        Self(tempfile::NamedTempFile::new().expect("there is room for a file"))
    }

    fn settings(&self) -> Settings {
        let access_log = Some(LogTarget::File(self.0.path().to_owned()));
        Settings {
            access_log,
            access_log_format: AccessFormat::Pattern(
                AccessPattern::parse("%{queue:ms}T %{first:ms}T %{app:ms}T %{send:ms}T %s").expect("it is right"),
            ),
            ..Settings::default()
        }
    }

    fn lines(&self, site: &mut Site) -> Vec<String> {
        // The next iteration writes it.
        site.world.wake();
        site.run();
        let text = std::fs::read_to_string(self.0.path()).expect("it is there");
        text.lines().map(str::to_owned).collect()
    }
}

/// Returns the count and the sum in milliseconds of each part's times.
fn counted(site: &Site) -> [(u64, u128); 4] {
    let counts = site.slot.account.read();
    RequestPhase::ALL.map(|part| (counts.times.of(part).count(), counts.times.of(part).sum().as_millis()))
}

impl App {
    /// Takes the next request at the current time.
    fn take_now(&mut self, site: &Site) -> Taken {
        self.worker.set_time(site.edge.now().as_nanos() as u64);
        self.take()
    }
}

#[test]
fn a_request_waits_and_runs_and_is_sent_at_once() {
    let log = Log::new();
    let mut site = Site::new(&log.settings());
    let mut app = site.worker();
    let client = site.asking(GET);
    site.advance(MOMENT * 300);
    let taken = app.take_now(&site);
    site.advance(MOMENT * 40);
    assert_eq!(counted(&site), [(0, 0); 4]);
    app.answer(taken, "late");
    assert_response(&site.received(&client), "200", "late");
    assert_eq!(counted(&site), [(1, 300), (1, 40), (1, 0), (1, 340)]);
    assert_eq!(log.lines(&mut site), ["300 40 40 0 200"]);
}

/// The kernel may suspend an edge while a worker answers the request that the edge has just submitted.
#[test]
fn an_answer_in_the_turn_of_its_request_counts_with_its_time() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let client = site.world.connect();
    client.send(GET);
    while site.edge.apps[0].table.used() == 0 {
        site.edge.wait().expect("this backend cannot fail");
        site.edge.take_requests();
    }
    let taken = app.take_now(&site);
    site.world.advance(MOMENT * 30);
    app.answer(taken, "soon");
    assert!(site.edge.apps[0].handle_answers(true));
    assert_response(&site.received(&client), "200", "soon");
    assert_eq!(counted(&site), [(1, 0), (1, 30), (1, 0), (1, 30)]);
}

#[test]
fn the_first_byte_of_an_answer_in_pieces_comes_before_the_last() {
    let log = Log::new();
    let mut site = Site::new(&log.settings());
    let mut app = site.worker();
    let client = site.asking(GET);
    site.advance(MOMENT * 5);
    let mut taken = app.take_now(&site);
    site.advance(MOMENT * 20);
    app.worker.head(&mut taken, &head(200, &[], Content::Started)).expect("there is room");
    app.worker.content(&mut taken, b"first");
    app.worker.flush(&taken);
    assert!(site.received(&client).contains("first"));
    site.advance(MOMENT * 700);
    app.worker.content(&mut taken, b"last");
    app.worker.finish(taken);
    assert!(site.received(&client).contains("last"));
    assert_eq!(counted(&site), [(1, 5), (1, 720), (1, 0), (1, 725)]);
    assert_eq!(log.lines(&mut site), ["5 20 720 0 200"]);
}

#[test]
fn a_slow_client_takes_its_time_for_the_rest() {
    let log = Log::new();
    let mut site = Site::new(&log.settings());
    let mut app = site.worker();
    let client = site.world.connect();
    client.set_window(1000);
    client.send(GET);
    site.run();
    let taken = app.take_now(&site);
    site.advance(MOMENT * 10);
    app.answer(taken, &"x".repeat(10_000));
    site.advance(SECOND * 2);
    assert_eq!((counted(&site), log.lines(&mut site).len()), ([(0, 0); 4], 0), "it is not over");
    client.set_window(1 << 20);
    site.run();
    assert_eq!(site.received(&client).matches('x').count(), 10_000);
    assert_eq!(counted(&site), [(1, 0), (1, 10), (1, 2000), (1, 2010)]);
    assert_eq!(log.lines(&mut site), ["0 10 10 2000 200"]);
    // The next request on the connection does not change that.
    client.send(GET);
    site.run();
    let taken = app.take_now(&site);
    app.answer(taken, "y");
    site.run();
    assert_eq!(log.lines(&mut site)[1..], ["0 0 0 0 200"]);
}

#[test]
fn a_client_that_leaves_before_everything_was_sent_ends_the_sending() {
    let log = Log::new();
    let mut site = Site::new(&log.settings());
    let mut app = site.worker();
    let client = site.world.connect();
    client.set_window(1000);
    client.send(GET);
    site.run();
    let taken = app.take_now(&site);
    app.answer(taken, &"x".repeat(10_000));
    assert!(site.received(&client).ends_with('x'));
    site.advance(SECOND);
    client.reset();
    site.run();
    assert_eq!(counted(&site), [(1, 0), (1, 0), (1, 1000), (1, 1000)]);
    assert_eq!(log.lines(&mut site), ["0 0 0 1000 200"]);
}

#[test]
fn a_request_that_is_refused_in_the_queue_has_only_waited() {
    let log = Log::new();
    let mut site = Site::new(&Settings { queue_timeout: SECOND * 3, queue_limit: 1, ..log.settings() });
    let client = site.asking(GET);
    let refused = site.asking(GET);
    assert_response(&site.received(&refused), "503", "Service Unavailable\n");
    assert_eq!(counted(&site), [(1, 0), (1, 0), (1, 0), (1, 0)]);
    site.advance(SECOND * 4);
    assert_response(&site.received(&client), "503", "Service Unavailable\n");
    let [queue, app, ..] = counted(&site);
    assert!(queue.0 == 2 && queue.1 >= 3000 && app == (2, 0), "{queue:?} {app:?}");
    assert!(log.lines(&mut site)[1].ends_with(" 0 0 0 503"));
}

#[test]
fn a_client_that_leaves_the_queue_has_only_waited_and_one_that_leaves_its_app_has_not() {
    let log = Log::new();
    let mut site = Site::new(&log.settings());
    let first = site.asking(GET);
    site.advance(MOMENT * 250);
    first.reset();
    site.run();
    assert_eq!(counted(&site), [(1, 250), (1, 0), (1, 0), (1, 250)]);
    let mut app = site.worker();
    let second = site.asking(GET);
    let mut taken = app.take_now(&site);
    app.worker.head(&mut taken, &head(200, &[], Content::Started)).expect("there is room");
    app.worker.content(&mut taken, b"first");
    app.worker.flush(&taken);
    assert!(site.received(&second).contains("first"));
    site.advance(MOMENT * 30);
    second.reset();
    site.run();
    assert_eq!(counted(&site), [(2, 250), (2, 30), (2, 0), (2, 280)]);
    assert_eq!(log.lines(&mut site), ["250 0 0 0 499", "0 0 30 0 499"]);
}

#[test]
fn a_stream_without_room_takes_time_to_be_sent() {
    const OPENING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let log = Log::new();
    let mut site = Site::new(&log.settings());
    let mut app = site.worker();
    let client = site.world.connect();
    client.send(&[OPENING, b"\0\0\x06\x01\x05\0\0\0\x01\x82\x86\x84\x01\x01a"].concat());
    site.run();
    let taken = app.take_now(&site);
    site.advance(MOMENT * 10);
    // One byte more than the initial window of a client (RFC 9113, section 6.9.2).
    app.answer(taken, &"x".repeat(65_536));
    site.advance(SECOND);
    assert_eq!((counted(&site), log.lines(&mut site).len()), ([(0, 0); 4], 0), "it is not over");
    let update = |stream: u8| [0, 0, 4, 8, 0, 0, 0, 0, stream, 0, 0, 0, 9];
    client.send(&[update(0), update(1)].concat());
    site.run();
    assert_eq!(counted(&site), [(1, 0), (1, 10), (1, 1000), (1, 1010)]);
    assert_eq!(log.lines(&mut site), ["0 10 10 1000 200"]);
}

#[test]
fn a_response_says_what_its_request_has_taken_if_it_is_to() {
    for server_timing in [false, true] {
        let mut site = Site::new(&Settings { server_timing, ..Settings::default() });
        let mut app = site.worker();
        for (whole, own) in [(true, false), (false, true)] {
            let client = site.asking(GET);
            site.advance(MOMENT * 30);
            let mut taken = app.take_now(&site);
            site.advance(MOMENT * 4);
            let fields: &[FieldPair<'_>] = if own { &[(b"server-timing", b"db;dur=3")] } else { &[] };
            if whole {
                app.answer_with(taken, 200, fields, "content");
            } else {
                app.worker.head(&mut taken, &head(200, fields, Content::Started)).expect("there is room");
                app.worker.content(&mut taken, b"content");
                app.worker.finish(taken);
            }
            let received = site.received(&client);
            let said: Vec<&str> =
                received.lines().filter(|line| line.to_ascii_lowercase().starts_with("server-timing: ")).collect();
            let ours = server_timing.then_some("Server-Timing: queue;dur=30.000, app;dur=4.000");
            assert_eq!(
                said,
                ours.into_iter().chain(own.then_some("server-timing: db;dur=3")).collect::<Vec<_>>(),
                "{received}"
            );
        }
    }
}
