//! Tests of the manual's statements about options: the options in its commands of `oribi` exist, and its sentences about
//! failures are true.

mod tables;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A sentence of the manual about a failure, and a command that fails as the sentence says: its message contains all of
/// `answers`.
struct Statement {
    file: &'static str,
    sentence: &'static str,
    command: &'static [&'static str],
    answers: &'static [&'static str],
}

const STATEMENTS: &[Statement] = &[
    Statement {
        file: "docs/options.md",
        sentence: "`oribi` refuses an unknown option and suggests one",
        command: &["--native", "hello", "--worker", "2"],
        answers: &["--workers"],
    },
    Statement {
        file: "docs/options.md",
        sentence: "An invalid value is an error.",
        command: &["--native", "hello", "--workers", "many"],
        answers: &["bad value `many` for workers"],
    },
    Statement {
        file: "docs/signals.md",
        sentence: "Options that would protect the server but that Oribi does not have also stop the start",
        command: &["--native", "hello", "--chroot", "/"],
        answers: &["chroot"],
    },
    Statement {
        file: "docs/signals.md",
        sentence: "At any other unknown option `oribi` ends with a suggestion",
        command: &["--native", "hello", "--max-request", "5"],
        answers: &["--max-requests"],
    },
    Statement {
        file: "docs/apps.md",
        sentence: "`--edge off` is refused.",
        command: &["several.toml", "--edge", "off"],
        answers: &["edge"],
    },
    Statement {
        file: "docs/operating.md",
        sentence: "with `--edge off`, and where a program of a language starts the server (`plackup -s Oribi`, `rackup -s oribi`), \
                   `MIN:MAX` is refused",
        command: &["app.lua", "--edge", "off", "--workers", "1:4"],
        answers: &["1:4", "--edge"],
    },
    Statement {
        file: "docs/tls.md",
        sentence: "Unknown names, and OpenSSL's words such as `HIGH`, are refused with a list of what there is.",
        command: &["--native", "hello", "--ssl-ciphers", "HIGH"],
        answers: &["HIGH", "ECDHE-RSA-AES256-GCM-SHA384"],
    },
    Statement {
        file: "docs/tls.md",
        sentence: "Files that cannot be used end the start",
        command: &["--native", "hello", "--listen", "https://127.0.0.1:1?cert=missing.crt&key=missing.key"],
        answers: &["missing.crt"],
    },
    Statement {
        file: "docs/tls.md",
        sentence: "Revocation of clients' certificates: an option that asks for it ends the start.",
        command: &["--native", "hello", "--ssl-crl", "list.pem"],
        answers: &["crl"],
    },
    Statement {
        file: "docs/ruby.md",
        sentence: "On a command line `key_pem` is refused, because every user can read it there.",
        command: &["--native", "hello", "--listen", "https://127.0.0.1:1?cert_pem=a&key_pem=b"],
        answers: &["every user can read a command line"],
    },
    Statement {
        file: "docs/perl.md",
        sentence: "An option that Oribi does not have stops `oribi`, with a suggestion.",
        command: &["app.lua", "--max-worker", "2"],
        answers: &["did you mean"],
    },
    Statement {
        file: "docs/observe.md",
        sentence: "For a Unix socket its mode decides instead; `allow=` is refused there.",
        command: &["--native", "hello", "--metrics", "/nowhere/metrics.sock?allow=127.0.0.1"],
        answers: &["allow"],
    },
    Statement {
        file: "docs/observe.md",
        sentence: "a time between two is refused with the names of both",
        command: &["--native", "hello", "--histogram-buckets", "5500us"],
        answers: &["5ms", "6ms"],
    },
    Statement {
        file: "docs/logs.md",
        sentence: "this is refused, with the reason: `%A`",
        command: &["--native", "hello", "--access-log-format", "%A"],
        answers: &["%A is not supported"],
    },
    Statement {
        file: "docs/lua.md",
        sentence: "a hook with an unknown name, and a file with a mistake stop the start",
        command: &["app.lua", "--hooks", "unknown.lua"],
        answers: &["unknown.lua", "sometimes"],
    },
    Statement {
        file: "docs/lua.md",
        sentence: "a hook with an unknown name, and a file with a mistake stop the start",
        command: &["app.lua", "--hooks", "mistaken.lua"],
        answers: &["mistaken.lua:1"],
    },
];

/// Sentences about starts that fail, each with the test that shows it.
const ELSEWHERE: &[(&str, &str)] =
    &[("An option of an address for TLS that Oribi does not have stops the start", "hosts/ruby/test/config_words_test.rb")];

fn manual() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = vec![root.join("README.md"), root.join("ARCHITECTURE.md")];
    files.extend(fs::read_dir(root.join("docs")).expect("the manual").map(|entry| entry.expect("a file").path()));
    files.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    let read = |path: PathBuf| (path.clone(), fs::read_to_string(path).expect("a page"));
    files.into_iter().map(read).collect()
}

/// A text in one line.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The long options in a text, without their values.
fn options(text: &str) -> impl Iterator<Item = &str> {
    let starts = text.match_indices("--").filter(|(at, _)| *at == 0 || !text.as_bytes()[at - 1].is_ascii_alphanumeric());
    let word = |rest: &str| rest[2..].find(|c: char| !c.is_ascii_alphanumeric() && c != '-').map_or(rest.len(), |end| end + 2);
    starts.map(move |(at, _)| &text[at..at + word(&text[at..])]).filter(|option| option.len() > 3 && !option.ends_with('-'))
}

/// The options of all servers, under all their names.
fn options_of_servers() -> BTreeSet<String> {
    let settings = oribi_server::config::table();
    let others = settings.iter().flat_map(|setting| setting.aliases.iter().chain(setting.opposites)).copied();
    let names = settings.iter().map(|setting| setting.name).chain(others);
    let names = names.chain(oribi_lua::table().iter().map(|setting| setting.name));
    names.map(|name| format!("--{name}")).collect()
}

fn said_by(arguments: &[&str], folder: &Path) -> (bool, String) {
    // A server that starts in spite of the sentence is killed.
    let mut command = Command::new("timeout");
    command.args(["60", env!("CARGO_BIN_EXE_oribi")]).args(arguments).args(["--listen", "app.sock", "--control", "off"]);
    command.current_dir(folder);
    let output = command.output().expect("it was built");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).expect("it speaks UTF-8"))
}

#[test]
fn commands_have_options_that_exist() {
    let helps: [&[&str]; 8] = [
        &["--help"],
        &["ctl", "--help"],
        &["ctl", "apply", "--help"],
        &["ctl", "purge", "--help"],
        &["top", "--help"],
        &["luafcgid", "--help"],
        &["check", "--help"],
        &["files", "--help"],
    ];
    let program = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_oribi")).args(arguments).output().expect("it was built");
        String::from_utf8([output.stdout, output.stderr].concat()).expect("it speaks UTF-8")
    };
    let help: String = helps.into_iter().map(program).collect();
    let known: BTreeSet<String> = options(&help).map(str::to_owned).chain(options_of_servers()).collect();
    let mut unknown = BTreeSet::new();
    let mut seen = 0;
    for (path, text) in manual() {
        for line in text.lines() {
            for (at, _) in line.match_indices("oribi ") {
                let command = line[at..].split(['`', '|', '#', '&', '>', ';', ')']).next().unwrap_or_default();
                // The command of another server follows.
                let command = command.split("import '").next().unwrap_or_default();
                for option in options(command) {
                    seen += 1;
                    if !known.contains(&option.replace('_', "-")) {
                        unknown.insert(format!("{}: {option}: {line}", path.display()));
                    }
                }
            }
        }
    }
    assert!(seen > 100, "only {seen} options were found");
    assert!(unknown.is_empty(), "{unknown:#?}");
}

#[test]
fn sentences_about_failures_are_true() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("the folder is ours");
    write("app.lua", "return function() return 'hello' end");
    write("unknown.lua", "return { sometimes = function() end }");
    write("mistaken.lua", "return return");
    write(
        "several.toml",
        "[app.a]\nfile = \"app.lua\"\n[app.b]\nfile = \"app.lua\"\n[[route]]\nmatch.host = \"b\"\napp = \"b\"\n[[route]]\napp = \"a\"\n",
    );
    let manual = manual();
    for Statement { file, sentence, command, answers } in STATEMENTS {
        let (_, text) = manual.iter().find(|(path, _)| path.ends_with(file)).expect("the page is there");
        assert!(flat(text).contains(sentence), "{file} no longer says: {sentence}");
        let (success, said) = said_by(command, folder.path());
        assert!(!success, "{file}: {sentence}: {command:?} did not fail: {said}");
        for answer in *answers {
            assert!(said.contains(answer), "{file}: {sentence}: {command:?} said: {said}");
        }
    }
}

/// A new sentence needs a test, too.
#[test]
fn each_sentence_about_a_failed_start_has_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut seen = 0;
    for (path, text) in manual() {
        let text = flat(&text);
        for end in ["stops the start", "stop the start", "ends the start", "end the start"] {
            for (at, _) in text.match_indices(end) {
                seen += 1;
                let begin = text[..at].rfind(". ").map_or(0, |end| end + 2);
                let sentence = &text[begin..at + end.len()];
                let says = |known: &str| sentence.ends_with(known.trim_end_matches('.')) || sentence.contains(known);
                let is_tested = STATEMENTS.iter().any(|statement| says(statement.sentence))
                    || ELSEWHERE.iter().any(|(known, test)| says(known) && root.join(test).exists());
                assert!(is_tested, "{}: {sentence}", path.display());
            }
        }
    }
    assert!(seen >= 5, "only {seen} sentences were found");
}
