//! All languages, and the recognition of an app's language.

use crate::language::{App, Language};
use crate::{lua, perl, proxy, ruby};
use oribi_server::directory::masked_path;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// To add a language, add an element here and a file next to this one.
pub static LANGUAGES: [&Language; 3] = [&perl::LANGUAGE, &ruby::LANGUAGE, &lua::LANGUAGE];

/// The bytes of a first line that the kernel reads (execve(2)).
const FIRST_LINE_BYTES: u64 = 256;

/// Finds an app: the file at `path`, or a file with a usual name in the directory at `path`. Without a path, it searches the
/// current directory. `language` is the name of the app's language; if it is `None`, the file decides the language.
///
/// # Errors
/// There is no file at the path or no app in the directory, or the language is unknown.
pub fn find(path: Option<&Path>, language: Option<&str>) -> Result<App, String> {
    if let Some(app) = path.and_then(Path::to_str).and_then(proxy::app) {
        return app;
    }
    let unknown = |name: &str| {
        let names: Vec<&str> = LANGUAGES.iter().copied().map(|language| language.name).collect();
        format!("unknown language `{}`; known are {}", name.escape_debug(), names.join(", "))
    };
    let language = language.map(|name| by_name(name).ok_or_else(|| unknown(name))).transpose()?;
    let path = path.unwrap_or(Path::new("."));
    let metadata = path.metadata().map_err(|error| format!("cannot find the app {}: {error}", masked_path(path)))?;
    if metadata.is_dir() {
        return in_directory(path, language);
    }
    let language = language.or_else(|| by_ending(path)).or_else(|| by_first_line(path)).ok_or_else(|| {
        let endings: Vec<String> = LANGUAGES.iter().copied().map(describe_endings).collect();
        let known = endings.join(", ");
        format!(
            "cannot tell the language of {} from its name or its first line; known are {known}; or give --language NAME",
            path.display()
        )
    })?;
    Ok(App { path: path.to_owned(), language })
}

/// Returns the name of the app's file in a directory, if there is an app.
pub fn app_in(directory: &Path) -> Option<&'static str> {
    LANGUAGES.iter().flat_map(|language| language.files).copied().find(|file| directory.join(file).is_file())
}

fn in_directory(directory: &Path, language: Option<&'static Language>) -> Result<App, String> {
    let mut looked_for = Vec::new();
    for candidate in
        LANGUAGES.iter().copied().filter(|candidate| language.is_none_or(|language| language.name == candidate.name))
    {
        for file in candidate.files {
            let path = directory.join(file);
            if path.is_file() {
                // Displays "app.psgi" instead of "./app.psgi".
                let path = path.strip_prefix(".").map(Path::to_owned).unwrap_or(path);
                return Ok(App { path, language: candidate });
            }
            looked_for.push(*file);
        }
    }
    let place = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    Err(format!("no app in {}: looked for {}", place.display(), looked_for.join(", ")))
}

/// The language with this name.
pub fn by_name(name: &str) -> Option<&'static Language> {
    LANGUAGES.iter().copied().find(|language| language.name.eq_ignore_ascii_case(name))
}

fn by_ending(path: &Path) -> Option<&'static Language> {
    let ending = path.extension()?.to_str()?;
    LANGUAGES.iter().copied().find(|language| language.endings.contains(&ending))
}

/// Recognizes the language by a line such as `#!/usr/bin/perl -w` or `#!/usr/bin/env ruby`.
fn by_first_line(path: &Path) -> Option<&'static Language> {
    let mut start = Vec::new();
    File::open(path).ok()?.take(FIRST_LINE_BYTES).read_to_end(&mut start).ok()?;
    let line = start.split(|byte| *byte == b'\n').next()?;
    let mut words = std::str::from_utf8(line.strip_prefix(b"#!")?).ok()?.split_whitespace();
    let name = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
    let mut program = name(words.next()?);
    if program == "env" {
        // Options and assignments of `env` precede the program.
        program = name(words.find(|word| !word.starts_with('-') && !word.contains('='))?);
    }
    let program = program.trim_end_matches(|character: char| character.is_ascii_digit() || matches!(character, '.' | '-'));
    LANGUAGES.iter().copied().find(|language| language.programs.contains(&program))
}

fn describe_endings(language: &Language) -> String {
    let endings: Vec<String> = language.endings.iter().map(|ending| format!(".{ending}")).collect();
    format!("{} ({})", endings.join(" and "), language.title)
}

#[cfg(test)]
mod tests {
    use super::by_first_line;

    #[test]
    fn the_first_line_of_a_script_says_its_language() {
        let folder = tempfile::tempdir().expect("a folder is to be had");
        let path = folder.path().join("rt-server");
        for (line, expected) in [
            ("#!/usr/bin/perl", Some("perl")),
            ("#!/usr/bin/perl -w -T", Some("perl")),
            ("#! /opt/perl/bin/perl5.36.0", Some("perl")),
            ("#!/usr/bin/env plackup", Some("perl")),
            ("#!/usr/bin/env ruby", Some("ruby")),
            ("#!/usr/bin/env -S LANG=C ruby3.1 -w", Some("ruby")),
            ("#!/usr/bin/env -S rackup -s oribi", Some("ruby")),
            ("#!/usr/bin/lua5.4", Some("lua")),
            ("#!/usr/bin/env luajit-2.1", Some("lua")),
            ("#!/bin/sh", None),
            ("#!/usr/bin/env", None),
            ("#!", None),
            ("use strict; #!/usr/bin/perl", None),
            ("", None),
            ("#!/usr/bin/python3 perl", None),
        ] {
            std::fs::write(&path, format!("{line}\nuse strict;\n")).expect("it is writable");
            assert_eq!(by_first_line(&path).map(|language| language.name), expected, "{line}");
        }
        std::fs::write(&path, b"#!\xff\xfe").expect("it is writable");
        assert!(by_first_line(&path).is_none() && by_first_line(folder.path()).is_none());
    }
}
