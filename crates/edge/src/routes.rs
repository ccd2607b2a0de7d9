//! Routes: the first one whose conditions a request meets decides which app answers it, or that the edge answers itself.

use super::EdgeLoop;
use oribi_config::Settings;
use oribi_engine::{Engine, Exchange};
use oribi_files::Mount;
use oribi_io::Backend;
use oribi_listen::Listener;
use oribi_message::{FieldPair, RequestHead};
use oribi_route::{RequestView, Rule, RuleError, Scheme, Scratch, Table};
use oribi_worker::lane::{Files, Lane, host_of};
use std::io;
use std::path::{Path, PathBuf};

/// The type of the texts that the edge itself sends.
const PLAIN: &[u8] = b"text/plain; charset=utf-8";

/// A route.
#[derive(Clone, Debug)]
pub struct Route {
    /// The conditions.
    pub rule: Rule,
    /// The answer to a request that meets them.
    pub action: Action,
}

/// The answer of a route. Apps are named by their index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// An app answers.
    App {
        /// The app.
        app: usize,
        /// The path below which the app answers, without a slash at its end; empty: it answers at the root.
        mount: String,
    },
    /// Files answer.
    Files {
        /// The directory.
        root: PathBuf,
        /// The files for a directory; `None`: those of the settings.
        index: Option<Vec<String>>,
        /// The app that answers if there is no such file; `None`: the client gets a 404.
        fallback: Option<usize>,
    },
    /// The client gets a redirect.
    Redirect {
        /// The URL or the path. `$host`, `$request_uri` and `$uri` stand for the host, the target, and the path of the request.
        to: String,
        /// The status.
        status: u16,
    },
    /// The client gets a fixed response.
    Respond {
        /// The status.
        status: u16,
        /// The content.
        content: Vec<u8>,
        /// The media type; `None`: plain text.
        content_type: Option<String>,
    },
}

/// The routes of a server, compiled.
#[derive(Debug)]
pub struct Routes {
    table: Table,
    actions: Vec<Action>,
}

impl Routes {
    /// Compiles routes, in the order in which they are tried.
    ///
    /// # Errors
    /// All conditions that are invalid.
    pub fn compile(routes: Vec<Route>) -> Result<Self, Vec<RuleError>> {
        let (rules, actions): (Vec<Rule>, Vec<Action>) = routes.into_iter().map(|route| (route.rule, route.action)).unzip();
        Ok(Self { table: Table::compile(&rules)?, actions })
    }

    /// Whether a route may lead to an app.
    fn leads_to_app(&self, route: usize) -> bool {
        matches!(self.actions[route], Action::App { .. } | Action::Files { fallback: Some(_), .. })
    }

    /// Returns the directories of files.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        self.actions.iter().filter_map(|action| match action {
            Action::Files { root, .. } => Some(root.as_path()),
            Action::App { .. } | Action::Redirect { .. } | Action::Respond { .. } => None,
        })
    }
}

/// The routes in an edge.
#[derive(Debug)]
pub(super) struct Router<'a> {
    routes: &'a Routes,
    scratch: Scratch,
    /// The files of each route; `None` for a route without files.
    files: Vec<Option<Files>>,
}

/// The outcome for a request.
enum Outcome {
    /// This app answers.
    App(Exchange, usize),
    /// The edge has answered.
    Answered,
}

impl<'a> Router<'a> {
    /// Opens the directories of `routes`. `settings` are those of the server. One that cannot be opened has no files: all other
    /// routes must not suffer.
    pub(super) fn open(routes: &'a Routes, settings: &Settings) -> Self {
        let files = routes.actions.iter().map(|action| match action {
            Action::Files { root, index, .. } => or_none(files_at(root, index.as_deref(), settings)),
            Action::App { .. } | Action::Redirect { .. } | Action::Respond { .. } => None,
        });
        Self { routes, scratch: Scratch::default(), files: files.collect() }
    }

    fn route<B: Backend>(&mut self, lane: &Lane<'_, Engine<'_, B>>, exchange: Exchange, listeners: &[Listener]) -> Outcome {
        let scheme = if exchange.is_https() { Scheme::Https } else { Scheme::Http };
        let head = oribi_source::LentRequest::head(&exchange);
        let view = RequestView::of_head(head, scheme, exchange.client());
        let choice = self.routes.table.choose(&view, &mut self.scratch);
        if choice.rule.is_some_and(|route| self.routes.leads_to_app(route)) && has_dot_segment(head.path()) {
            // The app would see another path than the routes.
            answer(lane, exchange, 400, None, PLAIN, b"400 Bad Request: the path has dot segments\n");
            return Outcome::Answered;
        }
        let Some(route) = choice.rule else {
            answer(lane, exchange, 404, None, PLAIN, b"404 Not Found: no route matches\n");
            return Outcome::Answered;
        };
        match &self.routes.actions[route] {
            Action::App { app, mount } => pass_to_app(exchange, *app, mount),
            Action::Files { fallback, .. } => {
                let files = self.files[route].as_ref();
                let Some(exchange) = answer_by_file(files, lane, exchange, listeners) else { return Outcome::Answered };
                if let Some(app) = fallback {
                    return pass_to_app(exchange, *app, "");
                }
                answer(lane, exchange, 404, None, PLAIN, b"404 Not Found\n");
                Outcome::Answered
            }
            Action::Redirect { to, status } => {
                match location(to, choice.path, &head) {
                    Some(location) => {
                        let text = format!("{status} {}\n", oribi_message::reason(*status));
                        answer(lane, exchange, *status, Some(&location), PLAIN, text.as_bytes());
                    }
                    None => answer(lane, exchange, 400, None, PLAIN, b"400 Bad Request: Host is missing or unusable\n"),
                }
                Outcome::Answered
            }
            Action::Respond { status, content, content_type } => {
                let kind = content_type.as_ref().map_or(PLAIN, |kind| kind.as_bytes());
                answer(lane, exchange, *status, None, kind, content);
                Outcome::Answered
            }
        }
    }
}

/// Returns the request for an app that is mounted at a path; empty: at the root.
fn pass_to_app(mut exchange: Exchange, app: usize, mount: &str) -> Outcome {
    if !mount.is_empty() {
        exchange.mount(mount.as_bytes());
    }
    Outcome::App(exchange, app)
}

impl<B: Backend> EdgeLoop<'_, '_, B> {
    /// Returns the app for a request, and the request. `None` if the edge has answered it.
    #[inline]
    pub(super) fn route(&mut self, exchange: Exchange) -> Option<(Exchange, usize)> {
        let Some(router) = &mut self.router else { return Some((exchange, 0)) };
        match router.route(self.lane, exchange, self.listeners) {
            Outcome::App(exchange, app) => Some((exchange, app)),
            Outcome::Answered => None,
        }
    }
}

/// Logs why files cannot be sent.
fn or_none(files: io::Result<Option<Files>>) -> Option<Files> {
    files.unwrap_or_else(|error| {
        log::error!("a route has no files: {error}");
        None
    })
}

fn files_at(root: &Path, index: Option<&[String]>, settings: &Settings) -> io::Result<Option<Files>> {
    let mut settings = settings.clone();
    settings.files.mounts = vec![Mount { prefix: String::new(), directory: root.to_owned() }];
    if let Some(index) = index {
        settings.files.options.index = index.to_vec();
    }
    Files::of(&settings)
}

/// Answers with a file, if there is one for the request. Returns any other request.
fn answer_by_file<B: Backend>(
    files: Option<&Files>,
    lane: &Lane<'_, Engine<'_, B>>,
    exchange: Exchange,
    listeners: &[Listener],
) -> Option<Exchange> {
    match files {
        Some(files) => files.answer(lane, exchange, listeners),
        None => Some(exchange),
    }
}

fn answer<B: Backend>(
    lane: &Lane<'_, Engine<'_, B>>,
    exchange: Exchange,
    status: u16,
    location: Option<&[u8]>,
    kind: &[u8],
    content: &[u8],
) {
    let kind: FieldPair<'_> = (b"Content-Type", kind);
    let location = location.map(|location| (&b"Location"[..], location));
    lane.answer_with(exchange, status, [kind].into_iter().filter(|_| !content.is_empty()).chain(location), content);
}

/// Returns the value of Location: `to`, in which the request replaces the variables. `None` if the request has no usable host.
fn location(to: &str, path: Option<&[u8]>, head: &RequestHead<'_>) -> Option<Vec<u8>> {
    let mut location = Vec::with_capacity(to.len());
    let mut rest = to;
    while let Some(position) = rest.find('$') {
        location.extend_from_slice(&rest.as_bytes()[..position]);
        rest = &rest[position..];
        if let Some(behind) = rest.strip_prefix("$host") {
            location.extend_from_slice(host_of(head.host()?)?);
            rest = behind;
        } else if let Some(behind) = rest.strip_prefix("$request_uri") {
            head.path_and_query().iter().for_each(|byte| escape(*byte, false, &mut location));
            rest = behind;
        } else if let Some(behind) = rest.strip_prefix("$uri") {
            path.unwrap_or_default().iter().for_each(|byte| escape(*byte, true, &mut location));
            rest = behind;
        } else {
            location.push(b'$');
            rest = &rest[1..];
        }
    }
    location.extend_from_slice(rest.as_bytes());
    // A path must not become the name of another host.
    while location.starts_with(b"//") {
        location.remove(0);
    }
    Some(location)
}

/// Whether a path, as it was sent, has a segment `.` or `..`. Clients that follow links have resolved these.
fn has_dot_segment(path: &[u8]) -> bool {
    let mut rest = path;
    // The number of dots since the last slash; `None` if there was another byte.
    let mut dots = None;
    loop {
        let (byte, length) = match rest {
            [b'%', b'2', b'e' | b'E', ..] => (Some(b'.'), 3),
            [b'%', b'2', b'f' | b'F', ..] => (Some(b'/'), 3),
            [byte, ..] => (Some(*byte), 1),
            [] => (None, 0),
        };
        match byte {
            None | Some(b'/') if matches!(dots, Some(1 | 2)) => return true,
            None => return false,
            Some(b'/') => dots = Some(0),
            Some(b'.') => dots = dots.map(|dots| dots + 1),
            Some(_) => dots = None,
        }
        rest = &rest[length..];
    }
}

/// Appends a byte of a path. `decoded`: whether the path is decoded, so that delimiters need an escape, too.
fn escape(byte: u8, decoded: bool, to: &mut Vec<u8>) {
    let is_plain = byte.is_ascii_graphic() && !b"\"#<>\\^`{|}".contains(&byte) && !(decoded && b"%?".contains(&byte));
    if is_plain {
        to.push(byte);
    } else {
        const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
        to.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}
