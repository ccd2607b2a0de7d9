//! Tests of generated files: docs/options.md is generated from the tables of settings of the server and of the Lua host, the
//! Ruby host's table from the server's table, and docs/counters.md from the rows of the counters. The tests compare the files
//! with these tables, or write the files if `ORIBI_WRITE_DOCS=1` is set.

use oribi_lua::LuaSetting;
use oribi_server::COUNTER_ROWS;
use oribi_server::config::{Scope, Setting, table};
use std::fmt::Write;

const INTRODUCTION: &str = "\
# Options

<!-- Made from the tables of settings by `make docs`; edit crates/config/src/table/ or hosts/lua/src/settings/table.rs. -->

All options work as flags of `oribi` (`--max-requests 1000`) and of `plackup -s Oribi`, as options of `rackup -s oribi`
(`-O MaxRequests=1000`) and as words of a configuration file for Ruby (`max_requests 1000`). `-` and `_` are the same.
`oribi` refuses an unknown option and suggests one; `plackup` and `rackup` log a warning and continue, because these may be options of
other servers. An invalid value is an error.
A flag overrides the environment, the environment overrides a configuration file, and that overrides the default.
Each option has a variable of the environment: `ORIBI_MAX_REQUESTS` for `max-requests`, but not for `host` and `port`.
`oribi check APP` shows the value and the source of each setting.

Times are in seconds unless they have a unit: `30`, `500ms`, `5m`, `1h`. Sizes are bytes: `65536`, `64k`, `1m`, `1GiB`.

The column `table` is the table of `oribi.toml` in which the option may stand: `server` is `[server]`; `listen` is
`[[listen]]`, or `[server]` for all addresses; `app` is `[app.NAME]`, or `[server]` as the default of all apps.
";

const LUA: &str = "
## Lua

Flags of `oribi` for Lua scripts; [lua.md](lua.md) explains how they work together.

| option | default | meaning |
|---|---|---|
| `--document-root [DIR]` |  | Run scripts below DIR, chosen by the path of the request |
| `--lua VERSION` | jit | Which Lua: jit or 5.4 |
| `--hooks FILE` |  | Call the hook functions that this file returns |
";

const COUNTERS: &str = "\
# Counters

<!-- Made from the rows of counters by `make docs`; edit crates/stats/src/totals/rows.rs. -->

The counters of a server, by their names in `oribi ctl status --json` ([control.md](control.md#counters)) and in metrics
([observe.md](observe.md#counters)). They only grow, and outlive workers, edges, generations of the app and upgrades of the program. A
name that ends in `_seconds` is a time, all others are numbers of events or bytes.

| `oribi ctl` | metric | counts |
|---|---|---|
";

/// The page of the counters as their rows define it.
fn counters() -> String {
    let mut text = COUNTERS.to_owned();
    for row in &COUNTER_ROWS {
        let labels: Vec<String> = row.labels().iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let total = if row.name.contains("longest") { "" } else { "_total" };
        let _ = writeln!(text, "| `{}` | `oribi_{}{total}{labels}` | {} |", row.name, row.family(), row.meaning);
    }
    text
}

/// The manual as the tables define it.
fn manual() -> String {
    let mut text = INTRODUCTION.to_owned();
    let mut section = None;
    for setting in table() {
        if section != Some(setting.section) {
            section = Some(setting.section);
            let _ =
                write!(text, "\n## {}\n\n| option | table | default | meaning |\n|---|---|---|---|\n", setting.section.title());
        }
        let _ = writeln!(text, "| {} | {} | {} | {} |", names(setting), place(setting), default(setting), meaning(setting));
    }
    text.push_str(LUA);
    for setting in oribi_lua::table() {
        let (help, default) = (escaped(setting.help), escaped(&setting.default_text()));
        let _ = writeln!(text, "| {} | {default} | {help} |", lua_names(setting));
    }
    text
}

fn lua_names(setting: &LuaSetting) -> String {
    let value = if setting.is_switch() { String::new() } else { format!(" {}", setting.placeholder) };
    format!("`--{}{value}`", setting.name)
}

fn names(setting: &Setting) -> String {
    let value = if setting.is_switch() { String::new() } else { format!(" {}", setting.placeholder) };
    let short = setting.short.map_or_else(String::new, |short| format!("`-{short}`, "));
    let aliases: String = setting.aliases.iter().map(|alias| format!(", `--{alias}`")).collect();
    format!("{short}`--{}{value}`{aliases}", setting.name)
}

/// The table of `oribi.toml` in which a setting may stand, besides `[server]`.
fn place(setting: &Setting) -> &'static str {
    match setting.scope {
        Scope::Server => "server",
        Scope::Listener => "listen",
        Scope::App => "app",
    }
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

/// Returns the table of settings for Ruby. The Ruby host needs it before the server is loaded, because the configuration file
/// has a word for each setting.
fn ruby_table() -> String {
    let mut text = "\
# frozen_string_literal: true

# Made from the server's table of settings by `make docs`; edit crates/config/src/table/.

module Oribi
  class Setting
    TABLE = [
"
    .to_owned();
    for setting in table() {
        let _ = writeln!(
            text,
            "      new({}, {}, {}, {}, {},\n          {},\n          {}),",
            quoted(setting.name),
            list(setting.aliases),
            list(setting.opposites),
            setting.environment.map_or_else(|| "nil".to_owned(), quoted),
            quoted(setting.placeholder),
            quoted(&setting.default_text().unwrap_or_default()),
            quoted(setting.help)
        );
    }
    text.push_str("    ].freeze\n  end\nend\n");
    text
}

/// Formats a text as a Ruby string.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('#', "\\#"))
}

fn list(words: &[&str]) -> String {
    format!("%w[{}]", words.join(" "))
}

/// Compares a file with the expected text, or writes it.
fn keep(path: &str, expected: &str) {
    let file = format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("ORIBI_WRITE_DOCS").is_some() {
        std::fs::write(&file, expected).expect("the file can be written");
    }
    let written = std::fs::read_to_string(&file).expect("the file is there");
    assert!(written == expected, "{path} is out of date: make docs");
}

#[test]
fn the_manual_says_what_the_table_says() {
    keep("docs/options.md", &manual());
}

#[test]
fn ruby_knows_what_the_table_knows() {
    keep("hosts/ruby/lib/oribi/setting/table.rb", &ruby_table());
}

#[test]
fn counters_are_described_by_their_rows() {
    keep("docs/counters.md", &counters());
}
