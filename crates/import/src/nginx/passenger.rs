//! `passenger_enabled`: an app of Ruby that Passenger runs inside of nginx.

use super::context::{Context, is_of_passenger};
use super::syntax::Directive;
use super::{Nginx, key};
use crate::draft::{Action, App};
use crate::note::Key;

/// Directives that are options of the app.
const OPTIONS: &[(&str, &str)] = &[
    ("passenger_max_pool_size", "workers"),
    ("passenger_max_instances_per_app", "workers"),
    ("passenger_max_instances", "workers"),
    ("passenger_pool_idle_time", "scale-down-idle"),
    ("passenger_user", "user"),
    ("passenger_group", "group"),
    ("passenger_max_requests", "max-requests"),
    ("passenger_max_request_time", "request-timeout"),
    ("passenger_max_request_queue_size", "queue-limit"),
    ("passenger_max_request_queue_time", "queue-timeout"),
    ("passenger_start_timeout", "load-timeout"),
    ("passenger_thread_count", "threads"),
];

/// Directives whose meaning an app has in any case.
const SAME: &[&str] = &[
    "passenger_enabled",
    "passenger_root",
    "passenger_app_root",
    "passenger_startup_file",
    "passenger_spawn_method",
    "passenger_rolling_restarts",
    "passenger_resist_deployment_errors",
    "passenger_document_root",
];

impl Nginx<'_> {
    /// The action for an app of Passenger: the files of its directory `public`, then the app.
    pub(super) fn passenger(&mut self, context: &Context, key: &Key) -> Action {
        let find = |name: &str| context.passenger.iter().rev().find(|directive| directive.name == name);
        let root = context.root.as_deref().filter(|root| root.starts_with('/') && !root.contains('$'));
        let kind = find("passenger_app_type").map_or("rack", |directive| directive.word(0));
        let (Some(root), "rack" | "ruby") = (root, kind) else {
            let text = "an app of Passenger has its directory public as root, and is one for Rack; until you write it, these \
                 requests get a 502";
            self.draft.lost(key, text);
            return Action::status(502);
        };
        let above = root.trim_end_matches('/').rsplit_once('/').map_or("", |(above, _)| above);
        let folder = find("passenger_app_root").map_or(above, |directive| directive.word(0)).trim_end_matches('/').to_owned();
        let file = find("passenger_startup_file").map_or("config.ru", |directive| directive.word(0));
        let file = if file.starts_with('/') { file.to_owned() } else { format!("{folder}/{file}") };
        let known = self.draft.apps.iter().find(|app| app.file == file).map(|app| app.name.clone());
        let name = known.unwrap_or_else(|| {
            let name = self.draft.free_name(folder.rsplit('/').next().unwrap_or_default());
            let app = self.app_of_passenger(App { name: name.clone(), file, key: key.clone(), ..App::default() }, context);
            self.draft.apps.push(app);
            name
        });
        context.passenger.iter().for_each(|directive| self.used(directive));
        Action::files(root, Some(Action::app(name)))
    }

    /// The app with its options.
    fn app_of_passenger(&mut self, mut app: App, context: &Context) -> App {
        app.least_workers = Some((1, Key::new("default of Passenger")));
        let mut environment = "production";
        for directive in &context.passenger {
            let (key, word) = (key(directive), directive.word(0));
            if let Some((_, option)) = OPTIONS.iter().find(|(name, _)| *name == directive.name) {
                app.options.set(option, word, &key);
                continue;
            }
            match directive.name.as_str() {
                "passenger_app_env" | "rails_env" | "rack_env" => environment = word,
                "passenger_memory_limit" => app.options.set("max-memory", format!("{word}MiB"), &key),
                "passenger_env_var" => app.environment.push((word.to_owned(), directive.word(1).to_owned())),
                "passenger_min_instances" => match word.parse() {
                    Ok(least) => app.least_workers = Some((least, key)),
                    Err(_) => self.draft.lost(&key, "expected the lowest number of workers"),
                },
                "passenger_ruby" => self.draft.lost(&key, "the flag --ruby of oribi, or PATH, chooses the interpreter"),
                "passenger_pre_start" => self.draft.lost(&key, "boot-request of the app is a request before the first client"),
                "passenger_app_type" => self.draft.same(&key, "config.ru is an app for Rack"),
                name if SAME.contains(&name) => self.draft.same(&key, "Oribi does it, or has no need of it"),
                _ => self.draft.lost(&key, "no counterpart: options of the app in [app.NAME]"),
            }
        }
        app.options.otherwise("workers", 6, "Passenger");
        app.environment.push(("RACK_ENV".to_owned(), environment.to_owned()));
        if let Some(key) = app.join_workers().filter(|key| key.line.is_some()) {
            self.draft.lost(&key, "it has no effect unless the highest number of workers is higher");
        }
        if app.follows_load() {
            app.options.otherwise("scale-down-idle", 300, "Passenger");
        }
        app
    }

    /// Notes directives of Passenger that belong to no app.
    pub(super) fn unused_of_passenger(&mut self, directives: &[Directive]) {
        for directive in directives {
            let id = (directive.line, directive.name.clone(), directive.words.clone());
            if directive.name == "passenger_enabled" && directive.word(0) != "on" {
                self.draft.same(&key(directive), "it is off");
            } else if is_of_passenger(&directive.name) && !self.used.contains(&id) {
                self.draft.lost(&key(directive), "no location or server with passenger_enabled on has it");
            }
            self.unused_of_passenger(directive.inside());
        }
    }
}
