//! Everything that may happen to the processes of a server, over and over, for minutes: reloads that succeed and fail, several at
//! once, recycled and killed workers, killed molds, more and fewer workers. Clients on kept and on short connections check every
//! byte meanwhile. `make endure` runs it; `ORIBI_ENDURE_MINUTES` says for how long.

#[allow(dead_code)]
#[path = "../process/client.rs"]
mod client;
#[allow(dead_code)]
#[path = "../edge/connection.rs"]
mod connection;
#[allow(dead_code)]
#[path = "../edge/language.rs"]
mod language;
#[allow(dead_code)]
#[path = "../edge/load.rs"]
mod load;
#[allow(dead_code)]
#[path = "../edge/response.rs"]
mod response;
#[allow(dead_code)]
#[path = "../process/server.rs"]
mod server;

use client::{Manner, Target};
use language::{Language, Site};
use load::{Load, Plan, Question};
use rustix::process::Signal;
use server::{send, title, wait_until};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The languages share the time.
const LANGUAGES: [Language; 3] = [Language::Perl, Language::Ruby, Language::Lua];

/// How much the first process and its edges may grow: what allocators keep, and no leak.
const GROWTH: u64 = 16 << 20;

#[test]
fn whatever_happens_to_processes_no_client_notices() {
    let minutes = std::env::var("ORIBI_ENDURE_MINUTES").ok().and_then(|text| text.parse::<f64>().ok()).unwrap_or(10.0);
    let share = Duration::from_secs_f64(minutes * 60.0 / LANGUAGES.len() as f64);
    let mut summaries = Vec::new();
    for language in LANGUAGES {
        summaries.push(endure(language, share));
        println!("{}", summaries[summaries.len() - 1]);
    }
    println!("\n{}", summaries.join("\n"));
}

/// What is done to the server, in turn.
const ACTS: [&str; 10] = ["reload", "grow", "kill", "reload", "fail", "retire", "rest", "hurry", "shrink", "mold"];

fn endure(language: Language, time: Duration) -> String {
    let options = ["--workers", "3", "--retry-lost", "--max-requests", "5000", "--max-lifetime", "2s", "--max-memory", "300m"];
    let site = language.start(&[&options[..], &["--boot-request", "/boot", "--boot-timeout", "20s"]].concat());
    let kept = Load::start(site.address, Plan { connections: 24, pace: None, requests: None, question: Question::fast });
    let short = client::Load::start(&Target::Tcp(site.address), 4, Manner::ConnectionPerRequest);
    kept.wait_for_more(500);
    let before = Held::by(&site);
    let (end, mut counts) = (Instant::now() + time, BTreeMap::new());
    let acts = ACTS.iter().cycle().take_while(|_| Instant::now() < end);
    for act in acts {
        act_on(&site, act, language);
        *counts.entry(*act).or_insert(0) += 1;
        kept.wait_for_more(200);
        short.wait_for_more(50);
    }
    let after = Held::by(&site);
    let report = kept.stop();
    let lost = short.stop();
    let log = site.server.log();
    let aged = log.matches("has lived for").count();
    report.must_be_perfect("requests on kept connections");
    assert_eq!(lost, [""; 0], "requests on short connections");
    assert!(after.memory < before.memory + GROWTH, "{language:?}: {before:?} became {after:?}");
    assert!(after.descriptors <= before.descriptors + 8, "{language:?}: {before:?} became {after:?}");
    format!(
        "{language:?}: {counts:?}, {aged} workers replaced for their age; {} answers on kept connections (the \
         longest 1 %: {:?}), 0 failed, 0 closed; first process and edges: {before:?}, then {after:?}",
        report.answers(),
        report.percentile(99),
    )
}

/// What the first process and the edges hold.
#[derive(Debug)]
struct Held {
    memory: u64,
    descriptors: usize,
}

impl Held {
    fn by(site: &Site) -> Self {
        let processes: Vec<u32> = site.edges().into_iter().chain([site.server.pid()]).collect();
        let memory = |process: &u32| {
            let text = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
            let own = text.lines().filter(|line| line.starts_with("Private_Dirty:") || line.starts_with("Private_Clean:"));
            own.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum::<u64>() << 10
        };
        let descriptors = |process: &u32| std::fs::read_dir(format!("/proc/{process}/fd")).map_or(0, Iterator::count);
        Self { memory: processes.iter().map(memory).sum(), descriptors: processes.iter().map(descriptors).sum() }
    }
}

/// How often the log says that a reload has ended, well or not.
fn reloads(site: &Site) -> (usize, usize) {
    let log = site.server.log();
    let well = log.matches(" has taken over").count() + log.matches("all workers have been replaced").count();
    (well, log.matches("could not be loaded anew").count() + log.matches("the present workers stay").count())
}

/// Does one thing to the server, and waits until it is done.
fn act_on(site: &Site, act: &str, language: Language) {
    let (well, badly) = reloads(site);
    let one_worker = || site.workers().into_iter().find(|worker| !title(*worker).contains("retiring"));
    match act {
        "reload" => {
            site.server.signal(Signal::HUP);
            wait_until("the reload", || reloads(site).0 > well);
        }
        "hurry" => {
            for _ in 0..5 {
                site.server.signal(Signal::HUP);
                std::thread::sleep(Duration::from_millis(30));
            }
            wait_until("one of the reloads", || reloads(site).0 > well);
        }
        "fail" => {
            site.set_boot(Some("die"));
            site.server.signal(Signal::HUP);
            wait_until("the reload fails", || reloads(site).1 > badly);
            site.set_boot(None);
        }
        // Nothing is done for once, so that workers grow old.
        "rest" => {
            let before = site.server.log().matches("has lived for").count();
            wait_until("a worker grows old", || site.server.log().matches("has lived for").count() > before);
        }
        "grow" => site.server.signal(Signal::TTIN),
        "shrink" => site.server.signal(Signal::TTOU),
        "kill" => one_worker().into_iter().for_each(|worker| send(worker, Signal::KILL)),
        "retire" => one_worker().into_iter().for_each(|worker| send(worker, Signal::TERM)),
        // A language that is built in has none.
        "mold" if language != Language::Lua => {
            let mold = site.processes().into_iter().find(|process| title(*process).starts_with("oribi: mold"));
            mold.into_iter().for_each(|mold| send(mold, Signal::KILL));
            std::thread::sleep(Duration::from_secs(1));
            wait_until("workers are there again", || !site.workers().is_empty());
        }
        _ => {}
    }
}
