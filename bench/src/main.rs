//! Measures Oribi beside its peers. `bench/README.md` describes the measurements and how to read them.

#![forbid(unsafe_code)]

use oribi_bench::options::Options;
use oribi_bench::report::{Count, Results};
use oribi_bench::server::{self, Installation};
use oribi_bench::setup::{Participation, Setup};
use oribi_bench::{cell, instructions, interrupt, machine, rounds, system_calls};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Programs that the bench itself needs, and Debian's packages that bring them.
const TOOLS: [(&str, &str); 8] = [
    ("wrk", "wrk"),
    ("h2load", "nghttp2-client"),
    ("openssl", "openssl"),
    ("curl", "curl"),
    ("taskset", "util-linux"),
    ("setpriv", "util-linux"),
    ("valgrind", "valgrind"),
    ("strace", "strace"),
];

fn main() -> ExitCode {
    match run(&Options::from_command_line()) {
        Ok(failures) if failures.is_empty() => ExitCode::SUCCESS,
        Ok(failures) => {
            failures.iter().for_each(|failure| eprintln!("FAILED {failure}"));
            ExitCode::FAILURE
        }
        Err(e) => {
            eprintln!("oribi-bench: {e}");
            // 128 and the number of INT, as shells have it.
            if interrupt::requested() { ExitCode::from(130) } else { ExitCode::from(2) }
        }
    }
}

fn run(options: &Options) -> Result<Vec<String>, String> {
    interrupt::catch()?;
    let (bench, built) = server::checkout();
    let oribi = match &options.oribi {
        Some(path) => std::path::absolute(path).map_err(|e| format!("{}: {e}", path.display()))?,
        None => built,
    };
    let chosen = choose(Setup::read_all(&bench.join("servers"))?, options)?;
    let Installed { setups, versions, missing } = installed(chosen, &oribi, options)?;
    if let Some(limit) = machine::raise_descriptor_limit().filter(|limit| *limit < 8192) {
        eprintln!("warning: at most {limit} descriptors: the cell with 4096 connections may fail (see `ulimit -Hn`)");
    }
    let (server_cpu, load_cpu) = cpus();
    let installation = Installation { bench, oribi, scratch: server::scratch()?, server_cpu, load_cpu };

    let (cells, counts) = (measure(&installation, &setups, options)?, count(&installation, &setups, options)?);
    let results = Results {
        date: machine::today(),
        plan: options.plan,
        facts: machine::facts(&versions),
        commands: setups.iter().map(|setup| (setup.title.clone(), setup.command_line())).collect(),
        missing,
        cells,
        counts,
    };
    let named = || installation.bench.join("results").join(format!("{}-{}", results.date, machine::label()));
    let out = options.out.clone().unwrap_or_else(named);
    results.write(&out)?;
    println!("{}Written to {}", results.summary(), out.display());
    Ok(results.failures())
}

/// Returns the set-ups that the user has chosen, and the yardstick.
fn choose(setups: Vec<Setup>, options: &Options) -> Result<Vec<Setup>, String> {
    let Some(names) = &options.servers else { return Ok(setups) };
    if let Some(unknown) = names.iter().find(|name| !setups.iter().any(|setup| setup.name == **name)) {
        let known: Vec<&str> = setups.iter().map(|setup| setup.name.as_str()).collect();
        return Err(format!("no server {unknown}: there are {}", known.join(", ")));
    }
    Ok(setups.into_iter().filter(|setup| setup.is_yardstick() || names.contains(&setup.name)).collect())
}

/// The parts of the bench that are installed and missing.
#[derive(Default)]
struct Installed {
    /// The set-ups whose server is there.
    setups: Vec<Setup>,
    /// Their titles and versions.
    versions: Vec<(String, String)>,
    /// The missing programs, with the packages to install.
    missing: Vec<String>,
}

/// Looks for every server that was chosen, and for the bench's own tools.
fn installed(setups: Vec<Setup>, oribi: &Path, options: &Options) -> Result<Installed, String> {
    let absent = |program: &str| Command::new(program).arg("--version").output().is_err();
    let needed: Vec<String> = TOOLS
        .iter()
        .filter(|(program, _)| absent(program))
        .map(|(program, package)| format!("{program} is missing: run `apt-get install {package}`"))
        .collect();
    if !needed.is_empty() {
        return Err(needed.join("\n"));
    }
    let mut found = Installed::default();
    for setup in setups {
        match setup.version(oribi) {
            Ok(version) => {
                found.versions.push((setup.title.clone(), version));
                found.setups.push(setup);
            }
            Err(e) => found.missing.push(e),
        }
    }
    if !found.missing.is_empty() && !options.allow_missing {
        return Err(format!("{}\nor leave them out with --allow-missing", found.missing.join("\n")));
    }
    found.missing.iter().for_each(|missing| eprintln!("left out: {missing}"));
    if found.setups.first().is_some_and(Setup::is_yardstick) {
        Ok(found)
    } else {
        Err("nginx is missing, and without it there are no ratios".to_owned())
    }
}

/// One CPU for the servers and another for wrk, if there are two.
fn cpus() -> (usize, usize) {
    let allowed = machine::allowed_cpus();
    match allowed[..] {
        [first, second, ..] => (first, second),
        _ => {
            eprintln!("warning: only one CPU: wrk takes its time from the servers, and the figures mean little");
            (allowed[0], allowed[0])
        }
    }
}

fn measure(installation: &Installation, setups: &[Setup], options: &Options) -> Result<Vec<rounds::CellResult>, String> {
    let cells: Vec<_> = cell::ALL.iter().filter(|cell| options.cells.iter().any(|name| name == cell.name)).collect();
    let mut broken = BTreeMap::new();
    let mut results = Vec::new();
    for (number, cell) in cells.iter().enumerate() {
        let taking = setups.iter().filter(|setup| setup.part(cell.name) == Participation::Takes).count();
        let seconds = taking as u64 * (2 + options.plan.rounds as u64 * options.plan.seconds);
        eprintln!("[{}/{}] {}: {taking} servers, about {seconds} s", number + 1, cells.len(), cell.title);
        let result = rounds::measure(installation, cell, setups, options.plan, &mut broken)?;
        for (entry, ratio) in result.entries.iter().zip(result.ratios()) {
            let ratio = ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{:.2}", ratio.median));
            let state = entry.cannot.as_ref().map(|reason| format!("cannot: {reason}"));
            let state = state.unwrap_or_else(|| format!("failures {}", entry.failures().describe()));
            eprintln!("    {:<24} ratio {ratio:>6}  {state}", entry.title);
            entry.problems.iter().for_each(|problem| eprintln!("        {problem}"));
        }
        results.push(result);
    }
    Ok(results)
}

fn count(installation: &Installation, setups: &[Setup], options: &Options) -> Result<Vec<Count>, String> {
    let asked = |name: &str| options.cells.iter().any(|cell| cell == name);
    let mut counts = Vec::new();
    for setup in setups {
        let takes = |name: &str| asked(name) && setup.part(name) == Participation::Takes;
        let (instructions, calls) = (takes(cell::INSTRUCTIONS), takes(cell::SYSTEM_CALLS));
        if !instructions && !calls {
            continue;
        }
        eprintln!("counting {}", setup.title);
        let count = Count {
            name: setup.name.clone(),
            title: setup.title.clone(),
            instructions: instructions.then(|| instructions::count(installation, setup)),
            system_calls: calls.then(|| system_calls::count(installation, setup)),
        };
        interrupt::check()?;
        let told = |what: &str, e: &String| eprintln!("        {what}: {e}");
        count.instructions.iter().for_each(|counted| match counted {
            Ok(figure) => eprintln!("    {figure:.0} instructions/request"),
            Err(e) => told("instructions", e),
        });
        count.system_calls.iter().for_each(|counted| match counted {
            Ok(calls) => eprintln!("    {:.2} system calls/request", calls.total),
            Err(e) => told("system calls", e),
        });
        counts.push(count);
    }
    Ok(counts)
}
