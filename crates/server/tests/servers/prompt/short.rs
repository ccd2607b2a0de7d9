//! A connection that ends with its first answer need not be opened at the backend.

use super::scenarios::harness::*;
use super::scenarios::response::*;
use oribi_io::Client;
use oribi_server::config::Settings;
use std::cell::RefCell;
use std::rc::Rc;

const SHORT: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// A client whose first bytes arrive before it is accepted.
fn ask(server: &mut Server, bytes: &[u8]) -> Client {
    let client = server.connect();
    client.send(bytes);
    server.run();
    client
}

#[test]
fn a_short_connection_is_never_opened() {
    let mut server = Server::standard(echo);
    for _ in 0..3 {
        let client = ask(&mut server, SHORT);
        let response = read_only(&client.received());
        assert!(response.status == 200 && response.closes());
        assert!(client.closed() && !client.saw_reset());
    }
    assert_eq!((server.world.opens(), server.connections()), (0, 0));
}

#[test]
fn connections_that_may_go_on_are_opened() {
    let mut server = Server::standard(echo);
    for (number, first) in [GET, &GET[..5], b""].into_iter().enumerate() {
        let client = ask(&mut server, first);
        assert_eq!(server.world.opens(), number + 1);
        client.send(&GET[first.len()..]);
        server.run();
        assert_eq!(read_only(&client.received()).status, 200);
        assert_eq!(read_only(&server.exchange(&client, GET)).status, 200);
    }
}

#[test]
fn a_client_that_reads_slowly_gets_all_of_it() {
    let mut server = Server::standard(|_, reply| reply.send(ok(), &[&pattern(3000)]).expect("the client is there"));
    let client = server.connect();
    client.set_window(10);
    client.send(SHORT);
    server.run();
    assert!(!client.closed());
    client.set_window(usize::MAX);
    server.run();
    assert_eq!(read_only(&client.received()).body, pattern(3000));
    assert!(client.closed() && !client.saw_reset());
}

#[test]
fn what_stands_behind_the_last_request_does_not_reset_the_answer() {
    let mut server = Server::standard(echo);
    let client = ask(&mut server, &[SHORT, b"what nobody reads"].concat());
    assert_eq!(read_only(&client.received()).status, 200);
    assert!(client.saw_end() && !client.closed());
    client.send(b"and more");
    client.end();
    server.run();
    assert!(client.closed() && !client.saw_reset());
}

#[test]
fn who_waits_for_an_answer_that_comes_later_is_heard_when_he_goes() {
    let kept = Rc::new(RefCell::new(Vec::new()));
    let mut server = Server::new(Settings::default(), keep(&kept));
    let client = ask(&mut server, SHORT);
    assert_eq!((server.world.opens(), server.connections()), (1, 1));
    client.reset();
    server.run();
    assert_eq!(server.connections(), 0);
}

#[test]
fn clients_that_send_late_are_soon_not_tried_any_more() {
    let mut server = Server::standard(echo);
    let late = |server: &mut Server| {
        let client = server.connect();
        server.run();
        client
    };
    let late: Vec<Client> = (0..100).map(|_| late(&mut server)).collect();
    let receives = server.world.vain_receives();
    assert!(receives < 10, "{receives}");
    for client in late {
        client.send(SHORT);
        server.run();
        assert_eq!(read_only(&client.received()).status, 200);
    }
    // The server notices when clients send early again.
    let opens = server.world.opens();
    (0..100).for_each(|_| drop(ask(&mut server, SHORT)));
    assert!(server.world.opens() - opens <= 64, "{}", server.world.opens() - opens);
}
