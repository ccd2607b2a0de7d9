//! Everything that may happen to the processes of a server, again and again, while clients on kept and on short connections
//! check every byte and count every connection. The events are reloads that succeed and fail, upgrades, recycled, killed and
//! added workers, killed molds and edges, servers that follow one another below start_server, and an app that leaks.
//!
//! `make endure` runs it for ten minutes, and `tests/run endure` for one round. `ORIBI_ENDURE_MINUTES` sets the time,
//! `ORIBI_ENDURE_ROUNDS` sets a number of rounds instead, and `ORIBI_ENDURE_ONLY` names courses or languages.

mod acts;
mod budget;
mod clients;
mod course;
mod courses;
mod edge_death;
mod leaking;
mod memory;
mod report;
mod resources;
mod scene;
mod streams;

use budget::Budget;
use language::Language;
use oribi_test_support::{connection, http2_streams, language, load, response, server, wire};
use report::{Outcome, Report};
use std::thread;

const LANGUAGES: [Language; 3] = [Language::Perl, Language::Ruby, Language::Lua];

/// Tests all languages at the same time. The apps that leak need little CPU time, so they run beside the others.
#[test]
fn whatever_happens_to_processes_no_client_notices() {
    let budget = Budget::of_environment();
    let languages: Vec<Language> = LANGUAGES.into_iter().filter(|language| budget.includes(&format!("{language:?}"))).collect();
    let mut report = Report::default();
    thread::scope(|scope| {
        let mut under_way = Vec::new();
        for &language in &languages {
            let budget = &budget;
            under_way.push((language, "courses", scope.spawn(move || courses::run_all(language, budget))));
            under_way.push((language, "leaking apps", scope.spawn(move || leaking::run_all(language, budget))));
        }
        for (language, what, thread) in under_way {
            match thread.join() {
                Ok(outcomes) => report.add(outcomes),
                Err(_) => report.add(vec![Outcome::broken(language, what, "panicked: see above")]),
            }
        }
    });
    println!("{report}");
    let faults = report.faults(&budget);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
