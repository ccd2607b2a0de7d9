//! Routes requests in an edge.

use super::actions::{Actions, Outcome, refuse};
use super::limits::Limits;
use super::{Action, Routes, preflight};
use crate::EdgeLoop;
use oribi_config::Settings;
use oribi_engine::{Engine, Exchange};
use oribi_filter::Preflight;
use oribi_io::Backend;
use oribi_listen::Listener;
use oribi_route::{RequestView, Scheme, Scratch};
use oribi_source::LentRequest;
use oribi_stats::scoreboard::WorkerSlot;
use oribi_worker::lane::Lane;

/// The most times that the path of a request changes with another choice of its route.
const MOST_REWRITES: usize = 10;

/// The routes in an edge.
#[derive(Debug)]
pub(crate) struct Router<'a> {
    routes: &'a Routes,
    scratch: Scratch,
    /// The normal form of the path of the request, if its action needs it.
    path: Vec<u8>,
    actions: Actions,
    limits: Option<Limits<'a>>,
}

impl<'a> Router<'a> {
    /// Opens the directories of `routes`. `settings` are those of the server, and `edge` is the number of this edge. One that
    /// cannot be opened has no files: all other routes must not suffer.
    pub(crate) fn open(routes: &'a Routes, settings: &Settings, edge: usize) -> Self {
        let limits = routes.limits.as_ref().map(|limits| Limits::new(limits, edge));
        Self {
            limits,
            routes,
            scratch: Scratch::default(),
            path: Vec::new(),
            actions: Actions::open(&routes.actions, settings),
        }
    }

    /// Routes a request, which the rewriting of its path may bring to further routes.
    #[inline]
    fn route<B: Backend>(
        &mut self,
        lane: &Lane<'_, Engine<'_, B>>,
        exchange: Exchange,
        place: (&[Listener], &WorkerSlot),
    ) -> Outcome {
        match self.route_once(lane, exchange, place) {
            Outcome::Again(exchange) => self.route_again(lane, exchange, place),
            outcome => outcome,
        }
    }

    #[cold]
    fn route_again<B: Backend>(
        &mut self,
        lane: &Lane<'_, Engine<'_, B>>,
        mut exchange: Exchange,
        place: (&[Listener], &WorkerSlot),
    ) -> Outcome {
        for _ in 1..MOST_REWRITES {
            match self.route_once(lane, exchange, place) {
                Outcome::Again(again) => exchange = again,
                outcome => return outcome,
            }
        }
        refuse(lane, exchange, 500, "the routes change the path without end")
    }

    fn route_once<B: Backend>(
        &mut self,
        lane: &Lane<'_, Engine<'_, B>>,
        exchange: Exchange,
        (listeners, slot): (&[Listener], &WorkerSlot),
    ) -> Outcome {
        let scheme = if exchange.is_https() { Scheme::Https } else { Scheme::Http };
        let head = exchange.head();
        // The address of the client is a text, which would have to be parsed.
        let client = if self.routes.table.needs_source() { exchange.client() } else { None };
        let view = RequestView::of_head(head, scheme, client);
        let choice = self.routes.table.choose(&view, &mut self.scratch);
        if !choice.is_plain && choice.rule.is_some_and(|route| self.routes.leads_to_app(route)) && has_dot_segment(head.path())
        {
            // The app would see another path than the routes.
            return refuse(lane, exchange, 400, "the path has dot segments");
        }
        let Some(route) = choice.rule else { return refuse(lane, exchange, 404, "no route matches") };
        if let Some(&label) = self.routes.labels.get(route).filter(|label| **label > 0) {
            lane.source().set_route(exchange.id(), label);
        }
        let plan = &self.routes.plans[route];
        if !plan.is_empty() {
            let mut facts = plan.note(&head);
            if let Action::Respond { content, .. } = &self.routes.actions[route] {
                facts.set_own_content(!content.is_empty());
            }
            lane.source().filter(exchange.id(), route, facts);
        }
        if let Some(cors) = &plan.cors
            && cors.preflight(&head) != Preflight::No
        {
            return preflight::answer(cors, lane, exchange);
        }
        let restored = if plan.is_empty() { None } else { plan.restore_tags(&head) };
        let action = &self.routes.actions[route];
        self.path.clear();
        if action.needs_path() {
            self.path.extend_from_slice(choice.path.unwrap_or_default());
        }
        let mut exchange = exchange;
        restored.iter().for_each(|changes| exchange.change_fields(changes));
        let exchange = match &self.limits {
            Some(limits) => match limits.check(route, lane, exchange, slot) {
                Ok(exchange) => exchange,
                Err(outcome) => return outcome,
            },
            None => exchange,
        };
        let of_route = (&self.routes.changes[route], &self.routes.expressions[route]);
        self.actions.act((route, 0, action), of_route, &self.path, lane, exchange, listeners)
    }
}

impl<B: Backend> EdgeLoop<'_, '_, B> {
    /// Returns the app for a request, and the request. `None` if the edge has answered it.
    #[inline]
    pub(crate) fn route(&mut self, exchange: Exchange) -> Option<(Exchange, usize)> {
        let Some(router) = &mut self.router else { return Some((exchange, 0)) };
        match router.route(self.lane, exchange, (self.listeners, self.slot)) {
            Outcome::App(exchange, app) => Some((exchange, app)),
            Outcome::Answered => None,
            Outcome::Again(_) => unreachable!("a request is routed until it has an answer"),
        }
    }
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
