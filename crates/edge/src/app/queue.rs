//! The queue: requests go into the pool, wait there for a worker, and are rejected if they have waited too long.

use super::AppPool;
use super::fetch::{AppCache, Entering};
use super::table::{Entry, Overflow};
use oribi_config::{Timeouts, counted};
use oribi_engine::{CountedFile, Exchange, Sum, Wait};
use oribi_host::{Content, ExchangeId, Request};
use oribi_io::Backend;
use oribi_ipc::slot::{encode_request, set_completion_time};
use oribi_live::accepts_events;
use oribi_message::{FieldPair, KnownField, ResponseHead};
use oribi_pool::{Ticket, Waits, Withdrawal};
use oribi_stats::totals::Counter;
use rustix::fs::{MemfdFlags, memfd_create};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

/// The shortest interval between two log lines about waiting requests.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The wait after which a request is dropped if its client has closed its sending side. People and proxies that give up do
/// that, so no client waits for the answer. (A client that closes its sending side earlier may have sent its only request.)
/// Requests that wait that long are also logged.
const LONG: Duration = Duration::from_secs(1);

/// As [`LONG`], for a request that a worker has, where workers have more of them than threads: answers that are put off, and those
/// of a proxy, hold places that others wait for. (Without that, the place would not be free before the app has returned.)
const FORSAKEN: Duration = Duration::from_secs(10);

/// The largest value of Retry-After, in seconds.
const LONGEST_RETRY: u64 = 60;

const QUEUE_IS_FULL: &str = "the queue is full (--queue-limit): a client gets a 503";
const SLOTS_ARE_FULL: &str =
    "unfinished answers take all the room for requests, and a client gets a 503; more workers (--workers) would help";
const NO_WORKER: &str = "if none starts, the lines above say why";
const TOO_FEW_WORKERS: &str = "more workers (--workers, --threads) or faster answers would help";

/// The state of the queue's log messages.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// The time of the last log line about waiting requests.
    logged_at: Option<Duration>,
}

/// The purpose of a request in the pool.
pub(super) enum Purpose {
    /// Its response goes to the client.
    Answer,
    /// Its response decides whether the request of the client may go on.
    Question,
    /// Its response may be stored.
    Fetch(Box<Entering>),
    /// It is an event of the live connection with this name.
    Event(u64),
}

impl<B: Backend> AppPool<'_, '_, B> {
    /// Puts a request into the queue, or refuses it if there is no room.
    pub(in super::super) fn submit(&mut self, exchange: Exchange) {
        self.submit_for(exchange, Purpose::Answer);
    }

    /// Puts a request into the queue; or aside, if it waits for the response to another one.
    #[inline(always)]
    pub(super) fn submit_for(&mut self, exchange: Exchange, purpose: Purpose) {
        let request = exchange.request(self.listeners);
        self.enqueue(&exchange, &request, purpose);
        self.lane.source().give_back(exchange);
    }

    /// Puts a request of an exchange into the pool. Returns whether there was room; otherwise the client has been answered.
    #[inline(always)]
    pub(super) fn enqueue(&mut self, exchange: &Exchange, request: &Request<'_>, purpose: Purpose) -> bool {
        self.enqueue_request((exchange.id(), exchange.complete_at()), request, &[], purpose)
    }

    /// Puts a request into the pool, with more fields. `id` is its exchange, and `complete_at` the time at which it was complete, in
    /// nanoseconds. Returns whether there was room; otherwise its client, if it has one that waits, has been answered.
    #[inline(always)]
    pub(super) fn enqueue_request(
        &mut self,
        (id, complete_at): (ExchangeId, u64),
        request: &Request<'_>,
        more: &[FieldPair<'_>],
        purpose: Purpose,
    ) -> bool {
        let is_full = self.table.used() >= self.settings.queue_limit && self.waiting_requests() >= self.settings.queue_limit;
        let available = self.pool.is_available() || self.wake_app();
        let reserved = if is_full || !available { None } else { self.pool.reserve() };
        let Some(mut reserved) = reserved else {
            let now = self.now();
            self.slot.account.count(Counter::QueueRefused);
            match (available, is_full) {
                (false, _) => self.say_that_it_is_unavailable(now),
                (true, true) => self.say_that_requests_wait(now, QUEUE_IS_FULL),
                (true, false) => self.say_that_requests_wait(now, SLOTS_ARE_FULL),
            }
            self.lane.source().report_wait_until_now(id);
            match purpose {
                Purpose::Fetch(entering) => self.refuse_fetch(entering.fetch, 503),
                Purpose::Answer | Purpose::Question => self.refuse_for_now(id),
                Purpose::Event(_) => {}
            }
            return false;
        };
        let start = if self.settings.request_start { request_start(request, self.lane.source().wall_clock()) } else { None };
        let field = start.as_ref().map(|start| (&b"X-Request-Start"[..], start.as_bytes()));
        let slot = reserved.slot();
        let room = self.pool.room(&mut reserved);
        let files = self.lane.source().content_files();
        let added = if more.is_empty() { field.as_slice() } else { more };
        let fitted = match fit(request, added, room, (&self.settings.temporary_directory, files)) {
            Ok(fitted) => fitted,
            Err(status) => {
                self.pool.cancel(reserved);
                match purpose {
                    Purpose::Fetch(entering) => self.refuse_fetch(entering.fetch, status),
                    Purpose::Answer | Purpose::Question => self.refuse(id, status),
                    Purpose::Event(_) => {}
                }
                return false;
            }
        };
        set_completion_time(room, complete_at);
        let retry = self.settings.retry_lost && is_idempotent(request.head.method());
        let is_event = matches!(purpose, Purpose::Event(_));
        let keeps = !is_event && (retry || may_stay_open(request));
        self.table.keep_copy(slot, keeps.then(|| &room[..fitted.size]));
        let is_watched = self.deadlines.are_set();
        let waits = matches!(&purpose, Purpose::Fetch(entering) if entering.waits);
        let ids = self.settings.request_id.as_ref();
        if is_watched || ids.is_some() {
            self.table.keep_label(slot, &request.head, ids.and_then(|ids| ids.of(&request.head)));
        }
        let (connection, now) = {
            let mut engine = self.lane.source();
            if !waits {
                engine.note_queued();
            }
            (engine.carrier_of(id), engine.now())
        };
        let aside = waits || self.make_room(connection);
        let pool = &mut self.pool;
        let ticket = if aside { pool.submit_aside(reserved, fitted.size) } else { pool.submit(reserved, fitted.size) };
        if !waits {
            self.record_submission(connection, ticket, aside);
        }
        if self.table.used() == 0 {
            self.moved = now;
        }
        let asking = matches!(purpose, Purpose::Question);
        let mut entry = Entry { overflow: fitted.overflow, connection, asking, ..Entry::new(ticket, Some(id), now) };
        match purpose {
            Purpose::Answer | Purpose::Question => {}
            Purpose::Fetch(entering) => {
                // The fetch has the exchange.
                entry.exchange = None;
                if let Some(cache) = &mut self.cache {
                    cache.entered(ticket, *entering);
                }
            }
            Purpose::Event(name) => {
                entry.exchange = None;
                self.note_event(ticket, name);
            }
        }
        self.table.insert(entry);
        self.timers.submitted(now, is_watched);
        if !waits {
            self.deadlines.submitted(ticket);
        }
        true
    }

    /// Answers with an error of the server's own, not of an app.
    pub(super) fn refuse(&mut self, exchange: ExchangeId, status: u16) {
        if status == 503 { self.refuse_for_now(exchange) } else { self.answer_with(exchange, status, &[]) }
    }

    /// Answers 503 with Retry-After.
    fn refuse_for_now(&mut self, exchange: ExchangeId) {
        // A new request would probably wait as long as the oldest request has waited.
        let seconds = self.oldest_wait().unwrap_or_default().as_secs() + 1;
        let seconds = seconds.min(LONGEST_RETRY).to_string();
        self.answer_with(exchange, 503, &[(b"Retry-After", seconds.as_bytes())]);
    }

    fn answer_with(&mut self, exchange: ExchangeId, status: u16, fields: &[FieldPair<'_>]) {
        let page = format!("{}\n", oribi_message::reason(status));
        let mut all: Vec<FieldPair<'_>> = vec![(b"Content-Type", b"text/plain; charset=utf-8")];
        all.extend_from_slice(fields);
        // It fails if the client has disconnected.
        let _ = self.lane.source().respond(exchange, ResponseHead { status, fields: &all }, &[page.as_bytes()]);
    }

    /// Returns the time that the oldest waiting request has waited for a worker. `None` if no request waits for one.
    pub(in super::super) fn oldest_wait(&mut self) -> Option<Duration> {
        let (oldest, now) = (self.pool.oldest(), self.now());
        let first = oldest.into_iter().chain(self.table.shares.first_aside_of_each());
        first.filter_map(|ticket| self.table.submitted(ticket)).min().map(|submitted| now.saturating_sub(submitted))
    }

    /// The same, also for requests that wait for the response to another one.
    fn oldest_wait_of_all(&mut self) -> Option<Duration> {
        let (of_worker, now) = (self.oldest_wait(), self.now());
        let waiting = self.cache.iter().flat_map(|cache| AppCache::waiting(cache));
        let submitted = waiting.filter_map(|ticket| self.table.submitted(ticket)).min();
        submitted.map(|submitted| now.saturating_sub(submitted)).max(of_worker)
    }

    /// Refuses waiting requests that have waited too long, or whose app has become unavailable. Drops waiting requests whose clients have disconnected, and logs
    /// if others wait for long.
    pub(super) fn expire_queued(&mut self, now: Duration) {
        for (submitted, ticket) in self.overdue(now) {
            if self.pool.withdraw(ticket) != Withdrawal::Unseen {
                continue;
            }
            if let Some(fetch) = self.take_fetch(ticket) {
                self.slot.account.count(Counter::QueueTimeouts);
                let was_retried = self.table.remove(ticket).is_some_and(|entry| entry.retried);
                if let Some(exchange) = fetch.exchange {
                    self.report_wait(ticket, exchange);
                }
                if was_retried {
                    self.fetch_failed(fetch, 503);
                } else {
                    self.refuse_fetch(fetch, 503);
                }
                continue;
            }
            self.commands_ended(ticket, true);
            if let Some(exchange) = self.table.remove(ticket).and_then(|entry| entry.exchange) {
                let waited = now.saturating_sub(submitted);
                self.slot.account.count(Counter::QueueTimeouts);
                self.count_wait(waited, waited);
                self.lane.source().report_wait_until_now(exchange);
                self.refuse_for_now(exchange);
            }
        }
        if self.oldest_wait().is_some_and(|wait| wait >= LONG) {
            // The request may have come at the moment when the app fell asleep, or its message was lost.
            self.wake_app();
            self.drop_those_without_clients(now);
            // All requests that have waited that long may have been dropped.
            if self.oldest_wait().is_some_and(|wait| wait >= LONG) {
                let advice = if self.pool.worker_counts().attached == 0 { NO_WORKER } else { TOO_FEW_WORKERS };
                self.say_that_requests_wait(now, advice);
            }
        }
    }

    /// Returns the waiting requests that have waited too long, the oldest first, each with its time of arrival.
    fn overdue(&mut self, now: Duration) -> Vec<(Duration, Ticket)> {
        let most = if self.pool.is_available() || self.pool.is_asleep() { self.settings.queue_timeout } else { Duration::ZERO };
        if !self.table.shares.are_out_of_order() && self.oldest_wait_of_all().is_none_or(|wait| wait < most) {
            return Vec::new();
        }
        let waits = |entry: &&Entry| now.saturating_sub(entry.submitted) >= most && self.pool.waits(entry.ticket);
        let mut overdue: Vec<_> = self.table.entries().filter(waits).map(|entry| (entry.submitted, entry.ticket)).collect();
        overdue.sort_unstable_by_key(|(submitted, _)| *submitted);
        overdue
    }

    /// Puts requests into the queue that are due, and counts the waits of requests that workers have begun to answer.
    #[inline]
    pub(in super::super) fn note_waits(&mut self) {
        self.submit_due();
        let waits = self.pool.take_waits();
        if waits != Waits::default() {
            self.count_wait(waits.all, waits.longest);
        }
    }

    fn count_wait(&self, all: Duration, longest: Duration) {
        let microseconds = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.slot.account.add(Counter::QueueWait, microseconds(all));
        self.slot.account.raise(Counter::QueueLongestWait, microseconds(longest));
    }

    fn drop_those_without_clients(&mut self, now: Duration) {
        let engine = self.lane.source();
        let is_left = |entry: &&Entry| {
            let has_ended = entry.exchange.is_some_and(|exchange| engine.client_has_ended(exchange));
            has_ended && !entry.begun && now.saturating_sub(entry.submitted) >= LONG
        };
        let left: Vec<_> = self.table.entries().filter(is_left).map(|entry| (entry.ticket, entry.submitted)).collect();
        drop(engine);
        let held = self.table.entries().filter(|entry| self.pool.holder(entry.ticket).is_some()).count();
        let puts_off = held > self.pool.worker_counts().attached as usize * self.settings.most_threads();
        for (ticket, submitted) in left {
            if self.pool.holder(ticket).is_none() {
                if self.pool.withdraw(ticket) == Withdrawal::Unseen
                    && let Some(exchange) = self.table.remove(ticket).and_then(|entry| entry.exchange)
                {
                    let mut engine = self.lane.source();
                    engine.report_wait_until_now(exchange);
                    engine.hang_up(exchange);
                }
            } else if puts_off
                && now.saturating_sub(submitted) >= FORSAKEN
                && let Some(exchange) = self.table.exchange(ticket)
            {
                self.discard(ticket);
                self.lane.source().hang_up(exchange);
            }
        }
    }

    /// Whether [`LOG_INTERVAL`] is over, so that a line about waiting requests may be logged again now.
    fn may_log(&mut self, now: Duration) -> bool {
        let may_log = self.queue.logged_at.is_none_or(|logged_at| now.saturating_sub(logged_at) >= LOG_INTERVAL);
        if may_log {
            self.queue.logged_at = Some(now);
        }
        may_log
    }

    /// Logs that requests are refused, because the app is stopped or could not be loaded.
    #[cold]
    fn say_that_it_is_unavailable(&mut self, now: Duration) {
        if self.may_log(now) {
            log::warn!("{}clients get a 503: the app is stopped or could not be loaded", self.label);
        }
    }

    /// Logs how many requests wait and why, at most once in [`LOG_INTERVAL`].
    fn say_that_requests_wait(&mut self, now: Duration, advice: &str) {
        if !self.may_log(now) {
            return;
        }
        let (wait, depth) = (self.oldest_wait().unwrap_or_default().as_secs_f64(), self.waiting_requests());
        let waiting = match depth {
            0 => "no request waits for a worker".to_owned(),
            1 => format!("1 request has waited for a worker for {wait:.1} s"),
            _ => format!("{depth} requests wait for a worker, the oldest for {wait:.1} s"),
        };
        log::warn!("{}{waiting}, and {}: {advice}", self.label, self.describe_workers());
    }

    /// Describes for the log how many workers are free, and how many answers the other workers have not finished.
    pub(in super::super) fn describe_workers(&self) -> String {
        let worker_counts = self.pool.worker_counts();
        let mut held: HashMap<u32, usize> = HashMap::new();
        for worker in self.table.entries().filter_map(|entry| self.pool.holder(entry.ticket)) {
            *held.entry(worker).or_default() += 1;
        }
        let free = match (worker_counts.attached, worker_counts.waiting) {
            (0, _) => return "there is no worker yet".to_owned(),
            (1, 0) => "the only one is busy".to_owned(),
            (all, 0) => format!("all {all} are busy"),
            (all, free) => format!("{free} of {all} are free"),
        };
        match (held.values().sum::<usize>(), held.values().max()) {
            (0, _) | (_, None) => free,
            (sum, Some(most)) if held.len() == 1 || sum == *most => {
                format!("{free} with {}", counted(sum, "unfinished answer"))
            }
            (sum, Some(most)) => format!("{free} with {}, one of them with {most}", counted(sum, "unfinished answer")),
        }
    }

    /// Reports to the engine how long a request has waited for its worker, and the process id of that worker.
    pub(super) fn report_wait(&mut self, ticket: Ticket, exchange: ExchangeId) {
        self.lane.source().report_wait(exchange, self.wait_of(ticket));
    }

    /// Returns how long a request has waited for its worker, and the process id of that worker.
    #[inline]
    pub(super) fn wait_of(&self, ticket: Ticket) -> Wait {
        Wait { nanoseconds: self.pool.wait_of(ticket), worker: self.worker_of(ticket) }
    }

    /// Returns the process id of the worker that has a request, or has answered it. `None` if there is no such worker, or if
    /// no setting needs the process id (`--slow`, `--trace-export`).
    #[inline]
    fn worker_of(&self, ticket: Ticket) -> Option<u32> {
        if self.settings.slow == Timeouts::NEVER && self.settings.trace_export.endpoint.is_none() {
            return None;
        }
        let worker = self.pool.worker_of(ticket)?;
        // A worker may answer before the edge watches it. It may also have ended and been removed before the edge reads its
        // last answers.
        self.workers.process(worker).or_else(|| self.pool.occupant(worker)).or_else(|| self.workers.latest_process(worker))
    }

    /// Withdraws the request of an exchange whose client has disconnected. Returns how long it has waited; `None` if it is not
    /// in this pool.
    pub(in super::super) fn withdraw_lost(&mut self, exchange: ExchangeId) -> Option<Wait> {
        let Some(ticket) = self.table.find(exchange) else { return self.lose_client_of_fetch(exchange) };
        let known = self.wait_of(ticket);
        self.discard(ticket);
        Some(known)
    }
}

/// The size of a request in a slot.
struct Fitted {
    /// The number of bytes that the request uses in the slot.
    size: usize,
    overflow: Option<Box<Overflow>>,
}

/// A directory for files with content, and the counter of the bytes in them.
type Files<'a> = (&'a Path, &'static Sum);

/// Writes a request, with the `added` fields, into `room`, the memory of a slot. Content that does not fit is written to a
/// file.
///
/// # Errors
/// The request cannot be stored: the status to answer with.
#[inline]
fn fit(request: &Request<'_>, added: &[FieldPair<'_>], room: &mut [u8], files: Files<'_>) -> Result<Fitted, u16> {
    let is_in_memory = !matches!(request.content, Content::File { .. }) && request.gateway.is_none();
    match encode_request(request, added, room) {
        Some(size) if is_in_memory => Ok(Fitted { size, overflow: None }),
        size => fit_with_files(request, added, room, size, files),
    }
}

/// As `fit`, for a request of which a part is in a file already, or that did not fit (`size` is `None`).
#[inline(never)]
fn fit_with_files(
    request: &Request<'_>,
    added: &[FieldPair<'_>],
    room: &mut [u8],
    size: Option<usize>,
    (directory, sum): Files<'_>,
) -> Result<Fitted, u16> {
    let data = request.gateway.map_or(Content::None, |gateway| gateway.data);
    let own = |content: &Content<'_>| match content {
        Content::File { file, .. } => file.try_clone_to_owned().map(|file| Some(CountedFile::new(file.into(), sum))),
        Content::None | Content::Memory(_) => Ok(None),
    };
    let kept = own(&request.content).and_then(|content| Ok((content, own(&data)?)));
    let (content, data) = kept.map_err(|error| cannot_keep(&error))?;
    if let Some(size) = size {
        return Ok(Fitted { size, overflow: Some(Box::new(Overflow { content, data })) });
    }
    // If the content is in a file already, the head alone is too large. Otherwise the content moves to a file.
    let Content::Memory(bytes) = request.content else { return Err(431) };
    let spooled = spool(bytes, directory).map_err(|error| cannot_keep(&error))?;
    let elsewhere = Content::File { file: spooled.as_fd(), size: bytes.len() as u64 };
    match encode_request(&Request { content: elsewhere, ..*request }, added, room) {
        Some(size) => {
            let content = Some(CountedFile::new(spooled, sum));
            Ok(Fitted { size, overflow: Some(Box::new(Overflow { content, data })) })
        }
        None => Err(431),
    }
}

fn cannot_keep(error: &io::Error) -> u16 {
    log::error!("cannot store the content of a request in a temporary file: {error}");
    oribi_engine::shortage::refusal(error).status()
}

fn spool(bytes: &[u8], directory: &Path) -> io::Result<File> {
    let filled = |file: File| file.write_all_at(bytes, 0).map(|()| file);
    // Content that is in memory already must not be rejected because the disk is full: then the file is in memory as well.
    tempfile::tempfile_in(directory)
        .and_then(filled)
        .or_else(|_| filled(memfd_create("oribi-content", MemfdFlags::CLOEXEC)?.into()))
}

/// Returns the value for the field X-Request-Start. `None` if the request has that field already.
fn request_start(request: &Request<'_>, now: Duration) -> Option<String> {
    let is_there = request.head.fields().any(|(_, name, _)| name.eq_ignore_ascii_case(b"X-Request-Start"));
    (!is_there).then(|| format!("t={}.{:06}", now.as_secs(), now.subsec_micros()))
}

/// Whether a worker may offer its app that the connection stays open, which the bytes of the request are needed for.
/// [`oribi_live::Offer`] decides it; this is what every request can afford.
pub(super) fn may_stay_open(request: &Request<'_>) -> bool {
    let head = &request.head;
    head.method() == b"GET"
        && head.layout().fields.iter().any(|field| match field.known {
            Some(KnownField::Upgrade) => true,
            Some(KnownField::Accept) => accepts_events(field.value.of(head.bytes())),
            _ => false,
        })
}

/// Whether a client asks for another protocol.
pub(super) fn asks_for_upgrade(request: &Request<'_>) -> bool {
    request.head.layout().fields.iter().any(|field| field.known == Some(KnownField::Upgrade))
}

/// Whether several requests with this method have the same intended effect as one (RFC 9110, section 9.2.2).
pub(super) fn is_idempotent(method: &[u8]) -> bool {
    matches!(method, b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE" | b"PUT" | b"DELETE")
}
