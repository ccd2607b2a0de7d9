//! The server of a command line with its flags: addresses, options and the app.

use super::flags::{Argument, Flag, To, read};
use super::front::{Front, find};
use super::servers::Server;
use crate::address::{Address, V4, of_puma, of_server, of_v4_server};
use crate::conditions::Match;
use crate::draft::{Action, App, Draft, Settings};
use crate::note::Key;
use oribi_config::{Scope, setting_of};

/// The parts of a command line that are put together at the end.
struct Serving<'d> {
    /// The command.
    program: &'static Server,
    /// The server that it starts.
    server: &'static Server,
    /// The tables of both.
    tables: Vec<&'static [Flag]>,
    front: Front,
    app: App,
    host: Option<(String, Key)>,
    port: Option<(String, Key)>,
    addresses: Vec<(Address, Key)>,
    environment: Option<String>,
    mount: Option<String>,
    statics: Option<(String, Key)>,
    servers: u16,
    /// Whether a file has more options.
    configured: bool,
    /// The folder that the command names.
    folder: Option<String>,
    line: Option<usize>,
    draft: &'d mut Draft,
}

/// Carries a command line over.
pub(super) fn serve(program: &'static Server, words: &[String], front: &Front, line: Option<usize>, draft: &mut Draft) {
    let arguments = read(words, program.tables);
    // plackup and rackup start the server of -s.
    let is_handler = |argument: &&Argument| argument.to == Some(To::Handler);
    let handler = arguments.iter().find(is_handler).and_then(|argument| argument.value.as_deref());
    let handler = handler.or(front.variable("PLACK_SERVER").filter(|_| program.language == "perl"));
    let chosen = handler.and_then(|name| find(&name.to_ascii_lowercase())).filter(|chosen| chosen.language == program.language);
    let unknown = handler.filter(|name| chosen.is_none() && !name.eq_ignore_ascii_case("oribi")).map(str::to_owned);
    let mut serving = Serving::new(program, chosen.unwrap_or(program), front.clone(), line, draft);
    let arguments = read(words, &serving.tables);
    serving.draft.title = format!("Made by oribi import from a command line of {}.", serving.server.title);
    serving.app.directory.clone_from(&front.directory);
    if let Some(name) = unknown {
        let key = serving.key("--server");
        serving.draft.lost(&key, format!("{name} is no known server: its own flags are taken for those of Oribi"));
    }
    for argument in arguments {
        serving.argument(argument);
    }
    serving.finish();
}

/// Carries keys of a file over as if they were flags.
pub(super) fn serve_keys(server: &'static Server, keys: Vec<(Argument, Key)>, draft: &mut Draft) {
    let mut serving = Serving::new(server, server, Front::default(), None, draft);
    for (argument, key) in keys {
        serving.apply(argument, &key);
    }
    serving.finish();
}

impl<'d> Serving<'d> {
    fn new(program: &'static Server, server: &'static Server, front: Front, line: Option<usize>, draft: &'d mut Draft) -> Self {
        let addresses = front.addresses.iter().map(|(text, key)| (Address::plain(text), key.clone())).collect();
        Self {
            program,
            server,
            tables: program.tables.iter().chain(server.tables).copied().collect(),
            front,
            app: App::default(),
            host: None,
            port: None,
            addresses,
            environment: None,
            mount: None,
            statics: None,
            servers: 1,
            configured: false,
            folder: None,
            line,
            draft,
        }
    }
}

impl Serving<'_> {
    fn key(&self, name: &str) -> Key {
        Key { line: self.line, name: name.to_owned() }
    }

    fn argument(&mut self, argument: Argument) {
        let key = self.key(&argument.flag);
        self.apply(argument, &key);
    }

    fn apply(&mut self, argument: Argument, key: &Key) {
        let Argument { flag, value, to } = argument;
        let Some(to) = to else {
            return match value {
                Some(word) if flag.is_empty() => self.word(word),
                value => self.unknown(&flag, value.as_deref(), key),
            };
        };
        let Some(text) = value.clone().or_else(|| needs_none(to).then(String::new)) else {
            return self.draft.lost(key, "it has no value");
        };
        match to {
            To::Server(option) => self.draft.server.set(option, text, key),
            To::App(option) => self.app.options.set(option, text, key),
            To::LeastWorkers => match text.parse() {
                Ok(least) => self.app.least_workers = Some((least, key.clone())),
                Err(_) => self.draft.lost(key, "expected the lowest number of workers"),
            },
            To::ServerIs(option, value) => self.draft.server.set(option, value, key),
            To::Same(reason) => self.draft.same(key, reason),
            To::Lost(reason) => self.draft.lost(key, reason),
            To::Configuration(reason) => {
                self.configured = true;
                self.draft.lost(key, reason);
            }
            To::Listen => self.listen(&text, key),
            To::Socket => self.addresses.push((Address::plain(&text), key.clone())),
            To::Host => self.host = Some((text, key.clone())),
            To::Port => self.port = Some((text, key.clone())),
            To::Environment => self.environment = Some(text),
            To::File => self.app.file = text,
            To::Code => self.draft.lost(key, "write the code into a file: file of the app"),
            To::Directory => self.app.directory = Some(text),
            To::Include => self.front.add(if self.is_perl() { "PERL5LIB" } else { "RUBYLIB" }, &text, ":"),
            To::Module if self.is_perl() => self.front.add("PERL5OPT", &format!("-M{text}"), " "),
            To::Module => self.front.add("RUBYOPT", &format!("-r{text}"), " "),
            To::Threads => self.threads(&text, key),
            To::Watch => self.watch(&text, key),
            To::Mount => self.mount = Some(format!("/{}", text.trim_matches('/'))).filter(|path| path != "/"),
            To::Handler => self.draft.same(key, "Oribi is the server"),
            To::Variable => match text.split_once('=') {
                Some((name, value)) => self.front.set(name, value),
                None => self.draft.lost(key, "expected NAME=VALUE"),
            },
            To::HandlerOption => {
                let (name, value) = text.split_once('=').map_or((&*text, "on"), |parts| parts);
                let word = format!("--{}={value}", dashed(name));
                for argument in read(&[word], &self.tables) {
                    self.apply(argument, key);
                }
            }
            To::Servers => match text.parse() {
                Ok(number) if (1..=64).contains(&number) => self.servers = number,
                _ => self.draft.lost(key, "expected a number from 1 to 64"),
            },
            To::Memory => self.app.options.set("max-memory", format!("{text}MiB"), key),
            To::Static => self.statics = Some((text, key.clone())),
        }
    }

    fn is_perl(&self) -> bool {
        self.server.language == "perl"
    }

    /// A word that is no flag: the file of the app, or its folder.
    fn word(&mut self, word: String) {
        let key = self.key(&word);
        if self.server.names.contains(&"passenger") && self.app.directory.is_none() {
            self.folder = Some(word.trim_end_matches('/').to_owned());
            self.app.directory = Some(word);
        } else if self.app.file.is_empty() {
            self.app.file = word;
        } else {
            self.draft.lost(&key, "one word more than the command takes");
        }
    }

    /// A flag that is not in the tables: many have the same name in Oribi.
    fn unknown(&mut self, flag: &str, value: Option<&str>, key: &Key) {
        let name = flag.trim_start_matches('-').replace('_', "-").to_ascii_lowercase();
        let long = flag.starts_with("--");
        let Some((setting, negated)) = setting_of(&name).filter(|_| long) else {
            return self.draft.lost(key, format!("no flag of {} with a counterpart, or not known", self.server.title));
        };
        let value = value.unwrap_or(if negated { "off" } else { "on" });
        match setting.name {
            "listen" => self.listen(value, key),
            "host" => self.host = Some((value.to_owned(), key.clone())),
            "port" => self.port = Some((value.to_owned(), key.clone())),
            _ if setting.scope == Scope::App => self.app.options.set(setting.name, value, key),
            _ => self.draft.server.set(setting.name, value, key),
        }
    }

    /// An address as Perl's and Ruby's servers write it.
    fn listen(&mut self, text: &str, key: &Key) {
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let address = if self.any_host().is_empty() { of_server(part) } else { of_v4_server(part) };
            match address {
                Ok(address) => {
                    for note in &address.notes {
                        self.draft.lost(key, note.as_str());
                    }
                    self.addresses.push((address, key.clone()));
                }
                Err(reason) => self.draft.lost(key, reason),
            }
        }
    }

    /// The host for all interfaces that an address without a host has: with both families of addresses, or with IPv4 alone.
    fn any_host(&self) -> &'static str {
        if self.server.host.is_empty() { "" } else { V4 }
    }

    fn threads(&mut self, text: &str, key: &Key) {
        let value = match text.split_once(':') {
            Some((least, most)) if least == most => most.to_owned(),
            Some(("0", "1")) => "1".to_owned(),
            Some(("0", most)) => format!("1:{most}"),
            _ => text.to_owned(),
        };
        self.app.options.set("threads", value, key);
    }

    fn watch(&mut self, text: &str, key: &Key) {
        self.app.options.set("reload", true, key);
        for path in text.split(',').filter(|path| !path.is_empty()) {
            self.app.options.set("reload-path", path, key);
        }
    }

    fn finish(mut self) {
        let title = self.server.title;
        let key = self.key("command");
        if let Some(note) = self.server.note.or(self.program.note) {
            self.draft.lost(&key, note);
        }
        self.listens();
        self.environment();
        self.file(&key);
        if self.servers > 1 {
            let key = self.key("--servers");
            set_if_missing(&mut self.app.options, "workers", &self.servers.to_string(), &key);
        }
        if self.program.names.contains(&"passenger") && self.statics.is_none() {
            let text =
                "Passenger sends the files of public/ itself: a route with files = { root = \"public\", fallback = \"app\" }";
            self.draft.lost(&self.key("public"), text);
        }
        for (option, value) in self.server.defaults.iter().filter(|_| !self.configured) {
            self.app.options.otherwise(option, number_or_text(value), title);
        }
        let dynamic = self.program.names.contains(&"passenger") && self.app.least_workers.is_none();
        if dynamic {
            self.app.least_workers = Some((1, Key::new("default of Passenger")));
        }
        let without_effect = self.app.join_workers().filter(|_| !dynamic);
        if self.program.names.contains(&"passenger") && self.app.follows_load() {
            self.app.options.otherwise("scale-down-idle", 300, title);
        }
        if let Some(key) = without_effect {
            self.draft.lost(&key, "it has no effect unless the highest number of workers is higher");
        }
        self.app.name = self.draft.free_name("app");
        self.app.key = key.clone();
        let name = self.app.name.clone();
        if let Some((root, key)) = self.statics.take() {
            let root = match &self.front.directory {
                _ if root.starts_with('/') => root,
                None => self.folder.as_ref().map_or(root.clone(), |folder| format!("{folder}/{root}")),
                Some(folder) => format!("{}/{root}", folder.trim_end_matches('/')),
            };
            self.draft.route(Match::default(), Action::files(root, Some(Action::app(name.clone()))), &key);
        } else if let Some(mount) = self.mount.take() {
            let paths = vec![mount.clone(), format!("{mount}/*")];
            let conditions = Match { path: paths, ..Match::default() };
            self.draft.route(conditions, Action::App { name, mount: Some(mount) }, &key);
        }
        self.draft.apps.push(self.app);
    }

    /// The addresses; without any, that of the server without flags.
    fn listens(&mut self) {
        let of_environment = |name: &str| self.front.variable(name).map(|value| (value.to_owned(), Key::new(name)));
        let reads_port = ["puma", "rails"].iter().any(|name| self.server.names.contains(name));
        let port = self.port.clone().or_else(|| of_environment("PORT").filter(|_| reads_port));
        if self.addresses.is_empty() || self.port.is_some() || self.host.is_some() {
            let (port_text, key) = port.unwrap_or_else(|| {
                let port = if self.server.port.is_empty() { "" } else { self.program.port };
                (port.to_owned(), Key::new(format!("default of {}", self.program.title)))
            });
            let given = self.host.as_ref().map(|(host, _)| host.as_str());
            let host = match given.unwrap_or(self.program.host) {
                "" | "*" => self.any_host(),
                V4 if given.is_none() => self.any_host(),
                "::" | "[::]" => "",
                host => host,
            };
            if self.server.names.contains(&"puma") && host.is_empty() && given.is_none() {
                self.draft.lost(&key, of_puma(&port_text));
            }
            let host = if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.to_owned() };
            match (port_text.parse::<u16>(), host.starts_with('/')) {
                (_, true) => self.addresses.push((Address::plain(&host), key)),
                (Ok(first), _) => {
                    for port in first..=first.saturating_add(self.servers - 1) {
                        self.addresses.push((Address::plain(&format!("{host}:{port}")), key.clone()));
                    }
                }
                (Err(_), _) if port_text.is_empty() => {
                    self.draft.lost(
                        &key,
                        "it takes its connections from the process that starts it: write [[listen]] with an address",
                    );
                }
                (Err(_), _) => self.addresses.push((Address::plain(&format!("{host}:{port_text}")), key)),
            }
        }
        let fastcgi = self.server.names.contains(&"fcgi");
        for (address, key) in std::mem::take(&mut self.addresses) {
            let text = match address.text.strip_prefix('/') {
                Some(_) if fastcgi => format!("fcgi+unix:{}", address.text),
                None if fastcgi => format!("fcgi://{}", address.text),
                _ => address.text,
            };
            self.draft.listen(text.clone(), &key);
            for (option, value) in address.options {
                let of_address = setting_of(option).is_some_and(|(setting, _)| setting.scope == Scope::Listener);
                let settings =
                    if of_address { &mut self.draft.listen(text.clone(), &key).options } else { &mut self.draft.server };
                settings.set(option, value, &key);
            }
        }
    }

    /// The variables of the app's environment.
    fn environment(&mut self) {
        let names: &[&str] = if self.is_perl() { &["PLACK_ENV"] } else { &["RACK_ENV"] };
        let given = self.environment.take();
        for name in names {
            match &given {
                Some(value) => self.front.set(name, value),
                None if self.front.variable(name).is_none() && self.front.variable("RAILS_ENV").is_none() => {
                    self.front.set(name, self.program.environment);
                }
                None => {}
            }
        }
        if self.server.language == "ruby"
            && let Some(value) = given
            && (self.server.names.contains(&"rails") || self.front.variable("RAILS_ENV").is_some())
        {
            self.front.set("RAILS_ENV", &value);
        }
        if let Some(number) = self.front.variable("WEB_CONCURRENCY").filter(|_| self.server.names.contains(&"puma")) {
            let (number, key) = (number.to_owned(), Key::new("WEB_CONCURRENCY"));
            set_if_missing(&mut self.app.options, "workers", &number, &key);
        }
        for (name, value) in std::mem::take(&mut self.front.environment) {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                let key = self.key(&name);
                self.draft.lost(&key, "no variable that an environment can have");
            } else if !["PLACK_SERVER", "PORT", "HOST"].contains(&&*name) || !value.is_empty() {
                self.app.environment.push((name, value));
            }
        }
    }

    /// The file of the app, its language and its directory.
    fn file(&mut self, key: &Key) {
        if self.app.file.is_empty() {
            self.app.file = self.program.file.to_owned();
        }
        if self.app.file.is_empty() {
            self.draft.lost(key, "there is no file of an app in the command: write file");
            self.app.file = "app.psgi".to_owned();
        }
        let ending = if self.is_perl() { ".psgi" } else { ".ru" };
        if !self.app.file.ends_with(ending) {
            self.app.language = Some(self.server.language);
        }
        let file = &self.app.file;
        match &self.app.directory {
            Some(directory) if !file.starts_with('/') => {
                self.app.file = format!("{}/{}", directory.trim_end_matches('/'), file.trim_start_matches("./"));
                if self.app.file.matches('/').count() == directory.trim_end_matches('/').matches('/').count() + 1 {
                    // It is the folder of the file.
                    self.app.directory = None;
                }
            }
            None if file.trim_start_matches("./").contains('/') => self.app.directory = Some(".".to_owned()),
            _ => {}
        }
    }
}

fn set_if_missing(options: &mut Settings, name: &'static str, value: &str, key: &Key) {
    if !options.has(name) {
        options.set(name, value, key);
    }
}

/// Whether a flag has a meaning without a value.
const fn needs_none(to: To) -> bool {
    matches!(to, To::Same(_) | To::Lost(_) | To::ServerIs(..) | To::Watch | To::Handler)
}

/// A number as such.
pub(super) fn number_or_text(text: &str) -> crate::draft::Value {
    text.parse::<u64>().map_or_else(|_| text.into(), Into::into)
}

/// `MaxRequests` as `max-requests`.
fn dashed(name: &str) -> String {
    let mut dashed = String::new();
    for (index, letter) in name.char_indices() {
        if letter.is_ascii_uppercase() && index > 0 && !dashed.ends_with('-') {
            dashed.push('-');
        }
        dashed.push(letter.to_ascii_lowercase());
    }
    dashed.replace('_', "-")
}
