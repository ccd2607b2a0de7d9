//! Answers requests from the cache, or asks the app for a response that may be stored.
//!
//! A request that goes to the app because of the cache has a [`Fetch`], which has the exchange in place of its entry in the
//! table, until `fetches` has seen whether the response may be stored. Other requests for the same URI wait meanwhile: they are
//! in slots of the pool as well, but aside, so that no worker takes them.

use super::AppPool;
use super::fetch::{AppCache, Entering, Fetch, Status};
use super::queue::Purpose;
use oribi_cache::{Answer, Class, Conditions, Fields, Found, Request, RequestControl, Response, Rules, Scope};
use oribi_engine::{Exchange, Wait};
use oribi_filter::FieldChanges;
use oribi_host::{ExchangeId, ReplyError};
use oribi_io::Backend;
use oribi_message::{FieldMemory, FieldPair, ResponseHead};
use oribi_source::LentRequest;
use oribi_stats::totals::Counter;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

impl<B: Backend> AppPool<'_, '_, B> {
    /// Answers a request from the cache, or passes it to the app. `route` has these rules.
    pub(in super::super) fn submit_cached(&mut self, exchange: Exchange, route: usize, rules: &Rules) {
        let Some(mut cache) = self.cache.take() else { return self.submit(exchange) };
        let entering = self.look_up(&mut cache, exchange, route, rules);
        self.cache = Some(cache);
        if let Some((exchange, entering)) = entering {
            self.slot.requests.fetch_add(1, Relaxed);
            self.submit_for(exchange, entering.map_or(Purpose::Answer, |entering| Purpose::Fetch(Box::new(entering))));
        }
    }

    /// Returns the request if it has to go to the app.
    fn look_up(
        &mut self,
        cache: &mut AppCache,
        exchange: Exchange,
        route: usize,
        rules: &Rules,
    ) -> Option<(Exchange, Option<Entering>)> {
        let AppCache { store, app, key, asked, fields, fetches, .. } = cache;
        let head = exchange.head();
        let mut request = Request::read(&head, exchange.is_https(), exchange.has_content(), key);
        // A web server in front, or a certificate, may have said who the user is.
        request.has_authorization |= exchange.user().is_some() || exchange.has_client_certificate();
        let scope = Scope { route, app: *app, generation: self.pool.generation() };
        let now = self.now();
        let control = rules.heeds_requests.then_some(request.control);
        let found = match request.class {
            Class::Bypass => {
                self.slot.account.count(Counter::CacheBypasses);
                return Some((exchange, None));
            }
            Class::Unsafe => Found { response: None, passes: true },
            Class::Get | Class::Head => {
                store.borrow_mut().find(key, scope, &head.fields().map(|(_, name, value)| (name, value)), now)
            }
        };
        let is_usable = |response: &Rc<Response>| !request.has_authorization || response.judgement().shared;
        let Found { response, passes } = Found { response: found.response.filter(is_usable), ..found };
        let answer = response.as_ref().map_or(Answer::Ask, |response| response.answer(now, control.as_ref()));
        let mut answered = false;
        if let (Answer::Serve(left) | Answer::ServeAndAsk(left), Some(stored)) = (answer, &response) {
            let conditions = if request.is_conditional { Conditions::of(&head) } else { Conditions::default() };
            let id = exchange.id();
            self.slot.account.count(if left > 0 { Counter::CacheHits } else { Counter::CacheStale });
            if self.answer_stored(id, stored, &conditions, &Status::Hit(left), fields).is_err() {
                store.borrow_mut().remove(key, stored);
            }
            answered = true;
        }
        // A fetch of before a change of the routes or of the app has another scope.
        let is_asked = asked.get(&key[..]).and_then(|leader| fetches.get(leader)).is_some_and(|leader| leader.scope == scope);
        let asks = !answered || (matches!(answer, Answer::ServeAndAsk(_)) && !is_asked && request.class == Class::Get);
        if !asks {
            self.lane.source().give_back(exchange);
            return None;
        }
        if control.is_some_and(|control| control.only_if_cached) && !answered {
            self.refuse(exchange.id(), 504);
            self.lane.source().give_back(exchange);
            return None;
        }
        // Other misses are counted when their responses arrive. The cache does not store a response to HEAD, but it may answer in
        // place of an error.
        let is_replaceable = response.as_ref().is_some_and(|response| response.answer_to_error(now).is_some());
        let is_irrelevant = request.class == Class::Head && !is_replaceable;
        if is_irrelevant || control.is_some_and(|RequestControl { no_store, .. }| no_store) {
            self.slot.account.count(Counter::CacheMisses);
            return Some((exchange, None));
        }
        let passes = passes || request.class == Class::Head;
        let may_wait = !passes && !request.has_authorization && !answered;
        let waits = may_wait && is_asked;
        // A response that has answered a request with Authorization is one for all. The app is asked once for many clients that
        // have an answer, even while its responses cannot be stored, because it fails.
        let leads = (answered || !passes) && !is_asked && (!request.has_authorization || answered);
        let conditions = if request.is_conditional { Conditions::of(&head) } else { Conditions::default() };
        let mut fetch = Fetch {
            key: asked.get_key_value(&key[..]).map_or_else(|| key[..].into(), |(key, _)| key.clone()),
            scope,
            rules: *rules,
            exchange: (!answered).then(|| exchange.id()),
            request: Fields::copy(head.fields().map(|(_, name, value)| (name, value))),
            conditions,
            authorized: request.has_authorization,
            class: request.class,
            asked: now,
            stale: response,
            validates: false,
            is_outdated: false,
            capture: None,
            waiting: Vec::new(),
        };
        let mut exchange = exchange;
        // If no response is stored, the app evaluates the conditions of the client itself when it is known that others cannot
        // be stored either.
        if fetch.class == Class::Get && (leads || waits || answered || fetch.stale.is_some()) {
            replace_conditions(&mut exchange, request.is_conditional, &mut fetch);
        }
        Some((exchange, Some(Entering { fetch, waits, leads })))
    }

    /// Answers an exchange with a stored response, or with 304 if its client has that.
    ///
    /// # Errors
    /// The response is invalid. The client has got a 500.
    pub(super) fn answer_stored(
        &self,
        exchange: ExchangeId,
        response: &Response,
        conditions: &Conditions,
        status: &Status,
        memory: &mut FieldMemory,
    ) -> Result<(), ()> {
        let now = self.now();
        let age = response.age(now);
        // Age means that the app has not answered this request (RFC 9111, section 5.1).
        let has_age = age > 0 || matches!(status, Status::Hit(_) | Status::Collapsed);
        let (age, status) = (age.to_string(), status.text());
        let mut fields: Vec<FieldPair<'_>> = memory.take();
        let is_met = !conditions.is_empty() && conditions.are_met(response.status(), &response.fields());
        if is_met {
            fields.extend(response.fields_of_304());
        } else {
            fields.extend(response.fields());
        }
        fields.extend(has_age.then_some((&b"Age"[..], age.as_bytes())));
        fields.push((b"Cache-Status", &status));
        let head = ResponseHead { status: if is_met { 304 } else { response.status() }, fields: &fields };
        // The response is not one of the server's own: no error page replaces its content.
        let wait = Wait { nanoseconds: 0, worker: None };
        let answered = if is_met {
            self.lane.source().respond_behind(wait, exchange, head, &[])
        } else {
            self.lane.source().respond_behind(wait, exchange, head, &[response.content()])
        };
        memory.keep(fields);
        if let Err(ReplyError::Invalid(why)) = answered {
            log::error!("a stored response of an app is invalid: {why}");
            return Err(());
        }
        Ok(())
    }
}

/// Replaces the conditions of the client by those of the cache.
fn replace_conditions(exchange: &mut Exchange, is_conditional: bool, fetch: &mut Fetch) {
    let mut changes = FieldChanges::default();
    if let Some(stale) = &fetch.stale {
        for (name, value) in stale.validators() {
            fetch.validates |= changes.set(name, value).is_ok();
        }
    }
    if is_conditional {
        // No name here is one that changes cannot concern.
        let _ = changes.remove("If-None-Match").and_then(|()| changes.remove("If-Modified-Since"));
    }
    if !changes.is_empty() {
        exchange.change_fields(&changes);
    }
}
