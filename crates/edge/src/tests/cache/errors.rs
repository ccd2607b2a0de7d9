//! Stored responses, and the clients that wait for one, when the app fails.

use super::*;

#[test]
fn a_stale_response_answers_in_place_of_an_error() {
    let mut site = site();
    let mut worker = site.worker();
    let control: &[FieldPair<'_>] = &[(b"Cache-Control", b"max-age=1, stale-if-error=60")];
    ask(&mut site, &mut worker, GET, control, "one");
    site.advance(5 * SECOND);
    let clients = [site.asking(GET), site.asking(GET)];
    let taken = worker.take();
    worker.answer_with(taken, 503, &[], "down");
    for client in &clients {
        assert_response(&site.received(client), "200", "one");
    }
    let client = site.asking(GET);
    let taken = worker.take();
    worker.worker.abandon(taken);
    assert_response(&site.received(&client), "200", "one");
    // A 404 is no error of the app.
    let client = site.asking(GET);
    let taken = worker.take();
    worker.answer_with(taken, 404, &[], "gone");
    assert_response(&site.received(&client), "404", "gone");
    let client = site.asking(GET);
    let taken = worker.take();
    worker.answer_with(taken, 503, &[], "down");
    assert_response(&site.received(&client), "503", "down");
}

#[test]
fn a_stale_response_answers_head_in_place_of_an_error() {
    const HEAD: &[u8] = b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut site = site();
    let mut worker = site.worker();
    let control: &[FieldPair<'_>] = &[(b"Cache-Control", b"max-age=1, stale-if-error=60"), TAG];
    ask(&mut site, &mut worker, GET, control, "one");
    site.advance(5 * SECOND);
    let not_modified = b"HEAD / HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"a\"\r\n\r\n";
    for (request, dies, status) in [(HEAD, false, "200"), (HEAD, true, "200"), (not_modified, false, "304")] {
        let client = site.asking(request);
        let taken = worker.take();
        if dies {
            worker.worker.abandon(taken);
        } else {
            worker.answer_with(taken, 503, &[], "down");
        }
        let received = site.received(&client);
        assert_response(&received, status, "");
        assert_eq!(value(&received, "Cache-Status"), Some("oribi; hit; ttl=-4"));
        assert!(status == "304" || value(&received, "Content-Length") == Some("3"), "{received}");
    }
    // An app that answers is believed, and the stored response stays. Nobody waits for a response without content.
    let clients = [site.asking(HEAD), site.asking(HEAD), site.asking(GET), site.asking(GET)];
    for _ in 0..2 {
        let taken = worker.take();
        worker.answer_with(taken, 404, &[], "");
    }
    for client in &clients[..2] {
        assert_response(&site.received(client), "404", "");
    }
    let taken = worker.take();
    assert!(worker.worker.take().is_none(), "one GET waits for the other");
    worker.answer_with(taken, 503, &[], "down");
    for client in &clients[2..] {
        assert_response(&site.received(client), "200", "one");
    }
    // A response that must not answer in place of an error does not.
    site.advance(60 * SECOND);
    let client = site.asking(HEAD);
    let taken = worker.take();
    worker.answer_with(taken, 503, &[], "");
    assert_response(&site.received(&client), "503", "");
}

#[test]
fn requests_whose_leader_fails_go_to_the_app() {
    let mut site = site();
    let mut worker = site.worker();
    let clients = [site.asking(GET), site.asking(GET), site.asking(GET)];
    let taken = worker.take();
    worker.worker.abandon(taken);
    assert!(site.received(&clients[0]).starts_with("HTTP/1.1 500 "));
    for client in &clients[1..] {
        let taken = worker.take();
        worker.answer_with(taken, 200, &[FRESH], "one");
        assert_response(&site.received(client), "200", "one");
    }
}

#[test]
fn a_response_that_was_removed_meanwhile_does_not_answer_in_place_of_an_error() {
    let mut site = site();
    let mut worker = site.worker();
    let control: &[FieldPair<'_>] = &[(b"Cache-Control", b"max-age=1, stale-if-error=60")];
    ask(&mut site, &mut worker, GET, control, "one");
    site.advance(5 * SECOND);
    let clients = [site.asking(GET), site.asking(GET)];
    let taken = worker.take();
    assert_eq!(purge(&mut site, None, None), 1);
    worker.answer_with(taken, 503, &[], "down");
    assert_response(&site.received(&clients[0]), "503", "down");
    let taken = worker.take();
    worker.worker.abandon(taken);
    assert!(site.received(&clients[1]).starts_with("HTTP/1.1 500 "));
}
