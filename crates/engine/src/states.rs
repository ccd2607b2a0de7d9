//! What the connections of an engine are doing, for operators: how many wait for what.
//!
//! Nothing is counted for it when a connection changes its state. A connection waits for one thing at a time, and has the deadline of that
//! kind; those without a deadline wait for the server. So the lengths of the lists of deadlines are enough, and an engine looks before
//! it waits whether any of them is another than when it last said so.

use super::Engine;
use super::connection::Speech;
use super::deadline::KINDS;
use oribi_io::Backend;
use oribi_stats::scoreboard::{Numbers, PLACES, Standing};

/// Where the numbers of connections stand that carry several requests, behind those of the deadlines.
const HTTP2: usize = KINDS;
const FASTCGI: usize = KINDS + 1;

const _: () = assert!(KINDS + 2 == PLACES, "each number has a place");

/// What was last said, and where.
#[derive(Debug, Default)]
pub(super) struct Shown {
    /// `None`: nobody wants to know.
    standing: Option<Standing>,
    said: Numbers,
    /// Connections that speak HTTP/2, and those of web servers.
    http2: u32,
    fastcgi: u32,
}

impl Shown {
    /// Says from now on there what connections do.
    pub(super) fn at(standing: Standing) -> Self {
        Self { standing: Some(standing), ..Self::default() }
    }

    fn of(&mut self, speech: Speech) -> Option<&mut u32> {
        match speech {
            Speech::Http1 => None,
            Speech::Http2 => Some(&mut self.http2),
            Speech::FastCgi => Some(&mut self.fastcgi),
        }
    }

    /// Whether anything is to be said.
    #[inline]
    fn is_outdated(&self, waiting: &[u32; KINDS]) -> bool {
        self.said[..KINDS] != *waiting || self.said[HTTP2] != self.http2 || self.said[FASTCGI] != self.fastcgi
    }

    #[inline(never)]
    fn say(&mut self, waiting: &[u32; KINDS]) {
        let Some(standing) = self.standing else { return };
        let mut now = [0; PLACES];
        now[..KINDS].copy_from_slice(waiting);
        (now[HTTP2], now[FASTCGI]) = (self.http2, self.fastcgi);
        standing.change(&self.said, &now);
        self.said = now;
    }
}

/// An engine takes its connections along.
impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(standing) = self.standing {
            standing.change(&self.said, &[0; PLACES]);
        }
    }
}

impl<B: Backend> Engine<'_, B> {
    /// Says there what the connections do: before each wait.
    pub fn show_states_in(&mut self, standing: Standing) {
        self.shown = Shown::at(standing);
    }

    /// A connection that has spoken HTTP/1 until now speaks something else.
    pub(super) fn count_speech(&mut self, index: u32, speech: Speech) {
        self.connections[index].speech = speech;
        self.shown.of(speech).into_iter().for_each(|number| *number += 1);
    }

    /// A connection has gone.
    #[inline]
    pub(super) fn forget_speech(&mut self, speech: Speech) {
        if speech != Speech::Http1 {
            self.shown.of(speech).into_iter().for_each(|number| *number -= 1);
        }
    }

    #[inline]
    pub(super) fn show_states(&mut self) {
        let waiting = self.deadlines.counts();
        if self.shown.is_outdated(waiting) {
            self.shown.say(waiting);
        }
    }
}
