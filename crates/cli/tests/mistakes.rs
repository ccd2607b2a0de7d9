//! All mistakes of a file are reported at once, at their places: those that the file shows, and those that only this machine shows.

#[allow(dead_code, reason = "another test uses the rest")]
mod lua_directory;

use lua_directory::TestDirectory;
use oribi_test_support::outcome::Outcome;
use std::path::Path;

/// A directory with the file that has the mistakes, and with that which it names rightly.
fn place() -> TestDirectory {
    let place = TestDirectory::new();
    let files = [
        ("oribi.toml", include_str!("mistakes/oribi.toml")),
        ("apps/more.toml", include_str!("mistakes/apps/more.toml")),
        ("public/a.txt", "no certificate, and no app"),
        ("shop/app.psgi", "sub { [200, [], []] }"),
        ("blog/config.ru", "run ->(_) { [200, {}, []] }"),
        ("blog/puma.rb", ""),
        ("certs/key.pem", "no key"),
        ("wiki.lua", "return function() return 200, {}, '' end"),
        ("users.htpasswd", ""),
        ("weak.htpasswd", "alice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n"),
    ];
    for (name, text) in files {
        place.file(name, text);
    }
    place
}

fn run(place: &TestDirectory, arguments: &[&str]) -> Outcome {
    let mut command = place.command(env!("CARGO_BIN_EXE_oribi"));
    command.args(arguments).env("HIDDEN_FILE", place.0.join("hunter2.lua"));
    Outcome::of(command.output().expect("it was built"))
}

#[test]
fn every_mistake_is_reported_at_once_at_its_place() {
    let place = place();
    let checked = run(&place, &["check", "-c", "oribi.toml"]);
    assert_eq!((checked.status, checked.out.as_str()), (Some(2), ""));
    let said = checked.err.replace(&*place.0.to_string_lossy(), "DIR");
    assert!(!said.contains("hunter2") && !said.contains("5en6"), "{said}");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mistakes/expected.txt");
    if std::env::var_os("ORIBI_WRITE_DOCS").is_some() {
        std::fs::write(&golden, &said).expect("the file can be written");
    }
    assert_eq!(said, std::fs::read_to_string(&golden).expect("the file is there"));
    let lines = said.lines().filter(|line| line.contains(".toml:") && !line.contains("warning: ")).count();
    assert!(lines > 40, "{lines} mistakes");

    let started = run(&place, &["-c", "oribi.toml"]);
    assert_eq!((started.status, started.err), (checked.status, checked.err));
}
