//! Measures how long the parts of requests take: see [`super::laps`].
//!
//! The engine reads no clock for that: it takes the time of its turn, which backends read anyway, and which a lane reads again when an app
//! has answered. "Sent" means that the socket has taken it. What leaves together with other responses in the same turn counts as sent
//! at once; if the socket has no room, the response is [`Unsent`] until there has been enough, and so is its line of the access log.

use super::answer::{Counted, LateLine, Lost, Outcome, Unsent};
use super::respond::Target;
use super::stream::Stream;
use super::{Engine, Exchange};
use crate::log::Ending;
use oribi_host::ExchangeId;
use oribi_io::Backend;
use std::time::Duration;

impl<B: Backend> Engine<'_, B> {
    /// From now on the times of all requests are counted, whatever the settings are.
    pub(crate) fn measure_times(&mut self) {
        self.measures = true;
    }

    /// An app has taken its time for the rest of a response.
    #[inline]
    pub(super) fn read_clock_to_measure(&mut self) {
        if self.measures {
            self.backend.read_clock();
        }
    }

    /// A worker had to be waited for: the request of an exchange was taken so long after it was complete, by this process if that is
    /// known.
    #[inline]
    pub(crate) fn tell_wait(&mut self, exchange: ExchangeId, wait: Duration, worker: Option<u32>) {
        if let Ok(target) = Target::find(&mut self.connections, &mut self.streams, exchange) {
            let answer = target.response.answer;
            answer.laps.wait(wait);
            if let Some(draft) = answer.draft.as_mut().filter(|_| worker.is_some()) {
                draft.worker = worker;
            }
        }
    }

    /// How long the request of an exchange has waited until it was lent.
    pub(crate) fn queue_time(&mut self, exchange: ExchangeId) -> Option<Duration> {
        let target = Target::find(&mut self.connections, &mut self.streams, exchange).ok()?;
        Some(target.response.answer.laps.queue_time())
    }

    /// No worker takes the request of an exchange: it has waited until now.
    pub(crate) fn tell_wait_until_now(&mut self, exchange: ExchangeId) {
        let now = self.backend.now();
        if let Ok(target) = Target::find(&mut self.connections, &mut self.streams, exchange) {
            let laps = &mut target.response.answer.laps;
            laps.wait(laps.age(now));
        }
    }

    /// Counts the times of a response that has been sent, or whose client has left.
    #[inline]
    pub(super) fn count_times(&self, Counted { laps, status, route }: &Counted) {
        if !self.measures {
            return;
        }
        let now = self.backend.now().into();
        laps.count(now, &self.tally);
        if self.routes.is_some() {
            self.tally.routed(*route, *status, laps.total(now));
        }
    }

    /// Notes on which route an exchange is that is handed out now.
    pub(super) fn note_route(&mut self, exchange: &Exchange) {
        if let Some(routes) = &self.routes
            && let Ok(target) = Target::find(&mut self.connections, &mut self.streams, exchange.id)
        {
            target.response.answer.route = routes.of(exchange.head().path());
        }
    }

    /// The response on a connection, whose host has returned before, has been written completely. Counts its times and writes its line,
    /// or does that when the socket has taken the rest.
    #[inline]
    pub(super) fn conclude(&mut self, index: u32, counted: Counted, line: Option<LateLine>) {
        if !self.measures {
            return;
        }
        let output = self.connections.get_mut(index).and_then(|connection| connection.line.output.as_mut());
        match output.filter(|output| output.holds_responses_back()) {
            Some(output) => output.unsent.push(Unsent { counted, line }),
            None => {
                self.count_times(&counted);
                if line.is_some() {
                    let ending = self.ending_of(index);
                    self.record_late(line, ending);
                }
            }
        }
    }

    /// The same for a response on a stream.
    pub(super) fn conclude_stream(&mut self, number: u32) {
        if let Some((connection, _, answer)) = self.streams.get_mut(number).and_then(Stream::answering) {
            let (counted, line) = (answer.counted(), answer.late_line());
            self.conclude(connection, counted, line);
        }
    }

    /// The same for a response whose host returns now.
    #[inline]
    pub(super) fn conclude_returned(&mut self, index: u32, exchange: &Exchange, outcome: Outcome) {
        let Some(counted) = outcome.counted().filter(|_| self.measures) else { return };
        let output = self.connections.get_mut(index).and_then(|connection| connection.line.output.as_ref());
        if !output.is_some_and(|output| output.holds_responses_back()) {
            self.count_times(&counted);
            return self.record(exchange, Some((outcome, index)));
        }
        let line = self.draft(exchange).map(|draft| LateLine { draft, outcome });
        if let Some(output) = self.connections.get_mut(index).and_then(|connection| connection.line.output.as_mut()) {
            output.unsent.push(Unsent { counted, line });
        }
    }

    /// A client has gone before its request was answered.
    pub(super) fn lose(&mut self, lost: Lost) {
        match &mut self.lost {
            Some(list) => list.push(lost),
            None => self.conclude_lost(lost, None),
        }
    }

    /// Counts the times of a request whose client has gone, and writes its line. `known`: how long it has waited for a worker, and the
    /// process of that, if it had one.
    pub(crate) fn conclude_lost(&mut self, lost: Lost, known: Option<(Duration, Option<u32>)>) {
        let Lost { mut counted, mut line, .. } = lost;
        if let Some((wait, worker)) = known {
            counted.laps.wait(wait);
            if let Some(LateLine { outcome, draft }) = &mut line {
                (outcome.laps, draft.worker) = (Some(counted.laps), worker);
            }
        }
        self.count_times(&counted);
        self.record_late(line, Ending::Aborted);
    }

    /// Everything in an output has been sent, or its client has gone.
    #[cold]
    #[inline(never)]
    pub(super) fn conclude_unsent(&mut self, unsent: &mut Vec<Unsent>, ending: Ending) {
        for Unsent { counted, line } in unsent.drain(..) {
            self.count_times(&counted);
            self.record_late(line, ending);
        }
    }

    /// The engine ends: whatever has not been sent will not be.
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
