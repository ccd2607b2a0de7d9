//! The part of a command line in front of the server: assignments, and programs that start another one.

use super::servers::{SERVERS, Server};
use crate::draft::Draft;
use crate::note::Key;

/// The settings of programs in front of a server.
#[derive(Clone, Debug, Default)]
pub(super) struct Front {
    pub environment: Vec<(String, String)>,
    pub directory: Option<String>,
    /// Addresses that start_server opens.
    pub addresses: Vec<(String, Key)>,
}

/// Programs that start the rest of the line, without options with values.
const PLAIN: &[&str] =
    &["exec", "env", "nohup", "command", "time", "setsid", "dotenv", "envdir", "perl", "ruby", "sh", "spring", "bin/spring"];

impl Front {
    /// Takes the words in front of a server.
    pub fn read(&mut self, words: &mut Vec<String>, line: Option<usize>, draft: &mut Draft) {
        let key = |name: &str| Key { line, name: name.to_owned() };
        // Each round takes at least one word.
        while let Some(word) = words.first().cloned() {
            let name = word.rsplit('/').next().unwrap_or_default().to_owned();
            let second = words.get(1).cloned().unwrap_or_default();
            if let Some((variable, value)) = assignment(&word) {
                self.set(variable, value);
                words.remove(0);
            } else if ["bundle", "carton", "carmel", "dotenv"].contains(&&*name) && second == "exec" {
                words.drain(..2);
                if words.first().is_some_and(|word| word == "--") {
                    words.remove(0);
                }
                match &*name {
                    "bundle" => {
                        draft.lost(&key("bundle exec"), "start the server the same way: bundle exec oribi -c oribi.toml");
                    }
                    "carton" => self.set("PERL5LIB", "local/lib/perl5"),
                    _ => draft.lost(&key(&format!("{name} exec")), "start the server the same way"),
                }
            } else if name == "start_server" {
                words.remove(0);
                self.start_server(words, line, draft);
            } else if ["sudo", "chpst", "setuidgid", "gosu", "su-exec"].contains(&&*name) {
                words.remove(0);
                let mut user = String::new();
                while let Some(flag) = words.first().cloned().filter(|word| word.starts_with('-')) {
                    words.remove(0);
                    if flag == "-u" && !words.is_empty() {
                        user = words.remove(0);
                    } else if flag != "-E" && flag != "-H" {
                        draft.lost(&key(&name), format!("the flag {flag}"));
                    }
                }
                if ["setuidgid", "gosu", "su-exec"].contains(&&*name) && !words.is_empty() {
                    user = words.remove(0);
                }
                draft.lost(
                    &key(&name),
                    format!(
                        "start the server as root, with user = \"{user}\" in [server], or by a service manager as that user"
                    ),
                );
            } else if ["nice", "ionice", "timeout", "taskset", "numactl", "ulimit"].contains(&&*name) {
                words.remove(0);
                let end = words.iter().position(|word| known(word)).unwrap_or(words.len());
                words.drain(..end);
                draft.lost(&key(&name), "start the server the same way, or by a service manager");
            } else if PLAIN.contains(&&*name) && !second.is_empty() && name != "rails" {
                words.remove(0);
                while words.len() > 1 && words.first().is_some_and(|word| word.starts_with('-')) {
                    self.flag_of_interpreter(&name, words, line, draft);
                }
            } else {
                return;
            }
        }
    }

    /// Takes a flag of perl, ruby or another program in front.
    fn flag_of_interpreter(&mut self, program: &str, words: &mut Vec<String>, line: Option<usize>, draft: &mut Draft) {
        let flag = words.remove(0);
        let (variable, separate) = if program == "ruby" { ("RUBYLIB", "RUBYOPT") } else { ("PERL5LIB", "PERL5OPT") };
        if let Some(directory) = flag.strip_prefix("-I") {
            let directory = if directory.is_empty() { words.remove(0) } else { directory.to_owned() };
            self.add(variable, &directory, ":");
        } else if (flag.starts_with("-M") && program == "perl") || (flag.starts_with("-r") && program == "ruby") {
            self.add(separate, &flag, " ");
        } else if flag != "-S" && flag != "-i" && flag != "--" {
            draft.lost(
                &Key { line, name: format!("{program} {flag}") },
                "start the server the same way, or use PERL5OPT or RUBYOPT in environment",
            );
        }
    }

    fn start_server(&mut self, words: &mut Vec<String>, line: Option<usize>, draft: &mut Draft) {
        while let Some(word) = words.first().cloned() {
            words.remove(0);
            if word == "--" {
                return;
            }
            let Some(flag) = word.strip_prefix("--") else {
                words.insert(0, word);
                return;
            };
            let (name, value) = match flag.split_once('=') {
                Some((name, value)) => (name.to_owned(), value.to_owned()),
                None if words.first().is_some_and(|next| !next.starts_with('-')) && !known(&words[0]) => {
                    (flag.to_owned(), words.remove(0))
                }
                None => (flag.to_owned(), String::new()),
            };
            let key = Key { line, name: format!("start_server --{name}") };
            match &*name {
                "port" => {
                    let address = if value.contains(':') { value } else { format!(":{value}") };
                    self.addresses.push((address, key));
                }
                "path" => self.addresses.push((value, key)),
                "pid-file" => draft.server.set("pid-file", value, &key),
                "log-file" => draft.server.set("error-log", value, &key),
                "backlog" => draft.server.set("backlog", value, &key),
                "dir" => self.directory = Some(value),
                "restart"
                | "stop"
                | "status-file"
                | "daemonize"
                | "envdir"
                | "enable-auto-restart"
                | "auto-restart-interval" => {
                    draft.lost(&key, "Oribi reloads and upgrades without a gap itself: oribi ctl reload, oribi ctl upgrade");
                }
                "interval" | "kill-old-delay" | "signal-on-hup" | "signal-on-term" => {
                    draft.lost(
                        &key,
                        "on HUP, new workers are ready before the old ones stop; graceful-timeout bounds their end",
                    );
                }
                _ => draft.lost(&key, "not known"),
            }
        }
    }

    /// Takes the variables of an `export`. Returns the words that give no value.
    pub fn export<'w>(&mut self, words: &'w [String]) -> Vec<&'w str> {
        let mut others = Vec::new();
        for word in words {
            match assignment(word) {
                Some((name, value)) => self.set(name, value),
                None => others.push(word.as_str()),
            }
        }
        others
    }

    /// Sets a variable; the last value counts.
    pub fn set(&mut self, name: &str, value: &str) {
        self.environment.retain(|(known, _)| known != name);
        self.environment.push((name.to_owned(), value.to_owned()));
    }

    /// Adds a value to a variable that is a list.
    pub fn add(&mut self, name: &str, value: &str, separator: &str) {
        match self.environment.iter_mut().find(|(known, _)| known == name) {
            Some((_, list)) => {
                list.push_str(separator);
                list.push_str(value);
            }
            None => self.set(name, value),
        }
    }

    pub fn variable(&self, name: &str) -> Option<&str> {
        self.environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The server of a command, and its arguments.
    pub fn server(&self, name: &str, words: Vec<String>) -> Option<(&'static Server, Vec<String>)> {
        let mut words = words.into_iter();
        let program = words.next().unwrap_or_default();
        let mut rest: Vec<String> = words.collect();
        let verb = rest.first().cloned().unwrap_or_default();
        let server = match name {
            "rails" if verb == "server" || verb == "s" => {
                rest.remove(0);
                find("rails")
            }
            "passenger" if verb == "start" => {
                rest.remove(0);
                find("passenger")
            }
            "thin" => {
                if ["start", "restart", "install"].contains(&&*verb) {
                    rest.remove(0);
                }
                find("thin")
            }
            "rails" | "passenger" | "daemon" | "prefork" => None,
            _ => find(name),
        };
        if server.is_some() {
            return server.map(|server| (server, rest));
        }
        // A Mojolicious app is a command itself.
        if ["daemon", "prefork"].contains(&&*verb) {
            rest[0] = program;
            return find(&verb).map(|server| (server, rest));
        }
        None
    }
}

/// The server with a name.
pub(super) fn find(name: &str) -> Option<&'static Server> {
    let name = name.trim_start_matches("plack::handler::");
    SERVERS.iter().find(|server| server.names.contains(&name))
}

/// Whether a word is a known server.
fn known(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or_default();
    find(name).is_some() || ["uwsgi", "bundle", "carton"].contains(&name)
}

/// Whether all words are `NAME=VALUE`.
pub(super) fn are_assignments(words: &[String]) -> bool {
    words.iter().all(|word| assignment(word).is_some())
}

/// `NAME=VALUE`.
fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_name = !name.is_empty() && name.bytes().all(fits) && !name.starts_with(|letter: char| letter.is_ascii_digit());
    is_name.then_some((name, value))
}
