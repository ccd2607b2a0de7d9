//! Clients whose answers stay open, as those of clients that follow a feed. They must not delay other clients. Also tests
//! answers that do not end well.

use crate::connection::Connection;
use crate::language::{Language, Site, edge};
use crate::server::wait_until;
use crate::steered::Steered;
use crate::turn;
use oribi_io::Model;
use rustix::process::{Pid, Signal, kill_process};

crate::in_language!(
    perl,
    Perl,
    followers_stop_nobody,
    followers_that_have_left_free_their_areas,
    an_app_that_executes_another_program_costs_its_own_requests,
    half_of_an_answer_never_looks_whole,
    an_answer_that_ends_with_its_connection_is_whole
);
crate::in_language!(
    ruby,
    Ruby,
    followers_stop_nobody,
    followers_that_have_left_free_their_areas,
    an_app_that_executes_another_program_costs_its_own_requests,
    half_of_an_answer_never_looks_whole,
    an_answer_that_ends_with_its_connection_is_whole,
    an_edge_has_the_io_model_that_was_asked_for
);

/// More responses than there are large areas for a worker.
const MANY: usize = 80;

fn kill(process: u32) {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(process, Signal::KILL).expect("it is ours");
}

fn follow(site: &Site, count: usize) -> Vec<Connection> {
    let all = (0..count).map(|number| {
        let mut connection = Connection::open(site.address);
        connection.ask(&format!("/follow?{number}"));
        connection
    });
    let mut all: Vec<Connection> = all.collect();
    for connection in &mut all {
        connection.receive_until("data: ").expect("its first event");
    }
    all
}

fn news(site: &Site) -> usize {
    let response = Connection::open(site.address).get("/news?0");
    String::from_utf8_lossy(&response.content).trim().parse().expect("a number")
}

fn followers_stop_nobody(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "1", "--threads", "1"]);
    let mut all = follow(&site, MANY);
    Connection::open(site.address).get_fast(1);
    assert_eq!(news(&site), MANY);
    for connection in &mut all {
        connection.receive_until("data: news").expect("its second event");
    }
    Connection::open(site.address).get_fast(2);
}

fn followers_that_have_left_free_their_areas(language: Language) {
    let _turn = turn::beside_others();
    let steered = Steered::start(language, &["--workers", "1", "--threads", "1"]);
    let site = &steered.site;
    let mut all = follow(site, 30);
    let open = || steered.list("requests", "requests").iter().filter(|row| row["target"] == "/follow?...").count();
    wait_until("all are known", || open() == 30);
    // A reset is news by itself.
    all.drain(..10).for_each(Connection::reset);
    wait_until("those that were reset have no areas any more", || open() == 20);
    // An end is not reported: the client may wait for more. It refuses the next event.
    all.drain(..10).for_each(drop);
    wait_until("the app learns who has left", || news(site) == 10);
    wait_until("they have no areas any more", || open() == 10);
    for connection in &mut all {
        connection.receive_until("data: news").expect("those that have stayed get their events");
    }
    Connection::open(site.address).get_fast(1);
}

fn an_app_that_executes_another_program_costs_its_own_requests(language: Language) {
    let _turn = turn::beside_others();
    let mut site = language.start(&["--workers", "1", "--threads", "1"]);
    let mut followers = follow(&site, 1);
    let mut connection = Connection::open(site.address);
    connection.ask("/exec?1");
    let process = site.wait_inside(1);
    assert_eq!(connection.answer().0.status, 502);
    assert!(followers[0].receive_until("an end").is_err(), "its answer is cut");
    site.server.wait_for_log("has become another program");
    Connection::open(site.address).get_fast(1);
    let program = std::fs::read_to_string(format!("/proc/{process}/comm")).expect("the program is left alone");
    assert_eq!(program.trim(), "sleep");
    kill(process);
}

fn half_of_an_answer_never_looks_whole(language: Language) {
    let _turn = turn::beside_others();
    for edge in ["on", "off"] {
        let site = language.start(&["--workers", "1", "--threads", "1", "--edge", edge]);
        let mut connection = Connection::open(site.address);
        // Nothing but the end of the connection ends it.
        connection.send(b"GET /follow?1 HTTP/1.0\r\n\r\n");
        connection.receive_until("data: 1").expect("its first event");
        let killed = if edge == "on" { site.edges() } else { site.workers() };
        assert_eq!(killed.len(), 1);
        kill(killed[0]);
        let outcome = connection.receive(1000);
        assert!(outcome.is_err(), "--edge {edge}: {outcome:?}");
    }
}

fn an_answer_that_ends_with_its_connection_is_whole(language: Language) {
    let _turn = turn::beside_others();
    for edge in [edge(), "off".into()] {
        let site = language.start(&["--workers", "1", "--edge", &edge]);
        let mut connection = Connection::open(site.address);
        connection.send(b"GET /stream?1&3000000&30 HTTP/1.0\r\n\r\n");
        let mut received = 0;
        loop {
            match connection.receive(65_536).expect("it ends well") {
                0 => break,
                count => received += count,
            }
        }
        assert!(received > 3_000_000, "--edge {edge}: {received}");
    }
}

/// This also holds for a language whose threads share a lane, because only the workers have such lanes.
fn an_edge_has_the_io_model_that_was_asked_for(language: Language) {
    let _turn = turn::beside_others();
    for model in Model::built_in().map(Model::name) {
        let mut site = language.start(&["--workers", "1", "--io", model]);
        site.server.wait_for_log(&format!("I/O by {model}"));
        follow(&site, 2);
        Connection::open(site.address).get_fast(1);
    }
}
