//! Limits of the rate of requests, of the number of open ones, and of the wait in the queue of their app. All edges share the
//! counts of the first two; each edge has a queue of its own.

use super::actions::Outcome;
use oribi_engine::{Engine, Exchange};
use oribi_io::Backend;
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

/// The most limits that a server remembers.
const MOST_KNOWN: usize = 128;

/// The memory of all limits that a server has ever had. A limit that disappears and comes back finds its counts again, and the
/// memory is never freed while a request may count there.
#[derive(Clone, Debug)]
pub struct LimitMemory {
    known: Vec<(Limit, Counts)>,
    keys: Keys,
    /// The number of edges.
    edges: usize,
}

impl LimitMemory {
    /// Creates the value for a server that has had no limit. The process forks all its `edges` edges later.
    #[must_use]
    pub fn new(edges: usize) -> Self {
        Self { known: Vec::new(), keys: Keys::new(secret()), edges }
    }

    /// Returns the counts of each of `limits`, and the memory that knows them all. `room` makes the words for those that are new.
    /// A process with the same memory and the same limits needs the same number of words, and uses them in the same way.
    fn grow(&self, limits: &[Limit], room: Room<'_>) -> io::Result<(Vec<Counts>, Self)> {
        let clients = (ALL_CLIENTS / limits.len().max(1)).clamp(FEWEST_CLIENTS, MOST_CLIENTS);
        let mut used = vec![false; self.known.len()];
        let mut find = |limit: &Limit| {
            let is_it = |index: &usize| !used[*index] && self.known[*index].0.counts_as(limit);
            let found = (0..self.known.len()).find(is_it)?;
            used[found] = true;
            Some(found)
        };
        let found: Vec<Option<usize>> = limits.iter().map(&mut find).collect();
        let words = |limit: &Limit| match limit.of {
            LimitOf::Rate(rule) => Table::words(clients, &[rule]),
            LimitOf::Open(_) => Concurrent::words(self.edges, clients),
            LimitOf::Queue(_) => 0,
        };
        let fresh = || limits.iter().zip(&found).filter(|(_, found)| found.is_none()).map(|(limit, _)| limit);
        let total: usize = fresh().map(words).sum();
        if self.known.len() + fresh().count() > MOST_KNOWN.max(limits.len()) {
            return Err(io::Error::other(format!(
                "since its start, the server has had more than {MOST_KNOWN} different limits; oribi ctl upgrade applies them"
            )));
        }
        let mut rest = if total > 0 { room(total)? } else { &[] };
        let mut memory = self.clone();
        let mut counts = Vec::new();
        for (limit, found) in limits.iter().zip(found) {
            if let Some(found) = found {
                counts.push(memory.known[found].1.clone());
                continue;
            }
            let (own, behind) = rest.split_at_checked(words(limit)).ok_or(io::ErrorKind::InvalidData)?;
            rest = behind;
            let made = match limit.of {
                LimitOf::Rate(rule) => Counts::Rate(Table::new(own, &[rule]).map_err(io::Error::other)?),
                LimitOf::Open(most) => Counts::Open(own, most),
                LimitOf::Queue(most) => Counts::Queue(most),
            };
            memory.known.push((limit.clone(), made.clone()));
            counts.push(made);
        }
        Ok((counts, memory))
    }

    /// Takes over the counts of the edge that had this number before.
    pub(crate) fn clear(&self, edge: usize) {
        let of_edge = |(_, counts): &(Limit, Counts)| counts.open(self.edges, edge);
        self.known.iter().filter_map(of_edge).for_each(|counts| counts.clear(edge));
    }
}

/// Makes words, all zero, that all edges share.
pub type Room<'r> = &'r mut dyn FnMut(usize) -> io::Result<&'static [AtomicU64]>;

impl Limit {
    /// Whether the same requests count for both limits.
    fn counts_as(&self, other: &Self) -> bool {
        (&self.of, &self.by) == (&other.of, &other.by)
    }
}

/// The limits of routes, with the memory that all edges share.
#[derive(Clone, Debug)]
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
#[derive(Clone, Debug)]
enum Counts {
    Rate(Table<'static>),
    Open(&'static [AtomicU64], u32),
    /// Nothing is counted.
    Queue(Duration),
}

impl Counts {
    fn open(&self, edges: usize, edge: usize) -> Option<Concurrent<'static>> {
        match self {
            Self::Open(words, most) => Some(Concurrent::new(words, edges, edge, *most)),
            Self::Rate(_) | Self::Queue(_) => None,
        }
    }
}

impl SharedLimits {
    /// Takes the counts of limits from `memory`, or makes them. Returns the memory with these.
    ///
    /// # Errors
    /// The system has no memory, or the server has had too many limits.
    pub(super) fn new(
        limits: Vec<Limit>,
        mut of_routes: Vec<Vec<usize>>,
        memory: &LimitMemory,
        room: Room<'_>,
    ) -> io::Result<(Self, LimitMemory)> {
        // A request that its client's limit refuses must not count for a limit that the client shares with others.
        // Nor must one count that is refused because of the queue.
        let place = |limit: &Limit| (!matches!(limit.of, LimitOf::Queue(_)), limit.by == LimitBy::All);
        of_routes.iter_mut().for_each(|route| route.sort_by_key(|limit| place(&limits[*limit])));
        let (counts, memory) = memory.grow(&limits, room)?;
        Ok((Self { limits, of_routes, counts, keys: memory.keys, edges: memory.edges }, memory))
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
pub(super) struct Limits {
    shared: SharedLimits,
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

impl Limits {
    pub(super) fn new(shared: SharedLimits, edge: usize) -> Self {
        let logged = vec![Cell::default(); shared.limits.len()];
        Self { shared, edge, logged }
    }

    fn open(&self, limit: usize) -> Option<Concurrent<'static>> {
        self.shared.counts[limit].open(self.shared.edges, self.edge)
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
        let now = lane.source().now();
        // Limits that are only logged, and have not counted the request because it is over them.
        let mut over = Vec::new();
        for (position, &limit) in limits.iter().enumerate() {
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
                refused @ (Decision::Over(_) | Decision::Late(_)) => {
                    let limited = &self.shared.limits[limit];
                    self.log(limit, exchange.client(), now);
                    if limited.dry_run {
                        over.push(limit);
                        continue;
                    }
                    slot.account.count(Counter::LimitRoute);
                    let taken = limits[..position].iter().filter(|earlier| !over.contains(*earlier));
                    taken.for_each(|&earlier| self.give_back(earlier, &exchange, now));
                    match refused {
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

    /// Takes a request off the counts of a limit of a rate that it was within: a request that is refused counts for none. (The number of
    /// open requests falls when the refusal has been sent.)
    fn give_back(&self, limit: usize, exchange: &Exchange, now: Duration) {
        if let Counts::Rate(table) = &self.shared.counts[limit] {
            table.give_back(0, self.key(limit, &exchange.head(), exchange.client()), now);
        }
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
