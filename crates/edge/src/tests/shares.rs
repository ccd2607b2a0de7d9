//! Tests the turns of connections: a connection with many requests leaves workers to others.

use super::clients::{record, records};
use super::streams::{OPENING, frame, get_on};
use super::*;
use oribi_stats::scoreboard::WorkerCommand;

/// More requests than are put into the queue in advance.
const MANY: u8 = 50;

/// Connects a client and sends a request on each of `count` streams. The target of a request is `name` and the number of the
/// stream, from 1 on.
fn crowd(site: &mut Site, name: char, count: u8) -> Client {
    let client = site.world.connect();
    client.send(OPENING);
    site.run();
    let _ = client.received();
    ask_on(site, &client, name, 1..=count);
    client
}

fn ask_on(site: &mut Site, client: &Client, name: char, numbers: std::ops::RangeInclusive<u8>) {
    let requests: Vec<u8> = numbers.flat_map(|number| get_on(2 * number - 1, &format!("/{name}{number}"))).collect();
    client.send(&requests);
    site.run();
}

/// Takes the next request, whose target must be `expected`.
#[track_caller]
fn take(app: &mut App, expected: &str) -> Taken {
    let taken = app.take();
    assert_eq!(app.seen(), format!("GET /{expected} "));
    taken
}

/// Takes the requests with these targets and answers them, one after the other.
#[track_caller]
fn take_all<T: AsRef<str>>(site: &mut Site, app: &mut App, expected: impl IntoIterator<Item = T>) {
    for expected in expected {
        let taken = take(app, expected.as_ref());
        app.answer(taken, expected.as_ref());
        site.run();
    }
}

fn names(name: char, numbers: std::ops::RangeInclusive<u8>) -> impl Iterator<Item = String> {
    numbers.map(move |number| format!("{name}{number}"))
}

#[test]
fn all_workers_are_for_a_connection_that_is_alone() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let client = crowd(&mut site, 'a', MANY);
    // The edge need not do anything between the requests.
    for name in names('a', 1..=MANY) {
        let taken = take(&mut app, &name);
        app.answer(taken, &name);
    }
    let received = site.received(&client);
    assert!(names('a', 1..=MANY).all(|name| received.contains(&name)));
}

#[test]
fn a_request_of_another_client_comes_before_those_that_wait() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let client = crowd(&mut site, 'a', MANY);
    let first = take(&mut app, "a1");
    let other = site.asking(&get("/b"));
    app.answer(first, "a1");
    take_all(&mut site, &mut app, ["b"]);
    assert_response(&site.received(&other), "200", "b");
    take_all(&mut site, &mut app, names('a', 2..=MANY));
    let received = site.received(&client);
    assert!(names('a', 2..=MANY).all(|name| received.contains(&name)));
}

#[test]
fn a_connection_without_a_worker_keeps_its_place() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let _busy = site.asking(&get("/busy"));
    let busy = take(&mut app, "busy");
    crowd(&mut site, 'a', 3);
    let _other = site.asking(&get("/b"));
    app.answer(busy, "busy");
    take_all(&mut site, &mut app, ["a1", "b", "a2", "a3"]);
}

#[test]
fn connections_take_turns() {
    let mut site = Site::standard();
    let _clients = ['a', 'c', 'e'].map(|name| crowd(&mut site, name, MANY));
    let mut app = site.worker();
    for number in 1..=MANY {
        let mut round = [(); 3].map(|()| {
            let taken = app.take();
            app.answer(taken, "an answer");
            site.run();
            app.seen()
        });
        round.sort();
        assert_eq!(round, ['a', 'c', 'e'].map(|name| format!("GET /{name}{number} ")));
    }
}

#[test]
fn no_request_makes_room_twice() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let _client = crowd(&mut site, 'a', MANY);
    let mut running = take(&mut app, "a1");
    for number in 1..10 {
        // Two new requests arrive for each answer, so their number grows.
        let clients = ["x", "y"].map(|name| site.asking(&get(&format!("/{name}{number}"))));
        app.answer(running, "an answer");
        site.run();
        running = app.take();
        drop(clients);
    }
    app.answer(running, "an answer");
    let mut seen = Vec::new();
    while let Some(taken) = app.worker.take() {
        app.stored.read(app.worker.request(&taken)).expect("a sensible request");
        seen.push(app.seen());
        app.answer(taken, "an answer");
        site.run();
    }
    let before = seen.iter().position(|seen| seen.contains("/x9")).expect("it is answered");
    assert!(seen[..before].iter().any(|seen| seen.contains("/a")), "{seen:?}");
}

#[test]
fn requests_of_a_connection_keep_their_order_when_they_come_one_by_one() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let client = crowd(&mut site, 'a', 1);
    let mut order = Vec::new();
    for number in 2..=40 {
        ask_on(&mut site, &client, 'a', number..=number);
        if number % 3 == 0 {
            let _other = site.asking(&get("/b"));
        }
        if number % 2 == 0 {
            let taken = app.take();
            order.push(app.seen());
            app.answer(taken, "an answer");
            site.run();
        }
    }
    while let Some(taken) = app.worker.take() {
        app.stored.read(app.worker.request(&taken)).expect("a sensible request");
        order.push(app.seen());
        app.answer(taken, "an answer");
        site.run();
    }
    let of_connection: Vec<&String> = order.iter().filter(|seen| seen.contains("/a")).collect();
    let expected: Vec<String> = names('a', 1..=40).map(|name| format!("GET /{name} ")).collect();
    assert_eq!(of_connection, expected.iter().collect::<Vec<_>>());
    assert_eq!(order.len(), 40 + 13);
}

/// A frame by which a client cancels a stream (RST_STREAM with CANCEL).
fn reset(number: u8) -> Vec<u8> {
    frame(3, 0, 2 * number - 1, &8_u32.to_be_bytes())
}

#[test]
fn a_request_that_its_client_gives_up_is_not_run_wherever_it_waits() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let client = crowd(&mut site, 'a', MANY);
    let first = take(&mut app, "a1");
    let _other = site.asking(&get("/b"));
    // Some of these requests are in the queue, and some are aside.
    let gone: Vec<u8> = (2..MANY).step_by(2).collect();
    client.send(&gone.iter().flat_map(|number| reset(*number)).collect::<Vec<u8>>());
    site.run();
    app.answer(first, "a1");
    take_all(&mut site, &mut app, ["b"]);
    take_all(&mut site, &mut app, names('a', 2..=MANY).filter(|name| !gone.iter().any(|gone| *name == format!("a{gone}"))));
    assert!(app.worker.take().is_none());
}

#[test]
fn the_requests_of_a_client_that_has_gone_are_gone() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let client = crowd(&mut site, 'a', MANY);
    let first = take(&mut app, "a1");
    let _other = site.asking(&get("/b"));
    client.reset();
    site.run();
    app.answer(first, "a1");
    take_all(&mut site, &mut app, ["b"]);
    assert!(app.worker.take().is_none());
    let next = crowd(&mut site, 'c', MANY);
    take_all(&mut site, &mut app, names('c', 1..=MANY));
    assert!(site.received(&next).contains("c50"));
}

#[test]
fn requests_that_are_not_in_the_queue_count_in_it() {
    let mut site = Site::new(&Settings { queue_limit: MANY.into(), ..Settings::default() });
    let mut app = site.worker();
    let _client = crowd(&mut site, 'a', MANY);
    let _first = take(&mut app, "a1");
    let waits = site.asking(&get("/b"));
    assert_eq!(site.received(&waits), "");
    let refused = site.asking(&get("/c"));
    assert_response(&site.received(&refused), "503", "Service Unavailable\n");
}

#[test]
fn requests_that_are_not_in_the_queue_wait_no_longer_than_others() {
    let mut site = Site::new(&Settings { queue_timeout: SECOND * 5, ..Settings::default() });
    let mut app = site.worker();
    let client = crowd(&mut site, 'a', MANY);
    let _first = take(&mut app, "a1");
    site.advance(SECOND * 2);
    let other = site.asking(&get("/b"));
    site.advance(SECOND * 2);
    assert!(!site.received(&client).contains("Unavailable"));
    site.advance(SECOND + MOMENT * 101);
    let received = site.received(&client);
    assert_eq!(received.matches("Service Unavailable").count(), usize::from(MANY) - 1);
    assert_eq!(site.received(&other), "");
    take_all(&mut site, &mut app, ["b"]);
    assert!(app.worker.take().is_none());
}

#[test]
fn an_app_that_came_first_by_its_turn_has_its_deadline() {
    let mut settings = Settings::default();
    settings.timeouts.request = SECOND * 3;
    let mut site = Site::new(&settings);
    let mut app = site.worker();
    let _client = crowd(&mut site, 'a', MANY);
    let first = take(&mut app, "a1");
    let other = site.asking(&get("/b"));
    app.answer(first, "a1");
    let _stuck = take(&mut app, "b");
    site.advance(SECOND * 3 + MOMENT * 50);
    assert_response(&site.received(&other), "504", "Gateway Timeout\n");
}

#[test]
fn an_edge_that_stops_answers_all_of_them() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let client = crowd(&mut site, 'a', MANY);
    let first = take(&mut app, "a1");
    let other = site.asking(&get("/b"));
    site.slot.set_command(WorkerCommand::Drain);
    site.world.wake();
    app.answer(first, "a1");
    take_all(&mut site, &mut app, ["b"]);
    assert!(site.received(&other).ends_with("\r\n\r\nb"));
    take_all(&mut site, &mut app, names('a', 2..=MANY));
    assert!(site.received(&client).contains("a50"));
}

#[test]
fn all_of_them_are_seen_to_wait() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let _client = crowd(&mut site, 'a', MANY);
    let _first = take(&mut app, "a1");
    let _other = site.asking(&get("/b"));
    let sightings = site.memory[0].inspect().expect("it can be read");
    let mut places: Vec<usize> = sightings
        .iter()
        .filter_map(|one| if let oribi_pool::RequestState::Queued(place) = one.state { Some(place) } else { None })
        .collect();
    places.sort_unstable();
    assert_eq!(places, (0..usize::from(MANY)).collect::<Vec<_>>());
}

#[test]
fn requests_whose_worker_died_are_tried_again_while_others_are_aside() {
    let mut site = Site::new(&Settings { retry_lost: true, ..Settings::default() });
    let mut app = site.worker();
    let client = crowd(&mut site, 'a', MANY);
    let _lost = take(&mut app, "a1");
    let other = site.asking(&get("/b"));
    site.run();
    site.report_death(0);
    let mut app = site.worker();
    take_all(&mut site, &mut app, ["b"]);
    assert_response(&site.received(&other), "200", "b");
    let mut answered = Vec::new();
    while site.edge.apps[0].table.used() > 0 {
        let taken = app.take();
        let name = app.seen()["GET /".len()..].trim_end().to_owned();
        if name == "a7" && !answered.contains(&name) {
            // The next worker also dies while another client waits.
            let third = site.asking(&get("/c"));
            site.report_death(0);
            app = site.worker();
            take_all(&mut site, &mut app, ["c"]);
            assert_response(&site.received(&third), "200", "c");
            answered.push(name);
            continue;
        }
        app.answer(taken, &name);
        answered.push(name);
        site.run();
    }
    answered.sort_unstable();
    let mut expected: Vec<String> = names('a', 1..=MANY).chain(["a7".to_owned()]).collect();
    expected.sort_unstable();
    assert_eq!(answered, expected, "each is answered once, and one has been lost before");
    let received = site.received(&client);
    assert!(names('a', 1..=MANY).all(|name| received.contains(&name)));
    assert_eq!(site.edge.apps[0].waiting_requests(), 0);
}

#[test]
fn the_requests_of_a_web_server_leave_workers_to_another() {
    let mut site = Site::new(&Settings { protocol: Protocol::FastCgi, ..Settings::default() });
    let mut app = site.worker();
    let requests: Vec<u8> = (1..=MANY).flat_map(|id| records(id, &format!("/a{id}"))).collect();
    let client = site.asking(&requests);
    let first = take(&mut app, "a1");
    let other = site.asking(&records(1, "/b"));
    app.answer(first, "a1");
    take_all(&mut site, &mut app, ["b"]);
    assert!(site.received(&other).contains("\r\n\r\nb"));
    // The web server aborts a waiting request.
    client.send(&record(2, 3, b""));
    site.run();
    take_all(&mut site, &mut app, names('a', 2..=MANY).filter(|name| name != "a3"));
    let received = site.received(&client);
    assert!(names('a', 4..=MANY).all(|name| received.contains(&name)));
}
