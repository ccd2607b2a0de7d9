//! No message of the command quotes a secret, wherever the secret was given: on the command line, in the environment, or in a file.
//! `crates/config/src/masked.rs` tests each setting.

use oribi_test_support::outcome::Outcome;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Secrets in their usual forms, each with the part that no message may contain.
const SECRETS: [(&str, &str); 5] = [
    ("-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMhunter2\n-----END PRIVATE KEY-----\n", "hunter2"),
    ("postgres://shop:hunter2@db.internal/shop", "hunter2"),
    ("DB_PASSWORD=hunter2", "hunter2"),
    ("https://0.0.0.0:443?cert=a.pem&key_pem=hunter2", "hunter2"),
    ("ghp_4f1c0b6e8d7a49d2b3c5e6f708192a3b", "8d7a49d2"),
];

/// A place in which a secret may be by mistake. `SECRET` stands for the secret, `QUOTED` for the secret inside of quotes.
struct Place {
    arguments: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    file: (&'static str, &'static str),
}

const fn argument(arguments: &'static [&'static str]) -> Place {
    Place { arguments, environment: &[], file: ("", "") }
}

const fn variable(environment: &'static [(&'static str, &'static str)]) -> Place {
    Place { arguments: &["check", "--native", "hello"], environment, file: ("", "") }
}

const fn file(arguments: &'static [&'static str], name: &'static str, text: &'static str) -> Place {
    Place { arguments, environment: &[], file: (name, text) }
}

const PLACES: [Place; 61] = [
    argument(&["SECRET"]),
    argument(&["check", "SECRET"]),
    argument(&["serve", "app.lua", "SECRET"]),
    argument(&["check", "app.lua", "--wrkers=SECRET"]),
    argument(&["check", "app.lua", "--SECRET"]),
    argument(&["check", "app.lua", "--workers", "SECRET"]),
    argument(&["check", "app.lua", "--states", "SECRET"]),
    argument(&["check", "app.lua", "--hooks", "SECRET"]),
    argument(&["check", "app.lua", "--lua", "SECRET"]),
    argument(&["check", "app.lua", "--listen", "SECRET"]),
    argument(&["check", "app.lua", "--metrics", "SECRET"]),
    argument(&["check", "app.lua", "--relay", "SECRET"]),
    argument(&["check", "app.lua", "--trace-export", "SECRET"]),
    argument(&["check", "app.lua", "--ssl-cert", "a.pem", "--ssl-key", "SECRET", "--listen", "https://127.0.0.1:1"]),
    argument(&["check", "app.lua", "--trusted-proxies", "SECRET"]),
    argument(&["check", "app.lua", "--language", "SECRET"]),
    argument(&["check", "--document-root", "SECRET"]),
    argument(&["check", "--native-file", "SECRET"]),
    argument(&["files", "SECRET", "more"]),
    argument(&["app.lua", "--chroot", "SECRET"]),
    argument(&["app.lua", "--preload-app=SECRET"]),
    argument(&["ctl", "SECRET"]),
    argument(&["ctl", "scale", "SECRET"]),
    argument(&["ctl", "status", "--control", "SECRET"]),
    argument(&["ctl", "log-level", "SECRET"]),
    argument(&["top", "--control", "SECRET"]),
    argument(&["top", "--SECRET"]),
    argument(&["import", "SECRET"]),
    argument(&["import", "--from", "SECRET", "app.lua"]),
    argument(&["import", "--", "starman", "--frobnicate=SECRET", "app.psgi"]),
    argument(&["import", "--", "starman", "--workers", "SECRET", "app.psgi"]),
    argument(&["import", "--", "uwsgi", "--frobnicate", "SECRET"]),
    argument(&["completions", "SECRET"]),
    argument(&["manual", "SECRET"]),
    argument(&["check", "luafcgid", "SECRET"]),
    variable(&[("ORIBI_WORKERS", "SECRET")]),
    variable(&[("WEB_CONCURRENCY", "SECRET")]),
    variable(&[("PORT", "SECRET")]),
    variable(&[("ORIBI_LISTEN", "SECRET")]),
    variable(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "SECRET"), ("ORIBI_TRACE_EXPORT", "auto")]),
    file(&["check", "oribi.toml"], "oribi.toml", "[server]\nworkers = \"QUOTED\"\n"),
    file(&["check", "oribi.toml"], "oribi.toml", "[server]\n\"QUOTED\" = 1\n"),
    file(&["check", "oribi.toml"], "oribi.toml", "[server]\nworkers = \"QUOTED\n"),
    file(&["check", "oribi.toml"], "oribi.toml", "[server]\nQUOTED = = 1\n"),
    file(&["check", "oribi.toml"], "oribi.toml", "include = \"QUOTED\"\n"),
    file(&["check", "oribi.toml"], "oribi.toml", "[app.a]\nfile = \"QUOTED\"\nlanguage = \"QUOTED\"\n"),
    file(&["check", "oribi.toml"], "oribi.toml", "[app.\"QUOTED\"]\nfile = \"app.lua\"\n"),
    file(&["check", "oribi.toml"], "oribi.toml", "[app.a]\nfile = \"app.lua\"\nenvironment.PASSWORD = [\"QUOTED\"]\n"),
    file(&["check", "oribi.toml"], "oribi.toml", "[[route]]\napp = \"QUOTED\"\n"),
    file(&["check", "oribi.toml"], "oribi.toml", "[[route]]\nproxy = \"QUOTED x\"\n"),
    file(&["check", "oribi.toml"], "oribi.toml", "[[route]]\nredirect.to = \"QUOTED\"\nredirect.status = \"QUOTED\"\n"),
    file(&["check", "oribi.toml"], "oribi.toml", "[[listen]]\naddress = \"QUOTED\"\n"),
    file(&["check", "luafcgid", "config.lua"], "config.lua", "listen = \"QUOTED\"; workers = \"QUOTED\"\n"),
    file(&["check", "luafcgid", "config.lua"], "config.lua", "workers = = \"QUOTED\"\n"),
    file(&["check", "app.lua", "--hooks", "hooks.lua"], "hooks.lua", "return { [\"QUOTED\"] = function() end }\n"),
    file(&["import", "nginx.conf"], "nginx.conf", "http { server { listen 80; frobnicate \"QUOTED\"; } }\n"),
    file(
        &["import", "nginx.conf"],
        "nginx.conf",
        "http { server { listen 80; location / { proxy_pass http://127.0.0.1:1; proxy_bind \"QUOTED\"; auth_jwt \"QUOTED\"; } } }\n",
    ),
    file(&["import", "app.ini"], "app.ini", "[uwsgi]\nfrobnicate = QUOTED\nhttp = QUOTED\npsgi = app.psgi\n"),
    file(
        &["import", "--from", "unit", "unit.json"],
        "unit.json",
        "{\"listeners\": {\"QUOTED\": {\"pass\": \"QUOTED\"}}, \"frob\": \"QUOTED\"}",
    ),
    file(&["import", "Procfile"], "Procfile", "web: DB_PASSWORD=QUOTED starman --frobnicate QUOTED app.psgi\n"),
    file(
        &["import", "--from", "passenger", "passenger.json"],
        "passenger.json",
        "{\"app_type\": \"QUOTED\", \"frobnicate\": \"QUOTED\"}",
    ),
];

/// Runs the command with the secret at this place. It must end by itself.
fn run(place: &Place, folder: &Path, secret: &str) -> Outcome {
    let quoted = secret.replace('\n', "\\n");
    let fill = |text: &str| text.replace("SECRET", secret).replace("QUOTED", &quoted);
    let mut command = Command::new("timeout");
    command.args(["60", env!("CARGO_BIN_EXE_oribi")]).args(place.arguments.iter().map(|argument| fill(argument)));
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).current_dir(folder);
    command.envs(place.environment.iter().map(|(name, value)| (name, fill(value))));
    let (name, text) = place.file;
    if !name.is_empty() {
        fs::write(folder.join(name), fill(text)).expect("the folder is ours");
    }
    Outcome::of(command.output().expect("it was built"))
}

#[test]
fn no_message_quotes_a_secret() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut wrong = Vec::new();
    for place in &PLACES {
        let mut is_reported = false;
        for (text, secret) in SECRETS {
            fs::write(folder.path().join("app.lua"), "return function() return 'hello' end").expect("the folder is ours");
            let outcome = run(place, folder.path(), text);
            is_reported |= outcome.status != Some(0) || !outcome.err.is_empty();
            // A successful import or check prints the values that it was given.
            let is_output = outcome.status == Some(0) && outcome.out.contains(secret);
            let said = if is_output { outcome.err } else { outcome.out + &outcome.err };
            if said.contains(secret) {
                wrong.push(format!("{:?} {:?} {}: {said}", place.arguments, place.environment, place.file.1));
            }
        }
        if !is_reported {
            wrong.push(format!("{:?} {:?} {}: nothing is said", place.arguments, place.environment, place.file.1));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
