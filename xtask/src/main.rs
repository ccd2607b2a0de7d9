//! `cargo xtask`: checks of this repository, and steps of its releases, that no other tool makes.
#![forbid(unsafe_code)]

mod architecture;
mod documents;
mod modules;
mod release;
mod sources;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask architecture
       cargo xtask version [VERSION]
       cargo xtask core FOLDER PACKAGE...
       cargo xtask release VERSION

  architecture   compare the workspace with the picture in ARCHITECTURE.md: who may depend on whom,
                 where unsafe code may stand, that modules next to one another form no cycle,
                 nor the C files of a host, how long files may be and how they may not be called,
                 that the files exist which documents about the code name
  version        print the version of the product, or set it everywhere
  core           write the source of packages of this workspace into a new folder, with all that cargo needs to
                 build them without a network (needs cargo-vendor-filterer: make setup-packages)
  release        check that CHANGELOG.md has the version, set it everywhere, and build all packages into dist/";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["architecture"] => report(&check_architecture()),
        ["version"] => end(release::version_of(&root()).map(|version| println!("{version}"))),
        ["version", version] => end(release::set_version(&root(), version)),
        ["release", version] => end(release::release(&root(), version)),
        ["core", folder, ref packages @ ..] if !packages.is_empty() => {
            end(release::write_core(&root(), Path::new(folder), packages))
        }
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn end(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The top folder of the repository.
fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// All breaches of the rules, one line each. An error of a tool counts as a breach.
fn check_architecture() -> Vec<String> {
    let root = root();
    let packages = architecture::packages(&root).map(|packages| {
        let mut breaches = architecture::check(&root, &packages);
        breaches.extend(modules::check(&root, &architecture::product_roots(&root, &packages)));
        breaches
    });
    let files = sources::tracked(&root).map(|files| {
        let mut breaches = sources::check(&root, &files);
        breaches.extend(documents::check(&root, &files));
        breaches.extend(modules::check_hosts(&root, &files));
        breaches
    });
    [packages, files, Ok(release::check_version(&root))]
        .into_iter()
        .flat_map(|result| result.unwrap_or_else(|error| vec![error]))
        .collect()
}

fn report(breaches: &[String]) -> ExitCode {
    for breach in breaches {
        eprintln!("architecture: {breach}");
    }
    if breaches.is_empty() {
        println!("architecture: as drawn");
        return ExitCode::SUCCESS;
    }
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    /// Lets `cargo test` check the same as `cargo xtask architecture`.
    #[test]
    fn this_repository_is_as_drawn() {
        assert_eq!(super::check_architecture(), Vec::<String>::new());
    }
}
