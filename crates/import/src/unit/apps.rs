//! `applications`.

use crate::draft::{App, Draft};
use crate::note::Key;
use crate::tree::Node;

/// Carries an application over. Returns the name of its app, `None` if Oribi cannot run it.
pub(super) fn read(name: &str, node: &Node, key: &Key, draft: &mut Draft) -> Option<String> {
    let kind = node.get("type").and_then(Node::text).unwrap_or_default();
    let (language, version) = kind.split_once(' ').unwrap_or((kind, ""));
    let (language, ending) = match language {
        "perl" => ("perl", ".psgi"),
        "ruby" => ("ruby", ".ru"),
        _ => {
            node.skip();
            let shown = if kind.is_empty() { "without a type" } else { kind };
            let text = format!("an application of type {shown}: Oribi runs Perl (PSGI), Ruby (Rack) and Lua; keep Unit for it");
            draft.lost(key, text);
            return None;
        }
    };
    if !version.is_empty() {
        let text = format!("Oribi runs the {language} in PATH: see the flags --perl and --ruby");
        draft.lost(&key.inside("type"), format!("version {version}: {text}"));
    }
    let Some(script) = node.get("script").and_then(Node::text) else {
        node.skip();
        draft.lost(key, "an application without a script");
        return None;
    };
    let mut app = App { name: draft.free_name(name), key: key.clone(), ..App::default() };
    app.directory = node.get("working_directory").and_then(Node::text).map(str::to_owned);
    app.file = match &app.directory {
        Some(directory) if !script.starts_with('/') => format!("{}/{script}", directory.trim_end_matches('/')),
        _ => script.to_owned(),
    };
    if !script.ends_with(ending) {
        app.language = Some(language);
    }
    options(node, key, &mut app, draft);
    environment(node, key, &mut app, draft);
    lost(node, key, draft);
    app.options.otherwise("workers", 1, "Unit");
    let own = app.name.clone();
    if own != name {
        draft.lost(key, format!("the name of the app is {own} here"));
    }
    draft.apps.push(app);
    Some(own)
}

fn options(node: &Node, key: &Key, app: &mut App, draft: &mut Draft) {
    for (name, option) in [("user", "user"), ("group", "group")] {
        if let Some(value) = node.get(name).and_then(Node::text) {
            app.options.set(option, value, &key.inside(name));
        }
    }
    if let Some(number) = node.get("threads").and_then(Node::number) {
        app.options.set("threads", number, &key.inside("threads"));
    }
    if let Some(processes) = node.get("processes") {
        let inside = key.inside("processes");
        if let Some(number) = processes.number() {
            app.options.set("workers", number, &inside);
        } else {
            // The defaults of Unit: one process, none of them spare, for 15 seconds.
            let number = |name: &str, default: u64| processes.get(name).and_then(Node::number).unwrap_or(default);
            app.options.set("workers", number("max", 1), &inside.inside("max"));
            app.least_workers = Some((number("spare", 0), inside.inside("spare")));
            app.options.set("scale-down-idle", number("idle_timeout", 15), &inside.inside("idle_timeout"));
            if let Some(key) = app.join_workers() {
                draft.same(&key, "the number of workers is that of max");
            }
        }
    }
    if let Some(limits) = node.get("limits") {
        let inside = key.inside("limits");
        if let Some(number) = limits.get("requests").and_then(Node::number) {
            app.options.set("max-requests", number, &inside.inside("requests"));
        }
        if let Some(number) = limits.get("timeout").and_then(Node::number) {
            app.options.set("request-timeout", number, &inside.inside("timeout"));
        }
    }
}

fn environment(node: &Node, key: &Key, app: &mut App, draft: &mut Draft) {
    let Some(variables) = node.get("environment") else { return };
    for (name, value) in variables.entries() {
        let fits = !name.is_empty() && name.len() <= 256 && !name.contains(['=', '\0']);
        match value.text().filter(|text| fits && !text.contains('\0')) {
            Some(value) if app.environment.iter().all(|(known, _)| known != name) => {
                app.environment.push((name.clone(), value.to_owned()));
            }
            _ => {
                value.skip();
                draft.lost(&key.inside("environment").inside(name), "no variable that an environment can have");
            }
        }
    }
}

/// The parts without a counterpart.
fn lost(node: &Node, key: &Key, draft: &mut Draft) {
    for (name, text) in [
        (
            "isolation",
            "workers share the namespaces of the server: a systemd unit (RootDirectory=, PrivateUsers=) or a container \
                 confines all of it; no-new-privileges is an option",
        ),
        (
            "hooks",
            "Oribi calls hooks of config/oribi.rb beside the app (before_fork, after_fork, before_worker_shutdown): see \
                 docs/ruby.md",
        ),
        ("thread_stack_size", "the size of stacks is that of the system (ulimit -s)"),
        ("stdout", "the app's standard output is that of the server; error-log in [server] names a file"),
        ("stderr", "the app's standard error is in the error log of the server: error-log in [server]"),
    ] {
        if let Some(node) = node.get(name) {
            node.skip();
            draft.lost(&key.inside(name), text);
        }
    }
}
