//! Tests the calls of Ruby by the `oribi` command. The ruby in these tests is a shell script that records its arguments, and
//! that prints a report of the configuration file.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory with a Ruby host and a ruby, removed when the value is dropped.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("oribi-ruby-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let place = Self(std::env::temp_dir().join(name));
        place.file("host/oribi/mold.rb", "");
        place.file("config.ru", "");
        place.ruby("");
        place
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(&path, text).expect("a file");
        path
    }

    /// Creates a ruby that writes its environment and its arguments to the file `reported` if it is to read the configuration
    /// file, and otherwise to `molded`. In the first case it prints `report` (in printf's syntax).
    fn ruby(&self, report: &str) {
        let here = self.0.display();
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *Report.main*) printf '{report}'; to=reported ;; *) to=molded ;; esac\n\
             printf '%s\\n' \"RACK_ENV=$RACK_ENV RAILS_ENV=$RAILS_ENV\" \"$@\" >'{here}'/$to\n"
        );
        let ruby = self.file("ruby", &script);
        fs::set_permissions(&ruby, fs::Permissions::from_mode(0o755)).expect("made executable");
    }

    fn check(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oribi"));
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).current_dir(&self.0);
        command.env("ORIBI_RUBY_LIB", self.0.join("host")).env("ORIBI_RUBY", self.0.join("ruby"));
        command.envs(environment.iter().copied()).arg("check").args(arguments);
        command.output().expect("oribi runs")
    }

    /// Returns the lines of the file `how`, `reported` or `molded`: the environment that this ruby had, and its arguments.
    fn called(&self, how: &str) -> Option<Vec<String>> {
        let text = fs::read_to_string(self.0.join(how)).ok()?;
        Some(text.lines().map(str::to_owned).collect())
    }

    fn library(&self) -> String {
        self.0.join("host").display().to_string()
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[track_caller]
fn out(output: &Output) -> String {
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}");
    String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn error(output: &Output, status: i32) -> String {
    assert_eq!(output.status.code(), Some(status), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn ruby_is_told_everything() {
    let place = TestDirectory::new();
    let flags = ["-I", "one", "-Itwo", "-r", "set", "-E", "test", "--workers", "2", "-p", "0", "--language", "ruby"];
    let plan = out(&place.check(&flags, &[("RAILS_ENV", "development")]));
    assert!(plan.starts_with("app config.ru language Ruby (Rack), run by "), "{plan}");
    let expected = [
        "RACK_ENV=test RAILS_ENV=",
        "-I",
        &place.library(),
        "-I",
        "one",
        "-I",
        "two",
        "-r",
        "set",
        "-r",
        "oribi/mold",
        "-e",
        "exit Oribi::Mold.main(ARGV)",
        "--",
        "--check",
        "config.ru",
        "listen=127.0.0.1:0",
        "fastcgi-clients=",
        "workers=2",
        "app-name=config.ru",
        "edge=on",
        "edge-sandbox=off",
        "trace-service=",
        "control=auto",
        "temporary-directory=/tmp",
    ];
    assert_eq!(place.called("molded").expect("called"), expected);
    assert_eq!(place.called("reported"), None, "there is no configuration file");
}

#[test]
fn without_a_flag_the_environment_is_left_to_ruby() {
    let place = TestDirectory::new();
    out(&place.check(&["config.ru"], &[("RAILS_ENV", "test")]));
    assert_eq!(place.called("molded").expect("called")[0], "RACK_ENV= RAILS_ENV=test");
}

#[test]
fn a_gemfile_that_was_named_is_set_up_first() {
    let place = TestDirectory::new();
    place.file("Gemfile", "");
    out(&place.check(&["-rset"], &[]));
    assert!(!place.called("molded").expect("called").contains(&"bundler/setup".to_owned()));
    out(&place.check(&["-rset"], &[("BUNDLE_GEMFILE", "/x/Gemfile")]));
    assert_eq!(place.called("molded").expect("called")[3..7], ["-r", "bundler/setup", "-r", "set"]);
}

#[test]
fn the_first_configuration_file_is_read() {
    let place = TestDirectory::new();
    for name in ["config/unicorn.rb", "config/puma.rb", "oribi.rb", "config/oribi.rb"] {
        place.file(name, "");
        out(&place.check(&[], &[]));
        assert_eq!(place.called("reported").expect("called").last().map(String::as_str), Some(name));
        let molded = place.called("molded").expect("called");
        assert!(molded.windows(3).any(|words| words == ["--config", name, "config.ru"]), "{molded:?}");
    }
    // Relative to the app, not to the directory in which the command was started.
    place.file("shop/config.ru", "");
    place.file("shop/config/puma.rb", "");
    out(&place.check(&["shop"], &[]));
    assert_eq!(place.called("reported").expect("called").last().map(String::as_str), Some("shop/config/puma.rb"));
}

#[test]
fn a_flag_names_another_configuration_file_or_none() {
    let place = TestDirectory::new();
    place.file("oribi.rb", "");
    for flags in [&["-C", "other.rb"][..], &["--config", "other.rb"]] {
        out(&place.check(flags, &[]));
        assert_eq!(place.called("reported").expect("called").last().map(String::as_str), Some("other.rb"));
    }
    fs::remove_file(place.0.join("reported")).expect("was there");
    out(&place.check(&["-C", "-"], &[]));
    assert_eq!(place.called("reported"), None);
    assert!(!place.called("molded").expect("called").contains(&"--config".to_owned()));
}

#[test]
fn what_the_file_says_stands_in_the_plan_unless_it_is_overruled() {
    let place = TestDirectory::new();
    place.file("oribi.rb", "");
    place.ruby(
        r"set\0workers\0003\0oribi.rb:1\0\0set\0threads\0002:4\0oribi.rb:2\0\0set\0port\08000\0oribi.rb:3\0\0set\0wrkers\0001\0oribi.rb:4\0\0note\0oribi.rb:5: not this\0\0",
    );
    let output = place.check(&["--threads", "7"], &[("WEB_CONCURRENCY", "")]);
    let plan = out(&output);
    for part in ["listen 127.0.0.1:8000 oribi.rb:3", "workers 3 oribi.rb:1", "threads 7 command line"] {
        assert!(plan.contains(part), "{part} is not in {plan}");
    }
    let notes = "oribi: oribi.rb:5: not this\n";
    let unknown = "oribi: oribi.rb:4: unknown setting `wrkers`; did you mean `workers`?\n";
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(notes) && said.contains(unknown), "{said}");
    let molded = place.called("molded").expect("called");
    assert!(molded.contains(&"threads=7".to_owned()) && molded.contains(&"workers=3".to_owned()), "{molded:?}");
}

#[test]
fn a_file_that_cannot_be_used_ends_the_command() {
    let place = TestDirectory::new();
    place.file("oribi.rb", "");
    place.ruby(r"set\0workers\0many\0oribi.rb:1\0\0");
    let said = error(&place.check(&[], &[]), 2);
    assert!(said.starts_with("oribi: oribi.rb:1: bad value `many` for workers"), "{said}");
    place.ruby(r"hello");
    assert!(error(&place.check(&[], &[]), 1).contains("printed something unexpected"));
    place.ruby(r"'; exit 1; '");
    assert!(error(&place.check(&[], &[]), 1).contains("the configuration file oribi.rb cannot be used"));
}

#[test]
fn what_is_of_the_other_language_is_refused() {
    let place = TestDirectory::new();
    place.file("app.psgi", "");
    for (flags, part) in [
        (&["config.ru", "-MCarp"][..], "-r loads a Ruby library"),
        (&["app.psgi", "-rset"], "-M loads a module"),
        (&["app.psgi", "-C", "oribi.rb"], "for Ruby apps"),
    ] {
        let said = error(&place.check(flags, &[]), 1);
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn what_is_missing_is_named() {
    let place = TestDirectory::new();
    let said = error(&place.check(&["--ruby", "/nowhere/ruby"], &[]), 1);
    assert!(said.contains("cannot run /nowhere/ruby"), "{said}");
    let said = error(&place.check(&[], &[("ORIBI_RUBY_LIB", "/nowhere")]), 1);
    assert!(said.contains("there is no oribi/mold.rb in ORIBI_RUBY_LIB, which is /nowhere"), "{said}");
}

#[test]
fn the_host_of_a_checkout_is_found_beside_the_program() {
    for (program, host) in [("bin/oribi", "lib/oribi/ruby"), ("target/release/oribi", "hosts/ruby/lib")] {
        let place = TestDirectory::new();
        let program = place.0.join(program);
        fs::create_dir_all(program.parent().expect("a directory")).expect("a directory");
        // Not fs::copy: it opens the copy for writing in this process, and a child that another test forks meanwhile would keep
        // that descriptor. Then the kernel would refuse to execute the copy.
        let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_oribi")).arg(&program).status().expect("cp runs");
        assert!(copied.success());
        place.file(&format!("{host}/oribi/mold.rb"), "");
        let mut command = Command::new(&program);
        command.args(["check", "config.ru"]).env("ORIBI_RUBY", place.0.join("ruby")).env_remove("ORIBI_RUBY_LIB");
        out(&command.current_dir(&place.0).output().expect("oribi runs"));
        let library = PathBuf::from(&place.called("molded").expect("called")[2]);
        assert_eq!(library.canonicalize().ok(), Path::new(&place.0).join(host).canonicalize().ok());
    }
}
