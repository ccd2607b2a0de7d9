//! Routes requests in an edge.

use super::actions::{Actions, Outcome, refuse};
use super::asking::{Asking, Kept, question};
use super::limits::Limits;
use super::passwords::{Admitted, Login, Passwords};
use super::{Action, Routes, preflight};
use crate::EdgeLoop;
use oribi_cache::Store;
use oribi_config::Settings;
use oribi_engine::{Engine, Exchange};
use oribi_filter::{Preflight, ResponsePlan};
use oribi_host::ExchangeId;
use oribi_io::Backend;
use oribi_listen::Listener;
use oribi_route::{Destination, MOST_RULES, RequestView, Scheme, Scratch, Table};
use oribi_source::LentRequest;
use oribi_stats::scoreboard::WorkerSlot;
use oribi_worker::lane::Lane;
use std::cell::RefCell;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The most times that the path of a request changes with another choice of its route.
const MOST_REWRITES: usize = 10;

/// A route that only passes its requests to an app.
#[derive(Clone, Copy, Debug)]
struct DirectRoute {
    app: usize,
    /// The number of the name under which its requests are counted; 0 for none.
    label: u8,
}

/// The choice among the routes for one request.
#[derive(Clone, Copy, Debug)]
struct Chosen {
    /// `None`: no route matches.
    route: Option<usize>,
    /// Whether the client sent the path in its normal form.
    is_plain: bool,
}

/// The routes in an edge.
#[derive(Debug)]
pub(crate) struct Router {
    routes: Arc<Routes>,
    /// For each route, the app to which it only passes its requests; `None` if it does more.
    direct: Vec<Option<DirectRoute>>,
    scratch: Scratch,
    /// The normal form of the path of the request, if its action needs it.
    path: Vec<u8>,
    actions: Actions,
    limits: Option<Limits>,
    /// `None` if no route wants a password.
    passwords: Option<Passwords>,
    /// `None` if no route asks an app.
    asking: Option<Asking>,
}

impl Router {
    /// Opens the directories of `routes`. `settings` are those of the server, and `edge` is the number of this edge. One that
    /// cannot be opened has no files: all other routes must not suffer.
    pub(crate) fn open(routes: Arc<Routes>, settings: &Settings, edge: usize) -> Self {
        Self {
            direct: (0..routes.actions.len()).map(|route| direct(&routes, route)).collect(),
            limits: routes.limits.as_ref().map(|limits| Limits::new(limits.clone(), edge)),
            passwords: Passwords::new(&routes),
            asking: Asking::new(&routes),
            scratch: Scratch::default(),
            path: Vec::new(),
            actions: Actions::open(&routes.actions, settings),
            routes,
        }
    }

    /// Returns the changes of responses, one plan for each route.
    pub(crate) fn plans(&self) -> Arc<[ResponsePlan]> {
        self.routes.plans()
    }

    /// Chooses the route of a request, and keeps the normal form of its path if the action needs it.
    #[inline(always)]
    fn choose<B: Backend>(
        &mut self,
        lane: &Lane<'_, Engine<'_, B>>,
        exchange: &Exchange,
        listeners: &[Listener],
    ) -> (Chosen, Option<DirectRoute>) {
        let table = &self.routes.table;
        let head = exchange.head();
        if !table.needs_endpoints()
            && let Some(route) = table.decide(head.target(), || head.host(), &mut self.scratch)
            && let Some(Some(direct)) = self.direct.get(route)
        {
            return (Chosen { route: Some(route), is_plain: true }, Some(*direct));
        }
        let scheme = if exchange.is_https() { Scheme::Https } else { Scheme::Http };
        let ends = if table.needs_endpoints() { endpoints(table, lane, exchange, listeners) } else { Endpoints::default() };
        let view = RequestView { destination: ends.here, ..RequestView::of_head(head, scheme, ends.client) };
        let choice = table.choose(&view, &mut self.scratch);
        let chosen = Chosen { route: choice.rule, is_plain: choice.is_plain };
        if let Some(route) = choice.rule {
            if let Some(Some(direct)) = self.direct.get(route)
                && choice.is_plain
            {
                return (chosen, Some(*direct));
            }
            self.path.clear();
            if self.routes.actions[route].needs_path() {
                self.path.extend_from_slice(choice.path.unwrap_or_default());
            }
        }
        (chosen, None)
    }

    /// Routes a request whose route was chosen. The rewriting of its path may bring it to further routes.
    fn route<B: Backend>(
        &mut self,
        lane: &Lane<'_, Engine<'_, B>>,
        (exchange, chosen): (Exchange, Chosen),
        place: (&[Listener], &WorkerSlot),
        oldest_wait: impl FnMut(usize) -> Option<Duration>,
    ) -> Outcome {
        let mut oldest_wait = oldest_wait;
        match self.pass(lane, (exchange, chosen), place, &mut oldest_wait) {
            Outcome::Again(exchange) => self.route_again((lane, exchange), 1, place, oldest_wait),
            outcome => outcome,
        }
    }

    /// Routes a request whose path has changed `rewrites` times.
    #[cold]
    fn route_again<B: Backend>(
        &mut self,
        (lane, mut exchange): (&Lane<'_, Engine<'_, B>>, Exchange),
        rewrites: usize,
        place: (&[Listener], &WorkerSlot),
        mut oldest_wait: impl FnMut(usize) -> Option<Duration>,
    ) -> Outcome {
        for rewrites in rewrites..MOST_REWRITES {
            let (chosen, _) = self.choose(lane, &exchange, place.0);
            match self.pass(lane, (exchange, chosen), place, &mut oldest_wait) {
                Outcome::Again(again) => exchange = again,
                Outcome::Ask(kept) => return Outcome::Ask(Kept { rewrites, ..kept }),
                outcome => return outcome,
            }
        }
        refuse(lane, exchange, 500, "the routes change the path without end")
    }

    /// Lets a request pass through the filters of its route, to its action.
    fn pass<B: Backend>(
        &mut self,
        lane: &Lane<'_, Engine<'_, B>>,
        (exchange, chosen): (Exchange, Chosen),
        (listeners, slot): (&[Listener], &WorkerSlot),
        oldest_wait: &mut impl FnMut(usize) -> Option<Duration>,
    ) -> Outcome {
        let head = exchange.head();
        let Some(route) = chosen.route else { return refuse(lane, exchange, 404, "no route matches") };
        if !chosen.is_plain && self.routes.leads_to_app(route) && has_dot_segment(head.path()) {
            // The app would see another path than the routes.
            return refuse(lane, exchange, 400, "the path has dot segments");
        }
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
        let mut exchange = exchange;
        restored.iter().for_each(|changes| exchange.change_fields(changes));
        let exchange = match &self.limits {
            Some(limits) => match limits.check(route, lane, exchange, (slot, || oldest_wait(action.app()?))) {
                Ok(exchange) => exchange,
                Err(outcome) => return outcome,
            },
            None => exchange,
        };
        let exchange = match &mut self.passwords {
            Some(passwords) => match passwords.check((route, &self.path), lane, exchange) {
                Login::Admitted(exchange) => exchange,
                Login::Kept => return Outcome::Answered,
            },
            None => exchange,
        };
        if let Some(asking) = &mut self.asking
            && asking.rule(route).is_some()
        {
            return Outcome::Ask(Kept { exchange, route, path: self.path.clone(), rewrites: 0, asked: lane.source().now() });
        }
        let of_route = (&self.routes.changes[route], &self.routes.expressions[route]);
        match self.actions.act((route, 0, action), of_route, &self.path, lane, exchange, listeners) {
            Outcome::App(exchange, app) if self.routes.caches[route].is_some() => Outcome::Cached(exchange, app, route),
            outcome => outcome,
        }
    }
}

impl Router {
    /// Takes users from the parent process, which has read their files again.
    pub(crate) fn take_users(&mut self, memory: OwnedFd) {
        if !self.routes.take_users_from(memory) {
            log::error!("no users arrived from the master; keeping the current ones");
        }
        self.passwords.iter_mut().for_each(Passwords::forget);
    }

    /// Drops a request that waits here, and whose client has disconnected. Returns whether it was here.
    pub(crate) fn withdraw<B: Backend>(&mut self, lost: ExchangeId, lane: &Lane<'_, Engine<'_, B>>) -> bool {
        self.passwords.as_mut().is_some_and(|passwords| passwords.withdraw(lost, lane))
    }

    /// Returns the time until requests that wait here are looked at. `None` if none waits.
    pub(crate) fn time_left(&self, now: Duration) -> Option<Duration> {
        let of_asking = self.asking.as_ref().and_then(Asking::next_look).map(|next| next.saturating_sub(now));
        self.passwords.as_ref().and_then(|passwords| passwords.time_left(now)).into_iter().chain(of_asking).min()
    }

    /// Returns the requests that wait here, which do so no longer.
    fn drain(&mut self) -> Vec<Exchange> {
        let passwords = self.passwords.iter_mut().flat_map(Passwords::drain);
        passwords.chain(self.asking.iter_mut().flat_map(Asking::drain)).collect()
    }
}

impl<B: Backend> EdgeLoop<'_, '_, B> {
    /// Routes requests by `router` from now on; also those that wait for a password to be checked, or for an app that was asked: they
    /// begin anew.
    pub(crate) fn use_router(&mut self, router: Option<Router>) {
        let waiting = self.router.as_mut().map(Router::drain).unwrap_or_default();
        self.routers_so_far += 1;
        self.use_store(router.as_ref().and_then(|router| router.routes.cache_bytes(self.settings.edges_wanted())));
        self.lane.source().use_plans(router.as_ref().map_or_else(|| Arc::new([]) as Arc<[_]>, Router::plans));
        self.router = router;
        for mut exchange in waiting {
            self.apps.iter_mut().for_each(|app| app.forget_question(exchange.id()));
            exchange.restore_target();
            if let Some((exchange, app)) = self.route(exchange) {
                self.slot.requests.fetch_add(1, Relaxed);
                self.apps[app].submit(exchange);
            }
        }
    }

    /// Lets requests on whose passwords are right.
    pub(crate) fn admit(&mut self) {
        let Some(passwords) = self.router.as_mut().and_then(|router| router.passwords.as_mut()) else { return };
        for Admitted { exchange, route, path } in passwords.conclude(self.lane) {
            self.act(Kept { exchange, route, path, rewrites: 0, asked: Duration::ZERO });
        }
    }

    /// Lets requests on to their actions that an app has allowed, and gives those back that have been answered.
    pub(crate) fn hear(&mut self) {
        if self.router.as_ref().is_none_or(|router| router.asking.is_none()) {
            return;
        }
        for number in 0..self.apps.len() {
            for (exchange, answer) in self.apps[number].take_heard() {
                // Another worker may have got the question of one that has died.
                if answer.is_none() && self.apps.iter().any(|app| app.still_asks(exchange)) {
                    continue;
                }
                let asking = self.router.as_mut().and_then(|router| router.asking.as_mut());
                let Some((asking, mut kept)) = asking.and_then(|asking| asking.take(exchange).map(|kept| (asking, kept)))
                else {
                    continue;
                };
                match answer {
                    Some(answer) => {
                        asking.admit(&mut kept, &answer);
                        self.act(kept);
                    }
                    None => self.lane.source().give_back(kept.exchange),
                }
            }
        }
        self.drop_forsaken();
    }

    /// Drops requests that wait for an app that was asked, and whose clients have given up.
    fn drop_forsaken(&mut self) {
        let (lane, now) = (self.lane, self.now());
        let Some(asking) = self.router.as_mut().and_then(|router| router.asking.as_mut()) else { return };
        for exchange in asking.take_forsaken(now, |id| lane.source().client_has_ended(id)) {
            let id = exchange.id();
            self.apps.iter_mut().for_each(|app| app.forget_question(id));
            lane.source().give_back(exchange);
            lane.source().hang_up(id);
        }
    }

    /// Does what the route of a request says that has waited.
    fn act(&mut self, Kept { exchange, route, path, rewrites, .. }: Kept) {
        let Some(router) = &mut self.router else { return };
        let (routes, apps) = (Arc::clone(&router.routes), &mut self.apps);
        let of_route = (&routes.changes[route], &routes.expressions[route]);
        let action = (route, 0, &routes.actions[route]);
        let outcome = match router.actions.act(action, of_route, &path, self.lane, exchange, self.listeners) {
            Outcome::Again(exchange) => {
                let place = (self.listeners, self.slot);
                router.route_again((self.lane, exchange), rewrites + 1, place, |app| apps[app].oldest_wait())
            }
            outcome => outcome,
        };
        match outcome {
            Outcome::App(exchange, app) => {
                self.slot.requests.fetch_add(1, Relaxed);
                self.apps[app].submit(exchange);
            }
            Outcome::Cached(exchange, app, route) => self.submit_cached(exchange, app, route),
            Outcome::Ask(kept) => self.ask(kept),
            Outcome::Answered | Outcome::Again(_) => {}
        }
    }

    /// Asks the app of a route whether a request may go on.
    fn ask(&mut self, kept: Kept) {
        let Some(asking) = self.router.as_mut().and_then(|router| router.asking.as_mut()) else { return };
        let Some(rule) = asking.rule(kept.route) else { return };
        let (app, question) = (rule.app, question(rule, &LentRequest::head(&kept.exchange)));
        if self.apps[app].ask(&kept.exchange, &question) {
            asking.keep(kept);
        } else {
            self.lane.source().give_back(kept.exchange);
        }
    }

    /// Returns the app for a request, and the request. `None` if the edge has answered it.
    #[inline]
    pub(crate) fn route(&mut self, exchange: Exchange) -> Option<(Exchange, usize)> {
        let Some(router) = &mut self.router else { return Some((exchange, 0)) };
        let (chosen, direct) = router.choose(self.lane, &exchange, self.listeners);
        if let Some(DirectRoute { app, label }) = direct {
            if label > 0 {
                self.lane.source().set_route(exchange.id(), label);
            }
            return Some((exchange, app));
        }
        let apps = &mut self.apps;
        match router.route(self.lane, (exchange, chosen), (self.listeners, self.slot), |app| apps[app].oldest_wait()) {
            Outcome::App(exchange, app) => Some((exchange, app)),
            Outcome::Cached(exchange, app, route) => {
                self.submit_cached(exchange, app, route);
                None
            }
            Outcome::Answered => None,
            Outcome::Ask(kept) => {
                self.ask(kept);
                None
            }
            Outcome::Again(_) => unreachable!("a request is routed until it has an answer"),
        }
    }

    #[cold]
    fn submit_cached(&mut self, exchange: Exchange, app: usize, route: usize) {
        if let Some(rules) = self.router.as_ref().and_then(|router| router.routes.caches[route].as_ref()) {
            // Routes of different plans share no responses.
            self.apps[app].submit_cached(exchange, self.routers_so_far * MOST_RULES + route, rules);
        }
    }

    /// Stores responses in so much memory from now on; `None`: stores none.
    fn use_store(&mut self, bytes: Option<usize>) {
        self.store = match (bytes, self.store.take()) {
            (Some(bytes), Some((before, store))) if before == bytes => Some((bytes, store)),
            (Some(bytes), _) => Some((bytes, Rc::new(RefCell::new(Store::new(bytes))))),
            (None, _) => None,
        };
        self.apps
            .iter_mut()
            .enumerate()
            .for_each(|(index, app)| app.use_cache(self.store.as_ref().map(|(_, store)| store), index));
    }
}

/// Returns the app of a route that only passes its requests to one.
fn direct(routes: &Routes, route: usize) -> Option<DirectRoute> {
    let Action::App { app, mount } = &routes.actions[route] else { return None };
    let is_guarded = routes.passwords[route].is_some() || routes.questions[route].is_some() || routes.limits.is_some();
    let changes = !routes.changes[route].is_empty() || !routes.plans[route].is_empty() || routes.caches[route].is_some();
    let label = routes.labels.get(route).copied().unwrap_or_default();
    (mount.is_empty() && !is_guarded && !changes).then_some(DirectRoute { app: *app, label })
}

/// The addresses of both ends of a connection, as far as routes need them.
#[derive(Debug, Default)]
struct Endpoints<'l> {
    client: Option<IpAddr>,
    here: Option<Destination<'l>>,
}

/// Returns the addresses that the routes need. That of the client is a text, which has to be parsed, and for that of this end the
/// system has to be asked.
#[inline(never)]
fn endpoints<'l, B: Backend>(
    table: &Table,
    lane: &Lane<'_, Engine<'_, B>>,
    exchange: &Exchange,
    listeners: &'l [Listener],
) -> Endpoints<'l> {
    let client = if table.needs_source() { exchange.client() } else { None };
    let listener = listeners.get(exchange.listener()).filter(|_| table.needs_destination());
    let here = listener.and_then(|listener| {
        if let Some(path) = listener.socket_path() {
            return Some(Destination::Unix(path.as_bytes()));
        }
        let local = if table.needs_address() { lane.source().local_address(exchange.id()) } else { None };
        let port = local.map_or_else(|| listener.server_port.parse().ok(), |local| Some(local.port()))?;
        Some(Destination::Internet { address: local.map(|local| local.ip()), port })
    });
    Endpoints { client, here }
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
