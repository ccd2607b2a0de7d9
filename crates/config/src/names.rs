//! Compares names of settings, finds the setting of a name, and suggests a similar name for an unknown one.

use super::setting::Setting;
use super::table::table;
use std::collections::HashMap;
use std::sync::OnceLock;

/// Normalizes a name for comparison: `max-reqs`, `max_reqs`, `MaxReqs` and `MAX-REQS` become the same.
pub(super) fn squash(name: &str) -> String {
    name.chars().filter(|character| !matches!(character, '-' | '_')).map(|character| character.to_ascii_lowercase()).collect()
}

/// The row that a name belongs to, and whether the name means the opposite.
pub(super) fn find(name: &str) -> Option<(usize, bool)> {
    // A configuration file may have a hundred thousand names.
    static ROWS: OnceLock<HashMap<String, (usize, bool)>> = OnceLock::new();
    let rows = ROWS.get_or_init(|| {
        let rows = table().iter().enumerate().flat_map(|(row, setting)| {
            let same = names(setting).map(move |name| (squash(name), (row, false)));
            same.chain(setting.opposites.iter().map(move |name| (squash(name), (row, true))))
        });
        rows.collect()
    });
    rows.get(&squash(name)).copied()
}

/// The setting that a name belongs to, with `_` or `-` between words, and whether the name means the opposite.
#[must_use]
pub fn setting_of(name: &str) -> Option<(&'static Setting, bool)> {
    find(name).map(|(row, inverted)| (&table()[row], inverted))
}

/// The known name that is closest to an unknown one, if one is close enough.
pub(super) fn suggest(name: &str) -> Option<&'static str> {
    closest(name, table().iter().flat_map(|setting| names(setting).chain(setting.opposites.iter().copied())))
}

/// Returns the candidate that is closest to a name, if at most one letter in three differs, and at most three letters. Also
/// compares without case, `-` and `_`.
pub fn closest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = squash(name);
    let tolerated = (wanted.chars().count() / 3).min(3);
    candidates
        .map(|candidate| (distance(&wanted, &squash(candidate)), candidate))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= tolerated)
        .map(|(_, candidate)| candidate)
}

/// The name of a setting and its other names.
fn names(setting: &Setting) -> impl Iterator<Item = &'static str> {
    std::iter::once(setting.name).chain(setting.aliases.iter().copied())
}

/// The number of letters to insert, remove, change or exchange with their neighbours to turn one word into the other (Damerau
/// and Levenshtein).
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let mut rows: [Vec<usize>; 3] = [Vec::new(), Vec::new(), (0..=right.len()).collect()];
    for (line, letter) in left.iter().enumerate() {
        rows.rotate_left(1);
        let [before, last, row] = &mut rows;
        row.clear();
        row.push(line + 1);
        for (column, other) in right.iter().enumerate() {
            let mut least = (last[column] + usize::from(letter != other)).min(last[column + 1] + 1).min(row[column] + 1);
            if line > 0 && column > 0 && *letter == right[column - 1] && left[line - 1] == *other {
                least = least.min(before[column - 1] + 1);
            }
            row.push(least);
        }
    }
    rows[2][right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_belongs_to_one_setting() {
        let mut seen = HashMap::new();
        for setting in table() {
            for (name, inverted) in
                names(setting).map(|name| (name, false)).chain(setting.opposites.iter().map(|&name| (name, true)))
            {
                let other = seen.insert(squash(name), setting.name).unwrap_or(setting.name);
                assert_eq!(other, setting.name, "{name} is there twice");
                assert_eq!(name, name.to_ascii_lowercase(), "{name}");
                assert!(!name.contains('_'), "{name} needs no `_`: both are the same");
                assert_eq!(find(name).map(|(index, inverted)| (table()[index].name, inverted)), Some((setting.name, inverted)));
            }
            assert!(setting.is_switch() || setting.opposites.is_empty(), "{} has no opposite", setting.name);
        }
        let mut letters: Vec<char> = table().iter().filter_map(|setting| setting.short).collect();
        let count = letters.len();
        letters.sort_unstable();
        letters.dedup();
        assert_eq!(letters.len(), count, "a letter is there twice");
    }

    #[test]
    fn names_are_compared_without_regard_to_dashes_and_case() {
        for (name, canonical, inverted) in [
            ("max_reqs_per_child", "max-requests", false),
            ("MaxRequestPerChild", "max-requests", false),
            ("max-workers", "workers", false),
            ("nproc", "workers", false),
            ("BackLog", "backlog", false),
            ("disable_keepalive", "disable-keepalive", false),
            ("no-keepalive", "disable-keepalive", false),
            ("keepalive", "disable-keepalive", true),
            ("enable_keepalive", "disable-keepalive", true),
        ] {
            let found = find(name).map(|(index, inverted)| (table()[index].name, inverted));
            assert_eq!(found, Some((canonical, inverted)), "{name}");
        }
        for name in ["", "-", "disable-workers", "worker s", "no"] {
            assert_eq!(find(name), None, "{name}");
        }
    }

    #[test]
    fn suggestions_are_close() {
        assert_eq!(suggest("worker"), Some("workers"));
        assert_eq!(suggest("max_reqs_per_chld"), Some("max-reqs-per-child"));
        assert_eq!(suggest("acces-log"), Some("access-log"));
        assert_eq!(suggest("threasd"), Some("threads"));
        assert_eq!(suggest("zzzzzz"), None);
        assert_eq!(suggest("x"), None);
    }
}
