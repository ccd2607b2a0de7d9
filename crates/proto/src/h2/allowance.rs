//! Bounds the actions of a client that cost the server more than they are worth.
//!
//! A connection has an allowance of frames without any benefit, and an allowance of requests that end without a response.
//! Useful work and time, which the caller passes, restore both of them, up to their first value. So a client that works may
//! continue for any time, even if it gives up most of its requests. A client that only burdens the server is stopped after a
//! known number of frames.

use super::Limits;
use super::error::Violation;

/// The frames that a request restores to the allowance: some acknowledgements, window updates and priorities belong to each
/// request.
const REQUEST: u32 = 16;

/// The resets that a response restores to the allowance: browsers give up most of the pictures of a page that is scrolled.
const RESPONSE: u16 = 4;

/// The window updates that a client may send at once: one for the stream, one for the connection.
const UPDATES: u32 = 2;

/// The bytes of content after which a client may send such updates, beside those for each frame: clients written in Go update both
/// windows after 4 KiB, however large the frames are.
const UPDATED_BYTES: u32 = 4 << 10;

/// The most window updates that are allowed for content which was sent: those for a window of 64 KiB that is full of frames with one
/// byte.
const MOST_UPDATES: u32 = UPDATES << 16;

/// Content of at least this length restores the cost of its frame.
const USEFUL_BYTES: u32 = 32;

/// The used part of the allowances of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Allowance {
    frames: u32,
    /// The window updates that are still to come for content that was sent.
    updates: u32,
    resets: u16,
    /// The time up to which passed time has been credited, in nanoseconds.
    restored: u64,
}

impl Allowance {
    /// Counts a frame without any benefit.
    #[inline]
    pub(super) fn frame(&mut self, limits: &Limits) -> Result<(), Violation> {
        self.frames = self.frames.saturating_add(1);
        if self.frames > limits.nuisances { Err(Violation::NUISANCE) } else { Ok(()) }
    }

    /// Counts a frame with this much content.
    #[inline]
    pub(super) fn content(&mut self, bytes: u32, limits: &Limits) -> Result<(), Violation> {
        if bytes < USEFUL_BYTES {
            return self.frame(limits);
        }
        self.frames = self.frames.saturating_sub(bytes / USEFUL_BYTES);
        Ok(())
    }

    /// Credits a request.
    #[inline]
    pub(super) const fn request(&mut self) {
        self.frames = self.frames.saturating_sub(REQUEST);
    }

    /// Credits a frame with this much content of a response: it restores frames that were counted, and allows window updates that
    /// will come.
    #[inline]
    pub(super) fn sent(&mut self, bytes: u32) {
        let due = UPDATES * (1 + bytes / UPDATED_BYTES);
        let restored = self.frames.min(due);
        self.frames -= restored;
        self.updates = (self.updates + due - restored).min(MOST_UPDATES);
    }

    /// Counts a window update, unless it belongs to content.
    #[inline]
    pub(super) fn window_update(&mut self, limits: &Limits) -> Result<(), Violation> {
        if self.updates == 0 {
            return self.frame(limits);
        }
        self.updates -= 1;
        Ok(())
    }

    /// Counts a stream that ends without a response, by a frame of the client.
    pub(super) const fn reset(&mut self) {
        self.resets = self.resets.saturating_add(1);
    }

    /// Whether more streams have ended without a response than allowed.
    #[inline]
    pub(super) const fn has_too_many_resets(&self, limits: &Limits) -> bool {
        self.resets > limits.resets
    }

    /// Credits a response.
    #[inline]
    pub(super) const fn response(&mut self) {
        self.resets = self.resets.saturating_sub(RESPONSE);
    }

    /// Credits a refusal by the server.
    pub(super) const fn refusal(&mut self) {
        self.resets = self.resets.saturating_sub(1);
    }

    /// Credits the time that has passed up to `now`, in nanoseconds of a clock that begins anywhere.
    #[inline]
    pub(super) fn pass_time(&mut self, now: u64, limits: &Limits) {
        if self.resets == 0 && self.frames == 0 {
            self.restored = now;
            return;
        }
        let every = limits.restoring_nanoseconds.max(1);
        let count = now.saturating_sub(self.restored) / every;
        self.restored += count * every;
        self.resets = self.resets.saturating_sub(u16::try_from(count).unwrap_or(u16::MAX));
        self.frames = self.frames.saturating_sub(u32::try_from(count).unwrap_or(u32::MAX));
    }
}
