//! Reloads and stops in each other's way.

use crate::client::{self, Manner};
use crate::connection::Connection;
use crate::pressure::Pressure;
use crate::server::wait_until;
use crate::site::{Edge, Language, Site};
use rustix::process::Signal;
use std::time::Duration;

crate::everywhere!(
    ten_reloads_in_a_row_lose_nothing,
    a_reload_within_a_drain_changes_nothing,
    a_stop_within_a_reload_loses_nothing,
    what_runs_is_finished_whatever_else_is_told,
    a_second_stop_skips_the_delay_and_a_third_ends_everything,
);

/// A time that is longer than that in which repeated signals count as one.
const NO_ECHO: Duration = Duration::from_millis(300);

fn ten_reloads_in_a_row_lose_nothing(language: Language, edge: Edge) {
    let site = Site::start(language, edge, &[]);
    let pressure = Pressure::on(&site, edge);
    for pause in [0, 100] {
        let before = site.titled("worker");
        for _ in 0..10 {
            site.server.signal(Signal::HUP);
            std::thread::sleep(Duration::from_millis(pause));
        }
        site.wait_for_others(&before);
        pressure.go_on();
    }
    pressure.must_have_been_perfect("ten reloads at once, and ten in a second");
    site.stop();
}

/// Starts clients that close a connection when the server announces its end, and that continue until the server is gone.
fn leaving(site: &Site) -> [client::Load; 2] {
    let manners = [Manner::KeepAlive, Manner::ConnectionPerRequest];
    let loads = manners.map(|manner| client::Load::start(&site.target(), 4, manner));
    loads.iter().for_each(|load| load.wait_for_more(20));
    loads
}

fn must_have_lost_nothing(loads: [client::Load; 2]) {
    let lost: Vec<_> = loads.into_iter().flat_map(client::Load::wait).collect();
    assert_eq!(lost, [""; 0]);
}

fn a_reload_within_a_drain_changes_nothing(language: Language, edge: Edge) {
    let mut site = Site::start(language, edge, &["--shutdown-delay", "1s"]);
    let loads = leaving(&site);
    site.server.signal(Signal::TERM);
    site.server.wait_for_log("stopping in 1 s, and serving until then");
    for _ in 0..2 {
        site.server.signal(Signal::HUP);
        loads.iter().for_each(|load| load.wait_for_more(20));
    }
    assert_eq!(site.server.wait(), 0, "{}", site.server.log());
    must_have_lost_nothing(loads);
    assert!(!site.server.log().contains("reloading the app"), "{}", site.server.log());
}

fn a_stop_within_a_reload_loses_nothing(language: Language, edge: Edge) {
    for word in [None, Some("hang")] {
        let mut site = Site::start(language, edge, &[]);
        let loads = leaving(&site);
        if word.is_some() {
            site.set_load(word);
        }
        site.server.signal(Signal::HUP);
        site.server.wait_for_log(if language.has_mold() { "reloading the app" } else { "replacing the workers" });
        site.server.signal(Signal::TERM);
        assert_eq!(site.server.wait(), 0, "{word:?}: {}", site.server.log());
        must_have_lost_nothing(loads);
    }
}

fn what_runs_is_finished_whatever_else_is_told(language: Language, edge: Edge) {
    let mut site = Site::start(language, edge, &[]);
    let mut client = Connection::open(site.address);
    client.ask("/nap?1");
    wait_until("the app begins", || site.folder.file("napping").exists());
    site.server.signal(Signal::TERM);
    site.server.wait_for_log("stopping");
    for signal in [Signal::HUP, Signal::USR1, Signal::USR2, Signal::TTIN, Signal::QUIT, Signal::HUP] {
        site.server.signal(signal);
    }
    assert_eq!(client.answer().0.content, b"nap 1\n");
    assert_eq!(site.server.wait(), 0, "{}", site.server.log());
}

fn a_second_stop_skips_the_delay_and_a_third_ends_everything(language: Language, edge: Edge) {
    for (seconds, times) in [("1", 2), ("30", 3)] {
        let mut site = Site::start(language, edge, &["--shutdown-delay", "10m"]);
        let mut client = Connection::open(site.address);
        client.ask(&format!("/nap?{seconds}"));
        wait_until("the app begins", || site.folder.file("napping").exists());
        for _ in 0..times {
            site.server.signal(Signal::TERM);
            std::thread::sleep(NO_ECHO);
        }
        let answer = client.response(false);
        assert_eq!(answer.is_ok_and(|answer| answer.status == 200), times == 2, "{}", site.server.log());
        assert_eq!(site.server.wait(), i32::from(times == 3), "{}", site.server.log());
    }
}
