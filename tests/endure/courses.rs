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

/// Workers that answer some hundred requests, live for some seconds, and may not grow for ever.
const RECYCLED: [&str; 8] = ["--min-requests", "100", "--max-requests", "200", "--max-lifetime", "4s", "--max-memory", "400m"];

/// The courses, one after the other, each with the part of the time at which it is to end.
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

/// A language that is built in has none.
fn if_it_has_a_mold(language: Language, acts: &[Act]) -> Vec<Act> {
    if language == Language::Lua { Vec::new() } else { acts.to_vec() }
}

/// Connections of TLS and of HTTP/2 do not change hands in an upgrade, but end: there they are tried in a course of their own.
fn if_connections_move(acts: &[Act]) -> Vec<Act> {
    if wire::options().is_empty() && !wire::over_http2() { acts.to_vec() } else { Vec::new() }
}

/// Everything that may happen without a death. No connection closes.
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

/// Upgrades with edges whose clients keep their connections as long as the server likes.
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

/// One worker after the other, and the old one first.
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

/// Workers that are killed take requests with them, which other workers answer.
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

/// Connections belong to workers, and end with them after an answer that announces it.
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

/// One server after the other, each with connections of its own.
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
