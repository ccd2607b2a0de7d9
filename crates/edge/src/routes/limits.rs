//! Limits of the rate of requests, of the number of open ones, and of the wait in the queue of their app. All edges share the
//! counts of the first two; each edge has a queue of its own.

use super::actions::Outcome;
use oribi_engine::{Engine, Exchange};
use oribi_io::Backend;
use oribi_io::process::shared_words;
use oribi_limit::{
    Concurrent, Guard, Key, Keys, LimitBy, LimitOf, Rule, Table, Verdict, retry_after_seconds, write_limit, write_policy,
};
use oribi_message::{FieldPair, RequestHead};
use oribi_source::LentRequest;
use oribi_stats::scoreboard::WorkerSlot;
use oribi_stats::totals::Counter;
use oribi_worker::lane::Lane;
use rustix::rand::{GetRandomFlags, getrandom};
use std::cell::Cell;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// The clients that all limits together remember, and the least and the most of one limit.
const ALL_CLIENTS: usize = 1 << 20;
const FEWEST_CLIENTS: usize = 1 << 10;
const MOST_CLIENTS: usize = 1 << 16;

/// The time between two messages about the requests that a limit refuses.
const QUIET: Duration = Duration::from_secs(10);

/// The largest value of Retry-After of a request that is refused because of the queue, in seconds.
const LONGEST_RETRY: u64 = 60;

/// A limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The name of the limit, for the log: its place in the configuration.
    pub label: String,
    /// The limited number.
    pub of: LimitOf,
    /// The requests that count together.
    pub by: LimitBy,
    /// Whether requests over the limit are only logged.
    pub dry_run: bool,
}

/// The limits of a server, with the memory that its edges share.
#[derive(Debug)]
pub(super) struct SharedLimits {
    limits: Vec<Limit>,
    /// The limits of each route, by their indices.
    of_routes: Vec<Vec<usize>>,
    counts: Vec<Counts>,
    keys: Keys,
    /// The number of edges.
    edges: usize,
}

/// The memory with the counts of a limit.
#[derive(Debug)]
enum Counts {
    Rate(Table<'static>),
    Open(&'static [AtomicU64], u32),
    /// Nothing is counted.
    Queue(Duration),
}

impl SharedLimits {
    /// Makes the memory for `edges` edges, which this process forks later.
    ///
    /// # Errors
    /// The system has no memory.
    pub(super) fn new(limits: Vec<Limit>, mut of_routes: Vec<Vec<usize>>, edges: usize) -> io::Result<Self> {
        // A request that its client's limit refuses must not count for a limit that the client shares with others.
        // Nor must one count that is refused because of the queue.
        let place = |limit: &Limit| (!matches!(limit.of, LimitOf::Queue(_)), limit.by == LimitBy::All);
        of_routes.iter_mut().for_each(|route| route.sort_by_key(|limit| place(&limits[*limit])));
        let clients = (ALL_CLIENTS / limits.len().max(1)).clamp(FEWEST_CLIENTS, MOST_CLIENTS);
        let counts = |limit: &Limit| match limit.of {
            LimitOf::Rate(rule) => {
                let words = shared_words(Table::words(clients, &[rule]))?;
                Ok(Counts::Rate(Table::new(words, &[rule]).map_err(io::Error::other)?))
            }
            LimitOf::Queue(most) => Ok(Counts::Queue(most)),
            LimitOf::Open(most) => Ok(Counts::Open(shared_words(Concurrent::words(edges, clients))?, most)),
        };
        let counts = limits.iter().map(counts).collect::<io::Result<_>>()?;
        Ok(Self { limits, of_routes, counts, keys: Keys::new(secret()), edges })
    }
}

/// Returns bytes that no client can guess.
fn secret() -> [u8; 16] {
    let mut bytes = [0; 16];
    let filled = getrandom(&mut bytes, GetRandomFlags::empty());
    debug_assert_eq!(filled, Ok(bytes.len()), "the kernel has random numbers for a process that has started");
    bytes
}

/// The limits in an edge.
#[derive(Debug)]
pub(super) struct Limits<'a> {
    shared: &'a SharedLimits,
    /// The number of this edge.
    edge: usize,
    /// The state of the log of each limit: the time of the last message, and the number of requests since then.
    logged: Vec<Cell<(Option<Duration>, u64)>>,
}

/// A request that counts as open until this is dropped.
#[derive(Debug)]
struct OpenRequest {
    counts: Concurrent<'static>,
    guard: Option<Guard>,
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        if let Some(guard) = self.guard.take() {
            self.counts.leave(guard);
        }
    }
}

/// The decision about a request.
enum Decision {
    Within(Option<OpenRequest>),
    Over(Option<(Rule, Verdict)>),
    /// The oldest request of the queue has waited so long.
    Late(Duration),
}

impl<'a> Limits<'a> {
    /// Takes over the counts of the edge that had this number before.
    pub(super) fn new(shared: &'a SharedLimits, edge: usize) -> Self {
        let limits = Self { shared, edge, logged: vec![Cell::default(); shared.limits.len()] };
        (0..shared.limits.len()).filter_map(|limit| limits.open(limit)).for_each(|counts| counts.clear(edge));
        limits
    }

    fn open(&self, limit: usize) -> Option<Concurrent<'static>> {
        match self.shared.counts[limit] {
            Counts::Open(words, most) => Some(Concurrent::new(words, self.shared.edges, self.edge, most)),
            Counts::Rate(_) | Counts::Queue(_) => None,
        }
    }

    /// Refuses a request that is over a limit of its route. Returns any other request. `oldest` gives the wait of the oldest
    /// request in the queue of the app of the route; `None` if no request waits, or if the route has no app.
    pub(super) fn check<B: Backend>(
        &self,
        route: usize,
        lane: &Lane<'_, Engine<'_, B>>,
        exchange: Exchange,
        (slot, mut oldest): (&WorkerSlot, impl FnMut() -> Option<Duration>),
    ) -> Result<Exchange, Outcome> {
        let Some(limits) = self.shared.of_routes.get(route) else { return Ok(exchange) };
        for &limit in limits {
            let now = lane.source().now();
            let decision = match self.shared.counts[limit] {
                Counts::Queue(most) => match oldest().filter(|wait| *wait > most) {
                    Some(wait) => Decision::Late(wait),
                    None => continue,
                },
                Counts::Rate(_) | Counts::Open(..) => {
                    let key = self.key(limit, &exchange.head(), exchange.client());
                    self.decide(limit, key, now)
                }
            };
            match decision {
                Decision::Within(None) => {}
                Decision::Within(Some(open)) => lane.source().keep_with(exchange.id(), Box::new(open)),
                over @ (Decision::Over(_) | Decision::Late(_)) => {
                    let limited = &self.shared.limits[limit];
                    self.log(limit, exchange.client(), now);
                    if limited.dry_run {
                        continue;
                    }
                    slot.account.count(Counter::LimitRoute);
                    match over {
                        Decision::Late(wait) => shed(lane, exchange, wait),
                        Decision::Over(details) => refuse(lane, exchange, limit, details),
                        Decision::Within(_) => unreachable!("it is over"),
                    }
                    return Err(Outcome::Answered);
                }
            }
        }
        Ok(exchange)
    }

    fn key(&self, limit: usize, head: &RequestHead<'_>, client: Option<IpAddr>) -> Key {
        let keys = &self.shared.keys;
        // The peers of a Unix socket have no addresses.
        let of_client = || client.map_or_else(|| keys.of_all(), |client| keys.of_client(client));
        match &self.shared.limits[limit].by {
            LimitBy::Client => of_client(),
            LimitBy::All => keys.of_all(),
            LimitBy::Field(name) => {
                let value = head.fields().find(|(_, other, _)| other.eq_ignore_ascii_case(name.as_bytes()));
                value.map_or_else(of_client, |(_, _, value)| keys.of_value(value))
            }
        }
    }

    fn decide(&self, limit: usize, key: Key, now: Duration) -> Decision {
        if let Some(counts) = self.open(limit) {
            let guard = counts.enter(key);
            return if guard.is_some() { Decision::Within(Some(OpenRequest { counts, guard })) } else { Decision::Over(None) };
        }
        let (Counts::Rate(table), LimitOf::Rate(rule)) = (&self.shared.counts[limit], self.shared.limits[limit].of) else {
            return Decision::Within(None);
        };
        let verdict = table.take(0, key, now);
        if verdict.allowed { Decision::Within(None) } else { Decision::Over(Some((rule, verdict))) }
    }

    /// Logs that a limit refuses requests, at most once in a while.
    fn log(&self, limit: usize, client: Option<IpAddr>, now: Duration) {
        let (last, count) = self.logged[limit].get();
        if last.is_some_and(|last| now.saturating_sub(last) < QUIET) {
            return self.logged[limit].set((last, count + 1));
        }
        self.logged[limit].set((Some(now), 0));
        let Limit { label, dry_run, .. } = &self.shared.limits[limit];
        let refuses = if *dry_run { "would refuse" } else { "refuses" };
        let client = client.map_or_else(|| "a Unix socket".to_owned(), |client| client.to_string());
        let before = if count > 0 { format!(", and {count} since the last message") } else { String::new() };
        log::warn!("{label}: the limit {refuses} a request of {client}{before}");
    }
}

/// Answers 429.
fn refuse<B: Backend>(lane: &Lane<'_, Engine<'_, B>>, exchange: Exchange, limit: usize, details: Option<(Rule, Verdict)>) {
    let name = format!("limit {}", limit + 1);
    let (mut policy, mut state) = (Vec::new(), Vec::new());
    let mut seconds = 1;
    if let Some((rule, verdict)) = details {
        write_policy(&name, &rule, &mut policy);
        write_limit(&name, verdict, &mut state);
        seconds = retry_after_seconds(verdict);
    }
    let seconds = seconds.to_string();
    let fields: [FieldPair<'_>; 4] = [
        (b"Content-Type", b"text/plain; charset=utf-8"),
        (b"Retry-After", seconds.as_bytes()),
        (b"RateLimit-Policy", &policy),
        (b"RateLimit", &state),
    ];
    let fields = fields.into_iter().filter(|(_, value)| !value.is_empty());
    lane.answer_with(exchange, 429, fields, b"429 Too Many Requests\n");
}

/// Answers 503, because the app has more to do than it can.
fn shed<B: Backend>(lane: &Lane<'_, Engine<'_, B>>, exchange: Exchange, wait: Duration) {
    // A new request would probably wait as long as the oldest request has waited.
    let seconds = (wait.as_secs() + 1).min(LONGEST_RETRY).to_string();
    let fields: [FieldPair<'_>; 2] = [(b"Content-Type", b"text/plain; charset=utf-8"), (b"Retry-After", seconds.as_bytes())];
    lane.answer_with(exchange, 503, fields.into_iter(), b"503 Service Unavailable\n");
}
