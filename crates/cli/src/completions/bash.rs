//! The script for bash.

use crate::grammar::{Flag, FlagValue, flags, shared, takes_files, verbs, words};
use std::collections::BTreeMap;

const BEGINNING: &str = "\
# Completion of oribi for bash.

_oribi() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} verb= words= files=yes
    if ((COMP_CWORD > 1)); then
        verb=${COMP_WORDS[1]}
    fi
    COMPREPLY=()
";

const END: &str = "    \
    if [[ $current == -* ]]; then
        files=
    fi
    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))
    if [[ -n $files ]]; then
        compopt -o filenames 2>/dev/null
        local file
        while IFS= read -r file; do
            COMPREPLY+=(\"$file\")
        done < <(compgen \"${files/yes/-f}\" -- \"$current\")
    fi
}

complete -F _oribi oribi
";

/// The script.
pub fn script() -> String {
    let mut text = BEGINNING.to_owned();
    let shared = flags(&shared());
    let verbs = verbs();
    text.push_str("    case $verb in\n");
    let mut all: Vec<Flag> = Vec::new();
    for verb in &verbs {
        let Some(command) = &verb.own else { continue };
        let own = flags(command).into_iter().chain(command.get_subcommands().flat_map(flags));
        let own: Vec<Flag> = own.collect();
        let orders = words(command).into_iter().map(|(word, _)| word);
        let names = orders.chain(names(&own)).collect::<Vec<_>>().join(" ");
        text.push_str(&format!(
            "        {}) words='{names}' files={} ;;\n",
            verb.name,
            if takes_files(command) { "yes" } else { "" }
        ));
        all.extend(own);
    }
    text.push_str(&format!("        *) words='{}' ;;\n    esac\n", names(&shared).collect::<Vec<_>>().join(" ")));
    let first = verbs.iter().map(|verb| verb.name).collect::<Vec<_>>().join(" ");
    text.push_str(&format!("    if ((COMP_CWORD == 1)); then\n        words=\"{first} help $words\"\n    fi\n"));
    all.extend(shared);
    text.push_str(&values(&all));
    text.push_str(END);
    text
}

/// The names of flags, each once.
fn names(flags: &[Flag]) -> impl Iterator<Item = String> {
    let mut names: Vec<String> = Vec::new();
    for name in flags.iter().flat_map(Flag::names) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.into_iter()
}

/// The completion of a value after its flag.
fn values(flags: &[Flag]) -> String {
    let mut patterns: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for flag in flags {
        let action = match &flag.value {
            FlagValue::None => continue,
            FlagValue::Files => "words= files=yes".to_owned(),
            FlagValue::Directories => "words= files=-d".to_owned(),
            FlagValue::OneOf(values) => format!("words='{}' files=", values.join(" ")),
            FlagValue::Text => "return".to_owned(),
        };
        let patterns = patterns.entry(action).or_default();
        patterns.extend(flag.names().filter(|name| !patterns.contains(name)).collect::<Vec<_>>());
    }
    let cases = patterns.iter().map(|(action, names)| format!("        {}) {action} ;;\n", names.join(" | ")));
    format!("    case $previous in\n{}    esac\n", cases.collect::<String>())
}
