//! Tests slow clients, and clients that disconnect.

use super::*;
use oribi_pool::Orders;
use oribi_stats::scoreboard::WorkerCommand;

#[test]
fn a_slow_client_keeps_its_worker_waiting_and_nobody_else() {
    let mut settings = Settings::default();
    settings.limits.output_bytes = 10_000;
    settings.limits.output_spool_bytes = 0;
    let mut site = Site::new(&settings);
    let mut app = site.worker();
    let client = site.asking(GET);
    client.set_window(1000);
    let mut taken = app.take();
    app.worker.head(&mut taken, &head(200, &[], Content::Started)).expect("it has room");
    let content = vec![b'x'; 3 << 20];
    let (mut sent, mut received) = (0, 0);
    for _ in 0..MANY {
        sent += app.worker.content(&mut taken, &content[sent..]);
        if !app.worker.prepare_to_wait_for_room(&taken, content.len()) {
            continue;
        }
        site.run();
        if app.worker.prepare_to_wait_for_room(&taken, content.len()) {
            break;
        }
    }
    app.worker.awake();
    let shape = site.memory[0].shape();
    assert!(sent < shape.area_bytes as usize * 2 + 20_000, "{sent} bytes were taken for a client that takes nothing");
    // Other clients are served in the meantime, by the same worker.
    let other = site.asking(&get("/other"));
    let second = app.worker.take().expect("a request waits");
    app.answer(second, "served");
    assert_response(&site.received(&other), "200", "served");
    client.set_window(usize::MAX);
    for _ in 0..MANY {
        site.run();
        received += client.received().len();
        let more = app.worker.content(&mut taken, &content[sent..]);
        sent += more;
        app.worker.flush(&taken);
        if sent == content.len() && more == 0 {
            break;
        }
    }
    app.worker.finish(taken);
    site.run();
    received += client.received().len();
    assert!(received > content.len(), "{received}");
    assert!(site.edge.apps[0].paused.is_empty());
}

#[test]
fn a_client_that_takes_nothing_keeps_no_worker() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let client = site.asking(GET);
    client.set_window(1000);
    let mut taken = app.take();
    app.worker.head(&mut taken, &head(200, &[], Content::Started)).expect("it has room");
    let content: Vec<u8> = (0..3 << 20).map(|number: u32| number as u8).collect();
    let mut sent = 0;
    for _ in 0..MANY {
        sent += app.worker.content(&mut taken, &content[sent..]);
        app.worker.flush(&taken);
        site.run();
        if sent == content.len() {
            break;
        }
    }
    assert_eq!(sent, content.len());
    app.worker.finish(taken);
    site.run();
    // The worker is free, and the client gets everything later.
    let other = site.asking(&get("/other"));
    app.echo();
    assert_response(&site.received(&other), "200", "GET /other ");
    let mut received = client.received();
    for _ in 0..100 {
        client.set_window(300_000);
        site.run();
        received.extend(client.received());
    }
    assert!(received.ends_with(b"\r\n0\r\n\r\n") && received.len() > content.len());
    assert!(site.edge.apps[0].paused.is_empty() && site.edge.apps[0].table.used() == 0);
}

#[test]
fn whoever_writes_many_informational_responses_waits_for_the_client_too() {
    let mut settings = Settings::default();
    settings.limits.output_bytes = 10_000;
    settings.limits.output_spool_bytes = 0;
    let mut site = Site::new(&settings);
    let mut app = site.worker();
    let client = site.asking(GET);
    client.set_window(0);
    let mut taken = app.take();
    let interim = head(103, &[(b"Link", &[b'l'; 1000])], Content::Interim);
    let mut written = 0;
    for _ in 0..MANY {
        match app.worker.interim(&mut taken, &interim) {
            Ok(()) => written += interim.len(),
            Err(_) if !site.edge.apps[0].paused.is_empty() => break,
            Err(_) => {}
        }
        app.worker.flush(&taken);
        site.run();
    }
    assert!(!site.edge.apps[0].paused.is_empty() && written < 3 * site.memory[0].shape().area_bytes as usize, "{written}");
}

#[test]
fn a_client_that_goes_takes_its_request_out_of_the_queue() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let (gone, stays) = (site.asking(&get("/gone")), site.asking(&get("/stays")));
    gone.reset();
    site.run();
    app.echo();
    assert_response(&site.received(&stays), "200", "GET /stays ");
    assert!(app.worker.take().is_none());
    assert_eq!(site.edge.apps[0].table.used(), 0);
}

#[test]
fn an_app_is_told_that_its_client_has_gone_and_what_it_says_is_thrown_away() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let client = site.asking(GET);
    let taken = app.take();
    client.reset();
    site.run();
    assert_eq!(app.worker.orders(&taken), Orders { gone: true, ..Orders::default() });
    app.answer(taken, "for nobody");
    site.run();
    let next = site.asking(&get("/next"));
    app.echo();
    assert_response(&site.received(&next), "200", "GET /next ");
}

#[test]
fn a_client_that_has_ended_its_side_is_answered_if_it_need_not_wait_long() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let client = site.asking(GET);
    client.end();
    site.advance(MOMENT * 900);
    app.echo();
    assert!(site.received(&client).starts_with("HTTP/1.1 200 "));
    // A worker that took the request in time may take any time to answer.
    let client = site.asking(GET);
    client.end();
    let taken = app.take();
    site.advance(SECOND * 20);
    app.answer(taken, "late");
    assert!(site.received(&client).starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_client_that_has_ended_its_side_does_not_wait_in_a_long_queue() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let held = site.asking(&get("/held"));
    let taken = app.take();
    let (patient, impatient) = (site.asking(&get("/patient")), site.asking(&get("/impatient")));
    impatient.end();
    site.advance(MOMENT * 1200);
    assert!(impatient.closed());
    assert!(!patient.closed() && !held.closed());
    app.answer(taken, "");
    site.run();
    app.echo();
    assert_response(&site.received(&patient), "200", "GET /patient ");
    assert!(app.worker.take().is_none());
}

#[test]
fn an_edge_that_drains_answers_what_it_has_accepted_and_ends() {
    for command in [WorkerCommand::Drain, WorkerCommand::Retire] {
        let mut site = Site::standard();
        let mut app = site.worker();
        let (idle, asking) = (site.world.connect(), site.asking(GET));
        let late = site.world.connect();
        late.send(&get("/late"));
        site.slot.set_command(command);
        site.world.wake();
        site.run();
        assert!(!site.world.listening());
        site.advance(SECOND * 12);
        assert!(idle.closed() || command == WorkerCommand::Retire);
        assert!(!*site.ended.borrow(), "a request waits");
        for _ in 0..2 {
            if let Some(taken) = app.worker.take() {
                app.answer(taken, "still");
            }
        }
        let received = site.received(&asking);
        assert!(received.starts_with("HTTP/1.1 200 ") && received.contains("Connection: close"), "{received}");
        if command == WorkerCommand::Drain {
            assert!(site.received(&late).starts_with("HTTP/1.1 200 "), "it waited to be accepted");
        }
        site.advance(SECOND * 6);
        assert!(*site.ended.borrow());
    }
}

/// When the edge is about to sleep, it sends its last output. That may also be its last work.
#[test]
fn an_edge_that_drains_does_not_sleep_when_its_last_client_is_served() {
    for last in ["an answer", "the end of its worker", "its deadline"] {
        let mut site = Site::new(&Settings { queue_timeout: SECOND, ..Settings::default() });
        let mut app = site.worker();
        let client = site.asking(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        site.slot.set_command(WorkerCommand::Drain);
        site.world.wake();
        assert!(site.run(), "a request waits");
        match last {
            "an answer" => app.echo(),
            "the end of its worker" => {
                let _lost = app.take();
                site.edge.apps[0].pool.report_death(0);
            }
            _ => site.world.advance(SECOND * 2),
        }
        let mut goes_on = true;
        for _ in 0..MANY {
            if !goes_on || client.closed() {
                break;
            }
            site.asleep.set(false);
            goes_on = site.edge.turn().expect("this backend cannot fail");
        }
        assert!(client.closed() && !site.asleep.get(), "it sleeps after {last}, although nothing is left to do");
        assert!(!goes_on || !site.edge.turn().expect("this backend cannot fail"), "after {last}");
    }
}

#[test]
fn an_edge_that_quits_withdraws_everything() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let _clients = [site.asking(GET), site.asking(GET)];
    let taken = app.take();
    site.slot.set_command(WorkerCommand::Quit);
    site.world.wake();
    assert!(!site.run());
    site.edge.leave();
    assert!(app.worker.orders(&taken).gone);
    app.answer(taken, "");
    assert!(app.worker.take().is_none());
}

#[test]
fn the_probe_of_a_draining_edge_says_so() {
    let mut site = Site::new(&Settings { probe: Some("/healthz".to_owned()), ..Settings::default() });
    let _app = site.worker();
    let client = site.asking(&get("/healthz"));
    assert!(site.received(&client).starts_with("HTTP/1.1 200 "));
    site.slot.set_command(WorkerCommand::Drain);
    site.world.wake();
    site.run();
    let response = site.exchange(&client, &get("/healthz"));
    assert!(response.starts_with("HTTP/1.1 503 ") && response.contains(r#"{"state":"draining","#), "{response}");
}

#[test]
fn requests_of_a_web_server_are_answered_and_aborted() {
    let mut site = Site::new(&Settings { protocol: Protocol::FastCgi, ..Settings::default() });
    let mut app = site.worker();
    let client = site.world.connect();
    client.send(&[records(1, "/one"), records(2, "/two"), records(3, "/three")].concat());
    site.run();
    client.send(&record(2, 2, b""));
    site.run();
    let _ = client.received();
    app.echo();
    assert!(site.received(&client).contains("GET /one "));
    let mut taken = app.take();
    assert_eq!(app.seen(), "GET /three ", "the second was aborted");
    app.worker.message(&mut taken, b"an app complains").expect("it has room");
    app.worker.flush(&taken);
    assert!(site.received(&client).contains("an app complains"));
    app.answer(taken, "done");
    assert!(site.received(&client).contains("done"));
    assert_eq!(site.edge.apps[0].table.used(), 0);
}

#[test]
fn a_web_server_has_the_end_of_a_response_together_with_its_content() {
    let mut site = Site::new(&Settings { protocol: Protocol::FastCgi, ..Settings::default() });
    let (mut app, mut other) = (site.worker(), site.worker());
    let client = site.asking(&records(1, "/one"));
    let mut taken = app.take();
    app.worker.head(&mut taken, &head(200, &[(b"Content-Length", b"5")], Content::Started)).expect("it has room");
    assert_eq!(app.worker.content(&mut taken, b"piece"), 5);
    app.worker.flush(&taken);
    site.run();
    let received = client.received();
    assert!(received.ends_with(&record(3, 1, &[0; 8])), "{}", received.escape_ascii());
    client.send(&records(1, "/next"));
    site.run();
    other.echo();
    assert!(site.received(&client).contains("GET /next "), "the same id serves again");
    app.worker.finish(taken);
    assert_eq!(site.received(&client), "");
}

/// Returns the records of a GET request.
pub(super) fn records(id: u8, target: &str) -> Vec<u8> {
    let pairs = [("REQUEST_METHOD", "GET"), ("REQUEST_URI", target), ("SCRIPT_NAME", ""), ("SERVER_PROTOCOL", "HTTP/1.1")];
    let mut params = Vec::new();
    for (name, value) in pairs {
        params.extend([name.len() as u8, value.len() as u8]);
        params.extend_from_slice(name.as_bytes());
        params.extend_from_slice(value.as_bytes());
    }
    [record(1, id, &[0, 1, 1, 0, 0, 0, 0, 0]), record(4, id, &params), record(4, id, b""), record(5, id, b"")].concat()
}

/// Returns a FastCGI record.
pub(super) fn record(kind: u8, id: u8, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u16).to_be_bytes();
    [&[1, kind, 0, id, length[0], length[1], 0, 0], content].concat()
}
