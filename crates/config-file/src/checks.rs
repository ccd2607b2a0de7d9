//! Checks of all sections together.

use crate::content::{Listen, Text};
use crate::finding::Severity;
use crate::place::Place;
use crate::report::Report;
use crate::route::Outline;
use crate::source::Source;
use crate::table::did_you_mean;
use oribi_config::{ListenAddress, SocketAddress};
use std::collections::{HashMap, HashSet};

/// The most apps.
pub(crate) const APPS: usize = 1000;

/// The most routes.
pub(crate) const ROUTES: usize = oribi_route::MOST_RULES;

/// All files, and the findings about them.
pub(crate) struct Checks<'c> {
    pub sources: &'c [Source],
    pub report: &'c mut Report,
}

impl Checks<'_> {
    fn mistake(&mut self, place: &Place, message: String, suggestion: Option<String>) {
        self.report.at(Severity::Mistake, &self.sources[place.file], place, message, suggestion);
    }

    fn warning(&mut self, place: &Place, message: String, suggestion: Option<String>) {
        self.report.at(Severity::Warning, &self.sources[place.file], place, message, suggestion);
    }

    /// Checks the names of apps in routes, and that of the app that all routes ask, if all apps are known. `all_used`: so are all
    /// uses of them.
    pub fn names(&mut self, names: &[Text], routes: &[Outline], asked: Option<&Text>, all_used: bool) {
        let known: HashSet<&str> = names.iter().map(|name| name.value.as_str()).collect();
        let mut used = HashSet::new();
        for name in routes.iter().flat_map(|route| &route.apps).chain(asked) {
            used.insert(name.value.as_str());
            if known.contains(name.value.as_str()) {
                continue;
            }
            let suggestion = if name.from_environment || self.report.is_long() {
                None
            } else {
                did_you_mean(&name.value, names.iter().map(|name| name.value.as_str()))
            };
            self.mistake(&name.place, format!("there is no app `{}`", name.quoted()), suggestion);
        }
        if !all_used {
            return;
        }
        // The only app gets all requests that no route answers.
        for app in names.iter().filter(|app| known.len() > 1 && !used.contains(app.value.as_str())) {
            let message = format!("no route leads to app `{}`: it gets no requests", app.quoted());
            self.warning(&app.place, message, Some(format!("add a [[route]] with app = \"{}\"", app.quoted())));
        }
    }

    pub fn counts(&mut self, names: &[Text], routes: &[Outline]) {
        if let Some(app) = names.get(APPS) {
            self.mistake(&app.place, format!("more than {APPS} apps"), None);
        }
        if let Some(route) = routes.get(ROUTES) {
            self.mistake(&route.place, format!("more than {ROUTES} routes"), None);
        }
    }

    /// In one file, the same name is a mistake of the syntax.
    pub fn same_names(&mut self, names: &[Text]) {
        let mut places: HashMap<&str, &Place> = HashMap::new();
        for app in names {
            if let Some(first) = places.get(app.value.as_str()) {
                self.mistake(&app.place, format!("app `{}` is already at {first}", app.quoted()), None);
            } else {
                places.insert(&app.value, &app.place);
            }
        }
    }

    pub fn same_addresses(&mut self, listens: &[Listen]) {
        let mut places: HashMap<String, &Place> = HashMap::new();
        for Listen { address, .. } in listens {
            let socket = address.values.first().and_then(|text| ListenAddress::parse(text).ok());
            // The kernel chooses another port for each.
            let of_kernel = |socket: &SocketAddress| matches!(socket, SocketAddress::Tcp { port: 0, .. });
            let Some(socket) = socket.map(|address| address.socket).filter(|socket| !of_kernel(socket)) else { continue };
            let socket = match socket {
                SocketAddress::Tcp { host, port } => format!("{host}:{port}"),
                SocketAddress::Unix { path, .. } => path.display().to_string(),
            };
            if let Some(first) = places.get(&socket) {
                self.mistake(&address.place, format!("the same address is already at {first}"), None);
            } else {
                places.insert(socket, &address.place);
            }
        }
    }

    pub fn unreachable(&mut self, routes: &[Outline]) {
        let Some(all) = routes.iter().position(|route| route.takes_all) else { return };
        let place = &routes[all].place;
        for route in &routes[all + 1..] {
            let message = format!("no request gets to this route: the one at {place} takes all requests");
            self.warning(&route.place, message, None);
        }
    }
}
