//! The machine and the programs of a measurement: without them no figure means anything.

use rustix::process::{Resource, getrlimit, setrlimit};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The CPUs that this process may use, at least one.
pub fn allowed_cpus() -> Vec<usize> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return vec![0] };
    let cpus: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect();
    if cpus.is_empty() { vec![0] } else { cpus }
}

/// Raises the soft limit of descriptors to the hard limit, for wrk and for the servers. Returns the new limit.
pub fn raise_descriptor_limit() -> Option<u64> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
    getrlimit(Resource::Nofile).current
}

/// Returns names and values of facts, in the order in which they are written: about the machine, the programs of the bench, the
/// servers and their versions, and vulnerabilities of the CPU.
pub fn facts(servers: &[(String, String)]) -> Vec<(String, String)> {
    let mut facts = system();
    facts.extend([
        ("perl".to_owned(), output("perl", &["-e", "print \"$^V $^O\""])),
        ("ruby".to_owned(), output("ruby", &["--version"])),
        ("rack".to_owned(), output("ruby", &["-e", "require 'rack'; print Rack.release"])),
        ("sinatra".to_owned(), output("ruby", &["-e", "require 'sinatra/version'; print Sinatra::VERSION"])),
        ("rails".to_owned(), output("ruby", &["-e", "require 'rails/version'; print Rails.version"])),
        ("wrk".to_owned(), output("wrk", &["-v"])),
        ("h2load".to_owned(), output("h2load", &["--version"])),
        ("valgrind".to_owned(), output("valgrind", &["--version"])),
        ("strace".to_owned(), output("strace", &["-V"])),
    ]);
    facts.extend(servers.iter().map(|(title, version)| (title.clone(), version.clone())));
    facts.extend(vulnerabilities());
    facts
}

/// The machine, its kernel and what Oribi was built from and with.
pub fn system() -> Vec<(String, String)> {
    vec![
        ("CPU".to_owned(), cpu_model()),
        ("CPUs".to_owned(), allowed_cpus().len().to_string()),
        ("Virtual machine".to_owned(), if cpu_flags().contains(" hypervisor") { "yes" } else { "no" }.to_owned()),
        ("Frequency governor".to_owned(), read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        ("Memory".to_owned(), after(&read("/proc/meminfo"), "MemTotal:")),
        ("Kernel".to_owned(), format!("{} {}", read("/proc/sys/kernel/osrelease"), read("/proc/sys/kernel/version"))),
        ("Distribution".to_owned(), after(&read("/etc/os-release"), "PRETTY_NAME=").trim_matches('"').to_owned()),
        ("Kernel command line".to_owned(), mitigation_words(&read("/proc/cmdline"))),
        ("Commit".to_owned(), commit()),
        ("rustc".to_owned(), output("rustc", &["--version"])),
    ]
}

/// Returns the name of the CPU, with the number of CPUs, in a form that is suitable for the name of a directory.
pub fn label() -> String {
    let words: String = cpu_model().to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { ' ' }).collect();
    let mut label = words.split_whitespace().take(4).collect::<Vec<_>>().join("-");
    let _ = write!(label, "-{}cpu", allowed_cpus().len());
    label
}

/// Today, UTC, as 2026-01-31.
pub fn today() -> String {
    output("date", &["-u", "+%Y-%m-%d"])
}

fn read(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

fn cpu_info(key: &str) -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix(':'));
    value.map_or_else(|| "unknown".to_owned(), |value| value.trim().to_owned())
}

fn cpu_model() -> String {
    cpu_info("model name")
}

fn cpu_flags() -> String {
    format!(" {} ", cpu_info("flags"))
}

fn after(text: &str, key: &str) -> String {
    let value = text.lines().find_map(|line| line.strip_prefix(key));
    value.map_or_else(|| "unknown".to_owned(), |value| value.trim().to_owned())
}

/// Returns the words of the kernel's command line that change the cost of a request. Others may name disks and hosts.
fn mitigation_words(line: &str) -> String {
    const TELLING: [&str; 10] =
        ["mitigations", "nopti", "pti", "spectre", "spec_", "mds", "isolcpus", "nohz_full", "idle", "intel_pstate"];
    let telling = |word: &&str| TELLING.iter().any(|start| word.starts_with(start)) || word.contains("no_stf_barrier");
    let words: Vec<&str> = line.split_whitespace().filter(telling).collect();
    if words.is_empty() { "no mitigation switched by hand".to_owned() } else { words.join(" ") }
}

/// The kernel's report on each known vulnerability of the CPU, and on its mitigation.
pub fn vulnerabilities() -> Vec<(String, String)> {
    let directory = Path::new("/sys/devices/system/cpu/vulnerabilities");
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<(String, String)> = entries
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), read(&entry.path().display().to_string())))
        .map(|(name, state)| (format!("Vulnerability {name}"), state))
        .collect();
    found.sort();
    found
}

fn commit() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let git = |words: &[&str]| {
        let output = Command::new("git").arg("-C").arg(root).args(words).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    match (git(&["rev-parse", "--short=12", "HEAD"]), git(&["status", "--porcelain", "--untracked-files=no"])) {
        (Some(commit), Some(changes)) if changes.is_empty() => commit,
        (Some(commit), _) => format!("{commit}, with changes"),
        _ => "unknown".to_owned(),
    }
}

/// Returns the first line that a program prints to standard output or standard error, even if the program fails: some do after
/// they have printed their version.
pub fn output(program: &str, arguments: &[&str]) -> String {
    let Ok(output) = Command::new(program).args(arguments).output() else { return "not installed".to_owned() };
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or("unknown").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_fits_into_a_path() {
        let label = label();
        assert!(!label.is_empty());
        assert!(label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{label}");
    }

    #[test]
    fn the_command_line_gives_away_only_mitigations() {
        let line = "root=/dev/vda1 mitigations=off quiet spectre_v2=retpoline host=secret";
        assert_eq!(mitigation_words(line), "mitigations=off spectre_v2=retpoline");
        assert_eq!(mitigation_words("root=/dev/vda1"), "no mitigation switched by hand");
    }

    #[test]
    fn values_come_after_their_key() {
        assert_eq!(after("A=1\nPRETTY_NAME=\"Debian\"\n", "PRETTY_NAME="), "\"Debian\"");
        assert_eq!(after("A=1", "B="), "unknown");
    }
}
