//! Basic authentication of requests: a request goes on to its action when a thread has found its password right.
//!
//! Meanwhile the edge keeps the exchange. Clients take turns, and the same password of one user is checked once for all
//! requests that have it. Passwords that were right are remembered for five minutes, or until the file of users changes.

use super::Routes;
use super::users::UserFile;
use super::verifier::{Check, Verifier};
use oribi_auth::{Credentials, Digest, Full, Remembered, Turns, challenge};
use oribi_engine::{Engine, Exchange};
use oribi_filter::FieldChanges;
use oribi_host::ExchangeId;
use oribi_io::Backend;
use oribi_limit::{IPV6_PREFIX, client_network};
use oribi_message::{FieldPair, KnownField};
use oribi_source::LentRequest;
use oribi_worker::event_sources::EventSources;
use oribi_worker::lane::Lane;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// The most passwords that wait for the thread, and those of one client.
const MOST: usize = 512;
const MOST_OF_CLIENT: usize = 16;

/// The most requests that wait for one password, as of a page with many parts.
const MOST_OF_PASSWORD: usize = 256;

/// The longest wait of a request.
const PATIENCE: Duration = Duration::from_secs(10);

/// The wait after which a request is dropped whose client has closed its side of the connection: it has probably given up.
const FORSAKEN: Duration = Duration::from_secs(1);

/// The interval at which waiting requests are looked at.
const LOOKS_EVERY: Duration = Duration::from_millis(500);

/// The time between two messages about refused requests.
const QUIET: Duration = Duration::from_secs(10);

/// The fields by which clients could pretend to be a user, for apps that trust a web server in front.
const OF_SERVER: [&str; 2] = ["Remote-User", "X-Remote-User"];

/// The rule of a route that wants a user and a password.
#[derive(Clone, Debug)]
pub struct PasswordRule {
    /// The users.
    pub file: Arc<UserFile>,
    /// The name of the protected part, which browsers show. No control characters.
    pub realm: String,
    /// Whether the app also gets the field Authorization.
    pub keep: bool,
    /// A field in which the app gets the user beside REMOTE_USER.
    pub field: Option<String>,
}

impl PartialEq for PasswordRule {
    fn eq(&self, other: &Self) -> bool {
        let Self { file, realm, keep, field } = self;
        (file.path(), realm, keep, field) == (other.file.path(), &other.realm, &other.keep, &other.field)
    }
}

impl Eq for PasswordRule {}

/// A rule, with the number of its file among those of all routes.
#[derive(Debug)]
pub(super) struct NumberedRule {
    pub(super) rule: PasswordRule,
    pub(super) file: usize,
}

/// A request that waits for its password to be checked.
#[derive(Debug)]
struct Waiting {
    exchange: Exchange,
    route: usize,
    /// The normal form of its path, if its action needs it.
    path: Vec<u8>,
    since: Duration,
}

/// A password that is being checked, or waits for that.
#[derive(Debug)]
struct Job {
    credentials: Credentials,
    file: usize,
    client: Option<IpAddr>,
    waiting: Vec<Waiting>,
}

/// A request whose password is right.
pub(super) struct Admitted {
    pub(super) exchange: Exchange,
    pub(super) route: usize,
    pub(super) path: Vec<u8>,
}

/// The outcome for a request.
pub(super) enum Login {
    /// Its password is known to be right.
    Admitted(Exchange),
    /// It has been answered, or waits.
    Kept,
}

/// The passwords in an edge.
#[derive(Debug)]
pub(super) struct Passwords {
    routes: Arc<Routes>,
    remembered: Remembered,
    jobs: HashMap<Digest, Job>,
    turns: Turns<Option<IpAddr>, Digest>,
    /// The password that the thread checks now.
    checked: Option<Digest>,
    verifier: Option<Verifier>,
    /// The time of the next look at waiting requests; `None` if none waits.
    next_look: Option<Duration>,
    /// The time of the last message about a refused request.
    logged_at: Option<Duration>,
}

impl Passwords {
    /// `None` if no route wants a password.
    pub(super) fn new(routes: &Arc<Routes>) -> Option<Self> {
        if routes.users.is_empty() {
            return None;
        }
        let Ok(remembered) = Remembered::new() else {
            // Without it no password could be checked, so no edge serves.
            unreachable!("the kernel has random numbers for a process that has started")
        };
        Some(Self {
            routes: Arc::clone(routes),
            remembered,
            jobs: HashMap::new(),
            turns: Turns::new(MOST, MOST_OF_CLIENT),
            checked: None,
            verifier: None,
            next_look: None,
            logged_at: None,
        })
    }

    /// Returns the requests that wait, which do so no longer.
    pub(super) fn drain(&mut self) -> Vec<Exchange> {
        self.jobs.drain().flat_map(|(_, job)| job.waiting).map(|waiting| waiting.exchange).collect()
    }

    /// Forgets passwords that were right: the files have changed.
    pub(super) fn forget(&mut self) {
        self.remembered.forget();
    }

    /// Lets a request on whose password is known, refuses one without a password, and keeps any other. `path` is the normal
    /// form of the path, if the action needs it.
    pub(super) fn check<B: Backend>(
        &mut self,
        (route, path): (usize, &[u8]),
        lane: &Lane<'_, Engine<'_, B>>,
        mut exchange: Exchange,
    ) -> Login {
        if self.routes.passwords.get(route).is_none_or(Option::is_none) {
            return Login::Admitted(exchange);
        }
        let routes = Arc::clone(&self.routes);
        let Some(NumberedRule { rule, file }) = routes.passwords.get(route).and_then(Option::as_ref) else {
            return Login::Admitted(exchange);
        };
        let Some(credentials) = credentials(&exchange) else {
            demand(lane, exchange, &rule.realm);
            return Login::Kept;
        };
        let (digest, now) = (self.remembered.digest(*file, &credentials), lane.source().now());
        if self.remembered.knows(&digest, now) {
            admit(rule, &mut exchange, &credentials);
            return Login::Admitted(exchange);
        }
        let client = exchange.client().map(|client| client_network(client, IPV6_PREFIX));
        if !self.jobs.contains_key(&digest) {
            if let Err(full) = self.turns.add(client, digest) {
                self.refuse(lane, exchange, full, now);
                return Login::Kept;
            }
            self.jobs.insert(digest, Job { credentials, file: *file, client, waiting: Vec::new() });
        }
        let Some(job) = self.jobs.get_mut(&digest).filter(|job| job.waiting.len() < MOST_OF_PASSWORD) else {
            self.refuse(lane, exchange, Full::OfClient, now);
            return Login::Kept;
        };
        job.waiting.push(Waiting { exchange, route, path: path.to_vec(), since: now });
        self.next_look.get_or_insert(now + LOOKS_EVERY);
        self.go_on(lane);
        Login::Kept
    }

    /// Gives the thread the next password, if it has none.
    fn go_on<B: Backend>(&mut self, lane: &Lane<'_, Engine<'_, B>>) {
        while self.checked.is_none() {
            let Some(digest) = self.turns.take_next() else { return };
            let Some(Job { credentials, file, .. }) = self.jobs.get(&digest) else { continue };
            if self.verifier.is_none() {
                match Verifier::start(lane.event_sources().map(EventSources::waker)) {
                    Ok(verifier) => self.verifier = Some(verifier),
                    Err(error) => log::error!("cannot start the thread that checks passwords: {error}"),
                }
            }
            let check = Check { digest, users: self.routes.users[*file].users(), credentials: credentials.clone() };
            if self.verifier.as_ref().is_some_and(|verifier| verifier.check(check)) {
                self.checked = Some(digest);
            } else {
                self.verifier = None;
                for waiting in self.jobs.remove(&digest).into_iter().flat_map(|job| job.waiting) {
                    put_off(lane, waiting.exchange);
                }
            }
        }
    }

    /// Handles the result of the thread, if there is one, and requests that have waited too long. Returns the requests whose
    /// passwords are right.
    pub(super) fn conclude<B: Backend>(&mut self, lane: &Lane<'_, Engine<'_, B>>) -> Vec<Admitted> {
        let mut admitted = Vec::new();
        while self.checked.is_some() {
            let result = match self.verifier.as_ref().map(Verifier::result) {
                Some(Ok(None)) => break,
                Some(Ok(Some(result))) => Some(result),
                Some(Err(())) | None => None,
            };
            let Some(digest) = self.checked.take() else { break };
            let job = self.jobs.remove(&digest);
            let now = lane.source().now();
            match result {
                Some((_, true)) => {
                    // The files may have changed meanwhile; then this digest is that of no request any more.
                    self.remembered.remember(digest, now);
                    if let Some(Job { credentials, waiting, .. }) = job {
                        for Waiting { mut exchange, route, path, .. } in waiting {
                            if let Some(NumberedRule { rule, .. }) = &self.routes.passwords[route] {
                                admit(rule, &mut exchange, &credentials);
                                admitted.push(Admitted { exchange, route, path });
                            }
                        }
                    }
                }
                Some((_, false)) => {
                    for Waiting { exchange, route, .. } in job.into_iter().flat_map(|job| job.waiting) {
                        let rule = self.routes.passwords[route].as_ref();
                        demand(lane, exchange, rule.map_or("", |numbered| &numbered.rule.realm));
                    }
                }
                None => {
                    log::error!("the thread that checks passwords has ended; another one starts");
                    self.verifier = None;
                    job.into_iter().flat_map(|job| job.waiting).for_each(|waiting| put_off(lane, waiting.exchange));
                }
            }
            self.go_on(lane);
        }
        if self.next_look.is_some() {
            self.look(lane);
        }
        admitted
    }

    /// Refuses requests that have waited too long, and drops those whose clients have given up.
    fn look<B: Backend>(&mut self, lane: &Lane<'_, Engine<'_, B>>) {
        let now = lane.source().now();
        if self.jobs.is_empty() {
            self.next_look = None;
        }
        if self.next_look.is_none_or(|time| now < time) {
            return;
        }
        self.next_look = Some(now + LOOKS_EVERY);
        for job in self.jobs.values_mut() {
            let is_over = |waiting: &mut Waiting| {
                let waited = now.saturating_sub(waiting.since);
                waited >= PATIENCE || waited >= FORSAKEN && lane.source().client_has_ended(waiting.exchange.id())
            };
            for Waiting { exchange, since, .. } in job.waiting.extract_if(.., is_over) {
                if now.saturating_sub(since) >= PATIENCE {
                    put_off(lane, exchange);
                } else {
                    let id = exchange.id();
                    lane.source().give_back(exchange);
                    lane.source().hang_up(id);
                }
            }
        }
        self.forget_unwanted();
    }

    /// Drops a request whose client has disconnected. Returns whether it was here.
    pub(super) fn withdraw<B: Backend>(&mut self, lost: ExchangeId, lane: &Lane<'_, Engine<'_, B>>) -> bool {
        let found = self.jobs.values_mut().find_map(|job| {
            let position = job.waiting.iter().position(|waiting| waiting.exchange.id() == lost)?;
            Some(job.waiting.swap_remove(position).exchange)
        });
        let Some(exchange) = found else { return false };
        lane.source().give_back(exchange);
        self.forget_unwanted();
        true
    }

    /// Forgets passwords for which no request waits, except the one that the thread has.
    fn forget_unwanted(&mut self) {
        let Self { jobs, turns, checked, .. } = self;
        jobs.retain(|digest, job| {
            let stays = !job.waiting.is_empty() || *checked == Some(*digest);
            if !stays {
                turns.remove(&job.client, digest);
            }
            stays
        });
    }

    /// Returns the time until waiting requests are looked at. `None` if none waits.
    pub(super) fn time_left(&self, now: Duration) -> Option<Duration> {
        self.next_look.map(|time| time.saturating_sub(now))
    }

    /// Refuses a request for which there is no room.
    fn refuse<B: Backend>(&mut self, lane: &Lane<'_, Engine<'_, B>>, exchange: Exchange, full: Full, now: Duration) {
        if self.logged_at.is_none_or(|at| now.saturating_sub(at) >= QUIET) {
            self.logged_at = Some(now);
            let client = exchange.client().map_or_else(|| "a Unix socket".to_owned(), |client| client.to_string());
            match full {
                Full::OfClient => log::warn!("passwords of {client} wait to be checked, and further ones get a 429"),
                Full::OfAll => log::warn!("{MOST} passwords wait to be checked, and further ones get a 503"),
            }
        }
        match full {
            Full::OfClient => answer(lane, exchange, 429, &[(b"Retry-After", b"2")]),
            Full::OfAll => put_off(lane, exchange),
        }
    }
}

/// The user and the password of a request. `None` if it has none, or several.
fn credentials(exchange: &Exchange) -> Option<Credentials> {
    let head = LentRequest::head(exchange);
    let mut values = head.fields().filter(|(known, ..)| *known == Some(KnownField::Authorization));
    let (_, _, value) = values.next()?;
    if values.next().is_some() { None } else { Credentials::read(value) }
}

/// Makes the user known to the app, and hides the password from it.
fn admit(rule: &PasswordRule, exchange: &mut Exchange, credentials: &Credentials) {
    let mut changes = FieldChanges::default();
    let names = OF_SERVER.into_iter().chain((!rule.keep).then_some("Authorization")).chain(rule.field.as_deref());
    // These are names of fields that a filter may remove, and a user in a file is a text without control characters.
    names.for_each(|name| _ = changes.remove(name));
    if let (Some(name), Ok(user)) = (&rule.field, str::from_utf8(credentials.user())) {
        let _ = changes.add(name, user);
    }
    exchange.change_fields(&changes);
    exchange.set_user(credentials.user(), b"Basic");
}

/// Answers 401.
fn demand<B: Backend>(lane: &Lane<'_, Engine<'_, B>>, exchange: Exchange, realm: &str) {
    answer(lane, exchange, 401, &[(b"WWW-Authenticate", challenge(realm).as_bytes())]);
}

/// Answers 503.
fn put_off<B: Backend>(lane: &Lane<'_, Engine<'_, B>>, exchange: Exchange) {
    answer(lane, exchange, 503, &[(b"Retry-After", b"2")]);
}

fn answer<B: Backend>(lane: &Lane<'_, Engine<'_, B>>, exchange: Exchange, status: u16, fields: &[FieldPair<'_>]) {
    let text = format!("{status} {}\n", oribi_message::reason(status));
    let kind: FieldPair<'_> = (b"Content-Type", b"text/plain; charset=utf-8");
    lane.answer_with(exchange, status, [kind].into_iter().chain(fields.iter().copied()), text.as_bytes());
}
