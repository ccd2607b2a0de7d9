//! Makes settings from the given texts: decides precedence, refuses contradictions, and decides where to listen.

use super::contradiction::{Contradiction, Contradictions};
use super::encryption;
use super::error::SettingError;
use super::given::{Given, row};
use super::listeners::{self, adds_listener, rank};
use super::metrics_address;
use super::names::find;
use super::origin::Origin;
use super::proxy_protocol::ProxyProtocol;
use super::setting::{Draft, Setting};
use super::settings::{ControlChoice, ListenAddress, LogTarget, Protocol, Settings, SocketAddress};
use super::table::table;
use super::value::{show_limit, show_size};
use super::{relay, trace_export};
use crate::directory;
use oribi_tls::Pem;
use std::path::PathBuf;

/// The settings, and the origin of each.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The settings made from all texts.
    pub settings: Settings,
    /// For each row of the table, the origin of its value.
    origins: Vec<Origin>,
    /// The reason for edges or for no edges, if the server has decided about them instead of the user.
    pub(super) why_edges: Option<&'static str>,
}

/// One line of the explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained<'a> {
    /// The name of the setting.
    pub name: &'static str,
    /// Its value, in a form that can be set again; empty if there is none.
    pub value: String,
    /// The origin of the value.
    pub origin: &'a Origin,
    /// The description of the setting.
    pub(crate) help: &'static str,
    /// Its default; `None` if that depends on the machine or on other settings.
    default: Option<String>,
}

impl Explained<'_> {
    /// Whether the setting was set, to a value that is not its default.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        *self.origin != Origin::Default && self.default.as_ref() != Some(&self.value)
    }
}

impl Resolved {
    /// Applies the texts that have precedence to the draft. Also returns all contradictions.
    pub(super) fn new(given: &[Given], mut draft: Draft) -> (Self, Vec<Contradiction>) {
        let (all, given) = (given, winners(given));
        let mut origins = vec![Origin::Default; table().len()];
        let mut found = Contradictions::default();
        for given in given.iter().filter(|given| !listeners::fills_in(given)) {
            let before = draft.settings.clone();
            if let Err(error) = given.apply(&mut draft) {
                found.0.push((error, &[]));
                origins[given.row] = given.origin.clone();
                draft.settings = before;
                continue;
            }
            origins[given.row] = given.origin.clone();
            // The origin of a shorthand is also that of the settings that it changed.
            for (row, setting) in table().iter().enumerate() {
                if setting.show_in(&before) != setting.show_in(&draft.settings) {
                    origins[row] = given.origin.clone();
                }
            }
        }
        match listeners::settle(&mut draft, &given, all) {
            Ok(None) => {}
            Ok(Some(origin)) => origins[row("listen")] = origin,
            Err(error) => found.0.push((error, &["listen", "socket", "host", "port"])),
        }
        let mut settings = draft.settings;
        if origins[row("max-uri-size")] == Origin::Default {
            settings.limits.target_bytes = settings.limits.target_bytes.min(settings.limits.head_bytes);
        }
        encryption::settle(&mut settings, &mut found);
        trace_export::settle(&mut settings, &mut found);
        relay::settle(&mut settings, &mut found);
        make_absolute(&mut settings);
        check(&settings, &mut found);
        let contradiction = |(error, with)| {
            let row = if let SettingError::Bad { name, .. } = &error { find(name).map(|(row, _)| row) } else { None };
            let (name, origin) = row.map_or(("", Origin::Default), |row| (table()[row].name, origins[row].clone()));
            Contradiction { error, name, origin, with }
        };
        let found = found.0.into_iter().map(contradiction).collect();
        (Self { settings, origins, why_edges: None }, found)
    }

    /// The origin of the setting of this name.
    pub(super) fn origin(&self, name: &str) -> &Origin {
        &self.origins[row(name)]
    }

    /// Each setting that is not a shorthand, in the order of the table.
    pub fn explain(&self) -> impl Iterator<Item = (&'static Setting, Explained<'_>)> {
        table().iter().zip(&self.origins).filter_map(|(setting, origin)| {
            let value = setting.show_in(&self.settings)?;
            let default = if setting.default_words.is_some() { None } else { setting.show_in(Settings::defaults()) };
            Some((setting, Explained { name: setting.name, value, origin, help: setting.help, default }))
        })
    }

    /// Returns all values that differ from the defaults, as `name=value` texts. From these texts, another process makes the
    /// same settings, whatever its environment and its number of CPUs.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        for (setting, explained) in self.explain() {
            if let Some(show_each) = setting.show_each {
                arguments.extend(show_each(&self.settings).iter().map(|value| format!("{}={value}", setting.name)));
                continue;
            }
            let said = *explained.origin != Origin::Default || setting.environment.is_some();
            if said || setting.show_in(Settings::defaults()).as_ref() != Some(&explained.value) {
                arguments.push(format!("{}={}", setting.name, explained.value));
            }
        }
        arguments
    }
}

/// Returns the texts that have precedence, in the order in which to apply them: by rank, the lowest first, and within a rank by
/// the order of the table. Of several texts for one setting, only those of the highest rank have precedence: all of them if the
/// setting collects values, otherwise the last one.
fn winners(given: &[Given]) -> Vec<Given> {
    let mut sorted: Vec<Given> = given.to_vec();
    sorted.sort_by_key(|given| (rank(given), given.row));
    let same = |left: usize, right: usize| left == right || (adds_listener(left) && adds_listener(right));
    let highest = |row: usize| sorted.iter().filter(|given| same(given.row, row)).map(rank).max();
    let mut winners: Vec<Given> = Vec::new();
    for candidate in &sorted {
        if Some(rank(candidate)) != highest(candidate.row) {
            continue;
        }
        if !table()[candidate.row].repeats() {
            winners.retain(|winner| winner.row != candidate.row);
        }
        winners.push(candidate.clone());
    }
    winners
}

const NO_DIRECTORY: &str = "there is no such directory";

/// Refuses settings that contradict each other.
fn check(settings: &Settings, found: &mut Contradictions) {
    match (settings.min_requests, settings.max_requests) {
        (Some(min), None) => {
            let why = "it needs --max-requests: each worker draws its number between the two";
            found.add("min-requests", min.to_string(), why, &["max-requests"]);
        }
        (Some(min), Some(max)) if min > max => {
            let why = format!("expected at most max-requests, which is {}", show_limit(Some(max)));
            found.add("min-requests", min.to_string(), why, &["max-requests"]);
        }
        _ => {}
    }
    settings.check_fibers(found);
    let limits = &settings.limits;
    if limits.target_bytes > limits.head_bytes {
        let why = format!("expected at most max-header-size, which is {}", show_size(limits.head_bytes as u64));
        found.add("max-uri-size", show_size(limits.target_bytes as u64), why, &["max-header-size"]);
    }
    let fastcgi = |address: &&ListenAddress| address.protocol.unwrap_or(settings.protocol) == Protocol::FastCgi;
    let greeted = |address: &&ListenAddress| address.proxy_protocol.is_some_and(|choice| choice != ProxyProtocol::Off);
    for address in settings.listen.iter().filter(fastcgi).filter(greeted) {
        let why = "FastCGI itself passes on the client's address: leave proxy_protocol out";
        found.add("listen", address.to_string(), why, &["protocol", "proxy-protocol"]);
    }
    metrics_address::check(settings, found);
    let files = &settings.files;
    for (name, mounts) in [("static", &files.mounts), ("accel", &files.accelerated)] {
        for mount in mounts.iter().filter(|mount| !mount.directory.is_dir()) {
            found.add(name, mount.to_string(), NO_DIRECTORY, &[]);
        }
    }
    for path in files.sendfile_roots.iter().filter(|path| !path.is_dir()) {
        found.add("sendfile-root", directory::masked_path(path), NO_DIRECTORY, &[]);
    }
}

/// Makes paths absolute now, because an app may change the working directory while it is loaded, and log files are opened again
/// later.
fn make_absolute(settings: &mut Settings) {
    let absolute = |path: &mut PathBuf| {
        // It fails only if there is no current directory; then the path stays as it is.
        if let Ok(full) = directory::absolute(path) {
            *path = full;
        }
    };
    if let Some(LogTarget::File(path)) = &mut settings.access_log {
        absolute(path);
    }
    if let LogTarget::File(path) = &mut settings.error_log {
        absolute(path);
    }
    let tls = &mut settings.tls;
    tls.certificates.iter_mut().chain(&mut tls.keys).chain(&mut tls.statuses).chain(&mut tls.authorities).for_each(absolute);
    settings.listen.iter_mut().filter_map(|address| address.handshakes.authorities.as_mut()).for_each(absolute);
    for files in settings.listen.iter_mut().filter_map(|address| address.certificates.as_mut()).flatten() {
        [&mut files.certificate, &mut files.key].into_iter().filter_map(Pem::path_mut).for_each(absolute);
        files.status.as_mut().map(absolute);
    }
    settings.acme.authorities.as_mut().map(absolute);
    settings.pid_file.as_mut().map(absolute);
    if let ControlChoice::At(path) = &mut settings.control {
        absolute(path);
    }
    if let Some(SocketAddress::Unix { path, .. }) = settings.metrics.as_mut().map(|address| &mut address.socket) {
        absolute(path);
    }
    settings.restart_file.as_mut().map(absolute);
    settings.life.watched.iter_mut().for_each(absolute);
    let files = &mut settings.files;
    files.mounts.iter_mut().chain(&mut files.accelerated).for_each(|mount| absolute(&mut mount.directory));
    files.sendfile_roots.iter_mut().for_each(absolute);
    absolute(&mut settings.temporary_directory);
}

#[cfg(test)]
mod tests;
