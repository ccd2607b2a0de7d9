//! Keeps responses that wait for slow clients: in memory, in a file, or with their apps.
//!
//! While its app still writes, a response that reaches its bound in memory moves to the spool, so that the app continues even
//! if the client is slow. A finished response stays in memory as long as all responses of the process together are within their
//! bound. Beyond the bounds of the spool, and while the disk refuses writes, responses stay in memory, and their apps wait for
//! the clients. If all of them hold far too much, the heaviest are ended: see [`excess`](super::excess).
//!
//! A response that the socket takes at once never gets here.

use super::Engine;
use super::bounds::{Bounds, Budget, Share};
use super::connection::State;
use super::name::{ExchangeIndex, Name};
use super::output::spooled::Destination;
use super::output::{Output, SEGMENT_BYTES};
use super::spool::{Refusal, Spool};
use super::stream::{Frames, StreamFraming};
use oribi_config::Settings;
use oribi_host::ExchangeId;
use oribi_io::Backend;
use oribi_stats::totals::{Counter, Tally};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// An output of at most this many bytes stays in memory even if responses hold too much memory, because it would take more room
/// in the file.
const LEAST: u64 = 4 << 10;

/// The most bytes of a response that may wait before its app waits, while responses hold too much memory.
const WHILE_SHORT: usize = 16 << 10;

/// After apps have written this many bytes to the spool, the lane checks for events of clients, because the client of an app
/// that keeps writing may have disconnected.
const LOOK_AFTER: u64 = 1 << 20;

/// The length of a pause after the disk has refused a write.
const PAUSE: Duration = Duration::from_secs(1);

/// The shortest time between two log lines about refused writes.
const LOGGED_EVERY: Duration = Duration::from_secs(60);

/// Responses that wait for their clients: in memory or in the spool.
#[derive(Debug)]
pub(super) struct Backlog {
    pub(super) bounds: Bounds,
    directory: PathBuf,
    /// The spool. Only the responses that have blocks in it keep it alive: without any, its descriptor and its room on the disk
    /// are free again.
    spool: Weak<Spool>,
    /// Bytes moved to the spool since the last check for events of clients.
    unseen: u64,
    /// The end of the pause after the disk has refused a write.
    pause: Duration,
    /// The time of the last log line about a refusal.
    logged: Option<Duration>,
    /// Whether responses held far too much memory after one of them was counted.
    pub(super) is_over: bool,
    /// The time of the last log line about ended responses.
    pub(super) logged_end: Option<Duration>,
}

impl Backlog {
    pub(super) fn new(settings: &Settings) -> Self {
        Self::within(settings, Budget::of_process())
    }

    /// A backlog with its own budget.
    fn within(settings: &Settings, budget: &'static Budget) -> Self {
        let directory = settings.temporary_directory.clone();
        Self {
            bounds: Bounds::new(settings, budget),
            directory,
            spool: Weak::new(),
            unseen: 0,
            pause: Duration::ZERO,
            logged: None,
            is_over: false,
            logged_end: None,
        }
    }

    /// The most bytes of a response that may wait in memory before its app waits.
    fn most(&self) -> usize {
        let most = self.bounds.in_memory as usize;
        if self.bounds.are_exceeded() { most.min(WHILE_SHORT) } else { most }
    }

    /// Counts the memory of an output that its socket has not taken, and moves the output to the spool if it is too large.
    /// `ends` says that no app waits to append to it.
    fn keep(&mut self, output: &mut Output, ends: bool, now: Duration, tally: &Tally) {
        output.look_at_files();
        if !output.share.counts() {
            output.share = Share::of(&self.bounds.budget.memory);
        }
        output.recount();
        let is_short = self.bounds.are_exceeded();
        let moves = if is_short { output.held() > LEAST } else { !ends && output.waiting() > self.most_before_moving(output) };
        if moves && self.bounds.spooled > 0 && now >= self.pause {
            self.move_to_spool(output, is_short, now, tally);
        }
        self.is_over |= self.bounds.are_far_exceeded();
    }

    /// Moves all of an output to the spool, because responses hold too much memory. Returns whether some of it was moved.
    pub(super) fn free_memory(&mut self, output: &mut Output, now: Duration, tally: &Tally) -> bool {
        let before = output.held();
        if before > LEAST && self.bounds.spooled > 0 && now >= self.pause {
            self.move_to_spool(output, true, now, tally);
        }
        output.held() < before
    }

    /// The bytes in memory beyond which an output moves to the spool: fewer if a part of the output is already there.
    fn most_before_moving(&self, output: &Output) -> usize {
        let most = self.bounds.in_memory as usize;
        if output.spooled() > 0 { most.min(SEGMENT_BYTES) } else { most }
    }

    #[cold]
    fn move_to_spool(&mut self, output: &mut Output, is_short: bool, now: Duration, tally: &Tally) {
        let Bounds { budget, spooled, spooled_total, .. } = self.bounds;
        let before = output.spooled();
        let room = spooled.saturating_sub(before);
        let moved = if room == 0 || budget.spooled.bytes() >= spooled_total {
            Err(Refusal::Full)
        } else {
            self.spool().map_err(Refusal::Failed).and_then(|spool| {
                output.move_to(Destination { spool: &spool, room, most: spooled_total, with_files: is_short })
            })
        };
        output.recount();
        let count = output.spooled() - before;
        if count > 0 {
            self.unseen += count;
            tally.add(Counter::BytesSpooled, count);
            if !std::mem::replace(&mut output.was_spooled, true) {
                tally.count(Counter::ResponsesSpooled);
            }
        }
        let Err(refusal) = moved else { return };
        if !std::mem::replace(&mut output.was_refused, true) {
            tally.count(Counter::LimitOutputSpoolSize);
        }
        if let Refusal::Failed(error) = refusal {
            self.pause = now + PAUSE;
            self.log(&error, now);
        }
    }

    fn spool(&mut self) -> io::Result<Arc<Spool>> {
        if let Some(spool) = self.spool.upgrade() {
            return Ok(spool);
        }
        let spool = Spool::new(&self.directory, &self.bounds.budget.spooled)?;
        self.spool = Arc::downgrade(&spool);
        Ok(spool)
    }

    fn log(&mut self, error: &io::Error, now: Duration) {
        if self.logged.is_none_or(|logged| now.saturating_sub(logged) >= LOGGED_EVERY) {
            self.logged = Some(now);
            log::warn!(
                "cannot write a response to a temporary file in {}: {error}; apps wait for slow clients meanwhile",
                self.directory.display()
            );
        }
    }
}

impl<B: Backend> Engine<'_, B> {
    /// The most bytes of a response that may wait for a slow client before its app must also wait.
    #[must_use]
    pub fn output_limit(&self) -> usize {
        self.backlog.most()
    }

    /// Whether apps have written so much to the spool that the lane should check for events of clients. A `true` is returned
    /// only once.
    #[inline]
    pub(super) fn is_due_to_look(&mut self) -> bool {
        let is_due = self.backlog.unseen >= LOOK_AFTER;
        if is_due {
            self.backlog.unseen = 0;
        }
        is_due
    }

    /// The bytes of a response that its client has not taken, in memory and in the spool. Other responses on a connection of HTTP/2 do
    /// not count.
    #[must_use]
    pub fn unsent(&self, exchange: ExchangeId) -> usize {
        let Name { place, serial } = exchange.into();
        match place {
            ExchangeIndex::Connection(index) => {
                let connection = self.connections.get(index).filter(|connection| connection.serial == serial);
                connection.map_or(0, |connection| connection.line.framed())
            }
            ExchangeIndex::Stream(number) => {
                let stream = self.streams.get(number).filter(|stream| stream.serial == serial);
                stream.map_or(0, |stream| match &stream.framing {
                    StreamFraming::Http2(Frames { waiting: Some(waiting), .. }) => waiting.framed(),
                    _ => 0,
                })
            }
        }
    }

    /// Holds output that a socket has not taken.
    #[inline(never)]
    pub(super) fn hold(&mut self, index: u32) {
        let Self { connections, backlog, backend, tally, batching, .. } = self;
        let connection = &mut connections[index];
        let ends = match &connection.state {
            State::Answering(answering) => answering.answer.finished,
            // Content of HTTP/2 waits in its streams (see `hold_stream`). All content for a web server waits here.
            State::Carrying(carrier) => carrier.speaks_http2(),
            _ => true,
        };
        if let Some(output) = connection.line.output.as_mut().filter(|output| output.timed) {
            backlog.keep(output, ends, backend.now(), tally);
            if backlog.is_over {
                // Before the next request is handed out.
                batching.news_due = Duration::ZERO;
            }
        }
    }

    /// Holds content of a stream that cannot be framed yet.
    pub(super) fn hold_stream(&mut self, number: u32) {
        let Self { streams, backlog, backend, tally, batching, .. } = self;
        if let StreamFraming::Http2(Frames { waiting: Some(waiting), ends, .. }) = &mut streams[number].framing {
            backlog.keep(waiting, *ends, backend.now(), tally);
            if backlog.is_over {
                batching.news_due = Duration::ZERO;
            }
        }
    }
}
