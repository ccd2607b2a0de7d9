//! Tests channels whose messages each subscriber gets in an envelope of its own, and texts that are sent again and again.

use super::*;
use oribi_live::{Envelope, LARGEST_ENVELOPE};

const fn subscribe<'a>(channel: &'a [u8], prefix: &'a [u8], suffix: &'a [u8]) -> Command<'a> {
    Command::SubscribeWith { channel, envelope: Envelope { prefix, suffix } }
}

const fn publish(kind: Kind, payload: &[u8]) -> Command<'_> {
    Command::Publish { kind, channel: b"news", payload }
}

/// Gives commands during a request of another client.
#[track_caller]
fn command(site: &mut Site, app: &mut App, commands: &[Command<'_>]) {
    let other = site.asking(&get("/"));
    app.handle(commands);
    assert_response(&site.received(&other), "200", "");
}

/// The texts that a client gets.
#[track_caller]
fn texts(site: &mut Site, client: &Client) -> Vec<String> {
    let received = client_bytes(site, client);
    let (mut rest, mut found) = (&received[..], Vec::new());
    while let Some((&[0x81, size @ ..126], after)) = rest.split_first_chunk::<2>() {
        let (payload, after) = after.split_at(size.into());
        found.push(text(payload));
        rest = after;
    }
    assert!(rest.is_empty(), "{rest:?}");
    found
}

#[test]
fn each_subscriber_gets_a_text_in_its_own_envelopes() {
    let (mut site, mut app, one) = opened("", &[subscribe(b"news", b"<1 ", b">"), subscribe(b"news", b"<uno ", b"/>")]);
    let two = open(&mut site, &mut app, "", &[subscribe(b"news", b"<2 ", b">"), Command::Subscribe(b"news")]);
    let three = open(&mut site, &mut app, "", &[subscribe(b"news", b"<2 ", b">"), subscribe(b"sports", b"", b"")]);
    command(&mut site, &mut app, &[publish(Kind::Text, b"hi")]);
    let mut received = [&one, &two, &three].map(|client| texts(&mut site, client));
    received.iter_mut().for_each(|texts| texts.sort_unstable());
    assert_eq!(received, [vec!["<1 hi>", "<uno hi/>"], vec!["<2 hi>", "hi"], vec!["<2 hi>"]]);
    one.send(&masked(FrameKind::Text, b"leave"));
    site.run();
    let envelope = Envelope { prefix: b"<1 ", suffix: b">" };
    app.handle(&[
        Command::UnsubscribeWith { channel: b"news", envelope },
        Command::Unsubscribe(b"news"),
        publish(Kind::Text, b"bye"),
    ]);
    assert_eq!(texts(&mut site, &one), ["<uno bye/>"]);
}

#[test]
fn bytes_have_no_envelope() {
    let (mut site, mut app, client) = opened("", &[subscribe(b"news", b"<", b">")]);
    command(&mut site, &mut app, &[publish(Kind::Binary, b"\xff"), publish(Kind::Event, b"id: 1")]);
    assert_eq!(client_bytes(&mut site, &client), b"\x82\x01\xff");
}

#[test]
fn the_envelopes_of_a_connection_have_bounds() {
    const HEAD: usize = 4;
    let largest = vec![b'x'; LARGEST_ENVELOPE];
    let larger = vec![b'x'; LARGEST_ENVELOPE + 1];
    let (mut site, mut app, one) = opened("", &[subscribe(b"news", &larger, b""), subscribe(b"news", &largest, b"")]);
    command(&mut site, &mut app, &[publish(Kind::Text, b"")]);
    assert_eq!(client_bytes(&mut site, &one).len(), HEAD + LARGEST_ENVELOPE, "one is too large");
    let channels: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    let subscriptions = channels.iter().map(|name| subscribe(name.as_bytes(), &largest[4..], b""));
    let two = open(&mut site, &mut app, "", &subscriptions.collect::<Vec<_>>());
    let messages = channels.iter().map(|name| Command::Publish { kind: Kind::Text, channel: name.as_bytes(), payload: b"" });
    command(&mut site, &mut app, &messages.collect::<Vec<_>>());
    assert_eq!(client_bytes(&mut site, &two).len(), 8 * LARGEST_ENVELOPE, "64 KiB in all");
}

#[test]
fn all_subscribers_of_a_channel_are_closed_after_what_they_were_sent() {
    let (mut site, mut app, one) = opened("", &[Command::Subscribe(b"news")]);
    let two = open(&mut site, &mut app, "", &[]);
    let close = Command::CloseAll { channel: b"news", code: 1000, reason: b"" };
    command(&mut site, &mut app, &[publish(Kind::Text, b"bye"), close]);
    assert_eq!(client_bytes(&mut site, &one), b"\x81\x03bye\x88\x02\x03\xe8");
    assert_eq!(client_bytes(&mut site, &two), b"");
}

#[test]
fn a_silent_client_gets_a_text_again_and_again_without_a_worker() {
    let beat = |interval| Command::Beat { interval, text: b"beat" };
    let (mut site, mut app, client) = opened("", &[beat(3000)]);
    let wrong = open(&mut site, &mut app, "", &[beat(999), Command::Beat { interval: 3000, text: &[b'x'; 2000] }]);
    let mut count = 0;
    for _ in 0..12 {
        site.advance(Duration::from_secs(1));
        count += texts(&mut site, &client).len();
    }
    assert_eq!(count, 4);
    assert_eq!(texts(&mut site, &wrong), [""; 0]);
    client.send(&masked(FrameKind::Text, b"no more"));
    site.run();
    app.handle(&[beat(0)]);
    site.advance(Duration::from_secs(6));
    assert_eq!(texts(&mut site, &client), [""; 0]);
}

#[test]
fn an_edge_waits_for_nothing_when_those_who_got_a_text_have_gone() {
    let (mut site, _app, client) = opened("", &[Command::Beat { interval: 3000, text: b"beat" }]);
    site.advance(Duration::from_secs(3));
    client.reset();
    site.run();
    let live = site.edge.live.borrow();
    assert!(live.is_idle());
    assert_eq!(live.due(Duration::from_secs(100)), None);
}

#[test]
fn a_flood_of_messages_from_elsewhere_lets_an_edge_do_other_work() {
    const MESSAGES: usize = 100;
    let (mut site, mut app, one) = opened("", &[Command::Subscribe(b"news")]);
    let clients: Vec<Client> =
        (0..40).map(|_| open(&mut site, &mut app, "", &[Command::Subscribe(b"news")])).chain([one]).collect();
    let message = bytes(&[publish(Kind::Text, b"hi")]);
    (0..MESSAGES).for_each(|_| site.posts.outbox().deliver(&message).expect("there is room"));
    let now = site.edge.now();
    let is_behind = |site: &Site| site.edge.live.borrow().due(now) == Some(now);
    site.edge.receive_posts();
    assert!(is_behind(&site));
    site.run();
    for client in &clients {
        assert_eq!(texts(&mut site, client).len(), MESSAGES);
    }
    assert!(!is_behind(&site), "nothing is left");
}
