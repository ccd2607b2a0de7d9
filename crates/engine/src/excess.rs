//! Bounds the memory of responses that wait for slow clients, whatever the disk takes.
//!
//! If all responses of the process hold more than twice the memory that they should (`--output-memory-total`), those in memory move to
//! the spool, the heaviest first: those that hold much, and have waited long for their clients. If the spool takes no more of one, it is
//! ended. (Responses on one connection of HTTP/2 are weighed together.) The response that began to wait last is spared, so that clients
//! that hold much do not exclude others, and a response that is alone always has room. Of several lanes in one process, only those act
//! whose own responses hold more than they all should.

use super::Engine;
use super::deadline::Deadline;
use super::name::ExchangeIndex;
use super::output::Output;
use super::stream::{Frames, StreamFraming};
use oribi_io::Backend;
use oribi_stats::totals::Counter;
use std::collections::HashMap;
use std::time::Duration;

/// The shortest time between two log lines about ended responses.
const LOGGED_EVERY: Duration = Duration::from_secs(60);

impl<B: Backend> Engine<'_, B> {
    /// Frees memory if responses hold too much of it.
    #[inline]
    pub(super) fn bound_responses(&mut self) {
        if std::mem::take(&mut self.backlog.is_over) {
            self.free_memory_of_responses();
        }
    }

    #[cold]
    fn free_memory_of_responses(&mut self) {
        while self.backlog.bounds.are_far_exceeded() {
            let Some(place) = self.heaviest_response() else { return };
            if !self.move_response(place) {
                self.end_held_response(place);
            }
        }
    }

    /// The response that burdens others most; `None` if other lanes hold too much. Those whose clients take everything at once are not
    /// among them.
    fn heaviest_response(&self) -> Option<ExchangeIndex> {
        let now = self.backend.now();
        let of_connections = self.deadlines.of(Deadline::Write).filter_map(|(index, since)| {
            let held = self.connections[index].line.output.as_ref()?.held();
            Some((since, held, index, ExchangeIndex::Connection(index)))
        });
        let of_streams = self.stream_deadlines.of(Deadline::Write).filter_map(|(number, since)| {
            let stream = &self.streams[number];
            let StreamFraming::Http2(Frames { waiting: Some(waiting), .. }) = &stream.framing else { return None };
            Some((since, waiting.held(), stream.connection, ExchangeIndex::Stream(number)))
        });
        let mut all: Vec<_> = of_connections.chain(of_streams).filter(|(_, held, ..)| *held > 0).collect();
        if !self.backlog.bounds.are_exceeded_by(all.iter().map(|(_, held, ..)| held).sum()) {
            return None;
        }
        all.sort_by_key(|(since, ..)| *since);
        all.pop();
        let weight = |since: Duration, held: u64| u128::from(held) * (now.saturating_sub(since).as_millis() + 1);
        let mut together: HashMap<u32, u128> = HashMap::new();
        for (since, held, index, _) in &all {
            *together.entry(*index).or_default() += weight(*since, *held);
        }
        let heaviest = all.into_iter().max_by_key(|(since, held, index, _)| (together[index], weight(*since, *held)));
        heaviest.map(|(.., place)| place)
    }

    /// Moves a response to the spool. Returns whether it holds less memory now.
    fn move_response(&mut self, place: ExchangeIndex) -> bool {
        let Self { connections, streams, backlog, backend, tally, .. } = self;
        let output: Option<&mut Output> = match place {
            ExchangeIndex::Connection(index) => connections[index].line.output.as_deref_mut(),
            ExchangeIndex::Stream(number) => match &mut streams[number].framing {
                StreamFraming::Http2(Frames { waiting, .. }) => waiting.as_deref_mut(),
                StreamFraming::FastCgi(_) => None,
            },
        };
        output.is_some_and(|output| backlog.free_memory(output, backend.now(), tally))
    }

    /// Cuts off a response.
    fn end_held_response(&mut self, place: ExchangeIndex) {
        let now = self.backend.now();
        self.tally.count(Counter::LimitOutputMemoryTotal);
        if self.backlog.logged_end.is_none_or(|logged| now.saturating_sub(logged) >= LOGGED_EVERY) {
            self.backlog.logged_end = Some(now);
            log::warn!(
                "responses that wait for slow clients hold too much memory (--output-memory-total), and temporary files take no \
                 more of them: the one that has held most for the longest time is cut off"
            );
        }
        match place {
            ExchangeIndex::Connection(index) => self.cut(index),
            ExchangeIndex::Stream(number) => self.reset_waiting(number),
        }
    }
}
