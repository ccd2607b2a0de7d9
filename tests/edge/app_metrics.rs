//! Figures that apps count by themselves: none is lost with a process, none goes back, and no worker harms those of another.

use crate::connection::Connection;
use crate::language::{Language, Site};
use crate::load::{Manner, Opened, Plan, Question, Report};
use crate::scrape::{MetricsAddress, Scrape};
use crate::server::{children, is_first, send, title, wait_for, wait_until};
use crate::turn;
use rustix::process::Signal;
use std::time::Duration;

crate::in_every_language!(
    figures_outlive_every_process_but_the_first,
    figures_outlive_processes_that_are_killed,
    figures_are_told_as_apps_have_named_them,
    figures_for_which_there_is_no_room_are_counted
);
crate::in_language!(perl_writing, Perl, nonsense_harms_nobody_else);

const KINDS: [&str; 2] = ["app_orders_total{kind=\"0\"}", "app_orders_total{kind=\"1\"}"];
const PAYMENTS: &str = "app_payment_seconds_count{provider=\"x\"}";

fn measured(language: Language, arguments: &[&str]) -> (Site, MetricsAddress) {
    let site = language.start(&[&["--metrics", "0", "--workers", "2"], arguments].concat());
    let place = MetricsAddress::said_in(&site.server.log());
    (site, place)
}

fn counting(number: u64) -> Question {
    Question::new(format!("/count?{number}"), format!("count {number}\n"))
}

/// Returns the number of orders in the metrics, once there are orders of each kind.
fn orders(scrape: &Scrape) -> f64 {
    KINDS.iter().map(|kind| scrape.get(kind)).sum()
}

/// Reads the metrics again and again, and checks that no counter shrinks.
struct Watch {
    place: MetricsAddress,
    seen: Scrape,
}

impl Watch {
    /// Begins when there are orders of each kind.
    fn begin(site: &Site, place: MetricsAddress) -> Self {
        let mut connection = Connection::open(site.address);
        (0..2).for_each(|number| assert_eq!(connection.get(&format!("/count?{number}")).status, 200));
        let seen = Scrape::of(&place);
        assert_eq!((orders(&seen), seen.get(PAYMENTS)), (2.0, 2.0), "they are there with the answer");
        Self { place, seen }
    }

    fn look(&mut self, what: &str, reached: impl Fn(&Scrape) -> bool) {
        wait_until(what, || {
            if let Some(now) = Scrape::ask(&self.place) {
                now.must_not_shrink(&self.seen);
                self.seen = now;
            }
            reached(&self.seen)
        });
    }
}

/// Loads the server while `act` does something to it. Returns the results of the load.
fn under_load(site: &mut Site, act: impl FnOnce(&mut Site)) -> Report {
    let plan = Plan { connections: 4, pace: Some(Duration::from_millis(2)), requests: None, question: counting };
    let load = Opened::new(site.address, 4).behave(Manner::Parting).begin(plan);
    load.wait_for_more(50);
    act(site);
    load.wait_for_more(50);
    load.stop()
}

fn figures_outlive_every_process_but_the_first(language: Language) {
    let _turn = turn::beside_others();
    for edge in ["on", "off"] {
        let (mut site, place) = measured(language, &["--edge", edge, "--max-requests", "60"]);
        let mut watch = Watch::begin(&site, place);
        let report = under_load(&mut site, |site| {
            for round in 1..=3 {
                site.server.signal(Signal::HUP);
                watch.look("a reload", |seen| seen.get("oribi_generations_loaded_total") == f64::from(round) + 1.0);
            }
            watch.look("workers that are recycled", |seen| seen.get("oribi_workers_ended_total{reason=\"requests\"}") >= 1.0);
            site.server.signal(Signal::USR2);
            watch.look("an upgrade", |seen| seen.get("oribi_upgrades_total") == 1.0);
            wait_until("only the new server is left", || children(site.server.pid()).len() == 1);
        });
        report.must_be_without_faults("requests that are counted");
        let counted = report.answers() as f64 + 2.0;
        watch.look("all that was counted", |seen| orders(seen) >= counted && seen.get(PAYMENTS) >= counted);
        watch.look("and no more", |seen| orders(seen) == counted && seen.get(PAYMENTS) == counted);
        assert_eq!(watch.seen.get("app_payment_seconds_bucket{provider=\"x\",le=\"0.025\"}"), counted);
        assert_eq!(watch.seen.get("app_payment_seconds_bucket{provider=\"x\",le=\"0.01\"}"), 0.0);
        assert_eq!(watch.seen.get("oribi_app_figures_refused_total"), 0.0);
        site.server.signal(Signal::TERM);
        assert_eq!(site.server.wait(), 0, "{}", site.server.log());
    }
}

/// The processes of a server with this role.
fn processes(site: &Site, role: &str) -> Vec<u32> {
    site.processes().into_iter().filter(|process| title(*process).starts_with(&format!("oribi: {role}"))).collect()
}

fn figures_outlive_processes_that_are_killed(language: Language) {
    let _turn = turn::beside_others();
    for edge in ["on", "off"] {
        let (mut site, place) = measured(language, &["--edge", edge]);
        let mut watch = Watch::begin(&site, place);
        let report = under_load(&mut site, |site| {
            send(wait_for("a worker", || site.workers().first().copied()), Signal::KILL);
            watch.look("that it has failed", |seen| seen.get("oribi_workers_failed_total") >= 1.0);
            // Lua needs no mold: its first process is the supervisor.
            if let Some(mold) = processes(site, "mold").first() {
                let loaded = watch.seen.get("oribi_generations_loaded_total");
                send(*mold, Signal::KILL);
                watch.look("another generation", |seen| seen.get("oribi_generations_loaded_total") > loaded);
            }
            if language == Language::Lua {
                // The next server would have taken over before the kill.
                return;
            }
            site.server.signal(Signal::USR2);
            let next = || processes(site, "").into_iter().find(|process| is_first(*process));
            send(wait_for("the next server", next), Signal::KILL);
            watch.look("that there was none", |seen| seen.get("oribi_upgrades_failed_total") == 1.0);
        });
        let answered = report.statuses.get(&200).copied().unwrap_or_default() as f64 + 2.0;
        watch.look("all that was counted before it was answered", |seen| {
            orders(seen) >= answered && seen.get(PAYMENTS) >= answered
        });
        let most = 2.0 + (report.answers() + report.closed + report.faults.len() + 4) as f64;
        assert!(orders(&watch.seen) <= most, "{} of at most {most}", orders(&watch.seen));
    }
}

fn figures_are_told_as_apps_have_named_them(language: Language) {
    let _turn = turn::beside_others();
    for edge in ["on", "off"] {
        let (site, place) = measured(language, &["--edge", edge]);
        let mut connection = Connection::open(site.address);
        let mut get = |target: &str| {
            let response = connection.get(target);
            assert_eq!(response.status, 200, "{target}");
            String::from_utf8(response.content).expect("it is ASCII")
        };
        get("/odd?1");
        let odd = "app_odd_total{text=\"a\\\"b\\\\c\\n\u{20ac}\"}";
        assert_eq!(Scrape::of(&place).get(odd), 0.5);
        for (misuse, why) in [
            ("a-b&1&c", "a figure cannot be called \"a-b\""),
            ("7up&1&c", "a figure cannot be called \"7up\""),
            ("a&1&b-c", "a label cannot be called \"b-c\""),
            ("a&1&le", "a label cannot be called le"),
            ("a&-1&c", "a counter is added to by finite numbers from 0 on, not -1"),
            ("a&nan&c", "finite numbers from 0 on, not NaN"),
            ("a&inf&c", "finite numbers from 0 on, not inf"),
            ("a_sum&1&c", "samples of other figures end in _sum"),
        ] {
            let said = get(&format!("/misuse?1&{misuse}"));
            assert!(said.starts_with("error: ") && said.contains(why), "{misuse}: {said}");
        }
        assert_eq!(get("/misuse?1&oribi_responses&1&c"), "fine\n");
        let scrape = Scrape::of(&place);
        assert_eq!(scrape.get("app_oribi_responses_total{c=\"x\"}"), 1.0, "it is no figure of the server");
        let contexts = [scrape.get("oribi_perl_interpreters"), scrape.get("oribi_lua_states")].map(|number| number > 0.0);
        assert_eq!(contexts, [language == Language::Perl, language == Language::Lua]);
    }
}

fn figures_for_which_there_is_no_room_are_counted(language: Language) {
    let _turn = turn::beside_others();
    // If the room of a worker is full, it counts only series that it has counted before. With a single worker, that worker has
    // counted all series of this test.
    let (site, place) = measured(language, &["--workers", "1"]);
    let mut watch = Watch::begin(&site, place);
    let mut connection = Connection::open(site.address);
    // The room is for 256, three of which are in use.
    assert_eq!(connection.get("/series?1&300").status, 200);
    watch.look("what had no room", |seen| seen.get("oribi_app_figures_refused_total") == 47.0);
    assert_eq!(watch.seen.get("app_visits_total{page=\"253\"}"), 1.0);
    assert_eq!(connection.get("/count?0").status, 200);
    watch.look("what has room", |seen| orders(seen) == 3.0);
}

/// Only for Perl, because only Perl can overwrite all of its memory without a library.
fn nonsense_harms_nobody_else(language: Language) {
    let _turn = turn::beside_others();
    for edge in ["on", "off"] {
        let (mut site, place) = measured(language, &["--edge", edge]);
        let mut watch = Watch::begin(&site, place);
        let count = |count: u64| {
            let mut connection = Connection::open(site.address);
            (0..count).for_each(|number| assert_eq!(connection.get(&format!("/count?{number}")).status, 200));
        };
        count(10);
        watch.look("them", |seen| orders(seen) == 12.0);
        assert_eq!(Connection::open(site.address).get("/scribble?1").status, 200);
        watch.look("as many as before", |seen| orders(seen) == 12.0);
        // Workers keep counting orders, in a place of their own.
        count(10);
        watch.look("what they have counted since", |seen| orders(seen) == 22.0);
        for worker in site.workers() {
            send(worker, Signal::KILL);
        }
        watch.look("other workers", |seen| {
            seen.get("oribi_workers_failed_total") == 2.0 && seen.get("oribi_workers{state=\"ready\"}") == 2.0
        });
        count(10);
        watch.look("what those have counted", |seen| orders(seen) == 32.0);
        site.server.signal(Signal::TERM);
        assert_eq!(site.server.wait(), 0, "{}", site.server.log());
    }
}
