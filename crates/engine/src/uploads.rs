//! Bounds the memory and files of unfinished requests: see [`content_bounds`](super::content_bounds).
//!
//! * A connection of HTTP/2 has a share of the process's memory and files. Streams beyond this share get no more window updates
//!   until an earlier stream is complete. Content that they may still send stays in memory. A stream that exceeds the share
//!   even so is reset, and its client may repeat the request.
//! * If all unfinished requests of the process hold too much memory, their content moves to files, the largest first, as far as
//!   more files are allowed.
//! * If they still hold too much, the request that burdens others most is refused: it holds much, has been arriving for long
//!   and has made little progress. (Requests on one connection of HTTP/2 are weighed together.) The request that has just grown
//!   is spared, so that a client that holds much does not exclude others.

use super::Engine;
use super::bounds::Sum;
use super::connection::{Connection, Reading, State};
use super::content::StoredContent;
use super::content_bounds::{ContentBounds, ContentBudget, Excess, Held};
use super::deadline::Deadline;
use super::exchange::Received;
use super::memory::Memory;
use super::name::ExchangeIndex;
use super::send::Still;
use super::stream::{Requested, Stream, StreamState};
use oribi_config::Settings;
use oribi_io::Backend;
use oribi_proto::h1::Refusal;
use oribi_proto::h2::ErrorCode;
use oribi_stats::scoreboard::Holdings;
use oribi_stats::totals::Counter;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

/// The shortest time between two log lines about a reached bound.
const LOGGED_EVERY: Duration = Duration::from_secs(60);

/// The bounds of an engine for request content.
#[derive(Debug)]
pub(super) struct Uploads<'a> {
    pub(super) bounds: ContentBounds<'a>,
    /// The time of the last log line about a reached bound.
    logged: Option<Duration>,
    /// Whether contents are being dropped, so that no other content takes their room.
    ends: bool,
}

impl<'a> Uploads<'a> {
    pub(super) fn new(settings: &'a Settings) -> Self {
        Self { bounds: ContentBounds::new(settings, ContentBudget::of_process()), logged: None, ends: false }
    }
}

/// The destination of a piece of a stream's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// The current place of the content.
    Here,
    /// A file, although the content would fit into memory.
    File,
    /// Memory, but the client gets no window update for it yet.
    Waits,
    /// Nowhere: there is no room.
    None,
}

impl<B: Backend> Engine<'_, B> {
    /// Counts what this engine alone holds: for tests, of which many run in one process.
    #[doc(hidden)]
    pub fn count_alone(&mut self) {
        self.uploads.bounds.budget = Box::leak(Box::default());
        self.backlog.bounds.budget = Box::leak(Box::default());
    }

    /// The sums of all engines of this process.
    #[inline]
    #[must_use]
    pub fn holdings(&self) -> Holdings {
        let (content, responses) = (&self.uploads.bounds.budget, &self.backlog.bounds.budget);
        Holdings::of([&content.memory, &content.files, &responses.memory, &responses.spooled].map(Sum::bytes))
    }

    /// The sum of the open files with content.
    #[inline]
    pub fn content_files(&self) -> &'static Sum {
        &self.uploads.bounds.budget.files
    }

    /// Refuses other requests if their content, together with that of the request that has grown, exceeds a bound.
    #[inline]
    pub(super) fn bound_content(&mut self, grown: ExchangeIndex) -> Still {
        if self.uploads.bounds.excess().is_none() { Still::Open } else { self.end_heaviest(grown) }
    }

    /// Moves content from memory to files, the largest first, until there is some room.
    fn move_largest(&mut self) {
        let mut all: Vec<_> = self.unfinished().map(|(place, index, request, _)| (request.movable(), place, index)).collect();
        all.retain(|(size, ..)| *size > 0);
        all.sort_unstable_by_key(|(size, ..)| Reverse(*size));
        for (_, place, index) in all {
            let bounds = self.uploads.bounds;
            if !bounds.is_memory_short() {
                break;
            }
            let Some(request) = self.unfinished_at(place) else { continue };
            let files = request.files_to_move();
            if !bounds.has_files(files) {
                continue;
            }
            // A web server sends the requests of many clients on one connection, so its connection has no share.
            if files > 0 && self.connections[index].speaks_http2() && self.has_all_files(index) {
                continue;
            }
            let moved = self.unfinished_at(place).map_or(Ok(()), |request| request.leave_memory(&bounds));
            if let Err(error) = moved {
                log::debug!("content stays in memory: {error}");
                break;
            }
        }
    }

    /// The unfinished request at a place.
    fn unfinished_at(&mut self, place: ExchangeIndex) -> Option<&mut Received> {
        match place {
            ExchangeIndex::Connection(index) => match &mut self.connections[index].state {
                State::Reading(Reading { request, .. }) => request.as_deref_mut(),
                _ => None,
            },
            ExchangeIndex::Stream(number) => match &mut self.streams[number].state {
                StreamState::Requested(Requested { request, is_complete: false, .. }) => Some(request),
                _ => None,
            },
        }
    }

    /// All unfinished requests with content, each with its connection and its start.
    fn unfinished(&self) -> impl Iterator<Item = (ExchangeIndex, u32, &Received, Duration)> {
        let alone = self.deadlines.of(Deadline::Content).filter_map(|(index, since)| match &self.connections[index].state {
            State::Reading(Reading { request: Some(request), .. }) => {
                Some((ExchangeIndex::Connection(index), index, &**request, since))
            }
            _ => None,
        });
        let of_streams = self.stream_deadlines.of(Deadline::Content).filter_map(|(number, since)| {
            let stream = &self.streams[number];
            match &stream.state {
                StreamState::Requested(Requested { request, is_complete: false, .. }) => {
                    Some((ExchangeIndex::Stream(number), stream.connection, &**request, since))
                }
                _ => None,
            }
        });
        alone.chain(of_streams)
    }

    #[cold]
    #[inline(never)]
    fn end_heaviest(&mut self, grown: ExchangeIndex) -> Still {
        if self.uploads.bounds.excess() == Some(Excess::Memory) {
            self.move_largest();
        }
        let index = match grown {
            ExchangeIndex::Connection(index) => index,
            ExchangeIndex::Stream(number) => self.streams[number].connection,
        };
        let token = self.connections.token(index);
        let mut ended = Vec::new();
        self.uploads.ends = true;
        while let Some(excess) = self.uploads.bounds.excess() {
            let Some(heaviest) = self.heaviest(excess, grown) else { break };
            self.log_excess(excess);
            let refusal = match excess {
                Excess::Memory => Refusal::CONTENT_MEMORY,
                Excess::Files => Refusal::CONTENT_FILES,
            };
            let _ = match heaviest {
                ExchangeIndex::Connection(index) => self.refuse(index, refusal),
                ExchangeIndex::Stream(number) => {
                    ended.push(self.connections.token(self.streams[number].connection));
                    self.refuse_stream(number, refusal)
                }
            };
        }
        self.uploads.ends = false;
        for token in ended {
            if let Some(index) = self.connections.find(token) {
                self.resume_contents(index);
            }
        }
        if self.connections.find(token).is_some() { Still::Open } else { Still::Gone }
    }

    /// The unfinished content that burdens others most.
    fn heaviest(&self, excess: Excess, except: ExchangeIndex) -> Option<ExchangeIndex> {
        let now = self.backend.now();
        let weight = |request: &Received, since: Duration| {
            let (held, received) = request.held();
            held.weight(excess, now.saturating_sub(since), received)
        };
        let all: Vec<_> =
            self.unfinished().map(|(place, index, request, since)| (place, index, weight(request, since))).collect();
        // A web server sends the requests of many clients on one connection, so these requests are not added up.
        let together = |index: u32| self.connections[index].speaks_http2();
        let mut of_connections: HashMap<u32, u128> = HashMap::new();
        for (_, index, weight) in all.iter().filter(|(_, index, _)| together(*index)) {
            *of_connections.entry(*index).or_default() += weight;
        }
        let mut heaviest = None;
        for (place, index, weight) in all {
            let whole = of_connections.get(&index).copied().unwrap_or(weight);
            if place != except && weight > 0 && heaviest.is_none_or(|(most, _)| (whole, weight) > most) {
                heaviest = Some(((whole, weight), place));
            }
        }
        heaviest.map(|(_, place)| place)
    }

    fn log_excess(&mut self, excess: Excess) {
        let now = self.backend.now();
        if self.uploads.logged.is_some_and(|logged| now.saturating_sub(logged) < LOGGED_EVERY) {
            return;
        }
        self.uploads.logged = Some(now);
        match excess {
            Excess::Memory => log::warn!(
                "unfinished requests hold too much memory (--body-memory-total): the request that has held most for the \
                 longest time gets a 503"
            ),
            Excess::Files => log::warn!(
                "request bodies take too many open files (--body-files-total): the one that has been arriving for the longest \
                 time gets a 503"
            ),
        }
    }

    /// The memory and files of unfinished requests on a connection, except one.
    fn held_on(&self, index: u32, except: Option<u32>) -> Held {
        let mut all = Held::default();
        let State::Carrying(carrier) = &self.connections[index].state else { return all };
        for (_, number) in &carrier.streams {
            if let StreamState::Requested(requested) = &self.streams[*number].state
                && Some(*number) != except
            {
                all.add(requested.request.held().0);
            }
        }
        all
    }

    /// Whether the requests of a connection have all the files of its share.
    pub(super) fn has_all_files(&self, index: u32) -> bool {
        self.held_on(index, None).files >= self.uploads.bounds.files_of_connection()
    }

    /// The destination of a piece of a stream's content.
    #[inline]
    pub(super) fn room_on_connection(&self, index: u32, number: u32, content: &StoredContent, more: usize) -> Destination {
        let bounds = &self.uploads.bounds;
        if !content.outgrows_memory(more, bounds) && !bounds.may_exceed_share() {
            Destination::Here
        } else {
            self.find_room(index, number, content, more)
        }
    }

    #[cold]
    fn find_room(&self, index: u32, number: u32, content: &StoredContent, more: usize) -> Destination {
        let StoredContent::Memory { .. } = content else { return Destination::Here };
        let bounds = &self.uploads.bounds;
        let others = self.held_on(index, Some(number));
        let most = bounds.memory_of_connection();
        let too_much = others.memory > 0 && others.memory + content.size() + more as u64 > most;
        if !too_much && !content.outgrows_memory(more, bounds) {
            Destination::Here
        } else if others.files < bounds.files_of_connection() {
            Destination::File
        } else if too_much {
            Destination::None
        } else {
            Destination::Waits
        }
    }

    /// Resets a stream for whose content its connection has no room. The request was not processed, so the client may repeat
    /// it.
    pub(super) fn refuse_excess(&mut self, number: u32) -> Still {
        let index = self.streams[number].connection;
        let Connection { line, state, .. } = &mut self.connections[index];
        if let State::Carrying(carrier) = state
            && let Some(machine) = carrier.http2()
        {
            let id = self.streams[number].framing.id();
            machine.reset(id, ErrorCode::REFUSED_STREAM, line.output.get_or_insert_with(|| self.memory.outputs.take()).tail());
            line.trim(&mut self.memory.outputs);
        }
        self.tally.count(Counter::Http2ResetsByServer);
        self.tally.count(Counter::LimitBodyMemoryTotal);
        log::debug!("a stream was reset: the unfinished requests of its connection hold too much");
        self.end_unanswered(number)
    }

    /// Resumes streams whose content waits for other streams of their connection, as far as there is room now. The window
    /// updates are sent when the connection has its turn.
    #[inline(never)]
    pub(super) fn resume_contents(&mut self, index: u32) {
        loop {
            let Some(number) = self.first_waiting(index) else { return };
            let Self { connections, streams, uploads, memory: Memory { outputs, .. }, .. } = self;
            let Stream { state: StreamState::Requested(requested), framing, .. } = &mut streams[number] else { return };
            // Without a file, the next piece is refused.
            let _ = requested.request.content.move_to_file(0, &uploads.bounds);
            let Connection { line, state, .. } = &mut connections[index];
            if let State::Carrying(carrier) = state
                && let Some(machine) = carrier.http2()
            {
                let size = std::mem::take(&mut requested.withheld);
                machine.allow(framing.id(), size, line.output.get_or_insert_with(|| outputs.take()).tail());
                line.trim(outputs);
            }
            self.ask_for_turn(index);
        }
    }

    /// The first stream of a connection whose content waits, if there is room for it.
    fn first_waiting(&mut self, index: u32) -> Option<u32> {
        let State::Carrying(carrier) = &self.connections.get(index)?.state else { return None };
        if !carrier.withholds || self.uploads.ends {
            return None;
        }
        let waits = |number: &u32| matches!(&self.streams[*number].state, StreamState::Requested(requested) if requested.withheld > 0 && !requested.is_complete);
        let first = carrier.streams.iter().map(|(_, number)| *number).find(waits);
        if first.is_none() {
            if let Some(carrier) = self.connections[index].carrier() {
                carrier.withholds = false;
            }
            return None;
        }
        let files = self.held_on(index, first).files;
        let bounds = &self.uploads.bounds;
        // If the other streams have no file, no file of theirs becomes free later.
        let has_room = files == 0 || files < bounds.files_of_connection() && bounds.has_file();
        first.filter(|_| has_room)
    }
}
