//! The script for zsh.

use crate::grammar::{Flag, FlagValue, flags, shared, summary, takes_files, verbs, words};

/// The script.
pub fn script() -> String {
    let mut text =
        "#compdef oribi\n# Completion of oribi for zsh.\n\n_oribi() {\n    local -a commands words_of_verb\n".to_owned();
    text.push_str("    commands=(\n");
    let verbs = verbs();
    for verb in &verbs {
        text.push_str(&format!("        {}\n", quoted(&format!("{}:{}", verb.name, verb.about))));
    }
    text.push_str("    )\n    local verb=\n    if ((CURRENT > 2)); then\n        verb=$words[2]\n    fi\n    case $verb in\n");
    for verb in &verbs {
        let Some(command) = &verb.own else { continue };
        let orders = words(command);
        text.push_str(&format!("        {})\n            words_of_verb=(\n", verb.name));
        for (word, about) in &orders {
            text.push_str(&format!("                {}\n", quoted(&format!("{word}:{}", summary(about)))));
        }
        text.push_str("            )\n            shift words\n            ((CURRENT--))\n            _arguments \\\n");
        let own: Vec<Flag> = flags(command).into_iter().chain(command.get_subcommands().flat_map(flags)).collect();
        text.push_str(&specifications(&own));
        let rest = if takes_files(command) { "file:_files" } else { "word:{ _describe word words_of_verb }" };
        text.push_str(&format!("                '*:{rest}'\n            ;;\n"));
    }
    text.push_str("        *)\n            if [[ $CURRENT == 2 && $PREFIX != -* ]]; then\n");
    text.push_str("                _describe command commands\n            fi\n            _arguments \\\n");
    text.push_str(&specifications(&flags(&shared())));
    text.push_str("                '*:app:_files'\n            ;;\n    esac\n}\n\n_oribi \"$@\"\n");
    text
}

/// The arguments of `_arguments` for flags, each flag once.
fn specifications(flags: &[Flag]) -> String {
    let mut seen: Vec<String> = Vec::new();
    let mut text = String::new();
    for flag in flags {
        for name in flag.names() {
            if seen.contains(&name) {
                continue;
            }
            let action = match &flag.value {
                FlagValue::None => None,
                FlagValue::Files => Some("_files".to_owned()),
                FlagValue::Directories => Some("_files -/".to_owned()),
                FlagValue::OneOf(values) => Some(format!("({})", values.join(" "))),
                FlagValue::Text => Some(String::new()),
            };
            let value = action.map(|action| format!(":{}:{action}", escaped(&flag.placeholder)));
            // With `=`, the value may also follow in the next word.
            let joined = if value.is_some() && name.starts_with("--") { "=" } else { "" };
            let specification = format!("*{name}{joined}[{}]{}", escaped(&flag.summary()), value.unwrap_or_default());
            text.push_str(&format!("                {} \\\n", quoted(&specification)));
            seen.push(name);
        }
    }
    text
}

/// A text without characters that have a meaning in a specification.
fn escaped(text: &str) -> String {
    text.chars().flat_map(|letter| "\\:[]".contains(letter).then_some('\\').into_iter().chain([letter])).collect()
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
