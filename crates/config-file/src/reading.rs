//! Reads `oribi.toml` with the files that it includes.

use crate::checks::Checks;
use crate::content::{ConfigFile, Text};
use crate::document::{Document, FILE_BYTES, document};
use crate::finding::{Findings, Severity};
use crate::include::matches;
use crate::place::Place;
use crate::report::Report;
use crate::review::Review;
use crate::route::Outline;
use crate::source::Source;
use crate::variables::Environment;
use oribi_config::table;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// The most included files.
const INCLUDED: usize = 1000;

/// A configuration that was read without a mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The content of the files.
    pub config: ConfigFile,
    /// Warnings about it.
    pub warnings: Findings,
}

/// Reads `oribi.toml` at `path` with the files that it includes. `environment` returns a variable of the environment.
///
/// # Errors
/// All mistakes in the files, and the warnings about them. A file that cannot be read is a mistake, too.
pub fn read_with(path: &Path, environment: &dyn Fn(&str) -> Option<String>) -> Result<Reading, Findings> {
    let (config, review) = examine(path, environment, &mut |_, _| {});
    review.finish().map(|warnings| Reading { config, warnings })
}

/// Like [`read_with`], for further checks: returns the parts without mistakes, and the findings so far. Passes the path and the
/// content of each file that could be read to `keep`, in the order for [`parse`].
pub fn examine(
    path: &Path,
    environment: &dyn Fn(&str) -> Option<String>,
    keep: &mut dyn FnMut(String, &[u8]),
) -> (ConfigFile, Review) {
    let mut content = |path: &Path| {
        let content = content(path)?;
        keep(path.display().to_string(), &content);
        Ok(content)
    };
    let mut files = Files::new(environment);
    let include = files.add(path, content(path)).include;
    let own = path.canonicalize().ok();
    let mut seen: HashSet<PathBuf> = own.iter().cloned().collect();
    for pattern in &include {
        for file in files.matching(path, pattern) {
            let whole = file.canonicalize().unwrap_or_else(|_| file.clone());
            if own.as_ref() == Some(&whole) {
                files.mistake(pattern, "the file includes itself".to_owned());
            } else if seen.len() > INCLUDED {
                files.mistake(pattern, format!("more than {INCLUDED} included files"));
                break;
            } else if seen.insert(whole) {
                match content(&file) {
                    Ok(content) => _ = files.add(&file, Ok(content)),
                    Err(error) => files.unreadable(pattern, &file, &error),
                }
            }
        }
    }
    files.finish()
}

/// The files of a configuration, to be watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceFiles {
    /// The file and the patterns of its `include`, with its folder in front.
    pub patterns: Vec<PathBuf>,
    /// The file and those that the patterns name now, each once.
    pub files: Vec<PathBuf>,
}

/// Returns the files of `oribi.toml` at `path`, whatever mistakes they have. An `include` that cannot be understood names none.
#[must_use]
pub fn source_files(path: &Path) -> SourceFiles {
    let environment = |name: &str| std::env::var(name).ok();
    let include = Files::new(&environment).add(path, content(path)).include;
    let folder = path.parent().unwrap_or(Path::new(""));
    let patterns = include.iter().map(|pattern| folder.join(&pattern.value));
    let matching = include.iter().flat_map(|pattern| matches(folder, &pattern.value).unwrap_or_default());
    let mut files: Vec<PathBuf> = std::iter::once(path.to_owned()).chain(matching).collect();
    files.sort();
    files.dedup();
    SourceFiles { patterns: std::iter::once(path.to_owned()).chain(patterns).collect(), files }
}

/// Like [`read_with`], for files that the caller has read: `oribi.toml`, and those that its `include` names, with their paths.
///
/// # Errors
/// As [`read_with`].
pub fn parse(files: &[(&str, &[u8])], environment: &dyn Fn(&str) -> Option<String>) -> Result<Reading, Findings> {
    let mut all = Files::new(environment);
    for (path, content) in files {
        all.add(Path::new(path), Ok(content.to_vec()));
    }
    let (config, review) = all.finish();
    review.finish().map(|warnings| Reading { config, warnings })
}

/// The files so far.
struct Files<'e> {
    environment: Environment<'e>,
    sources: Vec<Source>,
    report: Report,
    config: ConfigFile,
    /// The names of all apps, and the outlines of all routes, also of those with mistakes.
    names: Vec<Text>,
    outlines: Vec<Outline>,
    /// Whether all apps are known, because all files are TOML.
    complete: bool,
    /// Whether all uses of apps are known, because no line had to be repaired.
    all_used: bool,
}

impl<'e> Files<'e> {
    fn new(environment: Environment<'e>) -> Self {
        Self {
            environment,
            sources: Vec::new(),
            report: Report::default(),
            config: ConfigFile::default(),
            names: Vec::new(),
            outlines: Vec::new(),
            complete: true,
            all_used: true,
        }
    }

    /// Reads a file, the first of which is `oribi.toml`. Returns its parts that are not kept.
    fn add(&mut self, path: &Path, content: io::Result<Vec<u8>>) -> Document {
        let index = self.sources.len();
        let path = path.display().to_string();
        let document = match content {
            Ok(content) => {
                let (mut source, invalid) = Source::new(index, &path, &content);
                let read = document(&mut source, invalid, index > 0, self.environment, &mut self.report);
                self.sources.push(source);
                read
            }
            Err(error) => {
                self.sources.push(Source::new(index, &path, b"").0);
                let place = Place { file: index, line: 0, column: 0, path: path.into() };
                self.report.unreadable(place, format!("cannot read the file: {error}"));
                None
            }
        };
        self.complete &= document.as_ref().is_some_and(|document| !document.lacks_names);
        if index == 0 && document.is_none() {
            // Each of them may be in the file.
            self.config.faulty = table().iter().map(|setting| setting.name).collect();
        }
        let mut document = document.unwrap_or_default();
        self.all_used &= !document.is_repaired;
        self.config.needed.append(&mut document.needed);
        self.config.faulty.append(&mut document.faulty);
        self.config.server.append(&mut document.server);
        self.config.listens.append(&mut document.listens);
        self.config.apps.append(&mut document.apps);
        self.config.routes.append(&mut document.routes);
        if index == 0 {
            self.config.defaults = std::mem::take(&mut document.defaults);
        }
        self.names.append(&mut document.names);
        self.outlines.append(&mut document.outlines);
        document
    }

    /// The files that a pattern in `oribi.toml` names.
    fn matching(&mut self, path: &Path, pattern: &Text) -> Vec<PathBuf> {
        let folder = path.parent().unwrap_or(Path::new(""));
        match matches(folder, &pattern.value) {
            Ok(files) if files.is_empty() => {
                let message = format!("`{}` names no file", pattern.quoted());
                let is_folder = !pattern.from_environment && folder.join(&pattern.value).is_dir();
                let suggestion = is_folder.then(|| format!("write \"{}/*.toml\"", pattern.value.trim_end_matches('/')));
                self.report.at(Severity::Warning, &self.sources[0], &pattern.place, message, suggestion);
                files
            }
            Ok(files) => files,
            Err((folder, error)) => {
                let folder = if pattern.from_environment { "a folder".to_owned() } else { format!("`{}`", folder.display()) };
                self.mistake(pattern, format!("cannot read {folder}: {error}"));
                // Apps in it may be missing.
                self.complete = false;
                Vec::new()
            }
        }
    }

    fn mistake(&mut self, pattern: &Text, message: String) {
        let source = &self.sources[pattern.place.file];
        self.report.mistake(source, source.offset(&pattern.place), message);
    }

    /// Reports an included file that cannot be read.
    fn unreadable(&mut self, pattern: &Text, file: &Path, error: &io::Error) {
        let file = if pattern.from_environment { "a file".to_owned() } else { format!("`{}`", file.display()) };
        self.mistake(pattern, format!("cannot read {file}: {error}"));
        self.complete = false;
    }

    fn finish(mut self) -> (ConfigFile, Review) {
        let mut checks = Checks { sources: &self.sources, report: &mut self.report };
        checks.counts(&self.names, &self.outlines);
        checks.same_names(&self.names);
        checks.same_addresses(&self.config.listens);
        checks.unreachable(&self.outlines);
        if self.complete {
            checks.names(&self.names, &self.outlines, self.config.defaults.asked(), self.all_used);
        }
        self.config.routes.iter_mut().for_each(|route| route.filters.complete(&self.config.defaults));
        let lacks_apps = self.complete && self.names.is_empty();
        (self.config, Review::new(self.sources, self.report, lacks_apps))
    }
}

/// The content of a file, at most one byte more than a file may have.
fn content(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    if !path.metadata()?.is_file() {
        // Reading from a pipe could block for ever.
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file"));
    }
    File::open(path)?.take(FILE_BYTES as u64 + 1).read_to_end(&mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_to_watch_are_known_in_spite_of_mistakes() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("apps")).expect("it is ours");
        for name in ["apps/b.toml", "apps/a.toml", "apps/a.txt"] {
            std::fs::write(at(name), "nonsense").expect("it is ours");
        }
        std::fs::write(at("oribi.toml"), "colour = 1\ninclude = [\"apps/*.toml\", \"apps/a*\", \"later/*\"]\n").expect("ours");
        let SourceFiles { patterns, files } = source_files(&at("oribi.toml"));
        assert_eq!(patterns, ["oribi.toml", "apps/*.toml", "apps/a*", "later/*"].map(at));
        assert_eq!(files, ["apps/a.toml", "apps/a.txt", "apps/b.toml", "oribi.toml"].map(at));
        std::fs::write(at("oribi.toml"), "include = [").expect("it is ours");
        assert_eq!(source_files(&at("oribi.toml")).patterns, [at("oribi.toml")]);
    }
}
