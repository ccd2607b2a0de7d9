//! Checks the settings of a configuration file together, and the parts of this machine that they name.

use crate::needed_paths::suggestion;
use oribi_config_file::{AppSection, ConfigFile, Item, NamedPath, Place, Review};
use oribi_io::process::Identity;
use oribi_server::config::{
    Contradiction, ControlChoice, ListenAddress, LogTarget, Origin, SettingError, Settings, SocketAddress, setting_of,
};
use oribi_server::directory::absolute;
use std::path::{Path, PathBuf};

/// The options with files of certificates.
const CERTIFICATES: &[&str] = &["ssl-cert", "ssl-key", "ssl-ocsp", "ssl-ca"];

/// Reports settings of the server, or of an app, that contradict each other. A contradiction with a value that is a mistake itself
/// is none.
pub fn contradictions(found: Vec<Contradiction>, content: &ConfigFile, section: Option<&AppSection>, review: &mut Review) {
    let is_faulty =
        |name: &&'static str| content.faulty.contains(name) || section.is_some_and(|section| section.faulty.contains(name));
    for Contradiction { error, name, origin, with } in found {
        if is_faulty(&name) || with.iter().any(&is_faulty) {
            continue;
        }
        let SettingError::Bad { value, why, .. } = &error else { continue };
        match given(name, &origin, value, content) {
            Some((item, place)) if item.from_environment => {
                review.mistake(&place, format!("bad value from the environment for {}: {why}", item.name), in_file(why));
            }
            Some((item, place)) => {
                let error = SettingError::Bad { name: item.name.clone(), value: value.clone(), why: why.clone() };
                review.mistake(&place, error.to_string(), in_file(why));
            }
            None => {
                let whole = review.whole();
                review.mistake(&whole, format!("{error}{}", given_by(&origin)), None);
            }
        }
    }
}

/// The end of a message about a setting that is not in the file.
fn given_by(origin: &Origin) -> String {
    match origin {
        Origin::CommandLine | Origin::Environment(_) | Origin::Caller(_) => format!(" ({origin})"),
        Origin::Default | Origin::File(_) | Origin::ConfigFile { .. } => String::new(),
    }
}

/// The option in the file that gave a setting this value, and the place of the value.
fn given<'f>(name: &str, origin: &Origin, value: &str, content: &'f ConfigFile) -> Option<(&'f Item, Place)> {
    let Origin::ConfigFile { path, line, column } = origin else { return None };
    let listens = || content.listens.iter().map(|listen| &listen.address);
    if name == "listen"
        && let Ok(wanted) = ListenAddress::parse(value)
        && let Some(item) = listens().find(|item| is_address(item, &wanted))
    {
        return Some((item, item.place.clone()));
    }
    let is_there = |item: &&Item| (item.place.line, item.place.column) == (*line, *column) && item.place.path == *path;
    let mut items = content.server.iter().chain(listens()).chain(content.apps.iter().flat_map(|app| &app.options));
    let item = items.find(is_there)?;
    // The form in the message may be another one, with absolute paths.
    let is_it = |text: &String| {
        let (before, path) = text.split_once('=').unwrap_or(("", text));
        value.starts_with(before) && value.ends_with(path.trim_start_matches("./"))
    };
    let index = item.values.iter().position(is_it);
    let place = item.places.get(index.unwrap_or(0)).unwrap_or(&item.place).clone();
    Some((item, place))
}

fn is_address(item: &Item, wanted: &ListenAddress) -> bool {
    item.values.iter().any(|text| ListenAddress::parse(text).is_ok_and(|address| address.socket == wanted.socket))
}

/// The options that a reason asks for, as a file has them.
fn in_file(why: &str) -> Option<String> {
    let (mut before, mut keys) = ("", Vec::new());
    for word in why.split_whitespace() {
        let is_asked = ["give", "needs"].contains(&before) || before == "and" && !keys.is_empty();
        let name = word.strip_prefix("--").map(|name| name.trim_end_matches(|letter: char| !letter.is_alphanumeric()));
        if let Some((setting, _)) = name.filter(|_| is_asked).and_then(setting_of) {
            let example = if setting.placeholder.is_empty() { "true".to_owned() } else { format!("{:?}", setting.placeholder) };
            keys.push(format!("{} = {example}", setting.name));
        }
        before = word;
    }
    (!keys.is_empty()).then(|| format!("in the file: {}", keys.join(", ")))
}

/// The options of this name, beginning with those of the app.
fn items<'f>(name: &'f str, content: &'f ConfigFile, section: Option<&'f AppSection>) -> impl Iterator<Item = &'f Item> {
    let own = section.map(|section| section.options.iter()).into_iter().flatten();
    let of_listens = content.listens.iter().flat_map(|listen| &listen.options);
    own.chain(&content.server)
        .chain(of_listens)
        .filter(move |item| setting_of(&item.name).is_some_and(|(it, _)| it.name == name))
}

/// The place of the value of an option.
fn place_of(item: &Item) -> Place {
    item.places.first().unwrap_or(&item.place).clone()
}

/// The place of an address among the values of an option.
fn place_of_address(item: &Item, address: &SocketAddress) -> Place {
    let is_this = |text: &String| ListenAddress::parse(text).is_ok_and(|parsed| parsed.socket == *address);
    let index = item.values.iter().position(is_this);
    item.places.get(index.unwrap_or(0)).unwrap_or(&item.place).clone()
}

/// Reports users and groups that do not exist.
pub fn accounts(settings: &Settings, content: &ConfigFile, section: Option<&AppSection>, review: &mut Review) {
    let users = [("user", &settings.user), ("edge-user", &settings.edge_user)];
    let groups = [("group", &settings.group), ("edge-group", &settings.edge_group)];
    let users = users.map(|(name, user)| (name, user, Identity::named(user.as_deref(), None)));
    let groups = groups.map(|(name, group)| (name, group, Identity::named(None, group.as_deref())));
    for (name, value, found) in users.into_iter().chain(groups) {
        let (Err(why), Some(value)) = (found, value) else { continue };
        match items(name, content, section).find(|item| item.values.last() == Some(value)) {
            Some(item) if item.from_environment => {
                review.mistake(&place_of(item), format!("bad value from the environment for {}", item.name), None);
            }
            Some(item) => review.mistake(&place_of(item), format!("{}: {why}", item.name), None),
            None => {
                let whole = review.whole();
                review.mistake(&whole, format!("--{name}: {why}"), None);
            }
        }
    }
}

/// Reports certificates that cannot be used. Those of `served`, the settings of a running server, are left out.
pub fn certificates(
    settings: &Settings,
    served: Option<&Settings>,
    content: &ConfigFile,
    folder: Option<&Path>,
    review: &mut Review,
) {
    let from = folder.unwrap_or(Path::new(""));
    let options: Vec<(&Item, NamedPath)> = CERTIFICATES
        .iter()
        .flat_map(|name| items(name, content, None))
        .flat_map(|item| {
            item.values.iter().zip(&item.places).map(move |(value, place)| {
                let path = from.join(value);
                let path = absolute(&path).unwrap_or(path);
                (item, NamedPath { path, place: place.clone(), from_environment: item.from_environment })
            })
        })
        .collect();
    for (address, why) in settings.unusable_certificates(served) {
        let names = |path: &Path| path.to_str().is_some_and(|path| why.contains(path));
        let named =
            options.iter().filter(|(_, named)| names(&named.path)).max_by_key(|(_, named)| named.path.as_os_str().len());
        if let Some((item, named)) = named {
            let why = if named.from_environment { why.replace(&*named.path.to_string_lossy(), "***") } else { why.clone() };
            review.mistake(&named.place, format!("{}: {why}", item.name), suggestion(named, review));
            continue;
        }
        let is_this = |item: &&Item| address.is_some_and(|address| is_address(item, address));
        let item = content.listens.iter().map(|listen| &listen.address).chain(items("listen", content, None)).find(is_this);
        match item {
            Some(item) if item.from_environment => {
                review.mistake(&place_of(item), "the certificate of the address from the environment cannot be used", None);
            }
            Some(item) => {
                let place = address.map_or_else(|| place_of(item), |address| place_of_address(item, &address.socket));
                review.mistake(&place, why, None);
            }
            None => {
                let whole = review.whole();
                review.mistake(&whole, why, None);
            }
        }
    }
}

/// Warns of directories for sockets and logs that do not exist: a service manager may make them at the start.
pub fn directories(settings: &Settings, content: &ConfigFile, review: &mut Review) {
    let log = |target: &LogTarget| if let LogTarget::File(path) = target { Some(path.clone()) } else { None };
    let socket = |address: &ListenAddress| match &address.socket {
        SocketAddress::Unix { path, .. } => Some(path.clone()),
        SocketAddress::Tcp { .. } => None,
    };
    let control = if let ControlChoice::At(path) = &settings.control { Some(path.clone()) } else { None };
    let files = [
        ("pid-file", settings.pid_file.clone()),
        ("access-log", settings.access_log.as_ref().and_then(log)),
        ("error-log", log(&settings.error_log)),
        ("control", control),
        ("metrics", settings.metrics.as_ref().and_then(socket)),
    ];
    let named = files.into_iter().filter_map(|(name, path)| {
        let item = items(name, content, None).next()?;
        Some((item, place_of(item), path?))
    });
    let listens = content.listens.iter().map(|listen| &listen.address).chain(items("listen", content, None));
    let listens = listens.flat_map(|item| {
        let values = item.values.iter().zip(&item.places);
        values.filter_map(move |(text, place)| Some((item, place.clone(), socket(&ListenAddress::parse(text).ok()?)?)))
    });
    let all: Vec<(&Item, Place, PathBuf)> = named.chain(listens).collect();
    for (item, place, path) in all {
        let folder = path.parent().filter(|folder| folder.is_absolute() && !folder.is_dir());
        if let Some(folder) = folder.filter(|_| !item.from_environment) {
            review.warning(&place, format!("{}: there is no directory {}", item.name, folder.display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_asks_for_options_as_a_file_has_them() {
        for (why, expected) in [
            ("it needs --max-requests: each", Some("in the file: max-requests = \"NUMBER\"")),
            (
                "it needs a certificate: give --ssl-cert FILE and --ssl-key FILE, or",
                Some("in the file: ssl-cert = \"PATH\", ssl-key = \"PATH\""),
            ),
            ("it needs --traces, which makes", Some("in the file: traces = true")),
            ("the probe has the same path (--probe)", None),
            ("fibers need --threads 1, no --max-io-threads", None),
        ] {
            assert_eq!(in_file(why).as_deref(), expected, "{why}");
        }
    }
}
