//! Generations that die: while the app is loaded, and after they have taken over.

use crate::pressure::Pressure;
use crate::server::wait_until;
use crate::site::{Edge, Language, Site};
use rustix::process::Signal;

crate::everywhere!(what_cannot_be_loaded_changes_nothing, generations_that_have_served_are_replaced_at_once);

fn what_cannot_be_loaded_changes_nothing(language: Language, edge: Edge) {
    let site = Site::start(language, edge, &["--load-timeout", "5s", "--boot-timeout", "5s"]);
    let pressure = Pressure::on(&site, edge);
    let workers = site.titled("worker");
    let hangs = if language.has_mold() {
        "was killed after 5 s (--load-timeout) without having loaded the app"
    } else {
        "was killed after 5 s (--boot-timeout) before it could serve"
    };
    for (word, reason) in [("die", "the app is broken"), ("hang", hangs)] {
        let failures = site.failures();
        site.set_load(Some(word));
        site.server.signal(Signal::HUP);
        wait_until("the reload has failed", || site.failures() > failures);
        assert!(site.server.log().contains(reason), "{word}: {}", site.server.log());
        pressure.go_on();
        site.set_load(None);
    }
    assert!(workers.is_subset(&site.titled("worker")), "the current workers stay");
    site.reload();
    pressure.go_on();
    site.wait_for_others(&workers);
    pressure.must_have_been_perfect("while the app could not be loaded");
    site.stop();
}

/// A generation that has served cannot be restored: its processes have ended, and its files are deleted.
fn generations_that_have_served_are_replaced_at_once(language: Language, edge: Edge) {
    let site = Site::start(language, edge, &[]);
    let pressure = Pressure::on(&site, edge);
    let workers = site.titled("worker");
    site.set_load(Some("doomed"));
    site.reload();
    wait_until("several deaths", || site.count(&["was killed by signal 9"]) > 2);
    let log = site.server.log();
    if language.has_mold() {
        assert!(log.contains("the app is loaded again in 0.0 s"), "{log}");
    }
    assert!(!log.contains("in a row") && !log.contains("the next worker starts in"), "{log}");
    site.set_load(None);
    // Running ones are also doomed, but HUP does not wait for anything.
    site.reload();
    pressure.go_on();
    site.wait_for_others(&workers);
    if language.has_mold() {
        pressure.must_have_been_perfect("while generations died");
    } else {
        pressure.must_have_lost_only_what_workers_had("while workers died");
    }
    site.stop();
}
