//! Properties of all configuration files: each finding has a place and shows no secret, and each value of a file without a
//! mistake is accepted by its option.

use oribi_config::{Config, Origin};
use oribi_config_file::{Action, Item, parse};

/// A value of the environment, which no finding may contain.
const SECRET: &str = "swordfish-of-4711";

fn environment(name: &str) -> Option<String> {
    match name {
        "SECRET" => Some(SECRET.to_owned()),
        "PORT" => Some("8080".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    }
}

/// Reads files: `oribi.toml`, and those that it includes, with the byte 0x1E between them. Returns whether they have no
/// mistake.
pub fn check(data: &[u8]) -> bool {
    let contents: Vec<&[u8]> = data.split(|&byte| byte == 0x1E).collect();
    let files: Vec<(&str, &[u8])> = contents
        .iter()
        .enumerate()
        .map(|(index, content)| (if index == 0 { "oribi.toml" } else { "part.toml" }, *content))
        .collect();
    let read = parse(&files, &environment);
    assert_eq!(read, parse(&files, &environment), "the same files are read in the same way");
    let findings = match &read {
        Ok(reading) => &reading.warnings,
        Err(findings) => findings,
    };
    assert!(read.is_ok() || !findings.list.is_empty());
    let known = contents.iter().any(|content| content.windows(9).any(|part| part == b"swordfish"));
    assert!(known || !findings.to_string().contains("swordfish"), "{findings}");
    for finding in &findings.list {
        let content = contents[finding.place.file];
        let lines = content.iter().filter(|&&byte| byte == b'\n').count() + 1;
        assert!(finding.place.line <= lines, "{finding}");
        assert!((finding.place.line == 0) == (finding.place.column == 0), "{finding}");
        let Some(excerpt) = &finding.excerpt else { continue };
        assert!(excerpt.line.chars().count() < 130 && excerpt.caret < 70, "{finding}");
        assert!(!excerpt.line.contains(char::is_control), "{finding}");
    }
    let Ok(reading) = read else { return false };
    let config = reading.config;
    let names: Vec<&str> = config.apps.iter().map(|app| app.name.as_str()).collect();
    let accepted = |item: &Item| {
        for value in &item.values {
            let mut config = Config::with(|_| None, 1);
            config.set(&item.name, value, Origin::Default).unwrap_or_else(|error| panic!("{item:?}: {error}"));
        }
    };
    config.server.iter().for_each(accepted);
    config.listens.iter().for_each(|listen| accepted(&listen.address));
    for app in &config.apps {
        assert!(!app.name.is_empty() && app.name.len() <= 64);
        app.options.iter().for_each(accepted);
        config.options_of(app).for_each(accepted);
    }
    for route in &config.routes {
        let mut action = Some(&route.action);
        let mut named = None;
        while let Some(this) = action {
            named = if let Action::App { name, .. } = this { Some(name) } else { None };
            action = if let Action::Files { fallback, .. } = this { fallback.as_deref() } else { None };
        }
        assert!(named.is_none_or(|name| names.contains(&name.value.as_str())), "{route:?}");
    }
    true
}
