//! The version of the product. It stands in the workspace's manifest; the Perl modules and the gem repeat it, because both are
//! read where the manifest is not.

use super::command::run;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The text in front of the version in a Perl module.
const PERL: &str = "our $VERSION = '";

/// Files that repeat the version, relative to the top folder, with the text in front of it. The first one is the source.
fn places(root: &Path) -> Result<Vec<(PathBuf, &'static str)>, String> {
    let mut places =
        vec![(root.join("Cargo.toml"), "\nversion = \""), (root.join("hosts/ruby/lib/oribi/version.rb"), "VERSION = \"")];
    for folder in ["hosts/perl/lib", "hosts/perl/lib/Oribi", "hosts/perl/lib/Plack/Handler"] {
        let folder = root.join(folder);
        let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut modules: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        // Modules that are loaded by others alone need no version.
        modules.retain(|path| path.is_file() && read(path).is_ok_and(|text| value(&text, PERL).is_some()));
        modules.sort();
        places.extend(modules.into_iter().map(|path| (path, PERL)));
    }
    Ok(places)
}

/// The version of the product.
pub fn of(root: &Path) -> Result<String, String> {
    let places = places(root)?;
    let (path, before) = &places[0];
    Ok(value(&read(path)?, before).ok_or_else(|| format!("{}: no version", path.display()))?.to_owned())
}

/// Returns the places whose version is not that of the workspace's manifest.
pub fn check(root: &Path) -> Vec<String> {
    let breaches = || {
        let version = of(root)?;
        let mut breaches = Vec::new();
        for (path, before) in places(root)? {
            if value(&read(&path)?, before) != Some(version.as_str()) {
                breaches.push(format!("{}: the version is not {version}: cargo xtask version {version}", path.display()));
            }
        }
        let manifest = read(&root.join("Cargo.toml"))?;
        breaches.extend(
            path_dependencies(&manifest)
                .filter(|line| !line.contains(&format!("version = \"{version}\"")))
                .map(|line| format!("Cargo.toml: the version of a path dependency is not {version}: {line}")),
        );
        Ok(breaches)
    };
    breaches().unwrap_or_else(|error: String| vec![error])
}

/// Sets the version everywhere, in the lock files too.
///
/// # Errors
/// It is not three numbers, a file cannot be read or written, or cargo fails.
pub fn set(root: &Path, version: &str) -> Result<(), String> {
    let numbers: Vec<&str> = version.split('.').collect();
    if numbers.len() != 3
        || !numbers.iter().all(|number| number.parse::<u32>().is_ok_and(|parsed| parsed.to_string() == *number))
    {
        return Err(format!("{version} is no version: three numbers, as in 0.2.0"));
    }
    for (path, before) in places(root)? {
        let text = read(&path)?;
        let old = value(&text, before).ok_or_else(|| format!("{}: no version", path.display()))?;
        let mut new = text.replacen(&format!("{before}{old}"), &format!("{before}{version}"), 1);
        if path.ends_with("Cargo.toml") {
            let lines = new.split_inclusive('\n').map(|line| match is_path_dependency(line) {
                true => line.replacen(&format!("version = \"{old}\""), &format!("version = \"{version}\""), 1),
                false => line.to_owned(),
            });
            new = lines.collect();
        }
        fs::write(&path, new).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    for workspace in [root.to_owned(), root.join("fuzz")] {
        run(Command::new("cargo").args(["update", "--quiet", "--workspace", "--offline"]).current_dir(workspace))?;
    }
    Ok(())
}

/// The version behind a text, up to the quote.
fn value<'a>(text: &'a str, before: &str) -> Option<&'a str> {
    let rest = &text[text.find(before)? + before.len()..];
    Some(&rest[..rest.find(['"', '\''])?])
}

/// The dependencies on crates of the workspace that have a version, by which packed crates find each other.
fn path_dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    manifest.lines().filter(|line| is_path_dependency(line))
}

fn is_path_dependency(line: &str) -> bool {
    line.contains("{ path = ") && line.contains("version = ")
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_three_numbers() {
        for wrong in ["", "1", "0.2", "0.2.0-rc1", "v0.2.0", "0.02.0", "0.2.0.1"] {
            assert!(set(Path::new("/nonexistent"), wrong).is_err_and(|why| why.contains("is no version")), "{wrong}");
        }
    }

    #[test]
    fn a_version_is_found_behind_its_text() {
        assert_eq!(value("x = 1\nour $VERSION = '0.1.0';\n", PERL), Some("0.1.0"));
        assert_eq!(value("our @ISA;", PERL), None);
        assert!(is_path_dependency("a = { path = \"crates/a\", version = \"0.1.0\" }"));
        assert!(!is_path_dependency("a = { path = \"crates/a\" }"));
    }
}
