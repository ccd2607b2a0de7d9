//! docs/options.md is made from the table of settings; this test keeps it so. With `ORIBI_WRITE_DOCS=1` it writes the file.

use oribi_server::config::{Setting, table};
use std::fmt::Write;

const INTRODUCTION: &str = "\
# Options

<!-- Made from the table of settings by `make docs`; edit crates/server/src/config/table.rs. -->

All of them work as flags of `oribi` (`--max-requests 1000`) and of `plackup -s Oribi`. `-` and `_` are the
same. An unknown option is a warning that suggests what may have been meant; a bad value is an error.
What wins: a flag, then the environment, then the default; `oribi check APP` shows what each setting is and why.

Times are seconds unless they say otherwise: `30`, `500ms`, `5m`, `1h`. Sizes are bytes: `65536`, `64k`, `1m`, `1GiB`.
";

/// The manual as the table has it.
fn manual() -> String {
    let mut text = INTRODUCTION.to_owned();
    let mut section = None;
    for setting in table() {
        if section != Some(setting.section) {
            section = Some(setting.section);
            let _ = write!(text, "\n## {}\n\n| option | default | meaning |\n|---|---|---|\n", setting.section.title());
        }
        let _ = writeln!(text, "| {} | {} | {} |", names(setting), default(setting), meaning(setting));
    }
    text
}

fn names(setting: &Setting) -> String {
    let value = if setting.is_switch() { String::new() } else { format!(" {}", setting.placeholder) };
    let short = setting.short.map_or_else(String::new, |short| format!("`-{short}`, "));
    let aliases: String = setting.aliases.iter().map(|alias| format!(", `--{alias}`")).collect();
    format!("{short}`--{}{value}`{aliases}", setting.name)
}

fn default(setting: &Setting) -> String {
    setting.default_text().map_or_else(String::new, |text| escaped(&text))
}

fn meaning(setting: &Setting) -> String {
    let environment = setting.environment.map_or_else(String::new, |variable| format!(" (environment: `{variable}`)"));
    format!("{}{environment}", escaped(setting.help))
}

fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "\\<").replace('*', "\\*")
}

#[test]
fn the_manual_says_what_the_table_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/options.md");
    if std::env::var_os("ORIBI_WRITE_DOCS").is_some() {
        std::fs::write(path, manual()).expect("docs/options.md can be written");
    }
    let written = std::fs::read_to_string(path).expect("docs/options.md is there");
    assert!(written == manual(), "docs/options.md is out of date: make docs");
}
