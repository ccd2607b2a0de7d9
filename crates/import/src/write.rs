//! Writes a draft as `oribi.toml`: each element in its own line, so that a mistake in a line is one of its element.

use crate::conditions::{Match, Named};
use crate::draft::{Action, App, Draft, Route, Setting, Settings, Value};
use crate::filters::{Filters, NAMES};
use crate::note::{Kind, one_line};
use crate::part::Part;
use crate::toml::{array, key, one_or_array, string, table};

/// A part of a draft that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    Server(usize),
    Listen(usize),
    ListenOption(usize, usize),
    App(usize),
    AppEnvironment(usize),
    AppOption(usize, usize),
    Route(usize),
    /// A filter of a route, by its name.
    Filter(usize, &'static str),
    /// A filter of all routes, by its name.
    Default(&'static str),
}

/// The text of a draft.
#[derive(Default)]
pub(crate) struct Text {
    pub text: String,
    /// The element of each line.
    pub lines: Vec<Option<Element>>,
}

impl Text {
    fn line(&mut self, element: Option<Element>, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
        self.lines.push(element);
    }

    fn comment(&mut self, text: &str) {
        self.line(None, format!("# {}", one_line(text)).trim_end());
    }

    fn settings(&mut self, settings: &Settings, element: impl Fn(usize) -> Element) {
        for (index, Setting { name, value, .. }) in settings.list.iter().enumerate() {
            self.line(Some(element(index)), &format!("{name} = {}", of_value(value)));
        }
    }

    fn app(&mut self, index: usize, app: &App) {
        let element = Some(Element::App(index));
        self.line(None, "");
        self.line(element, &format!("[app.{}]", key(&app.name)));
        if app.proxy.is_empty() {
            self.line(element, &format!("file = {}", string(&app.file)));
        } else {
            self.line(element, &format!("proxy = {}", one_or_array(&app.proxy)));
        }
        if let Some(language) = app.language {
            self.line(element, &format!("language = {}", string(language)));
        }
        if let Some(directory) = &app.directory {
            self.line(element, &format!("directory = {}", string(directory)));
        }
        if !app.environment.is_empty() {
            let variables = app.environment.iter().map(|(name, value)| format!("{} = {}", key(name), string(value)));
            let line = format!("environment = {}", table(&variables.collect::<Vec<_>>()));
            self.line(Some(Element::AppEnvironment(index)), &line);
        }
        self.settings(&app.options, |option| Element::AppOption(index, option));
    }

    fn route(&mut self, index: usize, route: &Route) {
        let element = Some(Element::Route(index));
        self.line(None, "");
        self.line(element, "[[route]]");
        if !route.conditions.is_open() {
            self.line(element, &format!("match = {}", conditions(&route.conditions)));
        }
        if let Some(rewrite) = &route.rewrite {
            self.line(element, &format!("rewrite = {}", string(rewrite)));
        }
        match &route.action {
            Action::Again => {}
            Action::App { name, mount } => {
                self.line(element, &format!("app = {}", string(name)));
                if let Some(mount) = mount {
                    self.line(element, &format!("mount = {}", string(mount)));
                }
            }
            action => {
                let (name, value) = of_action(action);
                self.line(element, &format!("{name} = {value}"));
            }
        }
        self.filters(&route.filters, |name| Element::Filter(index, name));
    }

    fn filters(&mut self, filters: &Filters, element: impl Fn(&'static str) -> Element) {
        for &name in NAMES {
            if let Some(value) = filters.text(name) {
                self.line(Some(element(name)), &format!("{name} = {value}"));
            }
        }
    }
}

/// The key and the value of an action.
fn of_action(action: &Action) -> (&'static str, String) {
    match action {
        Action::Again => ("rewrite", string("$uri")),
        Action::App { name, .. } => ("app", string(name)),
        Action::Files { root, tried, index, types, fallback } => {
            let mut parts = vec![format!("root = {}", string(root))];
            if !tried.is_empty() {
                parts.push(format!("try = {}", array(tried)));
            }
            if !index.is_empty() {
                parts.push(format!("index = {}", one_or_array(index)));
            }
            if !types.is_empty() {
                parts.push(format!("types = {}", one_or_array(types)));
            }
            parts.extend(fallback.as_deref().map(|fallback| match fallback {
                Action::App { name, .. } => format!("fallback = {}", string(name)),
                other => {
                    let (name, value) = of_action(other);
                    format!("fallback = {}", table(&[format!("{name} = {value}")]))
                }
            }));
            ("files", table(&parts))
        }
        Action::Redirect { to, status } => ("redirect", table(&[format!("to = {}", string(to)), format!("status = {status}")])),
        Action::Respond { status, content, content_type } => {
            let mut parts = vec![format!("status = {status}")];
            parts.extend(content.as_ref().map(|content| format!("content = {}", string(content))));
            parts.extend(content_type.as_ref().map(|media| format!("type = {}", string(media))));
            ("respond", table(&parts))
        }
    }
}

/// Writes a draft, without its notes.
pub(crate) fn write(draft: &Draft) -> Text {
    let mut text = Text::default();
    text.comment(&draft.title);
    if !draft.server.list.is_empty() {
        text.line(None, "");
        text.line(None, "[server]");
        text.settings(&draft.server, Element::Server);
    }
    for (index, listen) in draft.listens.iter().enumerate() {
        text.line(None, "");
        text.line(Some(Element::Listen(index)), "[[listen]]");
        text.line(Some(Element::Listen(index)), &format!("address = {}", string(&listen.address)));
        text.settings(&listen.options, |option| Element::ListenOption(index, option));
    }
    for (index, app) in draft.apps.iter().enumerate() {
        text.app(index, app);
    }
    if draft.defaults != Filters::default() {
        text.line(None, "");
        text.line(None, "[defaults]");
        text.filters(&draft.defaults, Element::Default);
    }
    for (index, route) in draft.routes.iter().enumerate() {
        text.route(index, route);
    }
    text
}

/// The ending of included files. They are beside `oribi.toml`, because their relative paths begin there.
const ENDING: &str = ".app.toml";

/// The files of a draft whose source is several files: `oribi.toml` with the notes, then a file for each of the others.
pub(crate) fn parts(draft: &Draft) -> Vec<Part> {
    let mut names: Vec<&String> = draft.apps.iter().filter_map(|app| app.part.as_ref()).collect();
    names.extend(draft.routes.iter().filter_map(|route| route.part.as_ref()));
    names.sort();
    names.dedup();
    if names.is_empty() {
        return Vec::new();
    }
    let of = |part: Option<&String>| {
        let apps = draft.apps.iter().filter(|app| app.part.as_ref() == part).cloned().collect();
        let routes = draft.routes.iter().filter(|route| route.part.as_ref() == part).cloned().collect();
        (apps, routes)
    };
    let (apps, routes) = of(None);
    let whole = write(&Draft { apps, routes, ..draft.clone() }).text;
    let (title, rest) = whole.split_once('\n').unwrap_or((&whole, ""));
    let mut toml = format!("{title}\n\ninclude = {}\n{rest}", string(&format!("*{ENDING}")));
    add_notes(&mut toml, draft);
    let others = names.into_iter().map(|name| {
        let (apps, routes) = of(Some(name));
        let toml = write(&Draft { title: draft.title.clone(), apps, routes, ..Draft::default() }).text;
        Part { name: format!("{name}{ENDING}"), toml }
    });
    std::iter::once(Part { name: String::new(), toml }).chain(others).collect()
}

/// Adds the notes as comments.
pub(crate) fn add_notes(text: &mut String, draft: &Draft) {
    let mut end = Text::default();
    for (kind, title) in [
        (Kind::Lost, "Not carried over, or only in part, with the nearest equivalent:"),
        (Kind::Same, "Without an option here, because Oribi does the same or does not need it:"),
    ] {
        let mut notes = draft.notes.iter().filter(|note| note.kind == kind).peekable();
        if notes.peek().is_some() {
            end.line(None, "");
            end.comment(title);
            notes.for_each(|note| end.line(None, &format!("# - {note}")));
        }
    }
    text.push_str(&end.text);
}

fn of_value(value: &Value) -> String {
    match value {
        // Without quotes, where a number is the same text.
        Value::Text(text) if text.parse::<u64>().is_ok_and(|number| number < 1 << 53 && number.to_string() == *text) => {
            text.clone()
        }
        Value::Text(text) => string(text),
        Value::Number(number) => number.to_string(),
        Value::On(on) => on.to_string(),
        Value::List(list) => array(list),
    }
}

fn conditions(conditions: &Match) -> String {
    let mut parts = Vec::new();
    for (name, patterns) in [
        ("scheme", &conditions.scheme),
        ("host", &conditions.host),
        ("path", &conditions.path),
        ("method", &conditions.method),
        ("source", &conditions.source),
        ("destination", &conditions.destination),
    ] {
        if !patterns.is_empty() {
            parts.push(format!("{name} = {}", one_or_array(patterns)));
        }
    }
    for (name, named) in [("field", &conditions.field), ("query", &conditions.query)] {
        if !named.is_empty() {
            parts.push(format!("{name} = {}", of_named(named)));
        }
    }
    table(&parts)
}

fn of_named(named: &Named) -> String {
    table(&named.iter().map(|(name, patterns)| format!("{} = {}", key(name), one_or_array(patterns))).collect::<Vec<_>>())
}
