//! The flags of a server: rows of a table, and the reader of arguments.

/// The value of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    Nothing,
    One,
    /// A value only behind `=` or in the same word.
    Maybe,
}

/// The meaning of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    /// An option of `[server]` with the value of the flag.
    Server(&'static str),
    /// An option of the app with the value of the flag.
    App(&'static str),
    /// The lowest number of workers.
    LeastWorkers,
    /// An option of `[server]` with this value.
    ServerIs(&'static str, &'static str),
    /// Oribi does the same without an option.
    Same(&'static str),
    /// There is no counterpart: the reason, or the nearest equivalent.
    Lost(&'static str),
    /// A file with more options, which has no defaults then: the reason why it is not read.
    Configuration(&'static str),
    /// The address at which the server listens.
    Listen,
    Host,
    Port,
    /// The path of a Unix socket.
    Socket,
    /// The environment of the app: `PLACK_ENV` or `RACK_ENV`.
    Environment,
    /// The file of the app.
    File,
    /// The code of the app.
    Code,
    /// The working directory.
    Directory,
    /// A directory with modules.
    Include,
    /// A module that is loaded.
    Module,
    /// `MIN:MAX` or a number.
    Threads,
    /// A file or folder to watch.
    Watch,
    /// The path at which the app is mounted.
    Mount,
    /// The server that plackup or rackup starts.
    Handler,
    /// `NAME=VALUE` for the environment.
    Variable,
    /// `NAME=VALUE`, an option of the server.
    HandlerOption,
    /// The number of servers at consecutive ports.
    Servers,
    /// A size in MiB.
    Memory,
    /// Files of a directory, beside the app.
    Static,
}

/// A row.
pub(super) struct Flag {
    pub names: &'static [&'static str],
    pub takes: Takes,
    pub to: To,
}

pub(super) const fn one(names: &'static [&'static str], to: To) -> Flag {
    Flag { names, takes: Takes::One, to }
}

pub(super) const fn bare(names: &'static [&'static str], to: To) -> Flag {
    Flag { names, takes: Takes::Nothing, to }
}

pub(super) const fn maybe(names: &'static [&'static str], to: To) -> Flag {
    Flag { names, takes: Takes::Maybe, to }
}

/// An argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Argument {
    /// The flag as it was written, without its value; empty for a word that is no flag.
    pub flag: String,
    pub value: Option<String>,
    pub to: Option<To>,
}

/// Reads arguments by the rows of some tables, the first of which counts.
pub(super) fn read(words: &[String], tables: &[&[Flag]]) -> Vec<Argument> {
    let find = |name: &str| {
        let name = name.replace('_', "-");
        tables.iter().flat_map(|table| table.iter()).find(|flag| flag.names.contains(&&*name))
    };
    let mut arguments = Vec::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        if word == "--" {
            continue;
        }
        let plain = |value: &str| Argument { flag: String::new(), value: Some(value.to_owned()), to: None };
        if !word.starts_with('-') || word == "-" {
            arguments.push(plain(word));
            continue;
        }
        let (name, attached) = match word.split_once('=') {
            Some((name, value)) if word.starts_with("--") => (name.to_owned(), Some(value.to_owned())),
            _ => (word.clone(), None),
        };
        if let Some(row) = find(&name) {
            let value = match row.takes {
                Takes::One if attached.is_none() => words.next().cloned(),
                // Perl's servers take a number behind a switch.
                _ if attached.is_none() && name.starts_with("--") => {
                    words.next_if(|next| ["0", "1"].contains(&next.as_str())).cloned()
                }
                _ => attached,
            };
            arguments.push(Argument { flag: name, value, to: Some(row.to) });
            continue;
        }
        // Letters in one word: -DE production, -p80.
        if !word.starts_with("--") && word.is_ascii() && letters(word, &find, &mut words, &mut arguments) {
            continue;
        }
        let value = match attached {
            None if words.peek().is_some_and(|next| !next.starts_with('-') && !is_app(next)) => words.next().cloned(),
            value => value,
        };
        arguments.push(Argument { flag: name, value, to: None });
    }
    arguments
}

/// Reads several flags of one letter. Returns whether the first of them is known.
fn letters<'t>(
    word: &str,
    find: &impl Fn(&str) -> Option<&'t Flag>,
    words: &mut std::iter::Peekable<std::slice::Iter<'_, String>>,
    arguments: &mut Vec<Argument>,
) -> bool {
    let mut known = false;
    for (index, letter) in word.char_indices().skip(1) {
        let name = format!("-{letter}");
        let Some(row) = find(&name) else {
            if known {
                arguments.push(Argument { flag: name, value: None, to: None });
            }
            return known;
        };
        known = true;
        let rest = &word[index + 1..];
        if row.takes == Takes::Nothing {
            arguments.push(Argument { flag: name, value: None, to: Some(row.to) });
            continue;
        }
        let rest = rest.strip_prefix('=').unwrap_or(rest);
        let value = if !rest.is_empty() {
            Some(rest.to_owned())
        } else if row.takes == Takes::One {
            words.next().cloned()
        } else {
            None
        };
        arguments.push(Argument { flag: name, value, to: Some(row.to) });
        return true;
    }
    known
}

/// Whether a word is the file of an app.
fn is_app(word: &str) -> bool {
    [".psgi", ".ru", ".pl", ".lua"].iter().any(|ending| word.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_have_their_values_in_every_spelling() {
        const TABLE: &[Flag] =
            &[one(&["-p", "--port"], To::Port), bare(&["-D", "--daemonize"], To::Lost("")), maybe(&["--reload"], To::Watch)];
        let read = |line: &str| -> Vec<String> {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let show = |argument: Argument| format!("{}={}", argument.flag, argument.value.unwrap_or_default());
            read(&words, &[TABLE]).into_iter().map(show).collect()
        };
        for (line, expected) in [
            ("-p 80 a", "-p=80 =a"),
            ("-p80 -p=81", "-p=80 -p=81"),
            ("--port=80 --port 81", "--port=80 --port=81"),
            ("-Dp 80", "-D= -p=80"),
            ("--reload a --reload=b", "--reload= =a --reload=b"),
            ("--foo a --bar=b --baz app.psgi", "--foo=a --bar=b --baz= =app.psgi"),
            ("-p", "-p="),
            ("-x y", "-x=y"),
        ] {
            assert_eq!(read(line).join(" "), expected, "{line}");
        }
    }
}
