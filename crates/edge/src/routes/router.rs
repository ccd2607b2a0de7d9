//! Routes requests in an edge.

use super::location::location;
use super::{Action, Routes};
use crate::EdgeLoop;
use oribi_config::Settings;
use oribi_engine::{Engine, Exchange};
use oribi_files::Mount;
use oribi_filter::{Cors, FieldChanges, Preflight};
use oribi_io::Backend;
use oribi_listen::Listener;
use oribi_message::FieldPair;
use oribi_route::{RequestView, Scheme, Scratch};
use oribi_source::LentRequest;
use oribi_worker::lane::{Files, Lane};
use std::io;
use std::path::Path;

/// The type of the texts that the edge itself sends.
const PLAIN: &[u8] = b"text/plain; charset=utf-8";

/// The routes in an edge.
#[derive(Debug)]
pub(crate) struct Router<'a> {
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
    pub(crate) fn open(routes: &'a Routes, settings: &Settings) -> Self {
        let files = routes.actions.iter().map(|action| match action {
            Action::Files { root, index, .. } => or_none(files_at(root, index.as_deref(), settings)),
            Action::App { .. } | Action::Redirect { .. } | Action::Respond { .. } => None,
        });
        Self { routes, scratch: Scratch::default(), files: files.collect() }
    }

    fn route<B: Backend>(&mut self, lane: &Lane<'_, Engine<'_, B>>, exchange: Exchange, listeners: &[Listener]) -> Outcome {
        let scheme = if exchange.is_https() { Scheme::Https } else { Scheme::Http };
        let head = exchange.head();
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
        let plan = &self.routes.plans[route];
        if !plan.is_empty() {
            let facts = plan.note(&head);
            lane.source().filter(exchange.id(), route, facts);
        }
        if let Some(cors) = &plan.cors {
            match cors.preflight(&head) {
                Preflight::No => {}
                Preflight::Allowed => {
                    let wanted = Cors::wanted(&head).map(<[u8]>::to_vec);
                    lane.answer_with(exchange, 204, cors.permit(wanted.as_deref()), b"");
                    return Outcome::Answered;
                }
                Preflight::Refused => {
                    answer(
                        lane,
                        exchange,
                        403,
                        None,
                        PLAIN,
                        b"403 Forbidden: the origin is not allowed
",
                    );
                    return Outcome::Answered;
                }
            }
        }
        let changes = &self.routes.changes[route];
        match &self.routes.actions[route] {
            Action::App { app, mount } => pass_to_app(exchange, *app, mount, changes),
            Action::Files { fallback, .. } => {
                let files = self.files[route].as_ref();
                let Some(exchange) = answer_by_file(files, lane, exchange, listeners) else { return Outcome::Answered };
                if let Some(app) = fallback {
                    return pass_to_app(exchange, *app, "", changes);
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
fn pass_to_app(mut exchange: Exchange, app: usize, mount: &str, changes: &FieldChanges) -> Outcome {
    if !changes.is_empty() {
        exchange.change_fields(changes);
    }
    if !mount.is_empty() {
        exchange.mount(mount.as_bytes());
    }
    Outcome::App(exchange, app)
}

impl<B: Backend> EdgeLoop<'_, '_, B> {
    /// Returns the app for a request, and the request. `None` if the edge has answered it.
    #[inline]
    pub(crate) fn route(&mut self, exchange: Exchange) -> Option<(Exchange, usize)> {
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
