//! The responses of apps that may be stored: each is kept until it is complete, unless its head says that it cannot be stored.
//! Then it is passed on like any other.

use super::AppPool;
use super::fetch::{AppCache, Capture, Fetch, Status};
use super::table::Entry;
use oribi_cache::{Answer, Class, Conditions, Fields, Judgement, Response, Times};
use oribi_engine::Wait;
use oribi_host::{ExchangeId, Piece, ReplyError};
use oribi_io::Backend;
use oribi_ipc::slot::{Content, Head, Malformed};
use oribi_message::{FieldMemory, FieldPair, ResponseHead};
use oribi_pool::{FilePart, Ticket, Withdrawal};
use oribi_stats::totals::Counter;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::time::Duration;

/// The time for which requests for a URI do not wait for each other, after a response could not be stored.
const PASSES_FOR: Duration = Duration::from_secs(10);

/// The treatment of a response, by its head.
enum Decision {
    /// It is stored when it is complete.
    Store(Judgement),
    /// It confirms the stored response.
    Confirm,
    /// It is an error, and the stored response answers in its place.
    Replace,
    /// It is passed on.
    Pass,
}

impl<B: Backend> AppPool<'_, '_, B> {
    /// Handles a whole response.
    #[cold]
    pub(super) fn fetched_whole(&mut self, ticket: Ticket, bytes: &[u8], head: usize) {
        let Some(fetch) = self.take_fetch(ticket) else { return };
        let (head, content) = bytes.split_at(head);
        let mut heads = std::mem::take(&mut self.heads);
        let mut fetch = Some(fetch);
        let read = heads.read(head, |Head { head, content: kind }| match kind {
            Content::Whole { size } if size == content.len() as u64 => {
                if let Some(fetch) = fetch.take() {
                    self.decide_whole(ticket, fetch, head, content);
                }
                Ok(())
            }
            _ => Err(Malformed),
        });
        self.heads = heads;
        if let (Some(fetch), Err(Malformed)) = (fetch, read.and_then(|read| read)) {
            log::error!("a worker has sent an invalid response");
            self.fetch_failed(fetch, 502);
        }
    }

    fn decide_whole(&mut self, ticket: Ticket, mut fetch: Fetch, head: ResponseHead<'_>, content: &[u8]) {
        let wait = self.wait_of(ticket);
        if let Some(exchange) = fetch.exchange {
            self.lane.source().report_wait(exchange, wait);
        }
        let times = self.times(&fetch);
        match self.decide(&fetch, head, Some(content.len() as u64), &times) {
            Decision::Store(judgement) => {
                let response =
                    Response::new(judgement, (head.status, head.fields), content.into(), &times, |name| self.is_own(name));
                self.store(fetch, response, Status::Miss(true));
            }
            Decision::Confirm => self.confirm(fetch, head.fields, &times),
            Decision::Replace => self.fetch_failed(fetch, head.status),
            Decision::Pass => {
                let Some(exchange) = self.pass(&mut fetch, head) else { return };
                let status = Status::Miss(false).text();
                let fields: Vec<FieldPair<'_>> = with_status(head.fields, &fetch, &status);
                let head = ResponseHead { status: head.status, fields: &fields };
                if let Err(ReplyError::Invalid(why)) = self.lane.source().respond_behind(wait, exchange, head, &[content]) {
                    log::error!("the response of an app is invalid: {why}");
                }
            }
        }
    }

    /// Handles the head of a response whose content follows.
    #[cold]
    pub(super) fn fetched_head(&mut self, ticket: Ticket, bytes: &[u8]) {
        let Some(fetch) = self.take_fetch(ticket) else { return };
        let mut heads = std::mem::take(&mut self.heads);
        let mut fetch = Some(fetch);
        let read = heads.read(bytes, |Head { head, content }| {
            let size = match content {
                Content::Whole { size } => Some(size),
                Content::Started => None,
                Content::Interim | Content::Trailers => return Err(Malformed),
            };
            if let Some(fetch) = fetch.take() {
                self.decide_head(ticket, fetch, head, size);
            }
            Ok(())
        });
        self.heads = heads;
        if let (Some(fetch), Err(Malformed)) = (fetch, read.and_then(|read| read)) {
            self.put_fetch(ticket, fetch);
            self.handle_nonsense(ticket);
        }
    }

    fn decide_head(&mut self, ticket: Ticket, mut fetch: Fetch, head: ResponseHead<'_>, size: Option<u64>) {
        let times = self.times(&fetch);
        if let Some(exchange) = fetch.exchange {
            self.report_wait(ticket, exchange);
        }
        match self.decide(&fetch, head, size, &times) {
            Decision::Store(judgement) => {
                let fields = Fields::copy(head.fields.iter().copied());
                let (status, content) = (head.status, Vec::new());
                fetch.capture = Some(Capture { status, fields, size, content, judgement, times });
                self.put_fetch(ticket, fetch);
            }
            Decision::Confirm => self.confirm(fetch, head.fields, &times),
            Decision::Replace => self.fetch_failed(fetch, head.status),
            Decision::Pass => {
                let exchange = self.pass(&mut fetch, head);
                self.begin(ticket, exchange, &fetch, head, size);
            }
        }
    }

    /// Handles an interim response.
    #[cold]
    pub(super) fn fetched_interim(&mut self, ticket: Ticket, bytes: &[u8]) {
        let exchange = self.cache.as_ref().and_then(|cache| cache.fetches.get(&ticket)?.exchange);
        let (Some(exchange), lane) = (exchange, &self.lane) else { return };
        let sent = self.heads.read(bytes, |Head { head, content }| match content {
            // If the engine refuses this interim response, the final response still follows.
            Content::Interim => {
                let _ = lane.source().inform(exchange, head.status, head.fields);
            }
            Content::Whole { .. } | Content::Started | Content::Trailers => {}
        });
        if sent.is_err() {
            self.handle_nonsense(ticket);
        }
    }

    /// Handles content. Returns whether it belongs to a response that is to be stored.
    #[cold]
    pub(super) fn fetched_content(&mut self, ticket: Ticket, bytes: &[u8]) -> bool {
        let now = self.now();
        if let Some(entry) = self.table.get(ticket).filter(|_| !bytes.is_empty()) {
            entry.progress = entry.progress.map(|_| now);
        }
        let Some(cache) = &mut self.cache else { return false };
        let has_room = cache.captured + bytes.len() <= cache.store.borrow().most_bytes();
        let Some(fetch) = cache.fetches.get_mut(&ticket) else { return false };
        let Some(capture) = &mut fetch.capture else { return false };
        let most = capture.size.unwrap_or(fetch.rules.max_object).min(fetch.rules.max_object);
        if has_room && (capture.content.len() + bytes.len()) as u64 <= most {
            capture.content.extend_from_slice(bytes);
            cache.captured += bytes.len();
            return true;
        }
        self.stop_capture(ticket);
        match self.table.exchange(ticket) {
            Some(exchange) => self.pass_on(ticket, exchange, Piece::Bytes(bytes)),
            // No client waits, and the response is too large to be stored.
            None => self.discard(ticket),
        }
        true
    }

    /// Handles content in a file. Returns whether it belongs to a response that is to be stored.
    #[cold]
    pub(super) fn fetched_file(&mut self, ticket: Ticket, file: Option<&File>, part: FilePart) -> bool {
        let Some(fetch) = self.cache.as_mut().and_then(|cache| cache.fetches.get_mut(&ticket)) else { return false };
        let most = fetch.rules.max_object;
        let is_regular = |file: &&File| file.metadata().is_ok_and(|data| data.is_file());
        if let (Some(file), Some(capture)) = (file.filter(is_regular), &fetch.capture)
            && part.size.saturating_add(capture.content.len() as u64) <= most
        {
            let mut content = vec![0; part.size as usize];
            if file.read_exact_at(&mut content, part.offset).is_ok() {
                return self.fetched_content(ticket, &content);
            }
        }
        self.stop_capture(ticket);
        false
    }

    /// Passes a response on, as far as it has arrived: it will not be stored.
    #[cold]
    pub(super) fn stop_capture(&mut self, ticket: Ticket) {
        let Some(mut fetch) = self.take_fetch(ticket) else { return };
        let Some(Capture { status, fields, size, content, .. }) = fetch.capture.take() else {
            // The response has not begun.
            let exchange = self.pass(&mut fetch, ResponseHead { status: 200, fields: &[] });
            if let Some(entry) = self.table.get(ticket) {
                entry.exchange = exchange;
            }
            return;
        };
        let pairs: Vec<FieldPair<'_>> = fields.iter().collect();
        let exchange = self.pass(&mut fetch, ResponseHead { status, fields: &pairs });
        self.begin(ticket, exchange, &fetch, ResponseHead { status, fields: &pairs }, size);
        if let Some(exchange) = self.table.exchange(ticket)
            && !content.is_empty()
        {
            self.pass_on(ticket, exchange, Piece::Bytes(&content));
        }
    }

    /// Handles the end of a response.
    #[cold]
    pub(super) fn fetched_end(&mut self, ticket: Ticket, mut entry: Entry, abandoned: bool) {
        let Some(mut fetch) = self.take_fetch(ticket) else { return };
        let Some(capture) = fetch.capture.take().filter(|_| !abandoned) else { return self.fetch_failed(fetch, 500) };
        let size = capture.size.or_else(|| announced(capture.fields.iter()));
        if size.is_none_or(|size| size == capture.content.len() as u64) {
            let Capture { status, fields, content, judgement, times, .. } = capture;
            let pairs: Vec<FieldPair<'_>> = fields.iter().collect();
            let response = Response::new(judgement, (status, &pairs), content.into(), &times, |name| self.is_own(name));
            return self.store(fetch, response, Status::Miss(true));
        }
        // The response is shorter than announced: the engine cuts it off.
        fetch.capture = Some(capture);
        entry.exchange = None;
        self.table.insert(entry);
        self.put_fetch(ticket, fetch);
        self.stop_capture(ticket);
        self.handle_end(ticket, false);
    }

    /// Answers in place of an app that has had the request, and has failed.
    pub(super) fn fetch_failed(&mut self, fetch: Fetch, status: u16) {
        if fetch.is_unsafe() {
            // The app may have changed the resource before it failed.
            self.invalidate(&fetch, &[]);
        }
        self.refuse_fetch(fetch, status);
    }

    /// Answers in place of an app that does not answer. Only a request that a worker has had makes stored responses invalid:
    /// otherwise any client could empty the cache of an app that is busy.
    pub(super) fn refuse_fetch(&mut self, mut fetch: Fetch, status: u16) {
        let now = self.now();
        let mut memory = FieldMemory::default();
        if let Some(exchange) = fetch.exchange.take() {
            match fetch.answer_to_error(now) {
                Some((stale, left)) => {
                    self.slot.account.count(Counter::CacheStale);
                    let _ = self.answer_stored(exchange, stale, &fetch.conditions, &Status::Hit(left), &mut memory);
                }
                None => self.refuse(exchange, status),
            }
        }
        for ticket in std::mem::take(&mut fetch.waiting) {
            let answer = self.fetch(ticket).and_then(|fetch| {
                let (stale, left) = fetch.answer_to_error(now)?;
                Some((stale.clone(), left, fetch.conditions.clone()))
            });
            match answer {
                Some((stale, left, conditions)) => {
                    self.answer_waiting(ticket, &stale, &conditions, Status::Hit(left), &mut memory);
                }
                None => self.release(ticket),
            }
        }
    }

    /// Fails the fetch of a request, if it has one. Returns whether it has.
    #[cold]
    pub(super) fn fail_fetch(&mut self, ticket: Ticket, status: u16) -> bool {
        let Some(fetch) = self.take_fetch(ticket) else { return false };
        if let Some(exchange) = fetch.exchange {
            self.report_wait(ticket, exchange);
        }
        self.fetch_failed(fetch, status);
        true
    }

    /// Handles the loss of a client whose request has a fetch. Withdraws the request, unless another one waits for the
    /// response. Returns how long the request has waited for a worker; `None` if there is no such request.
    pub(super) fn lose_client_of_fetch(&mut self, exchange: ExchangeId) -> Option<Wait> {
        let cache = self.cache.as_mut()?;
        let (&ticket, fetch) = cache.fetches.iter_mut().find(|(_, fetch)| fetch.exchange == Some(exchange))?;
        fetch.exchange = None;
        let is_needed = !fetch.waiting.is_empty();
        let known = self.wait_of(ticket);
        if !is_needed {
            let fetch = self.take_fetch(ticket)?;
            if self.withdraw(ticket) && fetch.is_unsafe() {
                // The app may have changed the resource already.
                self.invalidate(&fetch, &[]);
            }
        }
        Some(known)
    }

    /// Gives the fetch of a request that is tried again its new ticket.
    pub(super) fn move_fetch(&mut self, from: Ticket, to: Ticket) {
        let Some(cache) = &mut self.cache else { return };
        let Some(fetch) = cache.fetches.remove(&from) else { return };
        if let Some(leader) = cache.asked.get_mut(&fetch.key).filter(|leader| **leader == from) {
            *leader = to;
        }
        cache.fetches.insert(to, fetch);
    }

    /// Whether a request has a fetch.
    pub(super) fn has_fetch(&self, ticket: Ticket) -> bool {
        self.cache.as_ref().is_some_and(|cache| cache.fetches.contains_key(&ticket))
    }

    /// Returns the fetch of a request.
    pub(super) fn fetch(&self, ticket: Ticket) -> Option<&Fetch> {
        self.cache.as_ref()?.fetches.get(&ticket)
    }

    /// Takes the fetch of a request. Others no longer begin to wait for it; those that do are in the fetch.
    pub(super) fn take_fetch(&mut self, ticket: Ticket) -> Option<Fetch> {
        let cache: &mut AppCache = self.cache.as_mut()?;
        let fetch = cache.fetches.remove(&ticket)?;
        cache.captured -= fetch.captured();
        if cache.asked.get(&fetch.key) == Some(&ticket) {
            cache.asked.remove(&fetch.key);
        } else if let Some(leader) = cache.asked.get(&fetch.key).and_then(|leader| cache.fetches.get_mut(leader)) {
            leader.waiting.retain(|waiting| *waiting != ticket);
        }
        Some(fetch)
    }

    /// Puts back the fetch of a request whose response is still awaited.
    fn put_fetch(&mut self, ticket: Ticket, fetch: Fetch) {
        let Some(cache) = &mut self.cache else { return };
        if fetch.class == Class::Get && !fetch.authorized {
            cache.asked.entry(fetch.key.clone()).or_insert(ticket);
        }
        cache.captured += fetch.captured();
        cache.fetches.insert(ticket, fetch);
    }

    fn times(&self, fetch: &Fetch) -> Times {
        let engine = self.lane.source();
        Times { asked: fetch.asked, now: engine.now(), date: engine.wall_clock().as_secs() }
    }

    /// Whether the server makes a field for each response.
    fn is_own(&self, name: &[u8]) -> bool {
        let id = self.settings.request_id.as_ref().map_or("X-Request-Id", |id| id.name());
        name.eq_ignore_ascii_case(id.as_bytes())
    }

    fn decide(&self, fetch: &Fetch, head: ResponseHead<'_>, size: Option<u64>, times: &Times) -> Decision {
        if head.status == 304 && fetch.validates && fetch.stale.is_some() {
            return Decision::Confirm;
        }
        if matches!(head.status, 500 | 502..=504) && fetch.answer_to_error(times.now).is_some() {
            return Decision::Replace;
        }
        let announced = announced(head.fields.iter().copied());
        // Content of another size than announced is cut off.
        let is_wrong = size.is_some() && announced.is_some() && size != announced;
        let is_small = size.or(announced).is_none_or(|size| size <= fetch.rules.max_object);
        let is_current = fetch.scope.generation == self.pool.generation() && !fetch.is_outdated;
        if fetch.exchange.is_some() && !fetch.is_unsafe() {
            self.slot.account.count(Counter::CacheMisses);
        }
        let is_endless = head.fields.iter().any(|(name, value)| is_event_stream(name, value));
        if is_endless || fetch.class != Class::Get || is_wrong || !is_small || !is_current {
            return Decision::Pass;
        }
        let judged = fetch.rules.judge(fetch.authorized, head.status, head.fields, times);
        judged.map_or(Decision::Pass, Decision::Store)
    }

    /// Gives up storing the response to a request, and returns its exchange. Those that wait for the response go to the app.
    fn pass(&mut self, fetch: &mut Fetch, ResponseHead { status, fields }: ResponseHead<'_>) -> Option<ExchangeId> {
        let now = self.now();
        if fetch.is_unsafe() && matches!(status, 200..=399) {
            self.invalidate(fetch, fields);
        }
        if let Some(cache) = self.cache.as_ref().filter(|_| fetch.class == Class::Get) {
            let mut store = cache.store.borrow_mut();
            if let Some(stale) = fetch.stale.take().filter(|_| status < 500) {
                store.remove(&fetch.key, &stale);
            }
            if !fetch.authorized {
                store.pass(&fetch.key, fetch.scope, now + PASSES_FOR);
            }
        }
        for ticket in std::mem::take(&mut fetch.waiting) {
            self.release(ticket);
        }
        fetch.exchange.take()
    }

    /// Begins a response that is passed on.
    fn begin(
        &mut self,
        ticket: Ticket,
        exchange: Option<ExchangeId>,
        fetch: &Fetch,
        head: ResponseHead<'_>,
        size: Option<u64>,
    ) {
        let Some(exchange) = exchange else { return self.discard(ticket) };
        let Some(entry) = self.table.get(ticket) else { return };
        (entry.exchange, entry.begun) = (Some(exchange), true);
        let status = Status::Miss(false).text();
        let fields = with_status(head.fields, fetch, &status);
        let begun = self.lane.source().start_with_size(exchange, ResponseHead { status: head.status, fields: &fields }, size);
        match begun {
            Ok(()) => self.unsent_heads.push(ticket),
            Err(refusal) => self.handle_refusal(ticket, refusal),
        }
    }

    /// Stores a response, and answers all that wait for it.
    fn store(&mut self, mut fetch: Fetch, response: Response, status: Status) {
        let response = Rc::new(response);
        if let Some(cache) = self.cache.as_ref().filter(|_| !fetch.is_outdated) {
            cache.store.borrow_mut().insert(&fetch.key, fetch.scope, &fetch.request.iter(), response.clone());
        }
        let mut memory = FieldMemory::default();
        let mut is_valid = true;
        if let Some(exchange) = fetch.exchange.take() {
            is_valid = self.answer_stored(exchange, &response, &fetch.conditions, &status, &mut memory).is_ok();
        }
        if !is_valid && let Some(cache) = &self.cache {
            cache.store.borrow_mut().remove(&fetch.key, &response);
        }
        let now = self.now();
        for ticket in std::mem::take(&mut fetch.waiting) {
            let Some(waiting) = self.fetch(ticket) else { continue };
            let found = self.cache.as_ref().and_then(|cache| {
                cache.store.borrow_mut().find(&waiting.key, waiting.scope, &waiting.request.iter(), now).response
            });
            // A response that is not fresh is not for others.
            match found.filter(|found| is_valid && matches!(found.answer(now, None), Answer::Serve(_))) {
                Some(found) => {
                    let conditions = waiting.conditions.clone();
                    self.slot.account.count(Counter::CacheCollapsed);
                    self.answer_waiting(ticket, &found, &conditions, Status::Collapsed, &mut memory);
                }
                None => self.release(ticket),
            }
        }
    }

    /// Renews the stored response, because the app has confirmed it. If it cannot be stored with the fields of the 304, it
    /// answers the request of this fetch only.
    fn confirm(&mut self, mut fetch: Fetch, fields: &[FieldPair<'_>], times: &Times) {
        let Some(stale) = fetch.stale.clone() else { return };
        let is_current = fetch.scope.generation == self.pool.generation() && !fetch.is_outdated;
        let (response, is_stored) = match stale.updated(&fetch.rules, fetch.authorized, fields, times, |name| self.is_own(name))
        {
            Ok(response) => (response, is_current),
            Err(_) => (stale.confirmed_once(fields, times, |name| self.is_own(name)), false),
        };
        if fetch.exchange.is_some() {
            self.slot.account.count(Counter::CacheRevalidated);
        }
        let status = Status::Validated(is_stored);
        if is_stored {
            return self.store(fetch, response, status);
        }
        if let Some(exchange) = self.pass(&mut fetch, ResponseHead { status: 304, fields }) {
            let _ = self.answer_stored(exchange, &response, &fetch.conditions, &status, &mut FieldMemory::default());
        }
    }

    /// Answers a request that waits for the response to another one.
    fn answer_waiting(
        &mut self,
        ticket: Ticket,
        response: &Response,
        conditions: &Conditions,
        status: Status,
        memory: &mut FieldMemory,
    ) {
        let Some(fetch) = self.take_fetch(ticket) else { return };
        if self.pool.withdraw(ticket) == Withdrawal::Unseen {
            self.table.remove(ticket);
        }
        if let Some(exchange) = fetch.exchange {
            self.lane.source().report_wait_until_now(exchange);
            let _ = self.answer_stored(exchange, response, conditions, &status, memory);
        }
    }

    /// Sends a request that has waited for the response to another one to the app.
    fn release(&mut self, ticket: Ticket) {
        if !self.pool.put_back(ticket) {
            return;
        }
        let now = self.now();
        if let Some(fetch) = self.cache.as_mut().and_then(|cache| cache.fetches.get_mut(&ticket)) {
            fetch.asked = now;
        }
        let connection = self.table.connection(ticket);
        self.note_other_try(connection, ticket);
        self.deadlines.submitted(ticket);
        self.timers.submitted(now, self.deadlines.are_set());
        self.lane.source().note_queued();
    }

    /// Removes the stored responses that an unsafe request has made invalid (RFC 9111, section 4.4).
    pub(super) fn invalidate(&mut self, fetch: &Fetch, fields: &[FieldPair<'_>]) {
        let Some(cache) = &mut self.cache else { return };
        cache.invalidate(&fetch.key);
        for (name, value) in fields {
            if (name.eq_ignore_ascii_case(b"location") || name.eq_ignore_ascii_case(b"content-location"))
                && let Some(key) = oribi_cache::same_site(&fetch.key, value)
            {
                cache.invalidate(&key);
            }
        }
    }

    /// Fails the fetches whose requests are no longer in the pool.
    pub(super) fn fail_lost_fetches(&mut self) {
        let Some(cache) = &self.cache else { return };
        let tickets: Vec<Ticket> = cache.fetches.keys().copied().collect();
        for ticket in tickets {
            if self.table.get(ticket).is_none() {
                self.fail_fetch(ticket, 502);
            }
        }
    }
}

/// Returns the fields of a response that is passed on, with the part that the cache took.
fn with_status<'f>(fields: &'f [FieldPair<'f>], fetch: &Fetch, status: &'f [u8]) -> Vec<FieldPair<'f>> {
    let own: Option<FieldPair<'f>> = (fetch.class == Class::Get).then_some((b"Cache-Status", status));
    fields.iter().copied().chain(own).collect()
}

/// Returns the value of Content-Length, if there is a valid one.
fn announced<'f>(mut fields: impl Iterator<Item = FieldPair<'f>>) -> Option<u64> {
    let (_, value) = fields.find(|(name, _)| name.eq_ignore_ascii_case(b"content-length"))?;
    std::str::from_utf8(value).ok()?.trim().parse().ok()
}

/// Whether a field says that the content is a stream of events, which is for one client and may have no end.
fn is_event_stream(name: &[u8], value: &[u8]) -> bool {
    const KIND: &[u8] = b"text/event-stream";
    name.eq_ignore_ascii_case(b"content-type") && value.get(..KIND.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(KIND))
}
