//! An app that keeps a mebibyte of each request for ever, and workers that are replaced at `--max-memory`.

use crate::budget::Budget;
use crate::language::Language;
use crate::load::{Load, Manner, Opened, Plan, Question};
use crate::memory;
use crate::report::Outcome;
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// The time for which the app leaks: in `make endure`, and in one round of `tests/run`.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_secs(6);

/// The memory limit of a worker in MiB, far more than an app needs that has just started.
const LIMIT: u64 = 128;
const SMALL_LIMIT: u64 = 64;

/// The interval at which memory is measured.
const LOOK: Duration = Duration::from_millis(50);

const WORKERS: u64 = 2;

pub fn run_all(language: Language, budget: &Budget) -> Vec<Outcome> {
    let courses = [("leak", "new-first", "on"), ("leak, old first", "old-first", "on"), ("leak, no edges", "new-first", "off")];
    let included = courses.into_iter().filter(|(name, ..)| budget.includes(name));
    included.map(|(name, order, edge)| leak(language, budget, name, order, edge)).collect()
}

fn leak(language: Language, budget: &Budget, name: &'static str, order: &str, edge: &str) -> Outcome {
    let begun = Instant::now();
    let mut outcome = Outcome::new(language, name);
    let (time, limit) = match budget.rounds {
        Some(_) => (SHORT, SMALL_LIMIT),
        None => (LONG.min(budget.until(1.0).left() / 3), LIMIT),
    };
    let option = format!("{limit}m");
    let workers = WORKERS.to_string();
    let options = ["--edge", edge, "--workers", &workers, "--max-memory", &option, "--replace-order", order];
    let mut site = language.start(&options);
    let kept = if edge == "on" { Manner::Kept } else { Manner::Parting };
    let begin = |connections, manner| {
        let plan = Plan { connections, pace: Some(Duration::from_millis(32)), requests: None, question: Question::leak };
        Opened::new(site.address, connections).behave(manner).begin(plan)
    };
    let loads: [Load; 2] = [begin(8, kept), begin(2, Manner::Short)];
    let (mut most, mut most_workers, mut looks) = (0, 0, 0);
    let end = Instant::now() + time;
    while Instant::now() < end {
        let (memory, workers) = memory::of_workers(site.server.pid());
        (most, most_workers, looks) = (most.max(memory), most_workers.max(workers), looks + 1);
        std::thread::sleep(LOOK);
    }
    let mut answers = 0;
    for load in loads {
        let report = load.stop();
        answers += report.answers();
        outcome.faults.extend(report.faults.iter().cloned());
        if report.statuses.keys().any(|status| *status != 200) {
            outcome.faults.push(format!("statuses and how often: {:?}", report.statuses));
        }
    }
    site.server.signal(Signal::TERM);
    let status = site.server.wait();
    if status != 0 {
        outcome.faults.push(format!("the server ends with {status}"));
    }
    let replaced = site.server.log().matches("(--max-memory").count();
    // A worker that is replaced serves until its replacement does. If the old worker must end first, only one worker is
    // replaced at a time, and the others continue to leak meanwhile. They may need the room of one more worker in all.
    let replacements = if order == "old-first" { 1 } else { WORKERS };
    let allowed = (limit * (WORKERS + replacements) + 1) << 20;
    if most > allowed {
        outcome.faults.push(format!("workers had {} MiB together, more than {} MiB", most >> 20, allowed >> 20));
    }
    if replaced < 2 {
        outcome.faults.push(format!("{replaced} workers were replaced: the app does not leak, or nobody looks"));
    }
    outcome.count("worker replaced for its memory", replaced);
    outcome.remark = Some(format!(
        "{answers} answers; {most_workers} workers at most, with at most {} MiB together of {} MiB ({looks} looks, limit {limit} MiB)",
        most >> 20,
        allowed >> 20
    ));
    outcome.keep_log_if_needed(&site.server.log());
    outcome.took = begun.elapsed();
    outcome
}
