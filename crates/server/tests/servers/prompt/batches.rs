//! Responses of one batch are sent together; otherwise only the order of events differs.

use super::scenarios::harness::*;
use super::scenarios::response::*;
use oribi_io::Client;
use oribi_server::config::Settings;
use std::time::Duration;

/// Returns `count` clients that have each sent a request; the server has not received any of the requests yet.
fn ask_all(server: &Server, count: usize) -> Vec<Client> {
    let clients: Vec<Client> = (0..count).map(|_| server.connect()).collect();
    for client in &clients {
        client.send(GET);
    }
    clients
}

/// Returns `count` clients that have been answered once, and have each sent another request.
fn ask_again(server: &mut Server, count: usize) -> Vec<Client> {
    let clients = ask_all(server, count);
    server.run();
    for client in &clients {
        assert_eq!(read_only(&client.received()).status, 200);
        client.send(GET);
    }
    clients
}

#[test]
fn a_response_waits_for_the_others_of_its_batch_only() {
    let mut server = Server::standard(echo);
    let clients = ask_again(&mut server, 3);
    assert!(server.run_one() && server.run_one());
    assert!(clients[..2].iter().all(|client| client.received().is_empty()));
    server.run();
    for client in &clients {
        assert_eq!(read_only(&client.received()).body, b"GET / ");
    }
    // A lone client waits for no other.
    clients[0].send(GET);
    assert!(server.run_one());
    assert_eq!(read_only(&clients[0].received()).status, 200);
}

#[test]
fn a_batch_is_received_before_the_first_of_it_is_answered() {
    let mut server = Server::standard(echo);
    let clients = ask_again(&mut server, 3);
    let before = server.world.receives();
    assert!(server.run_one());
    assert_eq!(server.world.receives() - before, 3);
    // The bytes after it are received in their turn.
    clients[2].send(&get("/behind"));
    server.run();
    assert_eq!(server.world.receives() - before, 4);
    assert_eq!(read_all(&clients[2].received()).len(), 2);
}

#[test]
fn a_large_batch_leaves_in_parts() {
    let mut server = Server::standard(echo);
    let clients = ask_again(&mut server, 100);
    for _ in 0..50 {
        assert!(server.run_one());
    }
    assert!(clients.iter().any(|client| !client.received().is_empty()));
    server.run();
    let answered = ask_again(&mut server, 100);
    server.run();
    assert!(answered.iter().all(|client| read_only(&client.received()).status == 200));
}

#[test]
fn large_responses_do_not_wait() {
    let mut server = Server::standard(|_, reply| reply.send(ok(), &[&pattern(8000)]).expect("the client is there"));
    let clients = ask_again(&mut server, 2);
    assert!(server.run_one());
    assert!(clients.iter().any(|client| client.received().ends_with(&pattern(8000))));
}

#[test]
fn a_client_that_reads_slowly_gets_all_of_it_and_is_answered_again() {
    let mut server = Server::standard(echo);
    let clients = ask_again(&mut server, 3);
    clients[0].set_window(10);
    server.run();
    assert_eq!(clients[0].received().len(), 10);
    assert!(clients[1..].iter().all(|client| read_only(&client.received()).status == 200));
    // The client's next request must wait.
    clients[0].send(&get("/next"));
    server.run();
    assert_eq!(clients[0].received(), b"");
    clients[0].set_window(usize::MAX);
    server.run();
    let rest = clients[0].received();
    let responses = [b"HTTP/1.1 2".as_slice(), &rest].concat();
    let bodies: Vec<Vec<u8>> = read_all(&responses).into_iter().map(|response| response.body).collect();
    assert_eq!(bodies, [b"GET / ".to_vec(), b"GET /next ".to_vec()]);
}

#[test]
fn a_client_that_reads_nothing_has_its_time() {
    let mut settings = Settings::default();
    settings.timeouts.write = Duration::from_secs(5);
    let mut server = Server::new(settings, echo);
    let clients = ask_again(&mut server, 2);
    clients[0].set_window(0);
    server.run();
    server.advance(Duration::from_secs(4));
    assert_eq!((clients[0].closed(), server.connections()), (false, 2));
    server.advance(Duration::from_secs(2));
    assert_eq!((clients[0].closed(), server.connections()), (true, 1));
}

#[test]
fn what_else_happens_to_a_connection_comes_behind_its_response() {
    let mut server = Server::standard(echo);
    let clients = ask_again(&mut server, 4);
    clients[0].end();
    clients[1].send(&get("/pipelined"));
    clients[2].send(b"GARBAGE\r\n\r\n");
    server.run();
    assert_eq!(read_only(&clients[0].received()).status, 200);
    assert!(clients[0].closed() && !clients[0].saw_reset());
    let statuses = |client: &Client| read_all(&client.received()).iter().map(|response| response.status).collect::<Vec<_>>();
    assert_eq!(statuses(&clients[1]), [200, 200]);
    assert_eq!(statuses(&clients[2]), [200, 400]);
    assert_eq!(statuses(&clients[3]), [200]);
}

#[test]
fn who_goes_before_his_response_leaves_harms_nobody() {
    let mut server = Server::standard(echo);
    let clients = ask_again(&mut server, 3);
    assert!(server.run_one());
    clients.iter().take(2).for_each(Client::reset);
    server.run();
    assert_eq!(read_only(&clients[2].received()).status, 200);
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_command_to_stop_does_not_overtake_responses() {
    let mut server = Server::standard(echo);
    let clients = ask_again(&mut server, 2);
    assert!(server.run_one());
    server.stop(false);
    server.world.wake();
    server.run();
    for client in &clients {
        assert_eq!(read_only(&client.received()).status, 200);
    }
}

#[test]
fn an_end_that_is_found_in_the_same_round_does_not_lose_the_response() {
    let mut server = Server::standard(echo);
    let clients = ask_again(&mut server, 2);
    server.run();
    clients.iter().for_each(|client| drop(client.received()));
    // The request fills a buffer, so that the connection has a turn due in the next round.
    let head = post("/", &[]).len() + 4;
    clients[0].send(&post("/", &pattern((16 << 10) - head)));
    assert!(server.run_one());
    clients[0].send(&get("/held"));
    clients[0].end();
    clients[1].send(GET);
    drop(clients[0].received());
    assert!(server.run_one());
    assert_eq!(clients[0].received(), b"");
    server.run();
    assert_eq!(read_only(&clients[0].received()).body, b"GET /held ");
    assert!(clients[0].closed());
}
