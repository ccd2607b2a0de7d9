//! Tests connections that stay open while no worker has anything to do with them.

mod drains;
mod ends;
mod envelopes;
mod farewells;

use super::*;
use oribi_live::{Command, Kind, Wants, event};
use oribi_pool::DescriptorRequest;
use oribi_stats::scoreboard::WorkerCommand;
use oribi_stats::totals::Counter;
use oribi_websocket::{Kind as FrameKind, client_frame};

const HANDSHAKE: &[u8] =
    b"GET /chat HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
const STREAM: &[u8] = b"GET /news HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n\r\n";
const EVENT_STREAM: FieldPair<'_> = (b"Content-Type", b"text/event-stream");

fn bytes(commands: &[Command<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    commands.iter().for_each(|command| command.write(&mut bytes));
    bytes
}

pub(super) fn masked(kind: FrameKind, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    client_frame(kind, payload, [1, 2, 3, 4], &mut bytes);
    bytes
}

pub(super) const fn send<'a>(payload: &'a str) -> Command<'a> {
    Command::Send { connection: 0, kind: Kind::Text, payload: payload.as_bytes() }
}

impl App {
    /// Gives commands during a request.
    #[track_caller]
    pub(super) fn command(&mut self, taken: &mut Taken, commands: &[Command<'_>]) {
        let bytes = bytes(commands);
        assert_eq!(self.worker.commands(taken, &bytes), bytes.len(), "there is room");
        self.worker.flush(taken);
    }

    /// Takes a request, gives commands, and answers with nothing.
    #[track_caller]
    pub(super) fn handle(&mut self, commands: &[Command<'_>]) {
        let mut taken = self.take();
        self.command(&mut taken, commands);
        self.answer(taken, "");
    }

    /// Takes a request, gives commands, and answers with the head of an event stream.
    #[track_caller]
    fn handle_stream(&mut self, commands: &[Command<'_>]) {
        let mut taken = self.take();
        self.command(&mut taken, commands);
        self.answer_with(taken, 200, &[EVENT_STREAM], "");
    }

    /// The kind of the event taken last, the name of its connection, its data and its payload.
    #[track_caller]
    pub(super) fn event(&self) -> (String, u64, String, String) {
        let request = self.stored.request(None, None).expect("all of it is in the slot");
        let field = |wanted: &str| {
            let found = request.head.fields().find(|(_, name, _)| *name == wanted.as_bytes());
            text(found.expect("each event has it").2)
        };
        let oribi_host::Content::Memory(content) = request.content else { panic!("an event has content") };
        let (data, payload) = event::split(content).expect("the content of an event");
        let name = u64::from_str_radix(&field(event::CONNECTION), 16).expect("digits");
        (field(event::EVENT), name, text(data), text(payload))
    }

    /// The number of messages that have not been sent, as the event taken last says.
    fn pending(&self) -> Option<String> {
        let request = self.stored.request(None, None).expect("all of it is in the slot");
        let mut fields = request.head.fields();
        fields.find(|(_, name, _)| *name == event::PENDING.as_bytes()).map(|(.., value)| text(value))
    }

    /// Takes an event of this kind, gives commands, and answers.
    #[track_caller]
    fn handle_event(&mut self, kind: &str, commands: &[Command<'_>]) {
        let mut taken = self.take();
        assert_eq!(self.event().0, kind);
        self.command(&mut taken, commands);
        self.answer(taken, "");
    }
}

/// A site with a client that has opened a WebSocket with `data`, after commands of the app.
#[track_caller]
fn opened(data: &str, commands: &[Command<'_>]) -> (Site, App, Client) {
    let mut site = Site::standard();
    let mut app = site.worker();
    let client = open(&mut site, &mut app, data, commands);
    (site, app, client)
}

#[track_caller]
fn open(site: &mut Site, app: &mut App, data: &str, commands: &[Command<'_>]) -> Client {
    let client = site.asking(HANDSHAKE);
    let accept = Command::Accept { fields: b"Sec-WebSocket-Protocol: chat\r\n", data: data.as_bytes() };
    app.handle(&[&[accept], commands].concat());
    let received = site.received(&client);
    let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
        Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: chat\r\n\r\n";
    assert!(received.starts_with(head), "{received}");
    client
}

#[test]
fn messages_reach_the_app_one_after_the_other_and_its_answers_the_client() {
    let (mut site, mut app, client) = opened("mine", &[]);
    assert_eq!(site.edge.apps[0].table.used(), 0, "no worker has anything to do with it");
    client.send(&[masked(FrameKind::Text, b"one"), masked(FrameKind::Binary, b"two")].concat());
    site.run();
    let mut taken = app.take();
    let (kind, name, data, payload) = app.event();
    assert_eq!((&*kind, &*data, &*payload), ("text", "mine", "one"));
    assert!(app.worker.take().is_none(), "the next one waits for the answer to the first");
    app.command(&mut taken, &[send("ONE"), Command::Data(b"changed")]);
    app.answer(taken, "ignored");
    assert_eq!(site.received(&client), "\u{fffd}\u{3}ONE");
    let taken = app.take();
    assert_eq!(app.event(), ("binary".to_owned(), name, "changed".to_owned(), "two".to_owned()));
    let head = app.stored.head();
    assert_eq!((head.method(), head.target()), (&b"GET"[..], &b"/chat"[..]), "the request of the handshake");
    app.answer(taken, "");
    assert_eq!(site.received(&client), "");
}

#[test]
fn a_message_goes_to_any_worker() {
    let (mut site, first, client) = opened("", &[]);
    drop(first);
    let mut other = site.worker();
    client.send(&masked(FrameKind::Text, b"hello"));
    site.run();
    other.handle(&[send("hi")]);
    assert_eq!(site.received(&client), "\u{fffd}\u{2}hi");
}

#[test]
fn a_message_that_is_larger_than_a_slot_comes_in_a_file() {
    let (mut site, mut app, client) = opened("mine", &[]);
    let message = vec![b'x'; 300_000];
    client.send(&masked(FrameKind::Binary, &message));
    site.run();
    let mut taken = app.take();
    app.worker.request_descriptor(&mut taken, DescriptorRequest::Content).expect("it has room");
    site.run();
    let file = app.worker.take_descriptor(&taken).expect("the line works").expect("the file has come");
    let content = read(file, message.len() + 8);
    assert!(event::split(&content) == Some((b"mine", &message)));
    app.command(&mut taken, &[Command::Send { connection: 0, kind: Kind::Binary, payload: b"read" }]);
    app.answer(taken, "");
    assert_eq!(client_bytes(&mut site, &client), b"\x82\x04read");
}

#[test]
fn events_that_find_no_room_wait_and_leave_room_for_others() {
    let mut site = Site::new(&Settings { queue_limit: 4, ..Settings::default() });
    let mut app = site.worker();
    let clients: Vec<Client> = (0..6).map(|_| open(&mut site, &mut app, "", &[])).collect();
    clients.iter().for_each(|client| client.send(&masked(FrameKind::Text, b"x")));
    site.run();
    assert_eq!(app.worker.queued(), 2, "half of the queue");
    let other = site.asking(GET);
    for _ in 0..2 {
        app.handle(&[send("y")]);
    }
    app.echo();
    assert_response(&site.received(&other), "200", "GET / ");
    for _ in 0..4 {
        site.run();
        app.handle(&[send("y")]);
    }
    for client in &clients {
        assert_eq!(site.received(client), "\u{fffd}\u{1}y");
    }
}

#[test]
fn either_side_may_close() {
    for data in ["", "mine"] {
        let (mut site, mut app, client) = opened(data, &[]);
        client.send(&masked(FrameKind::Close, b"\x03\xe8bye"));
        assert_eq!(client_bytes(&mut site, &client), b"\x88\x05\x03\xe8bye");
        assert_eq!(app.worker.has_queued(), !data.is_empty(), "an app without data expects no event");
        if !data.is_empty() {
            let taken = app.take();
            let (kind, .., payload) = app.event();
            assert_eq!((&*kind, payload.as_bytes().ends_with(b"bye")), ("close", true));
            app.answer(taken, "");
        }
        client.end();
        site.run();
        assert_eq!(site.edge.lane.source().connections(), 0);
    }
    let (mut site, mut app, client) = opened("mine", &[]);
    client.send(&masked(FrameKind::Text, b"quit"));
    site.run();
    app.handle(&[send("bye"), Command::Close { connection: 0, code: 4000, reason: b"done" }, send("late")]);
    assert_eq!(client_bytes(&mut site, &client), b"\x81\x03bye\x88\x06\x0f\xa0done");
    client.send(&masked(FrameKind::Close, b"\x0f\xa0"));
    site.run();
    let taken = app.take();
    assert_eq!(app.event().0, "close");
    app.answer(taken, "");
    client.end();
    site.run();
    assert!(site.edge.live.borrow().is_idle());
}

fn client_bytes(site: &mut Site, client: &Client) -> Vec<u8> {
    site.run();
    client.received()
}

#[test]
fn a_client_that_breaks_a_rule_or_leaves_is_known_to_the_app() {
    let (mut site, mut app, client) = opened("mine", &[]);
    client.send(b"\x81\x05hello");
    let received = client_bytes(&mut site, &client);
    assert_eq!((received[0], &received[2..4]), (0x88, &b"\x03\xea"[..]), "1002: the frame is not masked");
    let taken = app.take();
    assert_eq!((app.event().0, app.event().3.as_bytes()[0]), ("close".to_owned(), 3));
    app.answer(taken, "");
    let client = open(&mut site, &mut app, "mine", &[]);
    client.reset();
    site.run();
    let taken = app.take();
    assert_eq!(app.event().0, "close");
    app.answer(taken, "");
    site.run();
    assert!(site.edge.live.borrow().is_idle());
}

#[test]
fn messages_before_a_mistake_are_answered() {
    let (mut site, mut app, client) = opened("mine", &[]);
    client.send(&[&masked(FrameKind::Text, b"x").repeat(2)[..], b"\x81\x05hello", &masked(FrameKind::Text, b"late")].concat());
    site.run();
    app.handle_event("text", &[send("one")]);
    assert_eq!(client_bytes(&mut site, &client), b"\x81\x03one");
    client.send(&masked(FrameKind::Text, b"later"));
    site.run();
    app.handle_event("text", &[send("two")]);
    let received = client_bytes(&mut site, &client);
    assert_eq!((&received[..6], &received[7..9]), (&b"\x81\x03two\x88"[..], &b"\x03\xea"[..]), "1002 comes last");
    app.handle_event("close", &[]);
    client.end();
    site.run();
    assert!(site.edge.live.borrow().is_idle());
    assert_eq!(site.edge.lane.source().open_sockets(), 0);
    // The app closes the connection first, or its client has gone.
    for leaves in [false, true] {
        let (mut site, mut app, client) = opened("mine", &[]);
        client.send(&[&masked(FrameKind::Text, b"x")[..], b"\x81\x05hello"].concat());
        site.run();
        let mut taken = app.take();
        if leaves {
            client.reset();
            site.run();
        }
        app.command(&mut taken, &[Command::Close { connection: 0, code: 4000, reason: b"" }]);
        app.answer(taken, "");
        assert_eq!(client_bytes(&mut site, &client), if leaves { &b""[..] } else { b"\x88\x02\x0f\xa0" });
        app.handle_event("close", &[]);
        client.end();
        site.run();
        assert_eq!(site.edge.lane.source().open_sockets(), 0);
        assert!(site.edge.live.borrow().is_idle());
    }
}

#[test]
fn messages_to_a_channel_reach_those_who_have_subscribed() {
    let (mut site, mut app, one) = opened("", &[Command::Subscribe(b"news")]);
    let two = open(&mut site, &mut app, "", &[Command::Subscribe(b"news"), Command::Subscribe(b"sports")]);
    let three = open(&mut site, &mut app, "", &[]);
    let publisher = site.asking(&post("/publish", b""));
    let publish = |channel| Command::Publish { kind: Kind::Text, channel, payload: b"hi" };
    let mut taken = app.take();
    app.command(&mut taken, &[publish(b"news"), publish(b"nobody")]);
    app.answer(taken, "published");
    assert_response(&site.received(&publisher), "200", "published");
    let frame = "\u{fffd}\u{2}hi";
    assert_eq!([&one, &two, &three].map(|client| site.received(client)), [frame, frame, ""]);
    three.send(&masked(FrameKind::Text, b"x"));
    site.run();
    app.handle(&[publish(b"sports")]);
    one.send(&masked(FrameKind::Text, b"leave"));
    site.run();
    app.handle(&[Command::Unsubscribe(b"news"), publish(b"news")]);
    assert_eq!([&one, &two, &three].map(|client| site.received(client)), ["", &format!("{frame}{frame}"), ""]);
}

#[test]
fn an_app_reaches_a_connection_by_its_name() {
    let (mut site, mut app, client) = opened("", &[]);
    client.send(&masked(FrameKind::Text, b"x"));
    site.run();
    let taken = app.take();
    let name = app.event().1;
    app.answer(taken, "");
    let other = site.asking(&get("/"));
    let to = |connection| Command::Send { connection, kind: Kind::Text, payload: b"psst" };
    app.handle(&[to(name), to(name + 7), Command::Close { connection: name, code: 1000, reason: b"" }]);
    assert_response(&site.received(&other), "200", "");
    assert_eq!(client_bytes(&mut site, &client), b"\x81\x04psst\x88\x02\x03\xe8");
}

#[test]
fn a_handshake_that_is_none_is_refused() {
    let with = |from: &str, to: &str| text(HANDSHAKE).replace(from, to).into_bytes();
    for (request, status) in [
        (with("Version: 13", "Version: 12"), "426"),
        (with("Key: dGhlIHNhbXBsZSBub25jZQ==", "Key: short"), "400"),
        (with("Host: a", "Host: a\r\nOrigin: https://evil.example"), "403"),
        (with("Upgrade: websocket\r\n", ""), "200"),
        (with("Connection: Upgrade", "Connection: keep-alive"), "500"),
        (with("Upgrade: websocket\r\n", "Upgrade: h2c\r\n"), "500"),
        (with("Host: a", "Host: a\r\nOrigin: http://a"), "101"),
    ] {
        let mut site = Site::standard();
        let mut app = site.worker();
        let client = site.asking(&request);
        app.handle(&[Command::Accept { fields: b"", data: b"" }, Command::Subscribe(b"news")]);
        let received = site.received(&client);
        assert!(received.starts_with(&format!("HTTP/1.1 {status} ")), "not {status}: {received}");
    }
}

#[test]
fn a_worker_that_dies_closes_the_connection_of_its_message_only() {
    let (mut site, mut app, one) = opened("", &[]);
    let two = open(&mut site, &mut app, "", &[]);
    one.send(&masked(FrameKind::Text, b"poison"));
    site.run();
    let _taken = app.take();
    site.edge.apps[0].pool.report_death(0);
    site.edge.apps[0].handle_answers(true);
    assert_eq!(client_bytes(&mut site, &one), b"\x88\x02\x03\xf3");
    let mut next = site.worker();
    two.send(&masked(FrameKind::Text, b"x"));
    site.run();
    next.handle(&[send("y")]);
    assert_eq!(site.received(&two), "\u{fffd}\u{1}y");
}

#[test]
fn silent_clients_are_pinged_and_those_that_do_not_answer_are_cut_off() {
    let (mut site, mut app, client) = opened("mine", &[]);
    let other = open(&mut site, &mut app, "", &[]);
    site.advance(SECOND * 31);
    assert_eq!((client_bytes(&mut site, &client), client_bytes(&mut site, &other)), (b"\x89\0".to_vec(), b"\x89\0".to_vec()));
    other.send(&masked(FrameKind::Pong, b""));
    site.advance(SECOND * 31);
    assert_eq!(client_bytes(&mut site, &other), b"\x89\0");
    assert_eq!(site.slot.account.read().of(Counter::WebsocketsSilent), 1);
    let taken = app.take();
    let (kind, .., payload) = app.event();
    assert_eq!((&*kind, payload.as_bytes()[0]), ("close", 3), "1006: it left without a word");
    app.answer(taken, "");
    site.run();
    assert_eq!(site.edge.lane.source().open_sockets(), 1);
}

#[test]
fn a_client_whose_app_was_busy_is_pinged_before_it_is_cut_off() {
    let (mut site, mut app, client) = opened("mine", &[]);
    // So many messages may wait for the app, and no byte is read behind them.
    client.send(&masked(FrameKind::Text, b"x").repeat(16));
    site.run();
    let taken = app.take();
    site.advance(SECOND * 46);
    assert_eq!(client_bytes(&mut site, &client), b"", "the app is busy");
    app.answer(taken, "");
    for _ in 0..15 {
        site.run();
        app.handle(&[]);
    }
    site.advance(SECOND * 31);
    assert_eq!(client_bytes(&mut site, &client), b"\x89\0");
    assert_eq!(site.edge.lane.source().open_sockets(), 1);
    site.advance(SECOND * 31);
    assert_eq!(site.slot.account.read().of(Counter::WebsocketsSilent), 1);
    assert_eq!(site.edge.lane.source().open_sockets(), 0);
}

#[test]
fn an_event_that_is_larger_than_the_buffer_arrives() {
    let mut settings = Settings::default();
    settings.websocket.buffer_bytes = 50_000;
    // Bytes in temporary files count, too.
    settings.limits.output_bytes = 10_000;
    let mut site = Site::new(&settings);
    let mut app = site.worker();
    let client = site.asking(STREAM);
    app.handle_stream(&[Command::Hold { data: b"mine" }, Command::Subscribe(b"news")]);
    assert!(site.received(&client).starts_with("HTTP/1.1 200 "));
    let payload = vec![b'x'; 150_000];
    let publish = Command::Publish { kind: Kind::Text, channel: b"news", payload: &payload };
    client.set_window(1000);
    for _ in 0..2 {
        let publisher = site.asking(&post("/", b""));
        app.handle(&[publish]);
        assert_response(&site.received(&publisher), "200", "");
        client.set_window(1_000_000);
        assert_eq!(site.received(&client).matches('x').count(), payload.len());
        client.set_window(1000);
    }
    assert_eq!(site.slot.account.read().of(Counter::LimitWebsocketBuffer), 0);
    // The client has had its time for the first of two.
    client.set_window(0);
    for _ in 0..2 {
        let publisher = site.asking(&post("/", b""));
        app.handle(&[publish]);
        assert_response(&site.received(&publisher), "200", "");
    }
    assert_eq!(site.slot.account.read().of(Counter::LimitWebsocketBuffer), 1);
}

#[test]
fn a_client_that_takes_nothing_is_cut_off_and_does_not_delay_others() {
    let settings = Settings::default();
    let most = settings.websocket.buffer_bytes;
    let mut site = Site::new(&settings);
    let mut app = site.worker();
    let slow = open(&mut site, &mut app, "", &[Command::Subscribe(b"news")]);
    let other = open(&mut site, &mut app, "", &[Command::Subscribe(b"news")]);
    slow.set_window(0);
    let payload = vec![b'x'; 100_000];
    let mut seen = 0;
    for _ in 0..most / payload.len() + 4 {
        let publisher = site.asking(&post("/", b""));
        app.handle(&[Command::Publish { kind: Kind::Binary, channel: b"news", payload: &payload }]);
        assert_response(&site.received(&publisher), "200", "");
        seen += client_bytes(&mut site, &other).len();
    }
    assert_eq!(seen, (most / payload.len() + 4) * (payload.len() + 10));
    assert_eq!(site.edge.lane.source().open_sockets(), 1);
}

#[test]
fn a_response_that_is_held_stays_open_as_a_stream_of_events() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let client = site.asking(STREAM);
    let mut taken = app.take();
    app.command(&mut taken, &[Command::Hold { data: b"mine" }, Command::Subscribe(b"news"), send("early")]);
    app.answer_with(taken, 200, &[EVENT_STREAM, (b"Content-Length", b"0")], "");
    let received = site.received(&client);
    assert!(received.starts_with("HTTP/1.1 200 OK\r\n") && received.contains("chunked"), "{received}");
    assert!(received.ends_with("\r\n\r\nd\r\ndata: early\n\n\r\n"), "{received}");
    assert_eq!(site.edge.apps[0].table.used(), 0);
    let publisher = site.asking(&post("/", b""));
    app.handle(&[
        Command::Publish { kind: Kind::Text, channel: b"news", payload: b"one\ntwo" },
        Command::Publish { kind: Kind::Event, channel: b"news", payload: b"id: 7\ndata: x" },
        Command::Publish { kind: Kind::Binary, channel: b"news", payload: b"\xff" },
    ]);
    assert_response(&site.received(&publisher), "200", "");
    let received = site.received(&client);
    assert_eq!(received.matches("data: one\ndata: two\n\n").count(), 1, "{received}");
    assert_eq!(received.matches("id: 7\ndata: x\n\n").count(), 1, "{received}");
    site.advance(SECOND * 31);
    assert!(site.received(&client).contains(":\n\n"), "a comment");
    client.reset();
    site.run();
    let taken = app.take();
    assert_eq!((app.event().0, app.event().2), ("close".to_owned(), "mine".to_owned()));
    app.answer(taken, "");
    site.run();
    assert!(site.edge.live.borrow().is_idle());
}

#[test]
fn a_stream_that_its_app_closes_at_once_ends_after_its_messages() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let client = site.asking(STREAM);
    let mut taken = app.take();
    let close = Command::Close { connection: 0, code: 1000, reason: b"" };
    app.command(&mut taken, &[Command::Hold { data: b"" }, send("bye"), close]);
    app.answer_with(taken, 200, &[EVENT_STREAM], "");
    let received = site.received(&client);
    assert!(received.ends_with("data: bye\n\n\r\n0\r\n\r\n"), "{received}");
    assert!(site.edge.live.borrow().is_idle());
}

#[test]
fn fields_of_the_handshake_are_not_the_apps() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let client = site.asking(HANDSHAKE);
    let fields = b"upgrade: h2c\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nContent-Length: 7\r\nSet-Cookie: a=b\r\n";
    app.handle(&[Command::Accept { fields, data: b"" }]);
    let received = site.received(&client).to_ascii_lowercase();
    assert!(received.starts_with("http/1.1 101 ") && received.contains("set-cookie: a=b\r\n"), "{received}");
    assert_eq!((received.matches("upgrade: ").count(), received.matches("connection: ").count()), (1, 1), "{received}");
    assert!(!received.contains("transfer-encoding") && !received.contains("content-length"), "{received}");
}

#[test]
fn a_streamed_response_may_also_be_held() {
    let mut site = Site::standard();
    let mut app = site.worker();
    let client = site.asking(STREAM);
    let mut taken = app.take();
    app.command(&mut taken, &[Command::Hold { data: b"" }, Command::Subscribe(b"news")]);
    app.worker.head(&mut taken, &head(200, &[EVENT_STREAM], Content::Started)).expect("room");
    app.worker.content(&mut taken, b"data: first\n\n");
    app.worker.finish(taken);
    let received = site.received(&client);
    assert!(received.ends_with("d\r\ndata: first\n\n\r\n"), "{received}");
    let publisher = site.asking(&post("/", b""));
    app.handle(&[Command::Publish { kind: Kind::Text, channel: b"news", payload: b"next" }]);
    assert_response(&site.received(&publisher), "200", "");
    assert_eq!(site.received(&client), "c\r\ndata: next\n\n\r\n");
}

#[test]
fn a_server_that_stops_says_so() {
    let (mut site, mut app, client) = opened("", &[]);
    let stream = site.asking(STREAM);
    let mut taken = app.take();
    app.command(&mut taken, &[Command::Hold { data: b"" }]);
    app.answer_with(taken, 200, &[EVENT_STREAM], "");
    site.run();
    assert!(text(&stream.received()).starts_with("HTTP/1.1 200 "));
    site.slot.set_command(WorkerCommand::Drain);
    site.world.wake();
    site.run();
    assert_eq!(client.received(), b"\x88\x02\x03\xe9");
    assert_eq!(text(&stream.received()), "0\r\n\r\n");
    client.send(&masked(FrameKind::Close, b"\x03\xe9"));
    client.end();
    stream.end();
    site.advance(SECOND * 2);
    assert!(!site.run(), "nothing keeps it");
}

#[test]
fn an_app_hears_of_clients_that_leave_while_the_server_stops() {
    let (mut site, mut app, client) = opened("mine", &[]);
    site.slot.set_command(WorkerCommand::Drain);
    site.world.wake();
    site.run();
    client.send(&masked(FrameKind::Close, b"\x03\xe9"));
    client.end();
    for _ in 0..MANY {
        assert!(site.edge.turn().expect("this backend cannot fail"), "it waits for the app");
        if app.worker.has_queued() {
            break;
        }
    }
    let taken = app.take();
    assert_eq!(app.event().0, "close");
    app.answer(taken, "");
    assert!((0..MANY).any(|_| !site.edge.turn().expect("this backend cannot fail")), "nothing keeps it any more");
}
