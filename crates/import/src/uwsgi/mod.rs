//! uWSGI: its files in four formats, and its command line.

mod emperor;
mod entry;
mod lost;
mod options;
mod routes;
mod syntax;
mod tls;

use crate::conditions::Match;
use crate::draft::{Action, App, Draft, Route};
use crate::note::Key;
use crate::unreadable::Unreadable;
use emperor::Emperor;
use entry::{Entry, Placeholders};
use lost::{GROUPS, LOST};
use options::{OPTIONS, SWITCHES, To};

/// Fills a draft with a file. `name` is its path.
///
/// # Errors
/// The file has none of the formats.
pub(crate) fn file(name: &str, text: &str, draft: &mut Draft) -> Result<(), Unreadable> {
    let entries = syntax::read(&name.to_ascii_lowercase(), text, draft)?;
    if entries.is_empty() {
        return Err(Unreadable::new("there are no options for uwsgi"));
    }
    serve(entries, name, &[], None, draft);
    Ok(())
}

/// Fills a draft with the arguments of a command line.
///
/// # Errors
/// None: each argument is read or noted.
pub(crate) fn command(
    arguments: &[String],
    environment: &[(String, String)],
    directory: Option<&str>,
    draft: &mut Draft,
) -> Result<(), Unreadable> {
    let mut entries = Vec::new();
    let mut words = arguments.iter().peekable();
    while let Some(word) = words.next() {
        let Some(flag) = word.strip_prefix('-') else {
            entries.push(Entry { name: "config".to_owned(), value: word.clone(), line: None });
            continue;
        };
        let flag = flag.strip_prefix('-').unwrap_or(flag);
        let (name, value) = match flag.split_once('=').filter(|_| word.starts_with("--")) {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (flag, None),
        };
        let takes = !SWITCHES.contains(&name) && words.peek().is_some_and(|next| !next.starts_with('-'));
        let value = value.or_else(|| words.next_if(|_| takes).cloned()).unwrap_or_else(|| "true".to_owned());
        entries.push(Entry { name: name.to_owned(), value, line: None });
    }
    draft.title = "Made by oribi import from a command line of uWSGI.".to_owned();
    serve(entries, "uwsgi", environment, directory, draft);
    Ok(())
}

/// The parts that are put together at the end.
struct Serving<'d> {
    app: App,
    /// The file of the app in each language.
    file: Option<(String, &'static str, Key)>,
    mounts: Vec<(String, String, Key)>,
    /// Routes of rules, which come first.
    rules: Vec<Route>,
    /// A directory whose files come before the app.
    check_static: Option<(String, Key)>,
    environment: Vec<(String, String)>,
    socket_mode: Option<(String, Key)>,
    /// No workers before the first request, the time after which none run, and the end of the server then.
    cheap: Option<Key>,
    idle: Option<(String, Key)>,
    dies: Option<Key>,
    emperor: Emperor,
    draft: &'d mut Draft,
}

fn serve(entries: Vec<Entry>, path: &str, environment: &[(String, String)], directory: Option<&str>, draft: &mut Draft) {
    let mut placeholders = Placeholders::new(path);
    let mut serving = Serving {
        app: App { directory: directory.map(str::to_owned), ..App::default() },
        file: None,
        mounts: Vec::new(),
        rules: Vec::new(),
        check_static: None,
        environment: environment.to_vec(),
        socket_mode: None,
        cheap: None,
        idle: None,
        dies: None,
        emperor: Emperor::default(),
        draft,
    };
    let mut unknown = Vec::new();
    for mut entry in entries {
        entry.value = placeholders.expand(&entry.value);
        placeholders.set(&entry.name, &entry.value);
        for name in std::mem::take(&mut placeholders.unknown) {
            serving.draft.lost(&entry.key(), format!("{name} has no value here: write it in its place"));
        }
        if serving.emperor.take(&entry) {
            continue;
        }
        match find(&entry.name) {
            Some(To::Placeholder) => {
                let (name, value) = entry.value.split_once('=').unwrap_or((&entry.value, ""));
                placeholders.set(name.trim(), value.trim());
                serving.draft.same(&entry.key(), "a placeholder: its value stands where it was used");
            }
            Some(to) => serving.option(to, &entry),
            None => unknown.push(entry),
        }
    }
    for entry in unknown {
        if placeholders.used.contains(&entry.name) {
            serving.draft.same(&entry.key(), "a placeholder: its value stands where it was used");
        } else {
            serving.draft.lost(&entry.key(), reason(&entry.name));
        }
    }
    serving.finish();
}

impl Serving<'_> {
    fn option(&mut self, to: To, entry: &Entry) {
        let key = entry.key();
        let value = entry.value.trim();
        let on = !["false", "0", "no", "off"].contains(&value);
        match to {
            To::Server(option) => self.draft.server.set(option, value, &key),
            To::App("max-memory") => self.app.options.set("max-memory", format!("{value}MiB"), &key),
            To::App("reload-path") => {
                self.app.options.set("reload", true, &key);
                self.app.options.set("reload-path", value, &key);
            }
            To::App(option) => self.app.options.set(option, value, &key),
            To::ServerIs(option, fixed) if on => self.draft.server.set(option, fixed, &key),
            To::ServerIs(..) => self.draft.same(&key, "it is off"),
            To::Same(reason) => self.draft.same(&key, reason),
            To::Lost(_) if !on && value != "0" => self.draft.same(&key, "it is off"),
            To::Lost(reason) => self.draft.lost(&key, reason),
            To::LeastWorkers => match value.parse() {
                Ok(least) => self.app.least_workers = Some((least, key)),
                Err(_) => self.draft.lost(&key, "expected the lowest number of workers"),
            },
            To::Cheap | To::DieOnIdle if !on => self.draft.same(&key, "it is off"),
            To::Cheap => self.cheap = Some(key),
            To::DieOnIdle => self.dies = Some(key),
            To::Idle => self.idle = Some((value.to_owned(), key)),
            To::Http => self.listen(value, "", &key),
            To::Https => self.https(value, &key),
            To::Fastcgi => self.listen(value, "fcgi", &key),
            To::Uwsgi => {
                self.listen(value, "fcgi", &key);
                let text = "Oribi does not speak the protocol of uWSGI: this address speaks FastCGI here, so fastcgi_pass in \
                     nginx takes the place of uwsgi_pass; or write an address for HTTP";
                self.draft.lost(&key, text);
            }
            To::File(language) => match &self.file {
                None => self.file = Some((value.to_owned(), language, key)),
                Some(_) => self.draft.lost(&key, "a second app: write another [app.NAME], and routes"),
            },
            To::Directory => self.app.directory = Some(value.to_owned()),
            To::Variable => match value.split_once('=') {
                Some((name, value)) => self.set(name, value),
                None => self.draft.lost(&key, "expected NAME=VALUE"),
            },
            To::Mount => match value.split_once('=') {
                Some((path, file)) => self.mounts.push((path.to_owned(), file.to_owned(), key)),
                None => self.draft.lost(&key, "expected /PATH=FILE"),
            },
            To::Static => self.draft.server.set("static", value, &key),
            To::StaticWhole => match value.split_once('=') {
                Some((prefix, root)) => {
                    let root = format!("{}/{}", root.trim_end_matches('/'), prefix.trim_start_matches('/'));
                    self.draft.server.set("static", format!("{prefix}={root}"), &key);
                }
                None => self.draft.lost(&key, "expected /PREFIX=DIR"),
            },
            To::CheckStatic => self.check_static = Some((value.to_owned(), key)),
            To::Daemonize => {
                if value != "true" && value != "1" {
                    self.draft.server.set("error-log", value, &key);
                }
                let text = "a configuration file does not send the server to the background: a service manager does, or \
                     oribi -c oribi.toml -D";
                self.draft.lost(&key, text);
            }
            To::Plugin => self.plugins(value, &key),
            To::SocketMode => {
                let mode = if value == "true" { "666" } else { value };
                self.socket_mode = Some((mode.to_owned(), key));
            }
            To::RequestLog => match value.split_once(':') {
                Some(("file", path)) => self.draft.server.set("access-log", path, &key),
                Some(("syslog", _)) => self.draft.server.set("access-log", "syslog:", &key),
                Some(("stdio", _)) => self.draft.server.set("access-log", "-", &key),
                _ => self.draft.lost(&key, "access-log in [server] names a file, syslog: or journal"),
            },
            To::PerlLibrary => self.add("PERL5LIB", value, ":"),
            To::RubyLibrary => self.add("RUBYLIB", value, ":"),
            To::RubyRequire => self.add("RUBYOPT", &format!("-r{value}"), " "),
            To::Expires => match value.rsplit_once([' ', '=']) {
                Some((_, time)) => {
                    self.draft.server.set("max-age", time, &key);
                    self.draft.lost(&key, "max-age holds for all files, not only for those of a pattern");
                }
                None => self.draft.lost(&key, "max-age in [server] holds for all files"),
            },
            To::Stats => {
                self.draft.server.set("metrics", value, &key);
                self.draft
                    .lost(&key, "metrics speaks HTTP, for Prometheus; oribi ctl status --json and oribi top show the state");
            }
            To::Keepalive => {
                let time = if ["true", "1"].contains(&value) { "65" } else { value };
                self.draft.server.set("keepalive-timeout", time, &key);
            }
            To::AddField => {
                let (name, value) = value.split_once(':').unwrap_or((value, ""));
                let added = self.draft.defaults.response_fields.add(name.trim(), value.trim());
                self.check(added, name, &key);
            }
            To::RemoveField => {
                let removed = self.draft.defaults.response_fields.remove(value);
                self.check(removed, value, &key);
            }
            To::Rule => self.rule(entry),
            To::Placeholder => {}
        }
    }

    fn check(&mut self, changed: Result<(), &'static str>, name: &str, key: &Key) {
        if let Err(reason) = changed {
            self.draft.lost(key, format!("the field {name}: {reason}"));
        }
    }

    fn plugins(&mut self, value: &str, key: &Key) {
        for name in value.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let known = [
                "psgi",
                "rack",
                "lua",
                "http",
                "0",
                "logfile",
                "router",
                "corerouter",
                "fastrouter",
                "syslog",
                "logsocket",
                "static",
            ];
            let name = name.rsplit('/').next().unwrap_or_default().trim_end_matches("_plugin.so");
            if known.iter().any(|known| name.starts_with(known)) {
                self.draft.same(key, "hosts of the languages are a part of Oribi");
            } else {
                self.draft.lost(key, format!("the plugin {name} has no counterpart"));
            }
        }
    }

    fn listen(&mut self, value: &str, scheme: &str, key: &Key) {
        let (address, behind) = value.split_once(',').unwrap_or((value, ""));
        if !behind.is_empty() {
            let text = format!(
                "requests are not passed on to {behind} here: [app.NAME] with proxy = \"http://HOST:PORT\" does so, if that \
                 server speaks HTTP"
            );
            self.draft.lost(key, text);
        }
        let address = match crate::address::of_v4_server(address) {
            Ok(address) => address.text,
            Err(reason) => return self.draft.lost(key, reason),
        };
        let is_path = address.starts_with(['/', '.']);
        let text = match (scheme, is_path) {
            ("fcgi", true) => format!("fcgi+unix:{address}"),
            ("fcgi", false) if address.starts_with(':') => format!("fcgi://*{address}"),
            ("fcgi", false) => format!("fcgi://{address}"),
            _ => address,
        };
        self.draft.listen(text, key);
    }

    fn set(&mut self, name: &str, value: &str) {
        self.environment.retain(|(known, _)| known != name);
        self.environment.push((name.to_owned(), value.to_owned()));
    }

    fn add(&mut self, name: &str, value: &str, separator: &str) {
        match self.environment.iter_mut().find(|(known, _)| known == name) {
            Some((_, list)) => *list = format!("{list}{separator}{value}"),
            None => self.set(name, value),
        }
    }

    /// An app that has no process while it has no requests.
    fn sleep(&mut self) {
        let idle = self.idle.take().filter(|(time, key)| {
            let never = time == "0";
            if never {
                self.draft.same(key, "it is off");
            }
            !never
        });
        let (cheap, dies) = (self.cheap.take(), self.dies.take());
        if let Some(key) = &dies {
            match idle {
                Some(_) => self.draft.same(key, "the app has no process then; the server itself stays, and waits for requests"),
                None => self.draft.lost(key, "it has no effect without idle"),
            }
        }
        let Some(key) = idle.as_ref().map(|(_, key)| key).or(cheap.as_ref()).cloned() else { return };
        match &idle {
            Some((time, key)) => {
                self.app.options.set("scale-down-idle", time.as_str(), key);
                if cheap.is_none() {
                    self.draft.same(key, "the app sleeps from the start of the server on, and its first request loads it");
                }
            }
            None => {
                self.draft.lost(&key, "the app sleeps again after scale-down-idle (60 s) without a request, not only at first");
            }
        }
        if let Some((_, key)) = self.app.least_workers.replace((0, key)) {
            self.draft.lost(&key, "an app that sleeps has 0 as its lowest number of workers");
        }
    }

    fn finish(mut self) {
        if let Some((mode, key)) = self.socket_mode.take() {
            self.draft.server.set("socket-mode", mode, &key);
        }
        for (name, value) in std::mem::take(&mut self.environment) {
            if !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0') {
                self.app.environment.push((name, value));
            } else {
                self.draft.lost(&Key::new("env"), "no variable that an environment can have");
            }
        }
        if self.file.is_some() || !self.mounts.is_empty() {
            self.app.options.otherwise("workers", 1, "uWSGI");
        }
        self.sleep();
        if let Some(key) = self.app.join_workers() {
            self.draft.lost(&key, "it has no effect unless workers (processes) is higher");
        }
        let folder = self.app.directory.clone();
        let whole = |file: &str| match &folder {
            Some(folder) if !file.starts_with('/') => format!("{}/{file}", folder.trim_end_matches('/')),
            _ => file.to_owned(),
        };
        let mut apps = Vec::new();
        for (path, file, key) in std::mem::take(&mut self.mounts) {
            let language = language(&file);
            if language.is_none() {
                self.draft.lost(&key, "no app in Perl, Ruby or Lua, by the name of its file");
                continue;
            }
            let name = self.draft.free_name(path.trim_matches('/'));
            let mount = Some(format!("/{}", path.trim_matches('/'))).filter(|mount| mount != "/");
            let paths = mount.iter().flat_map(|mount| [mount.clone(), format!("{mount}/*")]).collect();
            let app = App { name: name.clone(), file: whole(&file), key: key.clone(), ..self.app.clone() };
            self.draft.apps.push(app);
            apps.push((Match { path: paths, ..Match::default() }, Action::App { name, mount }, key));
        }
        // The longest path first.
        apps.sort_by_key(|(conditions, _, _)| std::cmp::Reverse(conditions.path.first().map_or(0, String::len)));
        let main = self.file.take();
        let emperor = std::mem::take(&mut self.emperor);
        if main.is_none() && apps.is_empty() && emperor.is_empty() {
            self.draft.lost(
                &Key::new("app"),
                "there is no app in Perl (psgi), Ruby (rack) or Lua (lua): write [app.NAME] with its file",
            );
        }
        let mounted = !apps.is_empty();
        let several = mounted || !self.rules.is_empty();
        self.draft.routes.append(&mut self.rules);
        for (conditions, action, key) in apps {
            self.draft.route(conditions, action, &key);
        }
        let here = if emperor.is_empty() { Vec::new() } else { self.addresses() };
        let here = Match { destination: here, ..Match::default() };
        let several = several || !here.is_open();
        let Some((file, own, key)) = main else {
            if !mounted {
                self.without_app();
            } else if let Some((_, key)) = self.check_static {
                self.draft.lost(&key, "a route with files = { root = \"DIR\", fallback = \"APP\" } for each app");
            }
            return emperor.finish(self.draft);
        };
        self.app.file = whole(&file);
        if language(&file) != Some(own) {
            self.app.language = Some(own);
        }
        self.app.name = self.draft.free_name("app");
        self.app.key = key.clone();
        let name = self.app.name.clone();
        self.draft.apps.push(self.app);
        if let Some((root, key)) = self.check_static {
            self.draft.route(here, Action::files(root, Some(Action::app(name))), &key);
        } else if several {
            self.draft.route(here, Action::app(name), &key);
        }
        emperor.finish(self.draft);
    }

    /// The patterns of the addresses.
    fn addresses(&self) -> Vec<String> {
        self.draft.listens.iter().map(|listen| crate::address::destination(&listen.address)).collect()
    }

    /// Keeps the options of an app that is not here: in `[server]` they are the defaults of all apps.
    fn without_app(&mut self) {
        for setting in std::mem::take(&mut self.app.options.list) {
            self.draft.server.set(setting.name, setting.value, &setting.key);
        }
        for (name, _) in std::mem::take(&mut self.app.environment) {
            self.draft.lost(&Key::new(format!("env {name}")), "environment of the app, once there is one");
        }
        if let Some(directory) = self.app.directory.take() {
            self.draft.lost(&Key::new("chdir"), format!("directory = \"{directory}\" of the app, once there is one"));
        }
        if let Some((root, key)) = self.check_static.take() {
            self.draft.route(Match::default(), Action::files(root, None), &key);
        }
    }
}

/// The language of a file, by its name.
fn language(file: &str) -> Option<&'static str> {
    [(".psgi", "perl"), (".ru", "ruby"), (".lua", "lua"), (".ws", "lua")]
        .into_iter()
        .find(|(ending, _)| file.ends_with(ending))
        .map(|(_, language)| language)
}

/// A name as the tables have it.
fn plain(name: &str) -> String {
    if name.len() == 1 { name.to_owned() } else { name.replace('_', "-").to_ascii_lowercase() }
}

/// The counterpart of an option.
fn find(name: &str) -> Option<To> {
    let name = plain(name);
    OPTIONS.iter().chain(LOST).find(|(names, _)| names.contains(&&*name)).map(|(_, to)| *to)
}

/// The reason why an option without an entry of its own has no counterpart.
fn reason(name: &str) -> &'static str {
    let name = plain(name);
    let begins = |names: &[&str]| names.iter().any(|beginning| name.starts_with(beginning));
    GROUPS.iter().find(|(names, _)| begins(names)).map_or("no counterpart, or not known", |(_, reason)| *reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_in_the_table_once() {
        let mut names: Vec<&str> = OPTIONS.iter().chain(LOST).flat_map(|(names, _)| *names).copied().collect();
        names.sort_unstable();
        let twice: Vec<&&str> = names.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| &pair[0]).collect();
        assert!(twice.is_empty(), "{twice:?}");
        assert!(SWITCHES.iter().all(|name| names.contains(name)));
    }
}
