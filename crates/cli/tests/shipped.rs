//! The files that packages make by `oribi completions` and `oribi manual`, as real shells and typesetters read them.

use oribi_server::config::table;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const PAGES: [&str; 3] = ["oribi", "oribi-ctl", "oribi-top"];

fn oribi(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_oribi")).args(arguments).output().expect("it was built");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it is text")
}

/// Runs a program with a text as its standard input.
fn fed(program: &str, arguments: &[&str], text: &str) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{program}: {error}"));
    let (mut stdin, text) = (child.stdin.take().expect("a pipe"), text.to_owned());
    // The program may write before it has read everything.
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    let _ = writer.join().expect("nothing panics there");
    output
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// A folder with the script of a shell and some files.
fn folder(shell: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("the folder is ours");
    write("script", &oribi(&["completions", shell]));
    write("shop.psgi", "");
    write("two words.lua", "");
    std::fs::create_dir(folder.path().join("sharp")).expect("the folder is ours");
    folder
}

/// The completions of bash for a line, whose last word may be empty.
fn completed_by_bash(folder: &Path, words: &[&str]) -> Vec<String> {
    let script = "source ./script; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _oribi; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut command = Command::new("bash");
    command.args(["--norc", "-c", script, "bash"]).args(words).current_dir(folder);
    let output = command.output().expect("bash is there");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words:?}");
    let text = String::from_utf8(output.stdout).expect("it is text");
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_orders_options_values_and_files() {
    let folder = folder("bash");
    for (words, expected) in [
        (&["oribi", "ctl", "rel"][..], &["reload"][..]),
        (&["oribi", "ctl", "health", "--t"], &["--timeout"]),
        (&["oribi", "--work"], &["--workers"]),
        (&["oribi", "check", "--chan"], &["--changed"]),
        (&["oribi", "top", "--on"], &["--once"]),
        (&["oribi", "com"], &["completions"]),
        (&["oribi", "manual", "oribi-"], &["oribi-ctl", "oribi-top"]),
        (&["oribi", "completions", "z"], &["zsh"]),
        (&["oribi", "app.psgi", "--io", "ep"], &["epoll"]),
        (&["oribi", "app.psgi", "--language", ""], &["perl", "ruby", "lua"]),
        (&["oribi", "app.psgi", "--workers", ""], &[]),
        (&["oribi", "sh"], &["sharp", "shop.psgi"]),
        (&["oribi", "check", "tw"], &["two words.lua"]),
        (&["oribi", "app.psgi", "-I", "s"], &["sharp"]),
        (&["oribi", "ctl", "sh"], &[]),
    ] {
        let mut found = completed_by_bash(folder.path(), words);
        if expected.contains(&"sharp") {
            found.retain(|word| word != "script");
            found.sort();
        }
        assert_eq!(found, expected, "{words:?}");
    }
}

#[test]
fn every_option_is_completed() {
    let folder = folder("bash");
    let found = completed_by_bash(folder.path(), &["oribi", "app.psgi", "--"]);
    for setting in table() {
        assert!(found.contains(&format!("--{}", setting.name)), "{}", setting.name);
        for shell in ["zsh", "fish"] {
            let option = if shell == "fish" { format!(" -l {} ", setting.name) } else { format!("*--{}", setting.name) };
            assert!(oribi(&["completions", shell]).contains(&option), "{shell}: {}", setting.name);
        }
    }
}

#[test]
fn zsh_and_fish_understand_their_scripts() {
    for shell in ["zsh", "fish"] {
        let folder = folder(shell);
        let check = Command::new(shell).args(["-n", "script"]).current_dir(folder.path()).output();
        let check = check.unwrap_or_else(|error| panic!("{shell}: {error}"));
        assert!(check.status.success() && said(&check).is_empty(), "{shell}: {}", said(&check));
    }
    let folder = folder("fish");
    for (line, expected) in [
        ("oribi ctl rel", "reload"),
        ("oribi --work", "--workers"),
        ("oribi manual oribi-c", "oribi-ctl"),
        ("oribi app.psgi --io ep", "epoll"),
        ("oribi sho", "shop.psgi"),
    ] {
        let script = format!("source script; complete -C '{line}'");
        let fish = Command::new("fish").args(["--no-config", "-c", &script]).current_dir(folder.path()).output();
        let fish = said(&fish.expect("fish is there"));
        assert_eq!(fish.split(['\t', '\n']).next(), Some(expected), "{line}: {fish}");
    }
}

/// Types lines, each with a Tab at its end, into an interactive zsh on a terminal of its own. Ctrl-A and Ctrl-E make a command
/// of the completed line, which writes it into the file `out`.
const TYPE: &str = "
zmodload zsh/zpty
zpty inner TERM=dumb zsh -f -i
wait_for() { until [[ -f out && $(wc -l < out) -ge $1 ]]; do zpty -r -t inner seen; sleep 0.01; done }
zpty -w inner 'fpath=($PWD $fpath); autoload -U compinit; compinit -D -u; print ready > out'
wait_for 1
number=1
for line in \"$@\"; do
    zpty -w -n inner \"$line\"$'\\t\\x01print -r -- \\x05 >> out\\n'
    wait_for $((++number))
done
zpty -d inner
";

#[test]
fn zsh_completes_commands_orders_options_values_and_files() {
    let folder = folder("zsh");
    std::fs::rename(folder.path().join("script"), folder.path().join("_oribi")).expect("the folder is ours");
    let lines = [
        ("oribi ctl rel", "oribi ctl reload"),
        ("oribi ctl health --tim", "oribi ctl health --timeout"),
        ("oribi --work", "oribi --workers"),
        ("oribi check --chan", "oribi check --changed"),
        ("oribi manual oribi-c", "oribi manual oribi-ctl"),
        ("oribi app.psgi --io ep", "oribi app.psgi --io epoll"),
        ("oribi sho", "oribi shop.psgi"),
    ];
    let mut command = Command::new("timeout");
    command.args(["60", "zsh", "-f", "-c", TYPE, "zsh"]).args(lines.map(|(typed, _)| typed)).current_dir(folder.path());
    let output = command.output().expect("timeout is there");
    assert!(output.status.success(), "{}", said(&output));
    let completed = std::fs::read_to_string(folder.path().join("out")).expect("it was written");
    let completed: Vec<&str> = completed.lines().skip(1).collect();
    assert_eq!(completed, lines.map(|(_, expected)| expected));
}

#[test]
fn the_manual_has_every_option_and_all_sections() {
    let page = oribi(&["manual"]);
    assert_eq!(page, oribi(&["manual", "oribi"]));
    let plain = page.replace("\\-", "-").replace("\\fB", "").replace("\\fI", "").replace("\\fR", "");
    for setting in table() {
        let value = if setting.is_switch() { "[=on|off]".to_owned() } else { format!(" {}", setting.placeholder) };
        let named = |line: &str| line.ends_with(&format!("--{}{value}", setting.name));
        assert!(plain.lines().any(named), "{}", setting.name);
        let has = |note: &str| plain.contains(note);
        assert!(setting.aliases.iter().all(|alias| has(&format!("--{alias}"))), "{}", setting.name);
        assert!(setting.environment.is_none_or(|variable| has(&format!("[environment: {variable}]"))), "{}", setting.name);
    }
    let sections =
        |page: &str| page.lines().filter_map(|line| line.strip_prefix(".SH ")).map(str::to_owned).collect::<Vec<_>>();
    let expected = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "VALUES", "SIGNALS", "EXIT STATUS", "ENVIRONMENT", "FILES"];
    assert_eq!(sections(&page), [&expected[..], &["EXAMPLES", "SEE ALSO"]].concat());
    let expected = ["NAME", "SYNOPSIS", "DESCRIPTION", "ORDERS", "OPTIONS", "EXIT STATUS", "ENVIRONMENT", "FILES", "SEE ALSO"];
    assert_eq!(sections(&oribi(&["manual", "oribi-ctl"])), expected);
    assert!(oribi(&["manual", "oribi-ctl"]).contains("\\fBhealth\\fR"));
}

#[test]
fn typesetters_find_no_mistake_in_the_manual() {
    for name in PAGES {
        let page = oribi(&["manual", name]);
        assert!(page.is_ascii(), "{name}");
        let groff = fed("groff", &["-man", "-ww", "-Tascii", "-z"], &page);
        assert!(groff.status.success() && said(&groff).is_empty(), "{name}: {}", said(&groff));
        let mandoc = said(&fed("mandoc", &["-Tlint", "-W", "warning"], &page));
        // The pages have no date on purpose.
        let mistakes: Vec<&str> = mandoc.lines().filter(|line| !line.contains("missing date")).collect();
        assert!(mistakes.is_empty() && mandoc.contains("missing date"), "{name}: {mandoc}");
    }
}

#[test]
fn a_shell_or_a_page_that_does_not_exist_is_refused() {
    for arguments in [&["completions", "tcsh"][..], &["completions"], &["manual", "nginx"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_oribi")).args(arguments).output().expect("it was built");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
}
