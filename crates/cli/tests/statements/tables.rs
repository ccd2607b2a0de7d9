//! Tests of the manual's tables of options: the options of other servers that these tables call supported exist, and the
//! defaults in the tables are those of the settings.

use crate::{manual, options, options_of_servers};
use std::collections::BTreeMap;

/// A row of a table, by the headings of its columns.
type Row = BTreeMap<String, String>;

/// The rows of all tables of a page that have a column with this heading.
fn rows(page: &str, heading: &str) -> Vec<Row> {
    let (_, text) = manual().into_iter().find(|(path, _)| path.ends_with(page)).expect("the page is there");
    let cells = |line: &str| -> Vec<String> {
        let inside = line.trim().strip_prefix('|').and_then(|line| line.strip_suffix('|')).unwrap_or_default();
        inside.split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let (mut found, mut headings) = (Vec::new(), Vec::new());
    for line in text.lines() {
        if !line.starts_with('|') {
            headings = Vec::new();
        } else if headings.is_empty() {
            headings = cells(line);
        } else if !line.starts_with("|---") && headings.iter().any(|known| known == heading) {
            found.push(headings.iter().cloned().zip(cells(line)).collect());
        }
    }
    found
}

/// Returns the options of Oribi in a row. If the row says `either` or `the same` there, these are all options of other servers
/// in the row; if it says `those of SERVER`, these are the options of that server.
fn taken(row: &Row, servers: &[&str], ours: &str) -> Vec<String> {
    let of = |column: &str| options(&row[column]).map(str::to_owned).collect::<Vec<_>>();
    match row[ours].as_str() {
        "either" | "the same" => servers.iter().flat_map(|server| of(server)).collect(),
        said => match said.strip_prefix("those of ") {
            Some(server) => of(server),
            None => of(ours),
        },
    }
}

#[test]
fn options_of_other_servers_are_taken_as_the_tables_say() {
    let known = options_of_servers();
    let mut seen = 0;
    for (page, servers, ours) in [
        ("docs/perl.md", &["Starman", "Starlet, Gazelle", "uWSGI"][..], "Oribi"),
        ("docs/ruby.md", &["Puma", "Unicorn", "Rhebok"], "Oribi"),
        ("docs/lua.md", &["key"], "here"),
        ("docs/lua.md", &[], "option"),
        ("docs/perl.md", &[], "option"),
        ("docs/processes.md", &[], "limit"),
    ] {
        let rows = rows(page, ours);
        assert!(!rows.is_empty(), "{page} has no table with a column {ours}");
        for row in rows {
            for option in taken(&row, servers, ours) {
                seen += 1;
                assert!(known.contains(&option), "{page}: {option} in {row:?}");
            }
        }
    }
    assert!(seen > 70, "only {seen} options were found");
}

/// The spelling of a page's default in the table of options: `30 s` is `30s`.
fn as_value(text: &str) -> String {
    let text = text.split([',', ';']).next().unwrap_or_default().trim();
    match text {
        "no limit" => "off".to_owned(),
        text => text.replace(" min", "m").replace(' ', ""),
    }
}

#[test]
fn defaults_are_those_of_the_settings() {
    let mut defaults = BTreeMap::new();
    for row in rows("docs/options.md", "option") {
        defaults.extend(options(&row["option"]).map(|option| (option.to_owned(), as_value(&row["default"]))));
    }
    let mut seen = 0;
    for page in ["docs/perl.md", "docs/lua.md"] {
        for row in rows(page, "option").iter().filter(|row| row.contains_key("default")) {
            for option in options(&row["option"]) {
                seen += 1;
                let (said, real) = (as_value(&row["default"]), &defaults[option]);
                // A default in words: the beginning is the same.
                assert!(said == *real || real.starts_with(&said), "{page}: {option} is {said}, but {real}");
            }
        }
    }
    assert!(seen > 20, "only {seen} defaults were found");
}
