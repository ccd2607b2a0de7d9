//! Where responses wait for slow clients: in memory, in a file, or with their apps.
//!
//! A response that its app still writes moves to the spool when as much of it waits in memory as may: so the app goes on, whatever
//! its client does. A finished one stays in memory as long as all responses of the process together hold no more than they may. Beyond
//! the bounds of the spool, and while the disk takes nothing, responses stay in memory, and their apps wait as for a client.
//!
//! Nothing of this concerns a response that its socket takes at once.

use super::Engine;
use super::bounds::{Bounds, Budget, Share};
use super::connection::State;
use super::output::spooled::Destination;
use super::output::{Output, SEGMENT_BYTES};
use super::spool::{Refusal, Spool};
use super::stream::{Frames, StreamFraming};
use oribi_config::Settings;
use oribi_io::Backend;
use oribi_stats::totals::{Counter, Tally};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Less than this stays in memory even if responses hold too much: it would take more in the file.
const LEAST: u64 = 4 << 10;

/// Bytes of a response that may wait before its app waits, while responses hold too much memory.
const WHILE_SHORT: usize = 16 << 10;

/// After so many bytes in the spool, an app that goes on writing looks at what clients do: its own may have gone.
const LOOK_AFTER: u64 = 1 << 20;

/// How long the disk is left alone after it has refused something.
const PAUSE: Duration = Duration::from_secs(1);

/// How often the log hears of that.
const LOGGED_EVERY: Duration = Duration::from_secs(60);

/// Responses that wait for their clients: in memory or in the spool.
#[derive(Debug)]
pub(super) struct Backlog {
    bounds: Bounds,
    directory: PathBuf,
    /// The blocks in use keep it: without any, the descriptor and the disk are free again.
    spool: Weak<Spool>,
    /// Bytes that have gone there since somebody looked at what clients do.
    unseen: u64,
    /// The disk is left alone until then.
    pause: Duration,
    /// When the log was last told that the disk refuses.
    logged: Option<Duration>,
}

impl Backlog {
    pub(super) fn new(settings: &Settings) -> Self {
        Self::within(settings, Budget::of_process())
    }

    /// One with a budget of its own.
    fn within(settings: &Settings, budget: &'static Budget) -> Self {
        let directory = settings.temporary_directory.clone();
        Self {
            bounds: Bounds::new(settings, budget),
            directory,
            spool: Weak::new(),
            unseen: 0,
            pause: Duration::ZERO,
            logged: None,
        }
    }

    /// Bytes of a response that may wait in memory before its app waits.
    fn most(&self) -> usize {
        let most = self.bounds.in_memory as usize;
        if self.bounds.are_exceeded() { most.min(WHILE_SHORT) } else { most }
    }

    /// Counts an output that its socket has not taken, and moves it to the spool if it is too much. `ends`: nobody waits to add to it.
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
    }

    /// A response that is in the spool already goes on there sooner.
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
    /// Bytes of a response that may wait for a slow client before its app must wait, too.
    #[must_use]
    pub fn output_limit(&self) -> usize {
        self.backlog.most()
    }

    /// Whether apps have written so much to the spool that somebody should look at what clients do; says so once.
    #[inline]
    pub(super) fn is_due_to_look(&mut self) -> bool {
        let is_due = self.backlog.unseen >= LOOK_AFTER;
        if is_due {
            self.backlog.unseen = 0;
        }
        is_due
    }

    /// Holds output that a socket has not taken.
    #[inline(never)]
    pub(super) fn hold(&mut self, index: u32) {
        let Self { connections, backlog, backend, tally, .. } = self;
        let connection = &mut connections[index];
        let ends = match &connection.state {
            State::Answering(answering) => answering.answer.finished,
            // Streams of HTTP/2 wait by themselves; web servers take all that apps write.
            State::Carrying(carrier) => carrier.speaks_http2(),
            _ => true,
        };
        if let Some(output) = connection.line.output.as_mut().filter(|output| output.timed) {
            backlog.keep(output, ends, backend.now(), tally);
        }
    }

    /// Holds content of a stream that cannot be framed yet.
    pub(super) fn hold_stream(&mut self, number: u32) {
        let Self { streams, backlog, backend, tally, .. } = self;
        if let StreamFraming::Http2(Frames { waiting: Some(waiting), ends, .. }) = &mut streams[number].framing {
            backlog.keep(waiting, *ends, backend.now(), tally);
        }
    }
}
