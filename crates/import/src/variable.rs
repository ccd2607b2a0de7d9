//! References to environment variables inside of texts of the draft.
//!
//! A text of the source is literal: a `${` in it must not become a variable of `oribi.toml`. A reader that knows a variable in
//! the source writes it with [`reference()`], and only these become `${NAME}`.

/// The letters, of a private area of Unicode, around a reference.
const OPEN: char = '\u{F8F0}';
const CLOSE: char = '\u{F8F1}';

/// A reference to a variable of the environment, with a default if there is one.
pub(crate) fn reference(name: &str, default: Option<&str>) -> String {
    let is_name = !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !name.starts_with(|letter: char| letter.is_ascii_digit());
    match default {
        _ if !is_name => format!("${name}"),
        None => format!("{OPEN}{name}{CLOSE}"),
        Some(default) => {
            let default: String = default.chars().filter(|letter| !['}', OPEN, CLOSE].contains(letter)).collect();
            format!("{OPEN}{name}:-{default}{CLOSE}")
        }
    }
}

/// The text as `oribi.toml` has it: references as `${NAME}`, and a literal `${` escaped.
pub(crate) fn written(text: &str) -> String {
    text.replace("${", "$${").replace(OPEN, "${").replace(CLOSE, "}")
}

/// The text as a message has it: references as `${NAME}`.
pub(crate) fn shown(text: &str) -> String {
    text.replace(OPEN, "${").replace(CLOSE, "}")
}

/// Replaces `$NAME`, `${NAME}` and `${NAME:-DEFAULT}` of a shell by references.
pub(crate) fn of_shell(text: &str) -> String {
    let mut replaced = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        replaced.push_str(before);
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let braced = after.strip_prefix('{').and_then(|inside| inside.split_once('}'));
        if let Some((inside, behind)) = braced {
            let (name, default) = match inside.split_once(":-").or_else(|| inside.split_once('-')) {
                Some((name, default)) => (name, Some(default)),
                None => (inside, None),
            };
            replaced.push_str(&reference(name, default));
            rest = behind;
        } else {
            let end = after.find(|letter| !is_part(letter)).unwrap_or(after.len());
            replaced.push_str(&reference(&after[..end], None));
            rest = &after[end..];
        }
    }
    replaced + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_references_become_variables() {
        for (text, expected) in [
            ("a${B}", "a$${B}"),
            (&*of_shell("a$B/c"), "a${B}/c"),
            (&*of_shell("${B:-x y}z"), "${B:-x y}z"),
            (&*of_shell("${B-x}"), "${B:-x}"),
            (&*of_shell("5$"), "5$"),
            (&*of_shell("$1a"), "$1a"),
            (&*of_shell("${B"), "$${B"),
        ] {
            assert_eq!(written(text), expected);
        }
    }
}
