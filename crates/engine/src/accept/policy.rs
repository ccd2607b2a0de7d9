//! Decides whether a lane takes a new connection at a listener that it shares with other lanes.
//!
//! The policy has no sockets and reads no clock. It turns a [`Situation`] into a [`Decision`]:
//!
//! | this lane | another lane is idle | no other lane is idle |
//! |---|---|---|
//! | is idle | takes it; stands aside if it has more connections than that lane | takes it |
//! | expects a request | stands aside | stands aside until it no longer expects it |
//! | has requests waiting | stands aside | stands aside |
//!
//! Of the idle lanes, the one with the fewest connections never stands aside, so lanes do not wait for one another. A
//! connection is left to others once and for a limited time, after which this lane takes it in any case.

use std::time::Duration;

/// The time for which a connection is left to idle lanes. Those lanes have been notified and only need a processor, but on a
/// busy machine they may wait for one for some time.
const LEFT_TO_IDLE: Duration = Duration::from_millis(50);

/// The time for which a connection is left to lanes that are all busy: the duration of a request in a typical app.
const LEFT_TO_BUSY: Duration = Duration::from_millis(20);

/// The time for which the first request of a client is expected. A silent client must not keep the lane from accepting other
/// clients.
pub(super) const EXPECTED_FOR: Duration = Duration::from_millis(20);

/// The work that a new client would wait for. If the host answers at once, there is no such work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    None,
    /// A client whose first request will keep this lane busy has connected. The lane expects that request until this time at
    /// the latest.
    Expected(Duration),
    /// Requests that must be answered first, or events that may bring some.
    Waiting,
}

/// The facts for the decision. Times are on the clock of the lane's backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Situation {
    pub(super) now: Duration,
    pub(super) work: Work,
    /// Connections of this lane.
    pub(super) connections: usize,
    /// The number of connections of each lane if all lanes had the same number.
    pub(super) share: usize,
    /// The fewest connections of another idle lane, if there is one.
    pub(super) fewest_of_idle: Option<usize>,
    /// The time until which this lane leaves a connection to others.
    pub(super) left_until: Option<Duration>,
}

/// The action of the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Take the connection.
    Take,
    /// Notify the next lane, and take no connection until this time, or until the decision changes.
    StandAside(Duration),
}

impl Situation {
    pub(super) fn decide(self) -> Decision {
        if self.left_until.is_some_and(|until| until <= self.now) {
            return Decision::Take;
        }
        let until = match (self.work, self.fewest_of_idle) {
            (Work::None, Some(fewest)) if self.connections > even(fewest) => self.now + LEFT_TO_IDLE,
            (Work::Expected(_) | Work::Waiting, Some(_)) => self.now + LEFT_TO_IDLE,
            (Work::Expected(until), None) => until,
            (Work::Waiting, None) => self.now + LEFT_TO_BUSY,
            (Work::None, _) => return Decision::Take,
        };
        Decision::StandAside(self.left_until.unwrap_or(until))
    }

    /// Whether other lanes come first after this lane has taken a connection.
    pub(super) fn rejoins_last(self) -> bool {
        self.work != Work::None || self.connections > even(self.share)
    }
}

/// The largest number of connections that still counts as equal to `connections`: up to an eighth more. Below eight
/// connections, a single one makes a difference.
const fn even(connections: usize) -> usize {
    connections + connections / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(7);
    const SOON: Duration = Duration::from_millis(7_005);
    const EXPECTED: Work = Work::Expected(SOON);

    /// The situation of a lane with this many connections, whose share is two.
    fn situation(work: Work, fewest_of_idle: Option<usize>, connections: usize) -> Situation {
        Situation { now: NOW, work, connections, share: 2, fewest_of_idle, left_until: None }
    }

    #[test]
    fn a_newcomer_is_taken_by_the_free_lane_with_the_fewest_connections_or_by_whoever_is_free_first() {
        use Decision::{StandAside, Take};
        let (to_idle, to_busy) = (StandAside(NOW + LEFT_TO_IDLE), StandAside(NOW + LEFT_TO_BUSY));
        // A lane's work, the fewest connections of another idle lane, and its decision with two, three and four connections.
        for (work, fewest_of_idle, decisions) in [
            (Work::None, Some(1), [to_idle, to_idle, to_idle]),
            (Work::None, Some(2), [Take, to_idle, to_idle]),
            (Work::None, Some(3), [Take, Take, to_idle]),
            (Work::None, None, [Take; 3]),
            (EXPECTED, Some(9), [to_idle; 3]),
            (EXPECTED, None, [StandAside(SOON); 3]),
            (Work::Waiting, Some(9), [to_idle; 3]),
            (Work::Waiting, None, [to_busy; 3]),
        ] {
            for (connections, decision) in (2..).zip(decisions) {
                let situation = situation(work, fewest_of_idle, connections);
                assert_eq!(situation.decide(), decision, "{situation:?}");
            }
        }
    }

    #[test]
    fn lanes_that_are_free_never_all_wait_for_one_another() {
        for lanes in [[0, 0, 0], [1, 0, 0], [3, 1, 2], [9, 8, 8], [900, 801, 800]] {
            let decide = |lane: usize| {
                let others = lanes.iter().enumerate().filter(|(other, _)| *other != lane);
                situation(Work::None, others.map(|(_, connections)| *connections).min(), lanes[lane]).decide()
            };
            assert!((0..lanes.len()).any(|lane| decide(lane) == Decision::Take), "{lanes:?}");
        }
    }

    #[test]
    fn nobody_is_left_to_others_twice_or_for_longer_than_once() {
        for (work, fewest_of_idle) in [(Work::None, Some(1)), (EXPECTED, None), (Work::Waiting, Some(1)), (Work::Waiting, None)]
        {
            let situation = situation(work, fewest_of_idle, 9);
            let Decision::StandAside(until) = situation.decide() else { panic!("{situation:?}") };
            let later = Situation { now: NOW + Duration::from_millis(3), left_until: Some(until), ..situation };
            assert_eq!(later.decide(), Decision::StandAside(until), "{later:?}");
            let then = Situation { now: until, ..later };
            assert_eq!(then.decide(), Decision::Take, "{then:?}");
        }
    }

    #[test]
    fn an_eighth_more_of_many_connections_is_no_reason_to_leave_anybody() {
        let many = situation(Work::None, Some(800), 900);
        assert_eq!(many.decide(), Decision::Take);
        assert_ne!(Situation { connections: 901, ..many }.decide(), Decision::Take);
    }

    #[test]
    fn who_has_work_or_more_than_its_share_goes_last() {
        for (work, connections, last) in
            [(Work::None, 2, false), (Work::None, 3, true), (EXPECTED, 0, true), (Work::Waiting, 0, true)]
        {
            assert_eq!(situation(work, None, connections).rejoins_last(), last, "{work:?} {connections}");
        }
    }
}
