//! What a client may do that costs the server more than it brings.
//!
//! Both allowances are numbers without a clock: useful work restores them, up to what they were at first. So a client that
//! works may go on for any time, and one that only burdens the server is stopped after a known number of frames.

use super::Limits;
use super::error::Violation;

/// What a request restores of the allowance for frames: some acknowledgements, window updates and priorities belong to it.
const REQUEST: u32 = 16;

/// Content restores the cost of its frame if it is at least this long.
const USEFUL_BYTES: u32 = 32;

/// The allowances of a connection, as what is used of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Allowance {
    frames: u32,
    resets: u16,
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
    pub(super) fn reset(&mut self, limits: &Limits) -> Result<(), Violation> {
        self.resets = self.resets.saturating_add(1);
        if self.resets > limits.resets { Err(Violation::RESETS) } else { Ok(()) }
    }

    /// A response.
    #[inline]
    pub(super) const fn response(&mut self) {
        self.resets = self.resets.saturating_sub(1);
    }
}
