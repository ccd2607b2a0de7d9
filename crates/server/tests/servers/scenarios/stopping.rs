//! A server that stops finishes the requests that have begun and cuts off no client.

use super::harness::*;
use super::response::*;
use oribi_host::ReplyError;
use oribi_server::config::Settings;
use oribi_server::scoreboard::WorkerCommand;
use std::cell::RefCell;
use std::rc::Rc;

#[test]
fn an_empty_server_stops_at_once() {
    let mut server = Server::standard(echo);
    server.run();
    assert!(server.world.listening() && !server.finished());
    server.stop(true);
    assert!(server.finished());
    assert!(!server.world.listening());
    server.run();
}

#[test]
fn an_idle_client_may_still_ask_once() {
    let mut server = Server::standard(echo);
    let (asks, silent) = (server.connect(), server.connect());
    for client in [&asks, &silent] {
        assert!(!read_only(&server.exchange(client, GET)).closes());
    }
    server.stop(false);
    server.advance(SECOND - MOMENT);
    assert!(!silent.closed());
    assert!(read_only(&server.exchange(&asks, &get("/last"))).closes());
    assert!(asks.saw_end() && !asks.saw_reset());
    server.advance(MOMENT);
    assert!(silent.closed() && silent.saw_end());
    asks.end();
    server.run();
    assert!(server.finished());
}

#[test]
fn a_client_that_has_long_been_idle_has_its_second_from_the_stop_on() {
    let mut server = Server::standard(echo);
    let (asks, silent) = (server.connect(), server.connect());
    for client in [&asks, &silent] {
        assert!(!read_only(&server.exchange(client, GET)).closes());
    }
    server.advance(10 * SECOND);
    server.stop(false);
    server.advance(SECOND - MOMENT);
    assert!(!silent.closed());
    assert!(read_only(&server.exchange(&asks, &get("/last"))).closes());
    server.advance(MOMENT);
    assert!(silent.closed() && silent.saw_end());
}

#[test]
fn a_stop_gives_nobody_more_time_than_there_was() {
    let mut settings = Settings::default();
    settings.timeouts.keepalive = 10 * SECOND;
    let mut server = Server::new(settings, echo);
    let client = server.connect();
    assert!(!read_only(&server.exchange(&client, GET)).closes());
    server.advance(10 * SECOND - 2 * MOMENT);
    server.stop(false);
    server.advance(MOMENT);
    assert!(!client.closed());
    server.advance(MOMENT);
    assert!(client.closed() && client.saw_end());
}

#[test]
fn what_runs_is_finished() {
    let kept: Rc<RefCell<Vec<_>>> = Rc::default();
    let mut server = Server::standard(keep(&kept));
    let client = server.connect();
    client.send(GET);
    server.run();
    server.stop(false);
    server.advance(3600 * SECOND);
    assert!(!server.finished() && !client.closed());
    answer(&server, kept.borrow_mut().remove(0), "done");
    server.run();
    let response = read_only(&client.received());
    assert_eq!((response.text(), response.closes()), ("done", true));
    client.end();
    server.run();
    assert!(server.finished() && !client.saw_reset());
}

#[test]
fn a_command_that_meets_a_request_in_the_app_makes_it_the_last_of_its_connection() {
    let mut server = Server::standard(echo);
    let slot = server.slot;
    server.app(move |request, reply| {
        slot.set_command(WorkerCommand::Drain);
        echo(request, reply);
    });
    let client = server.connect();
    assert!(read_only(&server.exchange(&client, GET)).closes());
    assert!(client.saw_end() && !client.saw_reset());
}

#[test]
fn a_response_that_has_begun_is_finished() {
    let kept: Rc<RefCell<Vec<_>>> = Rc::default();
    let mut server = Server::standard(keep(&kept));
    let client = server.connect();
    client.send(GET);
    server.run();
    let exchange = kept.borrow_mut().remove(0);
    server.lane.source().start(exchange, ok()).expect("the client is there");
    server.lane.source().write(exchange, b"one ").expect("the client is there");
    server.stop(false);
    server.run();
    server.lane.source().write(exchange, b"two").expect("the client is there");
    server.lane.source().finish(exchange).expect("the client is there");
    server.run();
    assert_eq!(read_only(&client.received()).text(), "one two");
    // The response has announced that the connection stays open, so the server waits a moment for another request. The response
    // to that request would announce the end.
    assert!(!server.finished());
    assert_eq!(server.advance(SECOND), 1);
    assert!(server.finished() && client.saw_end());
}

#[test]
fn requests_on_their_way_are_answered_and_late_ones_refused() {
    let mut server = Server::standard(echo);
    let (complete, partial, empty) = (server.connect(), server.connect(), server.connect());
    complete.send(&GET[..9]);
    partial.send(&GET[..9]);
    server.run();
    server.stop(false);
    server.advance(4 * SECOND);
    assert!(read_only(&server.exchange(&complete, &GET[9..])).closes());
    server.advance(SECOND);
    assert_eq!(read_only(&partial.received()).status, 408);
    assert!(empty.closed());
    complete.end();
    partial.end();
    server.run();
    assert!(server.finished());
}

#[test]
fn the_queue_is_emptied_or_left_to_others() {
    for empty_queue in [true, false] {
        let mut server = Server::standard(echo);
        let clients: Vec<_> = (0..20).map(|_| server.connect()).collect();
        clients.iter().for_each(|client| client.send(GET));
        server.stop(empty_queue);
        server.run();
        assert_eq!(server.world.waiting(), if empty_queue { 0 } else { 20 });
        for client in &clients {
            if empty_queue {
                assert!(read_only(&client.received()).closes());
            } else {
                assert_eq!(client.received(), b"");
            }
            client.end();
        }
        server.run();
        assert!(server.finished());
    }
}

#[test]
fn pipelined_requests_get_one_more_answer_and_an_orderly_end() {
    let mut server = Server::standard(echo);
    let client = server.connect();
    server.run();
    server.stop(false);
    client.send(&[get("/1"), get("/2"), get("/3")].concat());
    server.run();
    let responses = read_all(&client.received());
    assert_eq!(responses.len(), 1);
    assert!(responses[0].closes() && client.saw_end() && !client.saw_reset());
    client.end();
    server.run();
    assert!(server.finished() && !client.saw_reset());
}

#[test]
fn stopping_twice_is_stopping() {
    let mut server = Server::standard(echo);
    let client = server.connect();
    assert_eq!(read_only(&server.exchange(&client, &post("/", b"x"))).text(), "POST / x");
    server.stop(false);
    server.stop(true);
    server.advance(SECOND);
    assert!(client.closed() && server.finished());
}

/// A request may arrive at the moment in which the server ends an idle connection. Its client must be able to see that the
/// request was not read. So the connection must end in an orderly way: a reset may also mean that an answer was lost.
#[test]
fn a_request_that_comes_in_the_moment_of_the_end_meets_no_reset() {
    for stops in [true, false] {
        let mut server = Server::standard(echo);
        let client = server.connect();
        assert!(!read_only(&server.exchange(&client, GET)).closes());
        client.send_late(GET);
        if stops {
            server.stop(false);
            server.advance(SECOND);
        } else {
            server.advance(Settings::default().timeouts.keepalive);
        }
        assert!(client.saw_end() && !client.saw_reset(), "{stops}");
        assert_eq!(client.received(), b"");
        client.end();
        server.run();
        assert_eq!((server.connections(), server.finished()), (0, stops));
        assert!(!client.saw_reset());
    }
}

/// Returns a server whose app streams to a slow client. While the app waits, its worker gets `command`; after that the client
/// continues to read.
fn held(command: WorkerCommand) -> (Server, oribi_io::Client, Rc<RefCell<Result<(), ReplyError>>>) {
    let mut settings = Settings::default();
    settings.limits.output_bytes = 1000;
    settings.limits.output_spool_bytes = 0;
    let outcome = Rc::new(RefCell::new(Ok(())));
    let seen = outcome.clone();
    let mut server = Server::new(settings, move |_, reply| {
        let mut writer = reply.start(ok()).expect("the client is there");
        let written = pattern(20_000).chunks(1000).try_for_each(|piece| writer.write(piece));
        *seen.borrow_mut() = written.and_then(|()| writer.finish());
    });
    let client = server.connect();
    client.set_window(100);
    client.send(GET);
    let (slot, world, wire) = (server.slot, server.world.clone(), client.clone());
    let mut turns = 0;
    server.meanwhile(move || {
        turns += 1;
        match turns {
            1 => {
                slot.set_command(command);
                world.wake();
            }
            2 => assert!(!world.listening(), "it takes no more connections"),
            _ => wire.set_window(1000),
        }
    });
    assert!(server.run_one());
    server.no_meanwhile();
    client.set_window(usize::MAX);
    (server, client, outcome)
}

#[test]
fn a_held_app_does_not_keep_its_server_from_stopping() {
    for command in [WorkerCommand::Drain, WorkerCommand::Retire] {
        let (mut server, client, outcome) = held(command);
        assert_eq!(*outcome.borrow(), Ok(()));
        server.run();
        assert_eq!(read_only(&client.received()).body, pattern(20_000));
        server.advance(SECOND);
        assert!(server.finished() && client.saw_end());
    }
}

#[test]
fn a_held_app_is_released_when_its_server_must_end_at_once() {
    let (server, client, outcome) = held(WorkerCommand::Quit);
    assert_eq!(*outcome.borrow(), Err(ReplyError::Gone));
    assert!(client.saw_reset());
    assert_eq!(server.connections(), 0);
}
