//! What a client may do that costs the server more than it brings.
//!
//! Useful work restores both allowances, up to what they were at first, and so does time, which the caller tells. So a client that
//! works may go on for any time, also one that gives up most of what it has asked for; and one that only burdens the server is
//! stopped after a known number of frames.

use super::Limits;
use super::error::Violation;

/// What a request restores of the allowance for frames: some acknowledgements, window updates and priorities belong to it.
const REQUEST: u32 = 16;

/// Resets that a response restores to the allowance: browsers give up most of the pictures of a page that is scrolled.
const RESPONSE: u16 = 4;

/// Content restores the cost of its frame if it is at least this long.
const USEFUL_BYTES: u32 = 32;

/// The allowances of a connection, as what is used of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Allowance {
    frames: u32,
    resets: u16,
    /// Up to when time has restored something, in nanoseconds.
    restored: u64,
}

impl Allowance {
    /// A frame that brings nothing by itself.
    #[inline]
    pub(super) fn frame(&mut self, limits: &Limits) -> Result<(), Violation> {
        self.frames = self.frames.saturating_add(1);
        if self.frames > limits.nuisances { Err(Violation::NUISANCE) } else { Ok(()) }
    }

    /// A frame with this much content.
    #[inline]
    pub(super) fn content(&mut self, bytes: u32, limits: &Limits) -> Result<(), Violation> {
        if bytes < USEFUL_BYTES {
            return self.frame(limits);
        }
        self.frames = self.frames.saturating_sub(bytes / USEFUL_BYTES);
        Ok(())
    }

    /// A request.
    #[inline]
    pub(super) const fn request(&mut self) {
        self.frames = self.frames.saturating_sub(REQUEST);
    }

    /// A frame of content of a response: the client will send a window update for some of them.
    #[inline]
    pub(super) const fn sent(&mut self) {
        self.frames = self.frames.saturating_sub(2);
    }

    /// A stream that ends without a response, by a frame of the client.
    pub(super) const fn reset(&mut self) {
        self.resets = self.resets.saturating_add(1);
    }

    /// Whether more streams have ended so than may.
    #[inline]
    pub(super) const fn has_too_many_resets(&self, limits: &Limits) -> bool {
        self.resets > limits.resets
    }

    /// A response.
    #[inline]
    pub(super) const fn response(&mut self) {
        self.resets = self.resets.saturating_sub(RESPONSE);
    }

    /// The server refuses a request.
    pub(super) const fn refusal(&mut self) {
        self.resets = self.resets.saturating_sub(1);
    }

    /// So many nanoseconds have passed on a clock that begins anywhere.
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
