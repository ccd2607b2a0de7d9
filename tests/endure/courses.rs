//! The courses of a language: their servers, and the events of each.

use crate::acts::{Act, deaths, reloads, staff, starter, upgrades};
use crate::budget::Budget;
use crate::clients::{anything, repeatable};
use crate::course::Course;
use crate::edge_death;
use crate::language::{Language, Launcher};
use crate::load::Manner;
use crate::report::Outcome;
use crate::wire;

/// Options for workers that answer some hundred requests, live for some seconds, and have a memory limit.
const RECYCLED: [&str; 8] = ["--min-requests", "100", "--max-requests", "200", "--max-lifetime", "4s", "--max-memory", "400m"];

/// Runs the courses one after the other, each until its part of the time has passed.
pub fn run_all(language: Language, budget: &Budget) -> Vec<Outcome> {
    let courses = [
        (0.36, edges(language)),
        (0.42, upgrades()),
        (0.54, rolling()),
        (0.62, deaths(language)),
        (0.76, without_edges()),
        (0.90, started("start_server", "on")),
        (0.97, started("start_server, no edges", "off")),
    ];
    let mut outcomes = Vec::new();
    for (part, course) in courses {
        if budget.includes(course.name) {
            outcomes.push(course.run(language, &budget.until(part)));
        }
    }
    if budget.includes(edge_death::NAME) {
        outcomes.push(edge_death::run(language, &budget.until(1.0)));
    }
    outcomes
}

/// Returns these acts, but none for a language without a mold, which is built in.
fn if_it_has_a_mold(language: Language, acts: &[Act]) -> Vec<Act> {
    if language == Language::Lua { Vec::new() } else { acts.to_vec() }
}

/// Returns these acts, but none if clients use TLS or HTTP/2: such connections are not handed over in an upgrade but end. They
/// are tested in a course of their own.
fn if_connections_move(acts: &[Act]) -> Vec<Act> {
    if wire::options().is_empty() && !wire::over_http2() { acts.to_vec() } else { Vec::new() }
}

/// All acts that kill no worker or edge. No connection may close.
fn edges(language: Language) -> Course {
    let acts = [
        vec![reloads::BY_SIGNAL, staff::GROW, staff::RECYCLE, reloads::BY_ORDER],
        if_connections_move(&[upgrades::PLAIN]),
        vec![staff::SHRINK, reloads::FAILING, staff::SCALE],
        if_connections_move(&[upgrades::UNDER_PRESSURE]),
        vec![staff::RECYCLE, staff::RETIRE, staff::REOPEN],
        if_connections_move(&[upgrades::FAILING, upgrades::WITH_RELOAD, upgrades::BY_ORDER]),
        if_it_has_a_mold(language, &[deaths::MOLD]),
        vec![reloads::TEN],
    ];
    Course {
        name: "edges",
        launcher: Launcher::Oribi,
        options: [&["--edge", "on", "--edges", "2"][..], &RECYCLED].concat(),
        kept: Manner::Kept,
        question: anything,
        acts: acts.concat(),
    }
}

/// Upgrades with edges. Clients keep their connections as long as the server does.
fn upgrades() -> Course {
    Course {
        name: "upgrades",
        launcher: Launcher::Oribi,
        options: [&["--edge", "on", "--edges", "2"][..], &RECYCLED].concat(),
        kept: Manner::Parting,
        question: anything,
        acts: vec![upgrades::PLAIN, upgrades::FAILING, upgrades::WITH_RELOAD, staff::RECYCLE, upgrades::BY_ORDER],
    }
}

/// Workers are replaced one after the other, and each old worker ends before its replacement starts.
fn rolling() -> Course {
    let acts = [
        vec![reloads::BY_SIGNAL, staff::RECYCLE, reloads::FAILING, reloads::BY_ORDER, staff::RETIRE],
        if_connections_move(&[upgrades::PLAIN]),
        vec![reloads::TEN, staff::SCALE],
    ];
    Course {
        name: "rolling",
        launcher: Launcher::Oribi,
        options: [&["--edge", "on", "--reload-mode", "rolling", "--replace-order", "old-first"][..], &RECYCLED].concat(),
        kept: Manner::Kept,
        question: anything,
        acts: acts.concat(),
    }
}

/// Workers are killed while they answer requests. Other workers must answer these requests.
fn deaths(language: Language) -> Course {
    let of_molds = if_it_has_a_mold(language, &[deaths::MOLD]);
    Course {
        name: "deaths",
        launcher: Launcher::Oribi,
        options: [&["--edge", "on", "--edges", "2", "--retry-lost"][..], &RECYCLED].concat(),
        kept: Manner::Kept,
        question: repeatable,
        acts: [vec![deaths::WORKER, reloads::BY_SIGNAL, deaths::WORKER], of_molds].concat(),
    }
}

/// Connections belong to workers. They end together with their workers, after an answer that announces the end.
fn without_edges() -> Course {
    let acts = [
        vec![reloads::BY_SIGNAL, staff::RECYCLE, reloads::FAILING, staff::SCALE],
        vec![upgrades::PLAIN, upgrades::FAILING],
        vec![reloads::BY_ORDER, reloads::TEN, staff::RETIRE],
    ];
    Course {
        name: "no edges",
        launcher: Launcher::Oribi,
        options: [&["--edge", "off"][..], &RECYCLED].concat(),
        kept: Manner::Parting,
        question: anything,
        acts: acts.concat(),
    }
}

/// start_server starts one server after the other. Each has its own connections.
fn started(name: &'static str, edge: &'static str) -> Course {
    Course {
        name,
        launcher: Launcher::StartServer,
        options: vec!["--edge", edge, "--shutdown-delay", "600ms"],
        kept: Manner::Parting,
        question: anything,
        acts: vec![starter::HUP, starter::RELOAD_IN_DRAIN, reloads::BY_SIGNAL],
    }
}
