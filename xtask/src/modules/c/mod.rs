//! The C files of a host, and their uses of each other. As with modules, these uses must not form a cycle.
//!
//! `name.h` and `name.c` count as one file. A header without a `.c` file of the same name belongs to no file: its functions and
//! macros count as code of the files that use them.

mod file;

use super::tree::{Mention, Uses};
use file::File;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The files of one host.
#[derive(Default)]
pub struct Files {
    /// By path.
    files: BTreeMap<String, File>,
    /// The names, without folder and ending, of the files that are not headers.
    sources: BTreeSet<String>,
}

impl Files {
    /// Parses the files, given by path and text.
    ///
    /// # Errors
    /// A file that cannot be parsed.
    pub fn read(texts: impl IntoIterator<Item = (String, String)>) -> Result<Self, String> {
        let mut files = Self::default();
        for (path, text) in texts {
            let xs = ending(&path) == "xs";
            let file = if xs { Ok(File::read_xs(&text)) } else { File::read(&text) };
            if ending(&path) != "h" {
                files.sources.insert(stem(&path));
            }
            files.files.insert(path.clone(), file.map_err(|error| format!("{path}:{error}"))?);
        }
        Ok(files)
    }

    /// Returns the uses of these files among each other.
    pub fn uses(&self) -> Uses {
        let owners = self.owners();
        let bodies = self.bodies();
        let mut uses = Uses::new();
        for (path, file) in self.of_sources() {
            let from = stem(path);
            let mut note = |to: &str, line: usize, what: String| {
                if to != from {
                    let mentions = uses.entry((from.clone(), to.to_owned())).or_default();
                    mentions.push(Mention { file: path.into(), line, path: what });
                }
            };
            for (name, line) in file.names.iter().filter(|(name, _)| !file.private.contains(name)) {
                if let Some(owner) = owners.get(name.as_str()) {
                    note(owner, *line, name.clone());
                }
                for inner in reached(&bodies, name) {
                    if let Some(owner) = owners.get(inner) {
                        note(owner, *line, format!("{name}, which uses {inner}"));
                    }
                }
            }
            for (header, line) in &file.includes {
                for to in self.sources_behind(header) {
                    note(&to, *line, format!("#include \"{header}\""));
                }
            }
        }
        uses
    }

    /// Returns the files that are compiled, and the headers that belong to them.
    fn of_sources(&self) -> impl Iterator<Item = (&String, &File)> {
        self.files.iter().filter(|(path, _)| self.sources.contains(&stem(path)))
    }

    /// The file that defines each name that others can use.
    fn owners(&self) -> BTreeMap<&str, String> {
        let mut owners = BTreeMap::new();
        for (path, file) in self.of_sources() {
            let own_header = (ending(path) == "h").then_some(&file.private);
            for name in file.shared.iter().chain(own_header.into_iter().flatten()) {
                owners.insert(name.as_str(), stem(path));
            }
        }
        owners
    }

    /// The names in the functions and macros of headers that belong to no file.
    fn bodies(&self) -> BTreeMap<&str, &BTreeSet<String>> {
        let headers = self.files.iter().filter(|(path, _)| !self.sources.contains(&stem(path)));
        headers.flat_map(|(_, header)| header.bodies.iter().map(|(name, body)| (name.as_str(), body))).collect()
    }

    /// Returns the files to which `header` and the headers that it includes belong. Headers from elsewhere are not followed.
    fn sources_behind(&self, header: &str) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut seen = BTreeSet::from([header]);
        let mut next = vec![header];
        while let Some(header) = next.pop() {
            let Some((path, file)) = self.files.iter().find(|(path, _)| Path::new(path).ends_with(header)) else { continue };
            if self.sources.contains(&stem(path)) {
                found.insert(stem(path));
            } else {
                next.extend(file.includes.iter().map(|(inner, _)| inner.as_str()).filter(|inner| seen.insert(inner)));
            }
        }
        found
    }
}

/// Returns the names that a call of `name` uses, directly or indirectly, if `name` is a function or macro with a body in
/// `bodies`.
fn reached<'a>(bodies: &BTreeMap<&'a str, &'a BTreeSet<String>>, name: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut next: Vec<&BTreeSet<String>> = bodies.get(name).copied().into_iter().collect();
    while let Some(body) = next.pop() {
        next.extend(body.iter().filter(|inner| found.insert(inner.as_str())).filter_map(|inner| bodies.get(inner.as_str())));
    }
    found
}

fn stem(path: &str) -> String {
    Path::new(path).file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
}

fn ending(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(_, ending)| ending)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The arrows between `files`.
    fn arrows(files: &[(&str, &str)]) -> Vec<String> {
        let texts = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        let uses = Files::read(texts).expect("the braces match").uses();
        uses.into_keys().map(|(from, to)| format!("{from} -> {to}")).collect()
    }

    #[test]
    fn a_file_uses_those_that_define_its_names() {
        let found = arrows(&[
            ("src/host.h", "void a_go(void); extern int b_count; void c_go(void);"),
            ("src/a.c", "#include \"host.h\"\nvoid a_go(void) { b_count++; c_go(); }"),
            ("src/b.c", "#include \"host.h\"\nint b_count; static void c_go(void) {} void d(void) { c_go(); }"),
            ("src/c.c", "#include \"host.h\"\nvoid c_go(void) { b.b_count = 1; }"),
            ("Top.xs", "#include \"src/host.h\"\nMODULE = Top\nvoid\ngo()\n  CODE:\n    a_go();"),
        ]);
        assert_eq!(found, ["Top -> a", "a -> b", "a -> c"]);
    }

    #[test]
    fn a_function_in_a_shared_header_is_code_of_the_file_that_uses_it() {
        let header = "static inline int outer(void) { return inner(); }\n#define inner() (count + 1)\nextern int count;";
        let found = arrows(&[
            ("host.h", header),
            ("a.c", "#include \"host.h\"\nint a(void) { return outer(); }"),
            ("b.c", "#include \"host.h\"\nint b(void) { return 1; }"),
            ("c.c", "#include \"host.h\"\nint count;"),
        ]);
        assert_eq!(found, ["a -> c"]);
    }

    #[test]
    fn including_the_header_of_a_file_uses_it_also_by_way_of_a_shared_header() {
        let found = arrows(&[
            ("host.h", "#include \"b.h\"\n#include <stdio.h>"),
            ("a.c", "#include \"host.h\""),
            ("b.h", "static inline int b(void) { return c; }"),
            ("b.c", "#include \"b.h\""),
            ("c.c", "#include \"b.h\"\nint c;"),
        ]);
        assert_eq!(found, ["a -> b", "b -> c", "c -> b"]);
    }

    #[test]
    fn a_header_from_elsewhere_is_not_the_file_of_the_same_name() {
        let found = arrows(&[("host.h", "#include \"oribi.h\""), ("a.c", "#include \"host.h\""), ("oribi.c", "")]);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn a_file_that_cannot_be_parsed_is_an_error_with_its_place() {
        let texts = [("src/a.c".to_owned(), "int a;\nint b(void) {".to_owned())];
        assert_eq!(Files::read(texts).err().as_deref(), Some("src/a.c:2: a bracket is not closed"));
    }
}
