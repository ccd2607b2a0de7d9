//! The study of which model of I/O and of accepting connections performs best. `bench/README.md` describes the method, and
//! `docs/io-models.md` the results.

#![forbid(unsafe_code)]

mod cells;
mod counter;
mod generator;
mod options;
mod raw;
mod report;
mod rounds;
mod rows;
mod server;

use cells::Cell;
use options::{Job, Options};
use oribi_bench::{interrupt, machine};
use raw::{LeftOut, Program, Raw, Writer};
use rounds::Plan;
use rows::{Programs, Row};
use server::StudyEnvironment;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let done = match Job::from_command_line() {
        Job::Measure(options) => measure(&options),
        Job::Report(results, docs) => report(&results, docs.as_deref()),
        Job::List => {
            list();
            Ok(true)
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("oribi-study: {e}");
            // 128 and the number of INT, as shells have it.
            if interrupt::requested() { ExitCode::from(130) } else { ExitCode::from(2) }
        }
    }
}

/// The directory of this crate.
fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The top of the checkout.
fn checkout() -> PathBuf {
    home().join("../..")
}

/// Writes the list. The reader may close the pipe early (`| head`).
fn list() {
    let (cells, left_out) = cells::all();
    let plan = options::USUAL;
    let rows = |cell: &Cell| rows::ALL.iter().filter(|row| row.takes_part(cell)).count();
    let minutes = cells.iter().map(|cell| seconds(cell, rows(cell), plan)).sum::<f64>() / 60.0;
    let lines = cells
        .iter()
        .map(ToString::to_string)
        .chain(left_out.iter().map(|(name, reason)| format!("{name} is left out: {reason}")))
        .chain(rows::ALL.iter().map(|row| format!("{}: {}", row.name, row.title)))
        .chain([format!("{} cells, about {minutes:.0} minutes", cells.len())]);
    let mut out = std::io::stdout().lock();
    for line in lines {
        if writeln!(out, "{line}").is_err() {
            return;
        }
    }
}

/// Makes the report, by default in `docs`.
fn report(results: &Path, docs: Option<&Path>) -> Result<bool, String> {
    let docs = docs.map_or_else(|| checkout().join("docs"), Path::to_owned);
    report::write(results, &docs, &source(results))?;
    println!("Written to {}", docs.join("io-models.md").display());
    Ok(true)
}

/// The name of the directory of raw results, by which the page refers to them.
fn source(results: &Path) -> String {
    let name =
        results.components().next_back().map_or_else(String::new, |name| name.as_os_str().to_string_lossy().into_owned());
    format!("../bench/study/results/{name}")
}

/// Measures. Returns whether there were no problems.
fn measure(options: &Options) -> Result<bool, String> {
    interrupt::catch()?;
    let place = place(options)?;
    // The study's own work must not fall on the servers' CPU.
    let mut own = rustix::thread::CpuSet::new();
    own.set(place.load_cpu);
    let allowed = rustix::thread::sched_getaffinity(None).map_err(|e| format!("cannot ask for CPUs: {e}"))?;
    machine::raise_descriptor_limit();
    let (cells, left_out) = chosen(options);
    let rows = present(&place.programs, options)?;
    let raw = Raw {
        facts: facts(&options.plan),
        programs: rows.iter().map(|(row, version)| program(row, version)).collect(),
        left_out: reasons(&cells, left_out),
        ..Raw::default()
    };
    rustix::thread::sched_setaffinity(None, &own).map_err(|e| format!("cannot choose a CPU: {e}"))?;
    let named = || home().join("results").join(format!("{}-{}", machine::today(), machine::label()));
    let out = options.out.clone().unwrap_or_else(named);
    let known = known(&out, options.resume, raw)?;
    let writer = Writer::new(&out, &known)?;
    let rows: Vec<&Row> = rows.into_iter().filter_map(|(row, version)| version.is_ok().then_some(row)).collect();

    let left: Vec<&Cell> = cells.iter().filter(|cell| !known.has(cell)).collect();
    let part = |cell: &Cell| -> Vec<&Row> { rows.iter().filter(|row| row.takes_part(cell)).copied().collect() };
    let estimate = |cells: &[&Cell]| cells.iter().map(|cell| seconds(cell, part(cell).len(), options.plan)).sum::<f64>();
    let begun = Instant::now();
    eprintln!("{} cells, about {:.0} minutes; results in {}", left.len(), (estimate(&left) / 60.0).ceil(), out.display());
    let mut problems = known.problems.len();
    for (number, cell) in left.iter().enumerate() {
        let rows = part(cell);
        let (passed, rest) = (begun.elapsed().as_secs() / 60, estimate(&left[number..]) / 60.0);
        eprintln!("[{}/{}] {cell}: {} rows; {passed} min passed, about {rest:.0} left", number + 1, left.len(), rows.len());
        problems += rounds::measure(&place, &writer, cell, &rows, options.plan)?;
    }
    rustix::thread::sched_setaffinity(None, &allowed).map_err(|e| format!("cannot choose CPUs: {e}"))?;
    println!("Raw results in {}; {problems} problems", out.display());
    if options.report {
        report(&out, None)?;
    }
    Ok(problems == 0)
}

fn place(options: &Options) -> Result<StudyEnvironment, String> {
    let programs = options.programs.clone().unwrap_or_else(|| checkout().join("target/study/release"));
    let programs = std::path::absolute(&programs).map_err(|e| format!("{}: {e}", programs.display()))?;
    let cpus = machine::allowed_cpus();
    let (server_cpu, load_cpu) = match cpus[..] {
        [first, second, ..] => (first, second),
        _ => return Err("the study needs two CPUs, one for servers and one for load".to_owned()),
    };
    Ok(StudyEnvironment {
        programs: Programs { oribi: programs.join("oribi"), examples: programs.join("examples") },
        load: programs.join("oribi-load"),
        templates: home().join("servers"),
        scratch: oribi_bench::server::scratch()?,
        server_cpu,
        load_cpu,
    })
}

/// The cells to measure, and those that are left out.
fn chosen(options: &Options) -> (Vec<Cell>, Vec<cells::LeftOut>) {
    let (mut all, left_out) = cells::all();
    if options.quick {
        let mut kinds = Vec::new();
        all.retain(|cell| {
            let fit = cell.pattern.is_slow() || cell.connections == 16 || cell.connections == 256;
            let kind = (cell.part, cell.transport, cell.pattern);
            let first = fit && !kinds.contains(&kind);
            if first {
                kinds.push(kind);
            }
            first
        });
    }
    let wanted = |cell: &Cell| {
        let name = cell.to_string();
        options.only.is_empty() || options.only.iter().any(|pattern| pattern.split('+').all(|part| name.contains(part)))
    };
    all.retain(wanted);
    (all, left_out)
}

type Version = Result<String, String>;

/// Returns every row with its version, or with the reason why its program is missing.
fn present(programs: &Programs, options: &Options) -> Result<Vec<(&'static Row, Version)>, String> {
    let rows: Vec<(&Row, Version)> = rows::ALL.iter().map(|row| (row, row.version(programs))).collect();
    let missing: Vec<&str> = rows.iter().filter_map(|(_, version)| version.as_ref().err().map(String::as_str)).collect();
    missing.iter().for_each(|missing| eprintln!("missing: {missing}"));
    if missing.is_empty() || options.allow_missing {
        Ok(rows)
    } else {
        Err("rows are missing (see above); --allow-missing leaves them out".to_owned())
    }
}

fn program(row: &Row, version: &Version) -> Program {
    Program {
        row: row.name.to_owned(),
        family: row.family.name().to_owned(),
        title: row.title.to_owned(),
        version: version.clone().unwrap_or_else(|why| why),
        found: version.is_ok(),
        command: row.command(),
    }
}

/// Returns the reasons for leaving out these cells, and for leaving out rows in the other cells.
fn reasons(cells: &[Cell], left_out: Vec<cells::LeftOut>) -> Vec<LeftOut> {
    let whole = left_out.into_iter().map(|(cell, reason)| LeftOut { cell, row: None, reason: reason.to_owned() });
    let rows = cells.iter().flat_map(|cell| {
        rows::ALL.iter().filter_map(move |row| {
            let reason = row.leaves(cell)?.to_owned();
            Some(LeftOut { cell: cell.to_string(), row: Some(row.name.to_owned()), reason })
        })
    });
    whole.chain(rows).collect()
}

fn facts(plan: &Plan) -> Vec<(String, String)> {
    let mut facts = vec![
        ("Date".to_owned(), machine::today()),
        ("Rounds".to_owned(), plan.rounds.to_string()),
        ("Seconds of a load".to_owned(), plan.seconds.to_string()),
    ];
    facts.extend(machine::system());
    facts.extend(machine::vulnerabilities());
    facts.push(("perf".to_owned(), machine::output("perf", &["--version"])));
    facts
}

/// Reads the results in the directory, if the study is to continue from them; otherwise the directory must be empty.
fn known(out: &Path, resume: bool, fresh: Raw) -> Result<Raw, String> {
    let old = Raw::read(out)?;
    if old.facts.is_empty() {
        return Ok(fresh);
    }
    if !resume {
        return Err(format!("{} holds results: go on with --resume, or name another directory with --out", out.display()));
    }
    let told = |raw: &Raw| {
        // A day may have passed, and what was committed meanwhile is in the versions if it matters.
        let same = raw.facts.iter().filter(|(name, _)| name != "Date" && name != "Commit").cloned().collect::<Vec<_>>();
        (same, raw.programs.clone())
    };
    let text = |raw: &Raw| {
        // As it would be read again: some characters have no place in these files.
        let scratch = out.join("compared");
        Writer::new(&scratch, &Raw { facts: raw.facts.clone(), programs: raw.programs.clone(), ..Raw::default() })?;
        let read = Raw::read(&scratch);
        let _ = std::fs::remove_dir_all(&scratch);
        read
    };
    if told(&text(&fresh)?) != told(&old) {
        return Err(format!("{} was measured otherwise (machine, plan or programs): --resume cannot go on", out.display()));
    }
    Ok(Raw { left_out: fresh.left_out, ..old })
}

/// Estimates the number of seconds that a cell takes.
fn seconds(cell: &Cell, rows: usize, plan: Plan) -> f64 {
    // Opening takes some 40 microseconds a connection, starting and ending a server and a perf half a second.
    let opening = cell.connections as f64 * 40e-6;
    let (once, loads) = if cell.pattern.is_slow() {
        (rounds::SLOW_WARM_UP, plan.seconds_of(cell))
    } else {
        (rounds::WARM_UP + rounds::TRIAL + rounds::COUNTED, 2.0 * plan.seconds)
    };
    rows as f64 * (0.5 + opening + once + plan.rounds_of(cell) as f64 * (loads + 0.05))
}
