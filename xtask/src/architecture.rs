//! Checks the dependencies of crates, and that only some crates have unsafe code.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The rights of a crate of this workspace. A crate without a rule is a breach, so add a rule first.
struct Rule {
    name: &'static str,
    /// Crates of this workspace that the crate may depend on. Those for tests and build scripts count as well.
    sees: &'static [&'static str],
    /// Crates from elsewhere that the crate may be built with; tests may use others. A sans-I/O crate lists all of them, so
    /// that none brings in a socket or a clock unnoticed.
    uses: Uses,
    unsafe_code: Unsafe,
}

enum Uses {
    Only(&'static [&'static str]),
    Anything,
}

#[derive(Clone, Copy, PartialEq)]
enum Unsafe {
    /// `#![forbid(unsafe_code)]` is at the crate's root.
    Forbidden,
    /// The crate makes system calls, or accesses the memory of another language.
    Allowed,
}

/// The rules. In this summary, `a <- b` means that `b` depends on `a`. The lower crates: `message <- proto, route, encode, cache,
/// control-api`, `message <- host <- files`, `io <- tls <- acme`, `message, tls <- http-client <- acme, otlp`, `proto, host, io <- proxy` and `protobuf <-
/// otlp`. `io`, `pool`, `limit`, `auth`, `websocket` and `protobuf` depend on no crate of this workspace. The layers of the server: `config <- listen <-
/// source <- engine <- worker <- edge <- supervise`, `config <- stats, log, ipc <- engine`, `config <- config-file <- import` and `stats,
/// log, ipc, listen, protobuf, control-api <- admin <- worker`. `capi` and the Lua host depend on `server`, and `cli` depends on
/// `server` and the Lua host.
const RULES: &[Rule] = &[
    Rule { name: "oribi-message", sees: &[], uses: Uses::Only(&[]), unsafe_code: Unsafe::Forbidden },
    Rule {
        name: "oribi-proto",
        sees: &["oribi-message"],
        uses: Uses::Only(&["memchr", "wide"]),
        unsafe_code: Unsafe::Forbidden,
    },
    Rule {
        name: "oribi-route",
        sees: &["oribi-message"],
        uses: Uses::Only(&["memchr", "regex"]),
        unsafe_code: Unsafe::Forbidden,
    },
    Rule {
        name: "oribi-encode",
        sees: &["oribi-message"],
        uses: Uses::Only(&["brotli", "brotli-decompressor", "flate2", "zstd-safe"]),
        unsafe_code: Unsafe::Forbidden,
    },
    Rule {
        name: "oribi-filter",
        sees: &["oribi-message", "oribi-encode"],
        uses: Uses::Only(&[]),
        unsafe_code: Unsafe::Forbidden,
    },
    Rule { name: "oribi-host", sees: &["oribi-message"], uses: Uses::Only(&["log", "memchr"]), unsafe_code: Unsafe::Forbidden },
    Rule {
        name: "oribi-files",
        sees: &["oribi-message", "oribi-host", "oribi-route"],
        uses: Uses::Anything,
        unsafe_code: Unsafe::Forbidden,
    },
    Rule {
        name: "oribi-proxy",
        sees: &["oribi-message", "oribi-host", "oribi-proto", "oribi-io"],
        uses: Uses::Anything,
        unsafe_code: Unsafe::Forbidden,
    },
    Rule { name: "oribi-io", sees: &[], uses: Uses::Anything, unsafe_code: Unsafe::Allowed },
    Rule { name: "oribi-tls", sees: &["oribi-io"], uses: Uses::Anything, unsafe_code: Unsafe::Forbidden },
    Rule {
        name: "oribi-http-client",
        sees: &["oribi-message", "oribi-tls"],
        uses: Uses::Anything,
        unsafe_code: Unsafe::Forbidden,
    },
    Rule {
        name: "oribi-acme",
        sees: &["oribi-tls", "oribi-http-client"],
        uses: Uses::Anything,
        unsafe_code: Unsafe::Forbidden,
    },
    Rule { name: "oribi-protobuf", sees: &[], uses: Uses::Only(&[]), unsafe_code: Unsafe::Forbidden },
    Rule {
        name: "oribi-otlp",
        sees: &["oribi-http-client", "oribi-protobuf"],
        uses: Uses::Anything,
        unsafe_code: Unsafe::Forbidden,
    },
    Rule { name: "oribi-cache", sees: &["oribi-message"], uses: Uses::Only(&["httpdate"]), unsafe_code: Unsafe::Forbidden },
    Rule {
        name: "oribi-live",
        sees: &["oribi-message", "oribi-host", "oribi-websocket"],
        uses: Uses::Only(&[]),
        unsafe_code: Unsafe::Forbidden,
    },
    Rule { name: "oribi-relay", sees: &["oribi-live", "oribi-tls"], uses: Uses::Anything, unsafe_code: Unsafe::Forbidden },
    Rule { name: "oribi-limit", sees: &[], uses: Uses::Only(&["siphasher"]), unsafe_code: Unsafe::Forbidden },
    Rule {
        name: "oribi-auth",
        sees: &[],
        uses: Uses::Only(&["argon2", "base64", "bcrypt", "md-5", "ring", "sha-crypt", "zeroize"]),
        unsafe_code: Unsafe::Forbidden,
    },
    Rule {
        name: "oribi-websocket",
        sees: &[],
        uses: Uses::Only(&["base64", "flate2", "ring"]),
        unsafe_code: Unsafe::Forbidden,
    },
    Rule { name: "oribi-pool", sees: &[], uses: Uses::Anything, unsafe_code: Unsafe::Allowed },
    Rule { name: "oribi-test-support", sees: &[], uses: Uses::Only(&["rustix", "rustls"]), unsafe_code: Unsafe::Forbidden },
    Rule {
        name: "oribi-config",
        sees: &[
            "oribi-message",
            "oribi-proto",
            "oribi-io",
            "oribi-tls",
            "oribi-acme",
            "oribi-otlp",
            "oribi-files",
            "oribi-relay",
        ],
        uses: Uses::Anything,
        unsafe_code: Unsafe::Forbidden,
    },
    Rule {
        name: "oribi-config-file",
        sees: &["oribi-route", "oribi-filter", "oribi-limit", "oribi-cache", "oribi-config", "oribi-proxy"],
        uses: Uses::Only(&["serde_json", "toml"]),
        unsafe_code: Unsafe::Forbidden,
    },
    Rule {
        name: "oribi-import",
        sees: &["oribi-config", "oribi-config-file", "oribi-filter", "oribi-route"],
        uses: Uses::Only(&["serde", "serde_json", "toml_writer"]),
        unsafe_code: Unsafe::Forbidden,
    },
    Rule {
        name: "oribi-stats",
        sees: &["oribi-message", "oribi-proto", "oribi-host", "oribi-io", "oribi-tls", "oribi-config"],
        uses: Uses::Anything,
        unsafe_code: Unsafe::Forbidden,
    },
    Rule {
        name: "oribi-listen",
        sees: &["oribi-host", "oribi-io", "oribi-tls", "oribi-config", "oribi-test-support"],
        uses: Uses::Anything,
        unsafe_code: Unsafe::Forbidden,
    },
    Rule {
        name: "oribi-log",
        sees: &["oribi-message", "oribi-host", "oribi-io", "oribi-config", "oribi-test-support"],
        uses: Uses::Anything,
        unsafe_code: Unsafe::Forbidden,
    },
    Rule {
        name: "oribi-ipc",
        sees: &["oribi-message", "oribi-proto", "oribi-host", "oribi-config", "oribi-test-support"],
        uses: Uses::Anything,
        unsafe_code: Unsafe::Forbidden,
    },
    Rule {
        name: "oribi-control-api",
        sees: &["oribi-message"],
        uses: Uses::Only(&["serde", "serde_json"]),
        unsafe_code: Unsafe::Forbidden,
    },
    Rule {
        name: "oribi-source",
        sees: &["oribi-message", "oribi-host", "oribi-io", "oribi-listen"],
        uses: Uses::Anything,
        unsafe_code: Unsafe::Forbidden,
    },
    Rule {
        name: "oribi-engine",
        sees: &[
            "oribi-live",
            "oribi-websocket",
            "oribi-message",
            "oribi-encode",
            "oribi-filter",
            "oribi-proto",
            "oribi-host",
            "oribi-io",
            "oribi-tls",
            "oribi-otlp",
            "oribi-config",
            "oribi-stats",
            "oribi-listen",
            "oribi-log",
            "oribi-ipc",
            "oribi-source",
            "oribi-test-support",
        ],
        uses: Uses::Anything,
        unsafe_code: Unsafe::Forbidden,
    },
    Rule {
        name: "oribi-admin",
        sees: &[
            "oribi-message",
            "oribi-proto",
            "oribi-io",
            "oribi-protobuf",
            "oribi-config",
            "oribi-stats",
            "oribi-listen",
            "oribi-log",
            "oribi-ipc",
            "oribi-control-api",
        ],
        uses: Uses::Anything,
        unsafe_code: Unsafe::Forbidden,
    },
    Rule {
        name: "oribi-worker",
        sees: &[
            "oribi-message",
            "oribi-proto",
            "oribi-live",
            "oribi-host",
            "oribi-io",
            "oribi-tls",
            "oribi-acme",
            "oribi-pool",
            "oribi-files",
            "oribi-config",
            "oribi-stats",
            "oribi-listen",
            "oribi-log",
            "oribi-ipc",
            "oribi-source",
            "oribi-engine",
            "oribi-admin",
            "oribi-test-support",
        ],
        uses: Uses::Anything,
        unsafe_code: Unsafe::Forbidden,
    },
    Rule {
        name: "oribi-edge",
        sees: &[
            "oribi-live",
            "oribi-websocket",
            "oribi-message",
            "oribi-filter",
            "oribi-cache",
            "oribi-limit",
            "oribi-auth",
            "oribi-proto",
            "oribi-route",
            "oribi-host",
            "oribi-io",
            "oribi-tls",
            "oribi-pool",
            "oribi-files",
            "oribi-config",
            "oribi-stats",
            "oribi-listen",
            "oribi-log",
            "oribi-ipc",
            "oribi-source",
            "oribi-engine",
            "oribi-worker",
            "oribi-test-support",
        ],
        uses: Uses::Anything,
        unsafe_code: Unsafe::Forbidden,
    },
    Rule {
        name: "oribi-supervise",
        sees: &[
            "oribi-message",
            "oribi-proto",
            "oribi-host",
            "oribi-io",
            "oribi-tls",
            "oribi-acme",
            "oribi-otlp",
            "oribi-pool",
            "oribi-files",
            "oribi-config",
            "oribi-stats",
            "oribi-listen",
            "oribi-log",
            "oribi-ipc",
            "oribi-source",
            "oribi-control-api",
            "oribi-engine",
            "oribi-admin",
            "oribi-worker",
            "oribi-edge",
            "oribi-live",
            "oribi-relay",
            "oribi-test-support",
        ],
        uses: Uses::Anything,
        unsafe_code: Unsafe::Forbidden,
    },
    Rule {
        name: "oribi-server",
        sees: &[
            "oribi-message",
            "oribi-filter",
            "oribi-limit",
            "oribi-host",
            "oribi-io",
            "oribi-otlp",
            "oribi-config",
            "oribi-stats",
            "oribi-listen",
            "oribi-log",
            "oribi-ipc",
            "oribi-source",
            "oribi-engine",
            "oribi-admin",
            "oribi-worker",
            "oribi-route",
            "oribi-edge",
            "oribi-supervise",
            "oribi-test-support",
        ],
        uses: Uses::Anything,
        unsafe_code: Unsafe::Forbidden,
    },
    Rule {
        name: "oribi-capi",
        sees: &["oribi-message", "oribi-host", "oribi-live", "oribi-server", "oribi-test-support"],
        uses: Uses::Anything,
        unsafe_code: Unsafe::Allowed,
    },
    Rule { name: "liboribi", sees: &["oribi-capi", "oribi-io"], uses: Uses::Only(&[]), unsafe_code: Unsafe::Forbidden },
    Rule {
        name: "oribi-lua",
        sees: &["oribi-live", "oribi-message", "oribi-host", "oribi-tls", "oribi-server"],
        uses: Uses::Anything,
        unsafe_code: Unsafe::Allowed,
    },
    Rule {
        name: "oribi-cli",
        sees: &[
            "oribi-host",
            "oribi-io",
            "oribi-config-file",
            "oribi-import",
            "oribi-server",
            "oribi-lua",
            "oribi-proxy",
            "oribi-files",
            "oribi-protobuf",
            "oribi-control-api",
            "oribi-test-support",
            "oribi-websocket",
        ],
        uses: Uses::Anything,
        unsafe_code: Unsafe::Forbidden,
    },
    Rule { name: "oribi-bench", sees: &[], uses: Uses::Anything, unsafe_code: Unsafe::Forbidden },
    Rule { name: "oribi-load", sees: &[], uses: Uses::Anything, unsafe_code: Unsafe::Forbidden },
    Rule { name: "oribi-study", sees: &["oribi-bench"], uses: Uses::Anything, unsafe_code: Unsafe::Forbidden },
    Rule { name: "xtask", sees: &[], uses: Uses::Anything, unsafe_code: Unsafe::Forbidden },
];

/// The facts about a crate of the workspace that the rules need.
pub struct Package {
    name: String,
    /// The source files that `rustc` is given: libraries, programs, tests.
    roots: Vec<Root>,
    dependencies: Vec<Dependency>,
}

struct Root {
    path: PathBuf,
    /// Whether the root becomes a part of the programs that users run.
    product: bool,
}

struct Dependency {
    name: String,
    /// A crate of this workspace.
    local: bool,
    /// Whether only tests depend on it.
    tests_only: bool,
}

/// Lists the crates of the workspace at `root`.
///
/// # Errors
/// Cargo has failed, or its output cannot be parsed.
pub fn packages(root: &Path) -> Result<Vec<Package>, String> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    Ok(array(&metadata, "packages").iter().map(package).collect())
}

fn package(value: &Value) -> Package {
    Package {
        name: text(value, "name"),
        roots: array(value, "targets")
            .iter()
            .map(|target| Root {
                path: text(target, "src_path").into(),
                product: array(target, "kind").iter().any(|kind| kind != "test" && kind != "bench" && kind != "example"),
            })
            .collect(),
        dependencies: array(value, "dependencies")
            .iter()
            .map(|dependency| Dependency {
                name: text(dependency, "name"),
                local: dependency["path"].is_string(),
                tests_only: dependency["kind"] == "dev",
            })
            .collect(),
    }
}

fn array<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

/// Compares `packages` with the rules.
pub fn check(root: &Path, packages: &[Package]) -> Vec<String> {
    let mut breaches = Vec::new();
    for package in packages {
        match RULES.iter().find(|rule| rule.name == package.name) {
            Some(rule) => {
                breaches.extend(dependency_breaches(rule, package));
                breaches.extend(unsafe_breaches(root, rule, package));
            }
            None => breaches.push(format!("{} is not in the picture: give it a rule", package.name)),
        }
    }
    for rule in RULES {
        if !packages.iter().any(|package| package.name == rule.name) {
            breaches.push(format!("{} is in the picture, but not in the workspace", rule.name));
        }
    }
    breaches
}

fn dependency_breaches(rule: &Rule, package: &Package) -> Vec<String> {
    let may = |dependency: &Dependency| match rule.uses {
        _ if dependency.local => rule.sees.contains(&dependency.name.as_str()),
        Uses::Only(list) => dependency.tests_only || list.contains(&dependency.name.as_str()),
        Uses::Anything => true,
    };
    let breaches = package.dependencies.iter().filter(|dependency| !may(dependency));
    breaches.map(|dependency| format!("{} must not depend on {}", rule.name, dependency.name)).collect()
}

fn unsafe_breaches(root: &Path, rule: &Rule, package: &Package) -> Vec<String> {
    if rule.unsafe_code == Unsafe::Allowed {
        return Vec::new();
    }
    let breach = |file: &Root| match std::fs::read_to_string(&file.path) {
        Ok(source) if forbids_unsafe(&source) => None,
        Ok(_) => Some(format!("{} must say #![forbid(unsafe_code)]", relative(root, &file.path))),
        Err(error) => Some(format!("{}: {error}", file.path.display())),
    };
    package.roots.iter().filter(|file| file.product).filter_map(breach).collect()
}

/// Whether the attribute that forbids unsafe code is on a line of its own. In a comment or in a `cfg_attr` it would forbid
/// nothing.
fn forbids_unsafe(source: &str) -> bool {
    source.lines().any(|line| line.trim_end() == "#![forbid(unsafe_code)]")
}

/// The root files of the libraries and programs among `packages`, relative to `root`.
pub fn product_roots(root: &Path, packages: &[Package]) -> Vec<PathBuf> {
    let roots = packages.iter().flat_map(|package| &package.roots).filter(|file| file.product);
    roots.map(|file| relative(root, &file.path).into()).collect()
}

fn relative(root: &Path, path: &Path) -> String {
    let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(name: &str) -> &'static Rule {
        RULES.iter().find(|rule| rule.name == name).expect("the tests below name crates of the picture")
    }

    fn depending(name: &str, on: &str, local: bool, tests_only: bool) -> Package {
        let dependency = Dependency { name: on.to_owned(), local, tests_only };
        Package { name: name.to_owned(), roots: Vec::new(), dependencies: vec![dependency] }
    }

    #[test]
    fn neighbours_must_not_see_one_another() {
        for (from, to) in [
            ("oribi-proto", "oribi-host"),
            ("oribi-proto", "oribi-io"),
            ("oribi-host", "oribi-proto"),
            ("oribi-host", "oribi-io"),
            ("oribi-io", "oribi-message"),
            ("oribi-pool", "oribi-io"),
            ("oribi-message", "oribi-proto"),
            ("oribi-config", "oribi-stats"),
            ("oribi-engine", "oribi-worker"),
            ("oribi-server", "oribi-cli"),
            ("oribi-files", "oribi-proto"),
            ("oribi-files", "oribi-io"),
            ("oribi-files", "oribi-server"),
        ] {
            for tests_only in [false, true] {
                let breaches = dependency_breaches(rule(from), &depending(from, to, true, tests_only));
                assert_eq!(breaches, [format!("{from} must not depend on {to}")]);
            }
        }
    }

    #[test]
    fn the_engine_joins_the_three() {
        for to in ["oribi-message", "oribi-proto", "oribi-host", "oribi-io"] {
            let breaches = dependency_breaches(rule("oribi-engine"), &depending("oribi-engine", to, true, false));
            assert_eq!(breaches, Vec::<String>::new());
        }
    }

    #[test]
    fn a_sans_io_crate_takes_no_crate_that_the_picture_does_not_name() {
        let breaches =
            |tests_only| dependency_breaches(rule("oribi-proto"), &depending("oribi-proto", "mio", false, tests_only));
        assert_eq!(breaches(false), ["oribi-proto must not depend on mio"]);
        assert_eq!(breaches(true), Vec::<String>::new());
    }

    #[test]
    fn a_crate_that_the_picture_does_not_name_is_a_breach() {
        let breaches = check(Path::new("."), &[depending("oribi-stranger", "memchr", false, false)]);
        assert_eq!(breaches[0], "oribi-stranger is not in the picture: give it a rule");
        assert_eq!(breaches.len(), 1 + RULES.len(), "and every crate of the picture is missing: {breaches:?}");
    }

    #[test]
    fn only_the_bare_attribute_forbids_unsafe_code() {
        assert!(forbids_unsafe("//! Words.\n#![forbid(unsafe_code)]\nfn main() {}\n"));
        assert!(!forbids_unsafe("// #![forbid(unsafe_code)]\n"));
        assert!(!forbids_unsafe("#![cfg_attr(test, forbid(unsafe_code))]\n"));
        assert!(!forbids_unsafe("#![deny(unsafe_code)]\n"));
    }
}
