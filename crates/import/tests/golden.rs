//! Sources of each format with the files that they become: `tests/golden/FORMAT/NAME` and `NAME.toml`. `ORIBI_WRITE_DOCS=1`
//! writes the latter again.

use oribi_import::{Format, Imported, Kind, detect, import};
use std::path::{Path, PathBuf};

/// All sources, with their formats.
fn sources() -> Vec<(Format, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut sources = Vec::new();
    for (name, format) in Format::ALL {
        let files = std::fs::read_dir(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut paths: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
        paths.retain(|path| path.extension().is_none_or(|ending| ending != "toml"));
        paths.sort();
        assert!(!paths.is_empty(), "{name} has no source");
        sources.extend(paths.into_iter().map(|path| (*format, path)));
    }
    sources
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn imported(format: Format, path: &Path) -> Imported {
    let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
    import(format, name, &text(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn each_source_becomes_its_file() {
    for (format, path) in sources() {
        let golden = PathBuf::from(format!("{}.toml", path.display()));
        let imported = imported(format, &path);
        if std::env::var_os("ORIBI_WRITE_DOCS").is_some() {
            std::fs::write(&golden, &imported.toml).expect("it can be written");
        }
        assert_eq!(imported.toml, text(&golden), "{}", path.display());
    }
}

#[test]
fn the_reader_of_the_file_accepts_it_and_finds_the_notes() {
    for (format, path) in sources() {
        let imported = imported(format, &path);
        let read = oribi_config_file::parse(&[("oribi.toml", imported.toml.as_bytes())], &|_| Some("1".to_owned()));
        read.unwrap_or_else(|findings| panic!("{}: {findings}", path.display()));
        for note in &imported.notes {
            let line = format!("# - {note}\n");
            assert!(imported.toml.contains(&line), "{}: {line}", path.display());
        }
    }
}

#[test]
fn the_format_of_each_source_is_found() {
    for (format, path) in sources() {
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        if format != Format::Command && !format.is_ruby() {
            assert_eq!(detect(name, &text(&path)), Some(format), "{}", path.display());
        }
    }
}

#[test]
fn a_key_that_nobody_knows_is_noted_in_each_format() {
    for (format, source) in [
        (Format::Unit, "{\"listeners\": {\":80\": {\"pass\": \"applications/a\", \"zork\": 1}}, \"applications\": {}}"),
        (Format::Uwsgi, "[uwsgi]\npsgi = a.psgi\nzork = 1\n"),
        (Format::Nginx, "server { listen 80; location / { root /a; zork 1; } }"),
        (Format::Puma, "{\"calls\": [{\"name\": \"zork\", \"arguments\": [1], \"block\": false, \"line\": 1}]}"),
        (Format::Unicorn, "{\"calls\": [{\"name\": \"listen\", \"arguments\": [80, {\"zork\": 1}], \"line\": 1}]}"),
        (Format::Luafcgid, "listen = \":9000\"\nzork = 1\n"),
        (Format::Command, "starman --zork 1 app.psgi"),
        (Format::Procfile, "web: puma --zork 1\n"),
        (Format::Passenger, "{\"environment\": \"production\", \"zork\": 1}"),
    ] {
        let imported = import(format, "file", source).expect(source);
        let noted = imported.notes.iter().any(|note| note.kind == Kind::Lost && note.key.contains("zork"));
        assert!(noted, "{source}: {:?}", imported.notes);
    }
}

#[test]
fn a_source_that_cannot_be_read_has_a_place() {
    for (format, source, expected) in [
        (Format::Unit, "{\n  \"a\": }", "2:8: it is no JSON: expected value"),
        (Format::Uwsgi, "[uwsgi\n", "1:1: a section without `]`"),
        (Format::Nginx, "http {\n", "2:1: a block without `}`"),
        (Format::Command, "starman 'a", "1:9: a quote that does not end"),
        (Format::Procfile, "a: b\n", "the Procfile has no process `web`"),
    ] {
        assert_eq!(import(format, "file", source).expect_err(source).to_string(), expected);
    }
}

#[test]
fn notes_show_no_secrets() {
    let secret = "hunter2";
    for (format, source) in [
        (Format::Command, format!("puma --control-token {secret}")),
        (Format::Command, format!("DATABASE_PASSWORD={secret} starman --frob a")),
        (Format::Uwsgi, format!("[uwsgi]\npsgi = a.psgi\nenv = PASSWORD={secret}\nsubscribe-to = {secret}\n")),
        (
            Format::Nginx,
            format!(
                "server {{ listen 80; location / {{ proxy_pass http://user:{secret}@host/; proxy_set_header Authorization \
                     {secret}; }} }}"
            ),
        ),
    ] {
        let imported = import(format, "file", &source).expect("it can be read");
        assert!(imported.notes.iter().all(|note| !note.to_string().contains(secret)), "{:?}", imported.notes);
    }
}
