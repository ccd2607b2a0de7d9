//! The actions of routes: an app, files, a redirect, or a fixed response.

use super::asking::Kept;
use super::{Action, Candidate};
use oribi_config::Settings;
use oribi_engine::{Engine, Exchange};
use oribi_files::{Mount, TypePatterns};
use oribi_filter::FieldChanges;
use oribi_io::Backend;
use oribi_listen::Listener;
use oribi_message::FieldPair;
use oribi_route::{NoResult, PathExpressions, RequestView, Scheme, Values, push_path};
use oribi_source::LentRequest;
use oribi_worker::lane::{Files, Lane, host_of};
use std::io;
use std::path::Path;

/// The type of the texts that the edge itself sends.
const PLAIN: &[u8] = b"text/plain; charset=utf-8";

/// The outcome for a request.
pub(super) enum Outcome {
    /// This app answers.
    App(Exchange, usize),
    /// This app answers, unless the cache does, by the rules of the route with the second number.
    Cached(Exchange, usize, usize),
    /// An app must be asked first.
    Ask(Kept),
    /// The edge has answered, or keeps the request.
    Answered,
    /// The path has changed, and the routes decide again.
    Again(Exchange),
}

/// The open directories of all actions.
#[derive(Debug)]
pub(super) struct Actions {
    /// The files of each route, in the order of its actions; `None` for those without a directory.
    files: Vec<Vec<Option<Files>>>,
}

impl Actions {
    pub(super) fn open(actions: &[Action], settings: &Settings) -> Self {
        let files = |action: &Action| match action {
            Action::Files { root, index, listing, types, .. } => {
                Some(or_none(files_at(root, (index.as_deref(), *listing, types), settings)))
            }
            _ => None,
        };
        Self { files: actions.iter().map(|action| action.all().filter_map(files).collect()).collect() }
    }

    /// Does what the route with this number does, after the files of so many actions of it were looked for. `path` is the normal
    /// form of the path, if the action needs it.
    pub(super) fn act<B: Backend>(
        &self,
        (route, tried, action): (usize, usize, &Action),
        (changes, expressions): (&FieldChanges, &PathExpressions),
        path: &[u8],
        lane: &Lane<'_, Engine<'_, B>>,
        exchange: Exchange,
        listeners: &[Listener],
    ) -> Outcome {
        match action {
            Action::App { app, mount } => pass_to_app(exchange, *app, mount, changes),
            Action::Files { fallback, candidates, .. } => {
                let exchange = match self.files[route].get(tried) {
                    Some(Some(files)) => answer_by_file(files, (candidates, path), lane, exchange, listeners),
                    _ => Some(exchange),
                };
                let Some(exchange) = exchange else { return Outcome::Answered };
                if let Some(fallback) = fallback {
                    return self.act((route, tried + 1, fallback), (changes, expressions), path, lane, exchange, listeners);
                }
                if !matches!(exchange.head().method(), b"GET" | b"HEAD") {
                    answer(lane, exchange, 405, Some((b"Allow", b"GET, HEAD")), PLAIN, b"405 Method Not Allowed\n");
                    return Outcome::Answered;
                }
                answer(lane, exchange, 404, None, PLAIN, b"404 Not Found\n");
                Outcome::Answered
            }
            Action::Redirect { to, status } => {
                let mut location = Vec::new();
                if let Err(why) = to.write(&values(&exchange, path, expressions), &mut location) {
                    return refuse_without_result(lane, exchange, why);
                }
                // A path must not become the name of another host.
                while location.starts_with(b"//") {
                    location.remove(0);
                }
                let text = format!("{status} {}\n", oribi_message::reason(*status));
                answer(lane, exchange, *status, Some((b"Location", &location)), PLAIN, text.as_bytes());
                Outcome::Answered
            }
            Action::Rewrite { to, then } => {
                let mut changed = Vec::new();
                let mut exchange = exchange;
                // A target such as `*` has no path that could change.
                if !path.is_empty() {
                    let rewritten = to.rewrite(&values(&exchange, path, expressions), &mut changed);
                    match rewritten {
                        Ok(target) => exchange.rewrite(&target),
                        Err(why) => return refuse_without_result(lane, exchange, why),
                    }
                }
                match then {
                    Some(then) => self.act((route, tried, then), (changes, expressions), &changed, lane, exchange, listeners),
                    None if path.is_empty() => refuse(lane, exchange, 404, "no route matches"),
                    None => Outcome::Again(exchange),
                }
            }
            Action::Respond { status, content, content_type } => {
                let kind = content_type.as_ref().map_or(PLAIN, |kind| kind.as_bytes());
                answer(lane, exchange, *status, None, kind, content);
                Outcome::Answered
            }
        }
    }
}

/// Refuses a request, with the reason.
pub(super) fn refuse<B: Backend>(lane: &Lane<'_, Engine<'_, B>>, exchange: Exchange, status: u16, why: &str) -> Outcome {
    let text = format!("{status} {}: {why}\n", oribi_message::reason(status));
    answer(lane, exchange, status, None, PLAIN, text.as_bytes());
    Outcome::Answered
}

/// Returns the values of variables for a request.
fn values<'v>(exchange: &'v Exchange, path: &'v [u8], expressions: &'v PathExpressions) -> Values<'v> {
    let head = exchange.head();
    let scheme = if exchange.is_https() { Scheme::Https } else { Scheme::Http };
    Values {
        request: RequestView::of_head(head, scheme, exchange.client()),
        request_uri: exchange.head_as_sent().path_and_query(),
        path,
        host: head.host().and_then(host_of),
        expressions,
    }
}

/// Refuses a request for which a template has no result.
fn refuse_without_result<B: Backend>(lane: &Lane<'_, Engine<'_, B>>, exchange: Exchange, why: NoResult) -> Outcome {
    match why {
        NoResult::Host => refuse(lane, exchange, 400, "Host is missing or unusable"),
        NoResult::TooLong => refuse(lane, exchange, 414, "the target is too long"),
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

/// Logs why files cannot be sent.
fn or_none(files: io::Result<Option<Files>>) -> Option<Files> {
    files.unwrap_or_else(|error| {
        log::error!("a route has no files: {error}");
        None
    })
}

fn files_at(
    root: &Path,
    (index, listing, types): (Option<&[String]>, Option<bool>, &TypePatterns),
    settings: &Settings,
) -> io::Result<Option<Files>> {
    let mut settings = settings.clone();
    settings.files.mounts = vec![Mount { prefix: String::new(), directory: root.to_owned() }];
    if let Some(index) = index {
        settings.files.options.index = index.to_vec();
    }
    if let Some(listing) = listing {
        settings.files.options.listing = listing;
    }
    settings.files.options.types = types.clone();
    Files::of(&settings)
}

/// Answers with the first candidate that is a file; without candidates, with the file at the path of the request. Returns a
/// request for which there is none.
fn answer_by_file<B: Backend>(
    files: &Files,
    (candidates, path): (&[Candidate], &[u8]),
    lane: &Lane<'_, Engine<'_, B>>,
    exchange: Exchange,
    listeners: &[Listener],
) -> Option<Exchange> {
    if candidates.is_empty() {
        return files.answer(lane, exchange, listeners);
    }
    let mut exchange = exchange;
    let mut wanted = Vec::new();
    for Candidate { before, path: takes_path, behind } in candidates {
        wanted.clear();
        wanted.extend_from_slice(before.as_bytes());
        if *takes_path {
            push_path(path, &mut wanted);
        }
        wanted.extend_from_slice(behind.as_bytes());
        // The path of the request itself is redirected as it is without candidates.
        let is_own = *takes_path && before.is_empty() && behind.is_empty();
        exchange = files.answer_at(&wanted, is_own, lane, exchange, listeners)?;
    }
    Some(exchange)
}

fn answer<B: Backend>(
    lane: &Lane<'_, Engine<'_, B>>,
    exchange: Exchange,
    status: u16,
    field: Option<FieldPair<'_>>,
    kind: &[u8],
    content: &[u8],
) {
    let kind: FieldPair<'_> = (b"Content-Type", kind);
    lane.answer_with(exchange, status, [kind].into_iter().filter(|_| !content.is_empty()).chain(field), content);
}
