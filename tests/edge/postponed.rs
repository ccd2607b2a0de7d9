//! Workers are replaced while apps have many answers put off: event streams, and responses that come later. No request stays
//! without an answer, no answer looks whole that is not, and the old worker ends when its answers have ended.

use crate::connection::Connection;
use crate::http2_streams::{Outcome, Streams};
use crate::language::{Language, Site};
use crate::load::{Load, Manner, Opened, Plan, Question};
use crate::response::Response;
use crate::server::{children, is_first, runs, wait_for, wait_until};
use crate::turn;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::time::Duration;

crate::in_language!(
    perl,
    Perl,
    a_reload_waits_for_postponed_answers,
    recycling_waits_for_postponed_answers,
    an_upgrade_waits_for_postponed_answers,
    reloads_in_a_row_leave_all_streams_alone,
    streams_on_one_connection_outlast_their_worker,
    postponed_answers_are_cut_off_at_the_graceful_timeout
);
crate::in_language!(
    ruby,
    Ruby,
    a_reload_waits_for_postponed_answers,
    recycling_waits_for_postponed_answers,
    an_upgrade_waits_for_postponed_answers,
    reloads_in_a_row_leave_all_streams_alone,
    streams_on_one_connection_outlast_their_worker,
    postponed_answers_are_cut_off_at_the_graceful_timeout
);

const SHAPES: [&str; 2] = ["on", "off"];

/// More streams than there are large areas for a worker.
const FEEDS: u64 = 90;

/// Responses that an app gives later. Only PSGI has them.
const LATER: u64 = 20;

/// A number of requests that is larger than that of all postponed answers.
const ENOUGH: &str = "200";

/// Clients of one worker whose answers are postponed.
struct Postponed {
    worker: u32,
    feeds: Vec<(u64, Connection)>,
    later: Vec<(u64, Connection)>,
}

impl Postponed {
    /// Opens the connections. Their answers have numbers from `first` on, and wait in the only worker of the site.
    fn open(site: &Site, language: Language, first: u64) -> Self {
        let worker = Connection::open(site.address).get_fast(0).worker();
        let ask = |(number, path)| {
            let mut connection = Connection::open(site.address);
            connection.ask(&format!("/{path}?{number}"));
            (number, connection)
        };
        let mut feeds: Vec<_> = (first..first + FEEDS).map(|number| ask((number, "feed"))).collect();
        let count = if language == Language::Perl { LATER } else { 0 };
        let later: Vec<_> = (first + FEEDS..first + FEEDS + count).map(|number| ask((number, "later"))).collect();
        for (number, feed) in &mut feeds {
            if has_another(*number) {
                feed.ask(&format!("/fast?{number}"));
            }
            feed.receive_times(&format!("begins {number}\n"), 1).unwrap_or_else(|why| panic!("{why}"));
        }
        for (number, _) in &later {
            assert_eq!(site.wait_inside(*number), worker);
        }
        Self { worker, feeds, later }
    }

    /// Waits until each stream has gone on for a while.
    fn go_on(&mut self) {
        for (number, feed) in &mut self.feeds {
            let piece = format!("goes on {number}\n");
            let so_far = feed.count_of(&piece);
            feed.receive_times(&piece, so_far + 2).unwrap_or_else(|why| panic!("stream {number}: {why}"));
        }
    }

    /// Receives the answers, which have been allowed to end. Checks that each is whole, and comes from the old worker.
    fn finish(&mut self) {
        for (number, feed) in &mut self.feeds {
            let response = feed.response(false).unwrap_or_else(|why| panic!("stream {number}: {why}"));
            assert_eq!((response.status, response.worker()), (200, self.worker));
            check_feed(*number, &response.content);
            if has_another(*number) {
                let response = feed.response(false).unwrap_or_else(|why| panic!("behind stream {number}: {why}"));
                assert_eq!((response.status, response.content), (200, format!("fast {number}\n").into_bytes()));
            }
        }
        for (number, later) in &mut self.later {
            let response = later.response(false).unwrap_or_else(|why| panic!("answer {number}: {why}"));
            assert_eq!((response.status, response.worker()), (200, self.worker));
            assert_eq!(response.content, format!("later {number}\n").as_bytes());
        }
    }

    fn connections(&mut self) -> impl Iterator<Item = &mut Connection> {
        self.feeds.iter_mut().chain(&mut self.later).map(|(_, connection)| connection)
    }
}

/// Whether another request of the client has followed that for stream `number`, without a wait for the answer.
fn has_another(number: u64) -> bool {
    number.is_multiple_of(10)
}

/// Checks the content of a stream from its first piece to its last one.
fn check_feed(number: u64, content: &[u8]) {
    let text = String::from_utf8_lossy(content);
    let middle =
        text.strip_prefix(&format!("begins {number}\n")).and_then(|rest| rest.strip_suffix(&format!("ends {number}\n")));
    let middle = middle.unwrap_or_else(|| panic!("stream {number}: {text}"));
    assert_eq!(middle.replace(&format!("goes on {number}\n"), ""), "", "stream {number}");
}

fn start(language: Language, edge: &str, more: &[&str]) -> Site {
    language.start(&[&["--workers", "1", "--threads", "1", "--edge", edge], more].concat())
}

/// Requests that are answered at once, beside the others. Without an edge, connections end with their worker.
fn load(site: &Site, edge: &str) -> Load {
    let manner = if edge == "on" { Manner::Kept } else { Manner::Parting };
    let plan = Plan { connections: 4, pace: Some(Duration::from_millis(2)), requests: None, question: Question::fast };
    Opened::new(site.address, plan.connections).behave(manner).begin(plan)
}

/// Lets all postponed answers end, of all workers and from now on.
fn let_end(site: &Site) {
    std::fs::write(site.file("inside").join("end"), "").expect("the folder is writable");
}

/// Waits until another worker answers, and the old one has the order to end.
fn wait_for_other(site: &Site, load: &Load, old: u32) {
    let _ = load.workers();
    wait_until("only another worker answers", || {
        load.wait_for_more(20);
        let now = load.workers();
        !now.is_empty() && !now.contains(&old)
    });
    assert!(runs(old), "it waits for its answers: {}", site.server.log());
}

fn end_of(worker: u32, site: &Site) {
    wait_until("the old worker ends with its last answer", || !runs(worker));
    let log = site.server.log();
    assert!(!log.contains("[error]") && !log.contains("time to finish is over"), "{log}");
}

/// Closes the connections. With an edge, they serve on before that, by other workers.
fn check_connections(edge: &str, mut postponed: Postponed) {
    let worker = postponed.worker;
    if edge == "on" {
        for connection in postponed.connections() {
            assert_ne!(connection.get_fast(7).worker(), worker);
        }
    }
}

fn a_reload_waits_for_postponed_answers(language: Language) {
    let _turn = turn::beside_others();
    for edge in SHAPES {
        let mut site = start(language, edge, &[]);
        let mut postponed = Postponed::open(&site, language, 1);
        let load = load(&site, edge);
        site.server.signal(Signal::HUP);
        wait_for_other(&site, &load, postponed.worker);
        postponed.go_on();
        let_end(&site);
        postponed.finish();
        let worker = postponed.worker;
        check_connections(edge, postponed);
        end_of(worker, &site);
        load.stop().must_be_perfect("requests during a reload");
        stop(&mut site);
    }
}

fn recycling_waits_for_postponed_answers(language: Language) {
    let _turn = turn::beside_others();
    for edge in SHAPES {
        let mut site = start(language, edge, &["--max-requests", ENOUGH]);
        let mut postponed = Postponed::open(&site, language, 1);
        let load = load(&site, edge);
        wait_for_other(&site, &load, postponed.worker);
        postponed.go_on();
        let_end(&site);
        postponed.finish();
        let worker = postponed.worker;
        check_connections(edge, postponed);
        end_of(worker, &site);
        load.stop().must_be_perfect("requests while workers are recycled");
        stop(&mut site);
    }
}

fn an_upgrade_waits_for_postponed_answers(language: Language) {
    let _turn = turn::beside_others();
    for edge in SHAPES {
        let mut site = start(language, edge, &[]);
        let mut postponed = Postponed::open(&site, language, 1);
        let load = load(&site, edge);
        site.server.signal(Signal::USR2);
        wait_for_other(&site, &load, postponed.worker);
        postponed.go_on();
        let_end(&site);
        postponed.finish();
        let worker = postponed.worker;
        check_connections(edge, postponed);
        end_of(worker, &site);
        wait_for("only the new server is left", || match children(site.server.pid())[..] {
            [only] if is_first(only) => Some(only),
            _ => None,
        });
        load.stop().must_be_perfect("requests during an upgrade");
        stop(&mut site);
    }
}

/// Each generation has streams when the next one takes over.
fn reloads_in_a_row_leave_all_streams_alone(language: Language) {
    let _turn = turn::beside_others();
    for edge in SHAPES {
        let mut site = start(language, edge, &[]);
        let load = load(&site, edge);
        let mut generations: Vec<Postponed> = Vec::new();
        for number in 0..3 {
            let postponed = Postponed::open(&site, language, 1 + 1000 * number);
            site.server.signal(Signal::HUP);
            wait_for_other(&site, &load, postponed.worker);
            generations.push(postponed);
            generations.iter_mut().for_each(Postponed::go_on);
        }
        let_end(&site);
        for mut postponed in generations {
            postponed.finish();
            let worker = postponed.worker;
            drop(postponed);
            end_of(worker, &site);
        }
        load.stop().must_be_perfect("requests during reloads");
        stop(&mut site);
    }
}

/// The streams are those of HTTP/2, on one connection.
fn streams_on_one_connection_outlast_their_worker(language: Language) {
    let _turn = turn::beside_others();
    for (edge, signal) in SHAPES.iter().flat_map(|edge| [(edge, Signal::HUP), (edge, Signal::USR2)]) {
        let mut site = start(language, edge, &[]);
        let worker = Connection::open(site.address).get_fast(0).worker();
        let mut streams = Streams::connect(site.address).expect("the server listens");
        let ask = |number| (streams.ask("GET", &format!("/feed?{number}"), &[]).expect("the server listens"), number);
        let mut feeds: BTreeMap<u32, u64> = (1..=FEEDS).map(ask).collect();
        receive_more(&mut streams, &feeds);
        let load = load(&site, edge);
        site.server.signal(signal);
        wait_for_other(&site, &load, worker);
        receive_more(&mut streams, &feeds);
        let_end(&site);
        while !feeds.is_empty() {
            let done = streams.take().expect("the server answers").expect("requests are open");
            let number = feeds.remove(&done.number).expect("it is one of them");
            let Outcome::Answered { status: 200, content, .. } = done.outcome else { panic!("stream {number}: {done:?}") };
            check_feed(number, &content);
        }
        drop(streams);
        end_of(worker, &site);
        load.stop().must_be_perfect("requests beside streams");
        stop(&mut site);
    }
}

/// Receives until each stream has got more.
fn receive_more(streams: &mut Streams, feeds: &BTreeMap<u32, u64>) {
    let so_far: Vec<(u32, usize)> = feeds.keys().map(|id| (*id, streams.content(*id).len())).collect();
    while so_far.iter().any(|(id, length)| streams.content(*id).len() <= *length) {
        streams.receive().expect("the server goes on");
        assert_eq!(streams.open(), feeds.len(), "none ends before its time");
        assert!(!streams.has_ended(), "the server has ended the connection");
    }
}

fn postponed_answers_are_cut_off_at_the_graceful_timeout(language: Language) {
    let _turn = turn::beside_others();
    for (edge, signal) in SHAPES.iter().flat_map(|edge| [(*edge, Signal::HUP), (*edge, Signal::USR2)]) {
        let site = start(language, edge, &["--graceful-timeout", "500ms"]);
        let mut postponed = Postponed::open(&site, language, 1);
        let load = load(&site, edge);
        site.server.signal(signal);
        wait_until("the old worker is ended", || !runs(postponed.worker));
        for (number, feed) in &mut postponed.feeds {
            let outcome = feed.response(false);
            assert!(outcome.is_err(), "--edge {edge}: stream {number} looks whole: {outcome:?}");
        }
        for (number, later) in &mut postponed.later {
            let outcome = later.response(false);
            let is_honest = match &outcome {
                Ok(Response { status, .. }) => (500..600).contains(status),
                // Only an edge that stays can say so.
                Err(_) => edge == "off" || signal == Signal::USR2,
            };
            assert!(is_honest, "--edge {edge}, {signal:?}: answer {number}: {outcome:?}");
        }
        load.wait_for_more(20);
        load.stop().must_be_perfect("requests while others are cut off");
    }
}

fn stop(site: &mut Site) {
    site.server.signal(Signal::TERM);
    assert_eq!(site.server.wait(), 0, "{}", site.server.log());
}
