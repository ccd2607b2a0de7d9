//! The drain period between the signal to stop and the end of accepting: `--shutdown-delay`.
//!
//! It takes load balancers some time to learn, from a probe or from the sender of the signal, that this server is about to end.
//! Until then they send requests here, so the server continues to serve, and only answers *draining* to probes. In the second
//! half of the period, when new clients mostly go elsewhere, responses contain `Connection: close`. A client that gets such a
//! response sends no further request on this connection (RFC 9112, section 9.6), so no request crosses the server's close.
//! Connections that are still idle after the period get another second, because section 9.3.1 warns of a close that crosses a
//! request.

use super::signals::{self, StopRequest, StopRequests};
use oribi_stats::scoreboard::DrainState;
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// The action that the signals to stop a server request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopAction {
    Nothing,
    /// To stop after the drain period.
    Drain,
    /// To stop without the drain period, or without the rest of it.
    Stop,
    /// To end at once.
    EndNow,
}

impl StopAction {
    /// Evaluates the signals since the last call. `drains`: whether the process is in its drain period. `stops`: whether the
    /// process is stopping, for any reason.
    pub(super) fn from_signals(stop_requests: &mut StopRequests, drains: bool, stops: bool, now: Instant) -> Self {
        let (term, interrupt, quit) = (signals::take(Signal::TERM), signals::take(Signal::INT), signals::take(Signal::QUIT));
        match stop_requests.evaluate(term + interrupt, drains || stops, now) {
            StopRequest::EndNow if drains => {
                stop_requests.restart(now);
                Self::Stop
            }
            StopRequest::EndNow => Self::EndNow,
            // INT comes from a person at a terminal, not from a load balancer.
            StopRequest::Stop if interrupt > 0 => Self::Stop,
            StopRequest::Stop => Self::Drain,
            StopRequest::Nothing if quit > 0 => Self::Drain,
            StopRequest::Nothing => Self::Nothing,
        }
    }
}

/// A drain period that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DrainPeriod {
    closing_at: Instant,
    end: Instant,
    /// The last announcement to the other processes.
    announced: DrainState,
}

impl DrainPeriod {
    /// Begins a drain period of `delay`.
    pub(super) fn begin(now: Instant, delay: Duration) -> Self {
        log::info!("stopping in {} s, and serving until then (--shutdown-delay)", delay.as_secs_f64());
        Self { closing_at: now + delay / 2, end: now + delay, announced: DrainState::Serving }
    }

    /// Whether the period is over, so that the server must stop.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        now >= self.end
    }

    /// Returns the next announcement to the other processes, if one is due.
    pub(super) fn due_announcement(&mut self, now: Instant) -> Option<DrainState> {
        let drain_state = if now >= self.closing_at { DrainState::Closing } else { DrainState::Announced };
        (drain_state != self.announced).then(|| {
            self.announced = drain_state;
            drain_state
        })
    }

    /// Returns the last announcement.
    pub(super) fn announced(&self) -> DrainState {
        self.announced
    }

    /// Returns the time until the next step.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        let next = if now < self.closing_at { self.closing_at } else { self.end };
        next.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_announced_then_clients_part_then_it_is_over() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut drain_period = DrainPeriod::begin(start, second * 10);
        assert_eq!(drain_period.due_announcement(start), Some(DrainState::Announced));
        assert_eq!((drain_period.due_announcement(start + second * 4), drain_period.wait(start + second * 4)), (None, second));
        assert_eq!(drain_period.due_announcement(start + second * 5), Some(DrainState::Closing));
        assert_eq!((drain_period.due_announcement(start + second * 9), drain_period.wait(start + second * 9)), (None, second));
        assert!(!drain_period.is_over(start + second * 9) && drain_period.is_over(start + second * 10));
    }
}
