//! Reports to operators how many connections of an engine are in each state.
//!
//! No counter is changed when a connection changes its state. A connection waits for one event at a time, and has the deadline
//! of that kind; a connection without a deadline waits for the server. So the lengths of the lists of deadlines are enough:
//! before each wait, an engine checks whether a length has changed since its last report.

use super::Engine;
use super::connection::Speech;
use super::deadline::KINDS;
use oribi_io::Backend;
use oribi_stats::scoreboard::{ConnectionGauges, GAUGE_COUNT, GaugeValues, Holdings};

/// The positions, after those of the deadlines, of the numbers of connections that carry several requests.
const HTTP2: usize = KINDS;
const FASTCGI: usize = KINDS + 1;

const _: () = assert!(KINDS + 2 == GAUGE_COUNT, "each number has a place");

/// The last report, and the destination of reports.
#[derive(Debug, Default)]
pub(super) struct GaugeReport {
    /// The destination of reports, if there is one.
    gauges: Option<ConnectionGauges>,
    said: GaugeValues,
    held: Holdings,
    /// Connections that speak HTTP/2, and those of web servers.
    http2: u32,
    fastcgi: u32,
}

impl GaugeReport {
    /// Reports to `gauges` from now on.
    pub(super) fn at(gauges: ConnectionGauges) -> Self {
        Self { gauges: Some(gauges), ..Self::default() }
    }

    fn of(&mut self, speech: Speech) -> Option<&mut u32> {
        match speech {
            Speech::Http1 => None,
            Speech::Http2 => Some(&mut self.http2),
            Speech::FastCgi => Some(&mut self.fastcgi),
        }
    }

    /// Whether a number has changed since the last report.
    #[inline]
    fn is_outdated(&self, waiting: &[u32; KINDS]) -> bool {
        self.said[..KINDS] != *waiting || self.said[HTTP2] != self.http2 || self.said[FASTCGI] != self.fastcgi
    }

    #[inline(never)]
    fn say(&mut self, waiting: &[u32; KINDS]) {
        let Some(gauges) = self.gauges else { return };
        let mut now = [0; GAUGE_COUNT];
        now[..KINDS].copy_from_slice(waiting);
        (now[HTTP2], now[FASTCGI]) = (self.http2, self.fastcgi);
        gauges.change(&self.said, &now);
        self.said = now;
    }

    #[inline(never)]
    fn say_held(&mut self, held: Holdings) {
        self.held = held;
        if let Some(gauges) = self.gauges {
            gauges.set_held(&held);
        }
    }
}

/// Removes the connections of an engine that ends from the report.
impl Drop for GaugeReport {
    fn drop(&mut self) {
        if let Some(gauges) = self.gauges {
            gauges.change(&self.said, &[0; GAUGE_COUNT]);
        }
    }
}

impl<B: Backend> Engine<'_, B> {
    /// Reports the states of connections in `gauges` from now on, before each wait.
    pub fn report_states_to(&mut self, gauges: ConnectionGauges) {
        self.observing.gauges = GaugeReport::at(gauges);
    }

    /// Counts a connection that has spoken HTTP/1 until now as one of another protocol.
    pub(super) fn count_speech(&mut self, index: u32, speech: Speech) {
        self.connections[index].speech = speech;
        self.observing.gauges.of(speech).into_iter().for_each(|number| *number += 1);
    }

    /// Uncounts a connection that has ended.
    #[inline]
    pub(super) fn forget_speech(&mut self, speech: Speech) {
        if speech != Speech::Http1 {
            self.observing.gauges.of(speech).into_iter().for_each(|number| *number -= 1);
        }
    }

    #[inline]
    pub(super) fn report_states(&mut self) {
        let waiting = self.deadlines.counts();
        if self.observing.gauges.is_outdated(waiting) {
            self.observing.gauges.say(waiting);
        }
        let held = self.holdings();
        if self.observing.gauges.held != held {
            self.observing.gauges.say_held(held);
        }
    }
}
