//! Measures the durations of the parts of requests: see [`super::request_timings`].
//!
//! The engine reads no clock for these measurements: it takes the time of its turn. Backends read that time anyway, and a lane
//! reads the clock again when an app has answered. Bytes count as sent when the socket has taken them. A response that is sent
//! together with others in the same turn counts as sent at once; if the socket has no room, the response, and its line of the
//! access log, stay [`Unsent`] until the socket has taken all of it.

use super::access::TAKEN;
use super::answer::{Counted, LateLine, Lost, Unsent};
use super::request_timings::Wait;
use super::respond::Target;
use super::stream::Stream;
use super::{Engine, Exchange};
use oribi_host::ExchangeId;
use oribi_io::Backend;
use oribi_log::Ending;
use std::time::Duration;

impl<B: Backend> Engine<'_, B> {
    /// Counts the times of all requests from now on, independently of the settings.
    pub fn measure_times(&mut self) {
        self.observing.measures = true;
    }

    /// Reads the clock after an app has completed a response.
    #[inline]
    pub(super) fn read_clock_to_measure(&mut self) {
        if self.observing.measures || self.observing.measures_one {
            self.backend.read_clock();
        }
    }

    /// Sets the time that the request of an exchange had to wait for a worker.
    #[inline]
    pub fn report_wait(&mut self, exchange: ExchangeId, wait: Wait) {
        if let Ok(target) = Target::find(&mut self.connections, &mut self.streams, exchange) {
            target.response.answer.waited(wait);
        }
    }

    /// The time that the request of an exchange waited before it was lent; `None` if the exchange is over.
    pub(crate) fn queue_time(&mut self, exchange: ExchangeId) -> Option<Duration> {
        let target = Target::find(&mut self.connections, &mut self.streams, exchange).ok()?;
        Some(target.response.answer.timings.queue_time())
    }

    /// Sets the wait of a request that no worker took to the time from its completion until now.
    pub fn report_wait_until_now(&mut self, exchange: ExchangeId) {
        let now = self.backend.now();
        if let Ok(target) = Target::find(&mut self.connections, &mut self.streams, exchange) {
            let timings = &mut target.response.answer.timings;
            timings.wait(timings.total(now.into()));
        }
    }

    /// Counts the times of a response that has been sent, or whose client has disconnected. Returns their sum in
    /// nanoseconds.
    #[inline]
    pub(super) fn count_times(&self, Counted { timings, status, route }: &Counted) -> u64 {
        let now = self.backend.now().into();
        let took = timings.total(now);
        if self.observing.measures {
            timings.count(now, &self.tally);
            if self.observing.routes.is_some() {
                self.tally.routed(*route, *status, took);
            }
        }
        took
    }

    /// Notes the route of an exchange that is handed out now.
    pub(super) fn note_route(&mut self, exchange: &Exchange) {
        if let Some(routes) = &self.observing.routes
            && let Ok(target) = Target::find(&mut self.connections, &mut self.streams, exchange.id)
        {
            target.response.answer.route = routes.of(exchange.head().path());
        }
    }

    /// Sets the route of an exchange, by its number among [`Settings::route_names`](oribi_config::Settings::route_names).
    pub fn set_route(&mut self, exchange: ExchangeId, number: u8) {
        if let Ok(target) = Target::find(&mut self.connections, &mut self.streams, exchange) {
            target.response.answer.route = number;
        }
    }

    /// Counts the times of a response that has been written completely after its host had returned, and writes its log line;
    /// counting and writing are postponed if the socket has not taken everything.
    #[inline(always)]
    pub(super) fn conclude(&mut self, index: u32, counted: Counted, line: Option<LateLine>) {
        let measures = self.observing.measures;
        let output = self.connections.get_mut(index).and_then(|connection| connection.line.output.as_mut());
        match (output.filter(|output| output.holds_responses_back()), line) {
            // A request with a span or a log has a line.
            (_, None) if !measures => {}
            // Most responses are sent at once, and have no line.
            (None, None) => _ = self.count_times(&counted),
            (None, Some(line)) => self.conclude_line(index, &counted, line),
            (Some(output), line) => output.unsent.push(Unsent { counted, line }),
        }
    }

    /// Counts the times of a response that has been sent, and writes its line if one is due.
    #[inline(never)]
    fn conclude_line(&mut self, index: u32, counted: &Counted, line: LateLine) {
        let took = self.count_times(counted);
        // Only now is it known that the request was not slow; most requests are not.
        if !self.tells_of(|| line.draft.head(), took) {
            return self.keep_draft(line.draft);
        }
        let ending = self.ending_of(index);
        self.record_late(Some(line), ending);
    }

    /// Like [`Engine::conclude`], for a response on a stream.
    #[inline(never)]
    pub(super) fn conclude_stream(&mut self, number: u32) {
        if let Some((connection, _, answer)) = self.streams.get_mut(number).and_then(Stream::answering) {
            let (counted, line) = (answer.counted(), answer.late_line());
            self.conclude(connection, counted, line);
        }
    }

    /// Like [`Engine::conclude`], for a response whose host returns now.
    #[inline]
    pub(super) fn conclude_returned(&mut self, index: u32, exchange: &Exchange, counted: Counted) {
        if !self.observing.measures && !self.tells_span(|| exchange.head()) {
            return;
        }
        let output = self.connections.get_mut(index).and_then(|connection| connection.line.output.as_ref());
        if output.is_some_and(|output| output.holds_responses_back()) {
            return self.conclude_later(index, exchange, counted);
        }
        let took = self.count_times(&counted);
        if self.tells_of(|| exchange.head(), took)
            && let Some(outcome) = self.outcome_of(exchange)
        {
            self.record(exchange, Some((outcome, index)));
        }
    }

    /// Postpones counting and logging until the socket has taken the rest.
    #[cold]
    #[inline(never)]
    fn conclude_later(&mut self, index: u32, exchange: &Exchange, counted: Counted) {
        let draft = self.draft(exchange);
        let line = draft.and_then(|draft| Some(LateLine { draft, outcome: self.outcome_of(exchange)? }));
        if let Some(output) = self.connections.get_mut(index).and_then(|connection| connection.line.output.as_mut()) {
            output.unsent.push(Unsent { counted, line });
        }
    }

    /// Handles a client that disconnected before its request was answered.
    pub(super) fn lose(&mut self, lost: Lost) {
        self.client_changed |= self.reports_client_changes;
        match &mut self.observing.lost {
            Some(list) => list.push(lost),
            None => self.conclude_lost(lost, None),
        }
    }

    /// Counts the times of a request whose client has disconnected, and writes its log line. `known` is the wait of the request
    /// for a worker, if it had to wait.
    #[inline(never)]
    pub fn conclude_lost(&mut self, lost: Lost, known: Option<Wait>) {
        let Lost { mut counted, mut line, lent, exchange } = lost;
        if let Some(Wait { nanoseconds, worker }) = known {
            counted.timings.wait(nanoseconds);
            if let Some(LateLine { outcome, draft }) = &mut line {
                (outcome.timings, draft.worker) = (Some(counted.timings), worker);
            }
        }
        self.count_times(&counted);
        // If the host still has the request, the code that takes it back checks this.
        if !lent && self.was_taken(exchange) {
            if let Some(LateLine { outcome, .. }) = &mut line {
                (outcome.status, outcome.finished) = (TAKEN, true);
            }
            return self.record_late(line, Ending::Closes);
        }
        self.record_late(line, Ending::Aborted);
    }

    /// Concludes the responses of an output that has been sent, or whose client has disconnected.
    #[cold]
    #[inline(never)]
    pub(super) fn conclude_unsent(&mut self, unsent: &mut Vec<Unsent>, ending: Ending) {
        for Unsent { counted, line } in unsent.drain(..) {
            self.count_times(&counted);
            self.record_late(line, ending);
        }
    }

    /// Concludes all exchanges when the engine ends: unsent bytes are lost.
    pub(super) fn conclude_all(&mut self) {
        while let Some(lost) = self.take_lost() {
            self.conclude_lost(lost, None);
        }
        let indices: Vec<u32> = self.connections.indices().collect();
        for index in indices {
            if let Some(output) = &mut self.connections[index].line.output {
                let mut unsent = std::mem::take(&mut output.unsent);
                self.conclude_unsent(&mut unsent, Ending::Aborted);
            }
        }
    }
}
