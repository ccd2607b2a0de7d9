//! The `oribi` command, run as users run it. The perl in these tests is a shell script that records its arguments.

use oribi_server::config::table;
use oribi_test_support::outcome::Outcome;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The time after which a test gives up, far longer than needed on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory for one test, removed when the value is dropped.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("oribi-command-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let place = std::env::temp_dir().join(name);
        fs::create_dir_all(&place).expect("a directory");
        Self(place)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(&path, text).expect("a file");
        path
    }

    /// Creates a perl, and a Perl host for it. This perl writes PLACK_ENV and its arguments to the file `called`, and exits
    /// with `status`.
    fn perl(&self, status: u8) -> PathBuf {
        self.file("host/lib/Oribi/Mold.pm", "");
        let called = self.0.join("called");
        let script = format!("#!/bin/sh\nprintf '%s\\n' \"$PLACK_ENV\" \"$@\" >'{}'\nexit {status}\n", called.display());
        let perl = self.file("perl", &script);
        fs::set_permissions(&perl, fs::Permissions::from_mode(0o755)).expect("made executable");
        perl
    }

    /// The arguments of that perl.
    fn called(&self) -> Vec<String> {
        let text = fs::read_to_string(self.0.join("called")).expect("perl was called");
        text.lines().map(str::to_owned).collect()
    }

    fn oribi(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oribi"));
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).current_dir(&self.0);
        command.env("ORIBI_PERL_LIB", self.0.join("host"));
        command
    }

    fn run(&self, arguments: &[&str]) -> Outcome {
        Outcome::of(self.oribi().args(arguments).output().expect("oribi runs"))
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn help_names_every_setting_with_its_default() {
    let place = TestDirectory::new();
    for arguments in [&["--help"][..], &["help"], &["serve", "--help"], &["check", "--help"]] {
        let help = place.run(arguments);
        assert_eq!((help.status, help.err.as_str()), (Some(0), ""), "{arguments:?}");
        let words = help.out.split_whitespace().collect::<Vec<_>>().join(" ");
        for setting in table() {
            let flag = if setting.is_switch() {
                format!("--{}[=<on|off>] ", setting.name)
            } else {
                format!("--{} <{}> ", setting.name, setting.placeholder)
            };
            let (_, rest) = words.split_once(&flag).unwrap_or_else(|| panic!("no {flag} in {}", help.out));
            let rest = rest.strip_prefix(setting.help).unwrap_or_else(|| panic!("no help of {}", setting.name));
            if let Some(default) = setting.default_text().filter(|default| !default.is_empty()) {
                assert!(rest.starts_with(&format!(" [default: {default}]")), "{}", setting.name);
            }
            let alias = setting.aliases.iter().all(|alias| words.contains(&format!("--{alias}")));
            let variable = setting.environment.is_none_or(|variable| words.contains(&format!("[environment: {variable}]")));
            let section = words.contains(setting.section.title());
            assert!(alias && variable && section, "{}", setting.name);
        }
    }
}

#[test]
fn the_short_help_fits_on_a_screen_and_names_options_that_exist() {
    let place = TestDirectory::new();
    let all = place.run(&["--help"]).out;
    for arguments in [&["-h"][..], &["serve", "-h"], &["check", "app.psgi", "-h"], &["--workers", "2", "-h", "--help"]] {
        let help = place.run(arguments);
        assert_eq!((help.status, help.err.as_str()), (Some(0), ""), "{arguments:?}");
        assert!(help.out.lines().count() <= 24, "{}", help.out);
        assert!(help.out.lines().all(|line| line.chars().count() <= 80), "{}", help.out);
        let last = help.out.lines().last().expect("it has lines");
        assert!(["`oribi --help`", "oribi(1)", "`oribi check`"].iter().all(|part| last.contains(part)), "{last}");
        let lines = help.out.lines().filter(|line| line.starts_with("  "));
        let flags = lines.filter_map(|line| line.split_whitespace().find_map(|word| word.strip_prefix("--")));
        let flags: Vec<&str> = flags.collect();
        assert!(flags.len() >= 12, "{flags:?}");
        for flag in flags {
            let is_one = |line: &str| line.contains(&format!("--{flag} ")) || line.ends_with(&format!("--{flag}"));
            assert!(all.lines().any(|line| is_one(line) || line.contains(&format!("--{flag}["))), "there is no --{flag}");
        }
    }
    // After `--`, -h is the name of an app.
    place.run(&["--", "-h"]).fails(2, &["cannot find the app -h"]);
}

#[test]
fn the_version_stands_in_the_first_line() {
    for flag in ["--version", "-v", "-V"] {
        let version = TestDirectory::new().run(&[flag]);
        assert_eq!(version.status, Some(0));
        assert!(version.out.starts_with(concat!("oribi ", env!("CARGO_PKG_VERSION"), "\n")), "{}", version.out);
    }
}

#[test]
fn mistakes_are_explained() {
    let place = TestDirectory::new();
    place.file("app.psgi", "");
    place.file("app.cbl", "");
    place.perl(0);
    for (arguments, parts) in [
        (&["--wrkers", "2"][..], &["unexpected argument '--wrkers'", "did you mean `--workers`?", "--help"][..]),
        (
            &["app.psgi", "--workers", "many"],
            &["oribi: bad value `many` for workers: expected a whole number from 0 to 1024, or auto, or two as MIN:MAX"],
        ),
        (&["app.psgi", "--max-body-len", "64q"], &["bad value `64q` for max-body-size: expected a size"]),
        (
            &["app.psgi", "--listen", "https://localhost"],
            &["bad value `https://localhost:443` for listen: it needs a certificate"],
        ),
        (&["app.psgi", "--listen", ":80", "--port", "81"], &["bad value `81` for port: it would have no effect beside"]),
        (&["app.psgi", "--min-reqs-per-child", "5"], &["min-requests: it needs --max-requests"]),
        (&["app.psgi", "--changed"], &["--changed is an option of `oribi check`"]),
        (&["serve", "host", "--json"], &["--json is an option of `oribi check`"]),
        (&["app.psgi", "more"], &["unexpected argument 'more'"]),
        (&["--chroot", "/srv"], &["unexpected argument '--chroot'", "RootDirectory="]),
        (&["--workers", "-1"], &["bad value `-1` for workers: expected a whole number"]),
        (&["chekc"], &["there is no command `chekc`", "did you mean `oribi check`?"]),
        (&["chekc", "app.psgi"], &["there is no command `chekc`", "did you mean `oribi check`?"]),
        (&["app.psgi", "--native", "text"], &["cannot be used with"]),
        (&["app.psgi", "--native-file", "app.cbl"], &["cannot be used with"]),
        (&["--native-file", "app.cbl", "--native", "text"], &["cannot be used with"]),
        (&["missing.psgi"], &["cannot find the app missing.psgi"]),
        (&["app.cbl"], &["cannot tell the language of app.cbl", ".psgi", ".ru", ".lua", "--language"]),
        (&["app.psgi", "--language", "cobol"], &["unknown language `cobol`; known are perl, ruby, lua"]),
        (&["host"], &["no app in ", "/host: looked for app.psgi, app.pagi, config.ru, app.lua"]),
        (&["check", "host"], &["no app in "]),
    ] {
        place.run(arguments).fails(2, parts);
    }
    let mut command = place.oribi();
    let outcome = Outcome::of(command.args(["check", "--native", "x"]).env("PORT", "many").output().expect("oribi runs"));
    outcome.fails(2, &["bad value `many` for PORT: expected a port from 0 to 65535"]);
}

#[test]
fn the_plan_says_where_each_value_came_from() {
    let place = TestDirectory::new();
    let mut command = place.oribi();
    command.args(["check", "--native", "hello", "--listen", ":8080", "-l", "/x.sock?mode=660", "--max_reqs_per_child=100"]);
    command.arg("--no-keepalive").env("WEB_CONCURRENCY", "3").env("PORT", "80").env("TMPDIR", "");
    let plan = Outcome::of(command.output().expect("oribi runs"));
    for (name, expected) in [
        ("listen", &["*:8080", "unix:/x.sock?mode=660", "command", "line"][..]),
        ("workers", &["3", "environment", "(WEB_CONCURRENCY)"]),
        ("processes", &["3", "workers", "x", "1", "thread"]),
        ("max-requests", &["100", "command", "line"]),
        ("keepalive-timeout", &["0", "command", "line"]),
        ("temporary-directory", &["/tmp", "default"]),
    ] {
        assert_eq!(plan.planned(name), expected);
    }
}

#[test]
fn a_plan_that_cannot_be_written_is_a_failure() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("a full device");
    let mut command = TestDirectory::new().oribi();
    let check =
        Outcome::of(command.args(["check", "--native", "x"]).stdout(full).current_dir("/").output().expect("oribi runs"));
    check.fails(1, &["oribi: cannot write to standard output"]);
}

#[test]
fn switches_turn_both_ways() {
    let place = TestDirectory::new();
    for (flag, expected) in [
        ("--disable-keepalive", "0"),
        ("--disable_keepalive", "0"),
        ("--disable-keepalive=off", "65s"),
        ("--no-keepalive", "0"),
        ("--keepalive", "65s"),
        ("--keepalive=off", "0"),
        ("--enable-keepalive", "65s"),
    ] {
        let plan = place.run(&["check", flag, "--native", "x"]);
        assert_eq!(plan.planned("keepalive-timeout")[0], expected, "{flag}");
    }
}

#[test]
fn perl_is_told_everything() {
    let place = TestDirectory::new();
    place.file("shop/app.psgi", "");
    let perl = place.perl(0);
    let perl = perl.to_str().expect("UTF-8");
    let mut command = place.oribi();
    command.args(["check", "shop", "--perl", perl, "-I", "one", "-Itwo", "-MCarp", "-E", "test", "--workers", "2", "-p", "0"]);
    let plan = Outcome::of(command.output().expect("oribi runs"));
    assert_eq!(plan.planned("app"), ["shop/app.psgi"]);
    assert_eq!(plan.planned("language"), ["Perl", "(PSGI,", "PAGI),", "run", "by", perl]);
    let host = place.0.join("host");
    let expected = [
        "test",
        &format!("-I{}", host.join("lib").display()),
        &format!("-I{}", host.join("arch").display()),
        "-Ione",
        "-Itwo",
        "-MCarp",
        "-MOribi::Mold",
        "-e",
        "exit Oribi::Mold->main(@ARGV)",
        "--",
        "--check",
        "shop/app.psgi",
        "listen=127.0.0.1:0",
        "fastcgi-clients=",
        "workers=2",
        "app-name=shop/app.psgi",
        "edge=on",
        "edge-sandbox=off",
        "trace-service=",
        "control=auto",
        "temporary-directory=/tmp",
    ];
    assert_eq!(place.called(), expected);
}

#[test]
fn the_app_of_the_current_directory_is_the_default_and_deployment_its_environment() {
    let place = TestDirectory::new();
    place.file("app.psgi", "");
    let perl = place.perl(0);
    for (environment, expected) in [(None, "deployment"), (Some(""), "deployment"), (Some("staging"), "staging")] {
        let mut command = place.oribi();
        command.arg("check").env("ORIBI_PERL", &perl);
        if let Some(environment) = environment {
            command.env("PLACK_ENV", environment);
        }
        let plan = Outcome::of(command.output().expect("oribi runs"));
        assert_eq!(plan.planned("app"), ["app.psgi"]);
        assert_eq!(place.called()[0], expected);
        assert!(place.called().contains(&"app.psgi".to_owned()));
    }
}

#[test]
fn an_app_that_does_not_load_is_a_failure() {
    let place = TestDirectory::new();
    let app = place.file("app.psgi", "");
    let perl = place.perl(9);
    let arguments = [app.to_str().expect("UTF-8"), "--perl", perl.to_str().expect("UTF-8"), "--listen", "x.sock"];
    let check = place.run(&[&["check"], &arguments[..]].concat());
    check.fails(1, &["oribi: ", "app.psgi could not be loaded"]);
    assert_eq!(check.out, "");
    let serve = place.run(&[&["serve"], &arguments[..]].concat());
    serve.fails(1, &["before the app could serve"]);
    assert!(!place.0.join("x.sock").exists());
}

#[test]
fn what_is_missing_is_named() {
    let place = TestDirectory::new();
    place.file("app.psgi", "");
    place.run(&["app.psgi"]).fails(1, &["there is no Oribi/Mold.pm in ORIBI_PERL_LIB"]);
    place.perl(0);
    place.run(&["check", "app.psgi", "--perl", "/nowhere/perl"]).fails(1, &["cannot run /nowhere/perl"]);
    for flag in ["--error-log", "--access-log"] {
        let outcome = place.run(&["--native", "x", "--listen", "x.sock", flag, "missing/log"]);
        outcome.fails(1, &["cannot open the ", "missing/log: No such file"]);
    }
}

#[test]
fn the_perl_host_is_found_beside_the_program() {
    for (program, host) in [("bin/oribi", "lib/oribi/perl"), ("target/release/oribi", "hosts/perl/blib")] {
        let place = TestDirectory::new();
        place.file("app.psgi", "");
        let perl = place.perl(0);
        let program = place.file(program, "");
        fs::copy(env!("CARGO_BIN_EXE_oribi"), &program).expect("a copy");
        let check = || {
            let mut command = Command::new(&program);
            command.arg("check").env("ORIBI_PERL", &perl).env_remove("ORIBI_PERL_LIB").current_dir(&place.0);
            // While another test forks, its child still has the copy open for writing.
            wait_for("the copy", || match command.output() {
                Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => None,
                output => Some(Outcome::of(output.expect("oribi runs"))),
            })
        };
        // This perl reports the mold among its own modules.
        assert_eq!(check().planned("app"), ["app.psgi"]);
        assert_eq!(place.called()[1], "-MOribi::Mold");
        place.perl(3);
        check().fails(1, &["cannot find the Perl host of Oribi", "make build", host]);
        place.file(&format!("{host}/lib/Oribi/Mold.pm"), "");
        place.perl(0);
        assert_eq!(check().planned("app"), ["app.psgi"]);
        let root = place.0.canonicalize().expect("a directory");
        let libraries = ["lib", "arch"].map(|name| format!("-I{}", root.join(host).join(name).display()));
        assert_eq!(place.called()[1..3], libraries);
    }
}

/// A server, killed when the value is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_for<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "{what} takes too long");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn answer(socket: &Path) -> String {
    answer_to(socket, "/")
}

fn answer_to(socket: &Path, target: &str) -> String {
    let mut connection = wait_for("the start", || UnixStream::connect(socket).ok());
    let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).expect("sent");
    let mut text = String::new();
    connection.read_to_string(&mut text).expect("an answer");
    text
}

#[test]
fn a_text_is_served_until_term() {
    let place = TestDirectory::new();
    place.file("log/empty", "");
    let mut command = place.oribi();
    command.args(["--native", "hello there", "--listen", "x.sock?mode=600", "--workers", "1", "--error-log", "log/error"]);
    let mut server = Server(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("oribi runs"));
    let socket = place.0.join("x.sock");
    let text = answer(&socket);
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\r\n\r\nhello there"), "{text}");
    // The worker may answer before the supervisor knows that it is ready.
    let log = place.0.join("log/error");
    let said = |what: &str| fs::read_to_string(&log).is_ok_and(|text| text.contains(what)).then_some(());
    wait_for("the announcement", || said("x.sock"));
    let status = Command::new("kill").arg(server.0.id().to_string()).status().expect("kill runs");
    assert!(status.success());
    let status = wait_for("the end", || server.0.try_wait().expect("a child"));
    assert_eq!(status.code(), Some(0));
    assert!(!socket.exists());
}

#[test]
fn the_fixed_answer_may_be_in_a_file() {
    let place = TestDirectory::new();
    let content: String = ('a'..='z').cycle().take(1 << 20).collect();
    place.file("body", &content);
    place.run(&["--native-file", "missing"]).fails(1, &["cannot read missing"]);
    assert!(place.run(&["check", "--native-file", "body"]).out.contains("the 1048576 bytes of body"));
    let mut command = place.oribi();
    command.args(["--native-file", "body", "--listen", "x.sock", "--workers", "1"]);
    let _server = Server(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("oribi runs"));
    let text = answer(&place.0.join("x.sock"));
    assert!(text.contains("Content-Length: 1048576\r\n") && text.ends_with(&content));
}

#[test]
fn the_files_of_a_directory_are_served_where_it_has_no_app() {
    let place = TestDirectory::new();
    place.file("public/hello.txt", "hello\n");
    place.file("public/.env", "secret\n");
    for arguments in [&["check", "serve", "public"][..], &["serve", "check"], &["check", "serve", "missing"]] {
        let outcome = place.run(arguments);
        match arguments[2..] {
            ["public"] => assert_eq!(outcome.planned("language"), ["none", "(files)"]),
            // Without `serve`, a directory must contain an app, and any other path must be one.
            _ => outcome.fails(2, &["cannot find the app"]),
        }
    }
    place.run(&["check", "public"]).fails(2, &["no app in"]);
    let mut command = place.oribi();
    command.args(["serve", "public", "--listen", "x.sock", "--workers", "1"]);
    let _server = Server(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("oribi runs"));
    let socket = place.0.join("x.sock");
    let text = answer_to(&socket, "/hello.txt");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\r\n\r\nhello\n"), "{text}");
    assert!(answer_to(&socket, "/.env").starts_with("HTTP/1.1 404 "));
}

#[test]
fn the_source_of_an_app_is_not_served_as_files() {
    for app in ["app.psgi", "config.ru", "app.lua"] {
        let place = TestDirectory::new();
        place.file(&format!("shop/{app}"), "");
        for verbs in [&["serve"][..], &["check", "serve"]] {
            let outcome = place.run(&[verbs, &["shop"]].concat());
            outcome.fails(2, &[&format!("shop has an {app}: `oribi shop` runs it")]);
        }
    }
}
