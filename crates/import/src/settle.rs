//! Makes a draft a file that the reader of `oribi.toml` accepts: each element with a mistake is left out, with a note.

use crate::conditions::Match;
use crate::draft::{Action, Draft, Route, Settings};
use crate::note::Key;
use crate::write::{Element, add_notes, write};
use oribi_config_file::{Findings, Severity, parse};

/// The most regular expressions in one server.
const EXPRESSIONS: usize = 128;

/// The beginning of the note about a route with a mistake that is not about its conditions.
const CLOSED: &str = "its requests get a 404";

/// The text of the file, with the notes as comments.
pub(crate) fn settle(mut draft: Draft) -> (String, Draft) {
    let had_routes = !draft.routes.is_empty();
    limit_expressions(&mut draft);
    draft.gather();
    replaced(&mut draft);
    loop {
        if had_routes && draft.routes.is_empty() {
            // The one app of a server without routes gets all requests.
            draft.route(Match::default(), Action::status(404), &Key::new("routes"));
        }
        let written = write(&draft);
        // A variable has some value; which values its option accepts is seen when the file is used.
        let read = parse(&[("oribi.toml", written.text.as_bytes())], &|_| Some("1".to_owned()));
        let findings = match read {
            Ok(reading) => {
                warnings(&mut draft, &reading.warnings, &written.lines);
                if draft.apps.is_empty() {
                    draft.lost(&Key::new("apps"), "oribi.toml needs an app: add [app.NAME] with its file");
                }
                draft.notes.sort_by_key(|note| note.line.unwrap_or(0));
                let mut text = written.text;
                add_notes(&mut text, &draft);
                return (text, draft);
            }
            Err(findings) => findings,
        };
        if !leave_out(&mut draft, &findings, &written.lines) {
            // The whole file is too large, or the like.
            let reason = findings.list.first().map_or(String::new(), |finding| finding.message.clone());
            let Draft { title, mut notes, .. } = draft;
            draft = Draft { title, ..Draft::default() };
            draft.lost(&Key::new("all"), format!("nothing can be carried over: {reason}"));
            draft.notes.append(&mut notes);
        }
    }
}

/// Leaves out the elements with mistakes. Returns whether there were any.
fn leave_out(draft: &mut Draft, findings: &Findings, lines: &[Option<Element>]) -> bool {
    let mistakes = findings.list.iter().filter(|finding| finding.severity == Severity::Mistake);
    let mut bad: Vec<(Element, String)> = Vec::new();
    for finding in mistakes {
        let element = finding.place.line.checked_sub(1).and_then(|line| lines.get(line)).copied().flatten();
        let Some(element) = element.filter(|element| bad.iter().all(|(known, _)| known != element)) else { continue };
        let suggestion = finding.suggestion.as_ref().map_or(String::new(), |text| format!("; {text}"));
        bad.push((element, format!("left out: {}{suggestion}", finding.message)));
    }
    let any = !bad.is_empty();
    // Later ones first, so that the numbers of the others stay.
    bad.sort_by_key(|(element, _)| std::cmp::Reverse(order(*element)));
    for (element, reason) in bad {
        remove(draft, element, reason);
    }
    any
}

/// The order of elements: options before the section that they are in.
fn order(element: Element) -> (usize, usize, usize) {
    match element {
        Element::Server(index) => (0, index, 0),
        Element::Listen(index) => (1, index, 0),
        Element::ListenOption(index, option) => (1, index, option + 1),
        Element::App(index) => (2, index, 0),
        Element::AppEnvironment(index) => (2, index, 1),
        Element::AppOption(index, option) => (2, index, option + 2),
        Element::Route(index) => (3, index, 0),
        Element::Filter(index, _) => (3, index, 1),
        Element::Default(_) => (4, 0, 0),
    }
}

fn remove(draft: &mut Draft, element: Element, reason: String) {
    let key = match element {
        Element::Server(index) => draft.server.list.remove(index).key,
        Element::Listen(index) => {
            let listen = draft.listens.remove(index);
            with_it(draft, &listen.options, "address");
            listen.key
        }
        Element::ListenOption(index, option) => draft.listens[index].options.list.remove(option).key,
        Element::AppOption(index, option) => draft.apps[index].options.list.remove(option).key,
        Element::AppEnvironment(index) => {
            draft.apps[index].environment.clear();
            draft.apps[index].key.inside("environment")
        }
        Element::App(index) => {
            let app = draft.apps.remove(index);
            with_it(draft, &app.options, "app");
            for route in &mut draft.routes {
                match &mut route.action {
                    // Other routes would answer these requests.
                    Action::App { name, .. } if *name == app.name => route.action = Action::status(503),
                    action => without_app(action, &app.name),
                }
            }
            app.key
        }
        Element::Route(index) => {
            let Route { conditions, key, .. } = &draft.routes[index];
            let closed = Route::new(conditions.clone(), Action::status(404), key.clone());
            // Later routes, which may be open, would answer its requests.
            if draft.routes[index].action != closed.action || draft.routes[index].rewrite.is_some() {
                draft.routes[index] = closed;
                return draft.lost(&draft.routes[index].key.clone(), reason.replacen("left out", CLOSED, 1));
            }
            let key = draft.routes.remove(index).key;
            draft.notes.retain(|note| (&note.key, note.line) != (&key.name, key.line) || !note.text.starts_with(CLOSED));
            return draft.lost(&key, format!("{reason}: its requests GO TO OTHER ROUTES, which may be open"));
        }
        Element::Filter(index, name) => {
            draft.routes[index].filters.take(name);
            if name == "auth" {
                draft.routes[index].action = Action::status(403);
            }
            draft.routes[index].key.inside(name)
        }
        Element::Default(name) => {
            draft.defaults.take(name);
            if name == "auth" {
                draft.routes.iter_mut().for_each(|route| route.action = Action::status(403));
            }
            Key::new(name)
        }
    };
    draft.lost(&key, reason);
}

/// Notes the options of a thing that is left out.
fn with_it(draft: &mut Draft, options: &Settings, of: &str) {
    for setting in &options.list {
        draft.lost(&setting.key, format!("{} is left out with its {of}", setting.name));
    }
}

/// Removes the fallbacks to an app.
fn without_app(action: &mut Action, app: &str) {
    let Action::Files { fallback, .. } = action else { return };
    if matches!(fallback.as_deref(), Some(Action::App { name, .. }) if name == app) {
        *fallback = None;
    } else if let Some(fallback) = fallback {
        without_app(fallback, app);
    }
}

/// Warnings of the reader are notes about their elements.
fn warnings(draft: &mut Draft, findings: &Findings, lines: &[Option<Element>]) {
    for finding in &findings.list {
        let element = finding.place.line.checked_sub(1).and_then(|line| lines.get(line)).copied().flatten();
        let key = match element {
            Some(Element::Route(index) | Element::Filter(index, _)) => draft.routes[index].key.clone(),
            Some(Element::App(index)) => draft.apps[index].key.clone(),
            _ => Key::new("oribi.toml"),
        };
        let suggestion = finding.suggestion.as_ref().map_or(String::new(), |text| format!("; {text}"));
        draft.lost(&key, format!("{}{suggestion}", finding.message));
    }
}

/// Notes the things that later ones have replaced.
fn replaced(draft: &mut Draft) {
    let of_listens = draft.listens.iter_mut().map(|listen| &mut listen.options);
    let of_apps = draft.apps.iter_mut().map(|app| &mut app.options);
    let all = of_listens.chain(of_apps).chain([&mut draft.server]);
    let keys: Vec<Key> = all.flat_map(|settings| std::mem::take(&mut settings.replaced)).collect();
    for key in keys {
        draft.lost(&key, "set again later: the last value counts");
    }
}

fn limit_expressions(draft: &mut Draft) {
    let is_expression = |pattern: &&String| pattern.trim_start_matches('!').starts_with('~');
    let mut count = 0;
    let mut removed = Vec::new();
    draft.routes.retain(|route| {
        let here = route.conditions.lists().flatten().filter(is_expression).count();
        if count + here > EXPRESSIONS {
            removed.push(route.key.clone());
            return false;
        }
        count += here;
        true
    });
    for key in removed {
        let text = format!(
            "left out: a server has at most {EXPRESSIONS} regular expressions: its requests GO TO OTHER ROUTES, which \
             may be open"
        );
        draft.lost(&key, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draft::App;

    #[test]
    fn a_route_with_a_mistake_leaves_its_requests_to_no_other_route() {
        let guarded = Match { path: vec!["/private/*".to_owned()], ..Match::default() };
        let redirect = Action::Redirect { to: "nowhere".to_owned(), status: 302 };
        let key = || Key::new("route");
        let draft = Draft {
            apps: vec![App { name: "a".to_owned(), file: "a.psgi".to_owned(), ..App::default() }],
            routes: vec![Route::new(guarded, redirect, key()), Route::new(Match::default(), Action::app("a"), key())],
            ..Draft::default()
        };
        let (text, draft) = settle(draft);
        assert_eq!(draft.routes[0].action, Action::status(404), "{text}");
        assert_eq!((draft.routes[0].conditions.path.len(), draft.routes.len()), (1, 2), "{text}");
        assert!(text.contains("its requests get a 404"), "{text}");
    }

    #[test]
    fn a_note_says_that_the_requests_of_a_route_go_to_others() {
        let unknown = Match { path: vec!["~(?=a)".to_owned()], ..Match::default() };
        let app = App { name: "a".to_owned(), file: "a.psgi".to_owned(), ..App::default() };
        let routes = vec![Route::new(unknown, Action::app("a"), Key::new("route"))];
        let (text, draft) = settle(Draft { apps: vec![app], routes, ..Draft::default() });
        // The app does not get the requests of all routes, because there is none any more.
        let left: Vec<_> = draft.routes.iter().map(|route| (&route.conditions, &route.action)).collect();
        assert_eq!(left, [(&Match::default(), &Action::status(404))], "{text}");
        assert!(text.contains("its requests GO TO OTHER ROUTES") && !text.contains(CLOSED), "{text}");
    }

    #[test]
    fn the_options_of_an_app_that_is_left_out_are_noted() {
        // A placeholder that has no value.
        let mut app = App { name: "a".to_owned(), key: Key::new("rack"), ..App::default() };
        app.options.set("workers", "4", &Key::at(3, "processes"));
        let (text, draft) = settle(Draft { apps: vec![app], ..Draft::default() });
        assert!(draft.apps.is_empty(), "{text}");
        assert!(text.contains("# - line 3: processes: workers is left out with its app\n"), "{text}");
    }
}
