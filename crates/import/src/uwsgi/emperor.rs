//! The emperor, which runs a server for each file of a directory: its vassals.

use super::entry::Entry;
use super::{plain, serve, syntax};
use crate::address::destination;
use crate::conditions::Match;
use crate::draft::{Action, App, Draft, Listen, Route, Setting};
use crate::filters::NAMES;
use crate::found::Found;
use crate::note::Key;
use oribi_config::{Scope, setting_of};

/// The endings of files that are vassals in a directory.
const ENDINGS: &[&str] = &[".ini", ".xml", ".yml", ".yaml", ".json", ".js"];

/// The options of an emperor.
#[derive(Default)]
pub(super) struct Emperor {
    /// Directories and patterns of files.
    sources: Vec<(String, Key)>,
    /// Options that each vassal has before its own ones, and behind them.
    before: Vec<Given>,
    behind: Vec<Given>,
    /// The ending of the file beside a vassal that has the address of its socket.
    extension: Option<(String, Key)>,
    /// The directory with sockets that have the names of vassals.
    directory: Option<(String, Key)>,
}

/// Options for all vassals.
enum Given {
    Option(Entry),
    /// Those of a file.
    File(String, Key),
}

impl Emperor {
    /// Takes an option. Returns whether it is one of an emperor.
    pub fn take(&mut self, entry: &Entry) -> bool {
        let (key, value) = (entry.key(), entry.value.trim().to_owned());
        match &*plain(&entry.name) {
            "emperor" => self.sources.push((value, key)),
            "vassal-set" | "vassals-set" => {
                let (name, value) = value.split_once('=').unwrap_or((&value, "true"));
                let entry = Entry { name: name.trim().to_owned(), value: value.trim().to_owned(), line: entry.line };
                self.behind.push(Given::Option(entry));
            }
            "vassals-include" | "vassals-inherit" => self.behind.push(Given::File(value, key)),
            "vassals-include-before" | "vassals-inherit-before" => self.before.push(Given::File(value, key)),
            "emperor-on-demand-extension" | "emperor-on-demand-ext" => self.extension = Some((value, key)),
            "emperor-on-demand-directory" | "emperor-on-demand-dir" => self.directory = Some((value, key)),
            _ => return false,
        }
        true
    }

    pub const fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Writes the apps of all vassals whose files are known, and notes which files have to be read.
    pub fn finish(self, draft: &mut Draft) {
        if self.sources.is_empty() {
            return self.unused("it has no effect without emperor", draft);
        }
        for given in self.before.iter().chain(&self.behind) {
            if let Given::File(path, _) = given {
                draft.wanted.push(path.clone());
            }
        }
        let mut seen = Vec::new();
        for (source, key) in &self.sources {
            let (patterns, directory) = match patterns(source) {
                Ok(source) => source,
                Err(reason) => {
                    draft.lost(key, reason);
                    continue;
                }
            };
            let beside = self.extension.iter().flat_map(|(ending, _)| patterns.iter().map(move |one| format!("{one}{ending}")));
            draft.wanted.extend(patterns.iter().cloned().chain(beside));
            let Some(found) = draft.found.clone() else {
                draft.lost(key, format!("the files {} are not read here: import each of them", patterns.join(", ")));
                continue;
            };
            let mut count = 0;
            for vassal in found.iter().filter(|found| patterns.contains(&found.pattern)) {
                if !seen.contains(&vassal.path) {
                    count += 1;
                    seen.push(vassal.path.clone());
                    self.vassal(vassal, directory.as_deref(), &found, draft);
                }
            }
            if count == 0 {
                draft.lost(key, "there is no file of a vassal");
            } else {
                draft.server.set("auto-apply", true, key);
                let text = "changes of the new files are applied at once; a vassal that is added later is a file with \
                     [app.NAME] and [[route]], and its address a [[listen]]";
                draft.same(key, text);
            }
        }
        if seen.is_empty() {
            self.unused("no vassal is read here, so that none has it", draft);
        }
    }

    /// Notes the options for vassals where there are none.
    fn unused(&self, reason: &str, draft: &mut Draft) {
        let given = self.before.iter().chain(&self.behind).map(Given::key);
        let on_demand = self.extension.iter().chain(&self.directory).map(|(_, key)| key.clone());
        given.chain(on_demand).for_each(|key| draft.lost(&key, reason));
    }

    fn vassal(&self, file: &Found, directory: Option<&str>, all: &[Found], draft: &mut Draft) {
        let whole = Key::new(&file.path);
        let mut own = Draft::default();
        let mut entries = Vec::new();
        for given in &self.before {
            given.add(all, &mut entries, draft);
        }
        let read =
            file.text.clone().map_err(|reason| format!("it cannot be read: {reason}")).and_then(|text| {
                syntax::read(&file.path.to_ascii_lowercase(), &text, &mut own).map_err(|error| error.to_string())
            });
        match read {
            Ok(read) if read.is_empty() => return draft.lost(&whole, "there are no options for uwsgi"),
            Ok(read) => entries.extend(read),
            Err(reason) => return draft.lost(&whole, format!("left out: {reason}")),
        }
        for given in &self.behind {
            given.add(all, &mut entries, draft);
        }
        serve(entries, &file.path, &[], directory, &mut own);
        // A vassal starts in the directory.
        for listen in &mut own.listens {
            if let (Some(directory), Some((scheme, path))) = (directory, listen.address.split_once("./"))
                && matches!(scheme, "" | "fcgi+unix:")
            {
                let here = if directory.starts_with('/') { "" } else { "./" };
                listen.address = format!("{scheme}{here}{directory}/{path}");
            }
        }
        let stem = name(file);
        self.wake(file, stem, all, &mut own);
        merge(own, &file.path, stem, draft);
    }

    /// Gives a vassal that starts with the first request its socket.
    fn wake(&self, file: &Found, stem: &str, all: &[Found], own: &mut Draft) {
        let mut socket = None;
        if let Some((ending, key)) = &self.extension {
            let path = format!("{}{ending}", file.path);
            let text = all.iter().find(|other| other.path == path).and_then(|found| found.text.clone().ok());
            socket = text.map(|text| (text.trim().to_owned(), key));
        }
        if let Some((directory, key)) = &self.directory {
            socket = socket.or_else(|| Some((format!("{}/{stem}.socket", directory.trim_end_matches('/')), key)));
        }
        let Some((socket, key)) = socket else { return };
        match crate::address::of_v4_server(&socket) {
            Ok(address) => {
                let is_path = address.text.starts_with(['/', '.']);
                let address = if is_path { format!("fcgi+unix:{}", address.text) } else { format!("fcgi://{}", address.text) };
                own.listen(address, key);
                let text = "this address speaks FastCGI: fastcgi_pass in nginx takes the place of uwsgi_pass";
                own.lost(key, text);
            }
            Err(reason) => own.lost(key, reason),
        }
        for app in &mut own.apps {
            let workers = app.options.list.iter().find(|setting| setting.name == "workers");
            let most = workers.map_or_else(|| "1".to_owned(), |setting| setting.value.plain());
            if !most.contains(':') {
                app.options.set("workers", format!("0:{most}"), key);
                app.options.replaced.clear();
            }
        }
    }
}

impl Given {
    fn key(&self) -> Key {
        match self {
            Self::Option(entry) => Key { line: entry.line, name: "vassal-set".to_owned() },
            Self::File(_, key) => key.clone(),
        }
    }

    fn add(&self, all: &[Found], entries: &mut Vec<Entry>, draft: &mut Draft) {
        let (path, key) = match self {
            Self::Option(entry) => return entries.push(Entry { line: None, ..entry.clone() }),
            Self::File(path, key) => (path, key),
        };
        let read = all.iter().find(|found| found.pattern == *path).map(|found| found.text.clone());
        let read = read
            .unwrap_or_else(|| Err("there is no such file".to_owned()))
            .and_then(|text| syntax::read(&path.to_ascii_lowercase(), &text, draft).map_err(|error| error.to_string()));
        match read {
            Ok(read) => entries.extend(read.into_iter().map(|entry| Entry { line: None, ..entry })),
            Err(reason) => draft.lost(key, format!("{path}: {reason}")),
        }
    }
}

/// The name of a vassal: the part of its path that the last wildcard stands for, without an ending.
fn name(file: &Found) -> &str {
    let parts = file.pattern.split('/').zip(file.path.split('/'));
    let last = parts.filter(|(pattern, _)| pattern.contains(['*', '?'])).last().map(|(_, part)| part);
    let name = last.unwrap_or_else(|| file.path.rsplit('/').next().unwrap_or_default());
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

/// The patterns of the files of a source, and the directory in which its vassals start.
fn patterns(source: &str) -> Result<(Vec<String>, Option<String>), String> {
    let (kind, rest) = source.split_once("://").unwrap_or(("", source));
    match kind {
        "" | "dir" | "glob" if rest.is_empty() => Err("expected a directory, or a pattern of files".to_owned()),
        "" | "dir" | "glob" if rest.contains(['[', '{']) => {
            Err("a pattern with more than * and ?: import each file".to_owned())
        }
        "" | "glob" if rest.contains(['*', '?']) => Ok((vec![rest.to_owned()], None)),
        "" | "dir" => {
            let folder = rest.trim_end_matches('/');
            let patterns = ENDINGS.iter().map(|ending| format!("{folder}/*{ending}")).collect();
            Ok((patterns, Some(if folder.is_empty() { "/" } else { folder }.to_owned())))
        }
        "glob" => Ok((vec![rest.to_owned()], None)),
        kind => Err(format!(
            "vassals of {kind}: write a file with [app.NAME] and [[route]] for each into a directory of include; with \
             auto-apply, the server notices new ones"
        )),
    }
}

/// Adds the parts of a vassal to those of the whole server.
fn merge(own: Draft, path: &str, stem: &str, draft: &mut Draft) {
    let Draft { server, listens, mut apps, mut defaults, mut routes, notes, .. } = own;
    let named = |key: &Key| {
        let line = key.line.map_or_else(String::new, |line| format!("{line}: "));
        Key::new(format!("{path}:{}{}", if line.is_empty() { " " } else { &line }, key.name))
    };
    for note in notes {
        let key = named(&Key { line: note.line, name: note.key });
        draft.note(note.kind, &key, note.text);
    }
    if apps.is_empty() && routes.is_empty() {
        return draft.lost(&Key::new(path), "left out: it has no app that Oribi runs");
    }
    for setting in server.list {
        set(&setting, &named, &mut apps, draft);
    }
    let mut addresses = Vec::new();
    for Listen { address, options, key } in listens {
        let key = named(&key);
        if draft.listens.iter().any(|known| known.address == address) {
            draft.lost(&key, format!("another vassal has the address {address}, too: its routes come first"));
        }
        addresses.push(destination(&address));
        let listen = draft.listen(address, &key);
        for setting in options.list {
            listen.options.set(setting.name, setting.value, &named(&setting.key));
        }
    }
    let part = draft.free_part(stem);
    let only = apps.len() == 1;
    if let ([app], []) = (apps.as_slice(), routes.as_slice()) {
        routes.push(Route::new(Match::default(), Action::app(&*app.name), app.key.clone()));
    }
    let mut names = Vec::new();
    for mut app in apps {
        let name = draft.free_name(&if only { stem.to_owned() } else { format!("{stem}-{}", app.name) });
        names.push((app.name.clone(), name.clone()));
        app.options.list.iter_mut().for_each(|setting| setting.key = named(&setting.key));
        let key = named(&app.key);
        draft.apps.push(App { name, key, part: Some(part.clone()), ..app });
    }
    if addresses.is_empty() {
        let text = "it has no address of its own: write [[listen]], or a route with another condition, such as host; until \
             then, no request gets to it";
        return draft.lost(&Key::new(path), text);
    }
    let here = Match { destination: addresses, ..Match::default() };
    for mut route in routes {
        route.action.rename(&names);
        for &name in NAMES {
            if route.filters.text(name).is_none() {
                let of_all = defaults.take(name);
                route.filters.put(name, of_all.clone());
                defaults.put(name, of_all);
            }
        }
        let key = named(&route.key);
        match here.and(&route.conditions) {
            Ok(Some(conditions)) => draft.routes.push(Route { conditions, key, part: Some(part.clone()), ..route }),
            Ok(None) => draft.same(&key, "no request gets there"),
            Err(()) => draft.lost(&key, "left out: a route cannot say its conditions together with the address"),
        }
    }
}

/// Sets an option that a vassal has for its whole server.
fn set(setting: &Setting, named: &dyn Fn(&Key) -> Key, apps: &mut [App], draft: &mut Draft) {
    let key = named(&setting.key);
    let scope = setting_of(setting.name).map(|(found, _)| found.scope);
    if scope == Some(Scope::App) {
        for app in apps {
            if !app.options.has(setting.name) {
                app.options.list.push(Setting { key: key.clone(), ..setting.clone() });
            }
        }
        return;
    }
    let text = format!("{} = {}: one server has one for all apps, in [server]", setting.name, setting.value.plain());
    draft.lost(&key, text);
}

#[cfg(test)]
mod tests {
    use super::super::command;
    use crate::draft::Draft;

    #[test]
    fn options_for_vassals_that_are_not_read_are_noted() {
        let mut draft = Draft::default();
        let words = ["--emperor", "/etc/vassals", "--vassal-set", "harakiri=30"].map(str::to_owned);
        command(&words, &[], None, &mut draft).expect("it can be read");
        assert!(draft.notes.iter().any(|note| note.key == "vassal-set"), "{:?}", draft.notes);
    }
}
