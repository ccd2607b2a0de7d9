//! What is counted.

/// A counter, in the order in which they stand in memory. A new one comes behind the others, so that other versions of this program
/// find the old ones where they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Counter {
    // What a `Tally` has for each request: these eight are in two lines.
    Responses2xx,
    BytesReceived,
    BytesSent,
    RequestsQueued,
    Responses1xx,
    Responses3xx,
    Responses4xx,
    Responses5xx,
    ConnectionsAccepted,
    ConnectionsClosed,
    /// Passed on to an edge of the next program.
    ConnectionsHandedOver,
    /// Taken over from an edge of the program before.
    ConnectionsTakenOver,
    /// Idle ones that were closed to make room for new ones.
    ConnectionsDisplaced,
    /// Those of web servers that are not among `--fastcgi-clients`.
    ConnectionsRefused,
    /// How often nothing more was accepted for a while, because there was no room.
    AcceptingPauses,
    /// Microseconds.
    QueueWait,
    /// Microseconds.
    QueueLongestWait,
    QueueRefused,
    QueueTimeouts,
    RequestTimeouts,
    HeadTimeouts,
    ContentTimeouts,
    /// Requests whose workers have died, and that were not tried again.
    RequestsLost,
    RequestsRetried,
    WorkersStarted,
    /// Workers that ended as they should not.
    WorkersFailed,
    EdgesStarted,
    EdgesFailed,
    EndedByRequests,
    EndedByLifetime,
    EndedByMemory,
    EndedByFailure,
    EndedBecauseStuck,
    EndedByReload,
    EndedByScale,
    EndedByStop,
    GenerationsLoaded,
    GenerationsFailed,
    Upgrades,
    UpgradesFailed,
}

/// What a number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Count,
    /// Microseconds.
    Time,
    /// Microseconds, the longest of several times.
    Longest,
}

/// How many there are.
pub(super) const COUNTERS: usize = Counter::UpgradesFailed as usize + 1;

/// The names by which users know them.
pub(crate) const NAMES: [(Counter, &str); COUNTERS] = [
    (Counter::Responses1xx, "responses_1xx"),
    (Counter::Responses2xx, "responses_2xx"),
    (Counter::Responses3xx, "responses_3xx"),
    (Counter::Responses4xx, "responses_4xx"),
    (Counter::Responses5xx, "responses_5xx"),
    (Counter::BytesReceived, "bytes_received"),
    (Counter::BytesSent, "bytes_sent"),
    (Counter::ConnectionsAccepted, "connections_accepted"),
    (Counter::ConnectionsClosed, "connections_closed"),
    (Counter::ConnectionsHandedOver, "connections_handed_over"),
    (Counter::ConnectionsTakenOver, "connections_taken_over"),
    (Counter::ConnectionsDisplaced, "connections_displaced"),
    (Counter::ConnectionsRefused, "connections_refused"),
    (Counter::AcceptingPauses, "accepting_pauses"),
    (Counter::RequestsQueued, "requests_queued"),
    (Counter::QueueWait, "queue_wait_seconds"),
    (Counter::QueueLongestWait, "queue_longest_wait_seconds"),
    (Counter::QueueRefused, "queue_refused"),
    (Counter::QueueTimeouts, "queue_timeouts"),
    (Counter::RequestTimeouts, "request_timeouts"),
    (Counter::HeadTimeouts, "head_timeouts"),
    (Counter::ContentTimeouts, "content_timeouts"),
    (Counter::RequestsLost, "requests_lost"),
    (Counter::RequestsRetried, "requests_retried"),
    (Counter::WorkersStarted, "workers_started"),
    (Counter::WorkersFailed, "workers_failed"),
    (Counter::EndedByRequests, "workers_ended_requests"),
    (Counter::EndedByLifetime, "workers_ended_lifetime"),
    (Counter::EndedByMemory, "workers_ended_memory"),
    (Counter::EndedByFailure, "workers_ended_failure"),
    (Counter::EndedBecauseStuck, "workers_ended_stuck"),
    (Counter::EndedByReload, "workers_ended_reload"),
    (Counter::EndedByScale, "workers_ended_scale"),
    (Counter::EndedByStop, "workers_ended_stop"),
    (Counter::EdgesStarted, "edges_started"),
    (Counter::EdgesFailed, "edges_failed"),
    (Counter::GenerationsLoaded, "generations_loaded"),
    (Counter::GenerationsFailed, "generations_failed"),
    (Counter::Upgrades, "upgrades"),
    (Counter::UpgradesFailed, "upgrades_failed"),
];

impl Counter {
    pub(crate) const fn unit(self) -> Unit {
        match self {
            Self::QueueWait => Unit::Time,
            Self::QueueLongestWait => Unit::Longest,
            _ => Unit::Count,
        }
    }
}

/// A number for each counter: a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts(pub(super) [u64; COUNTERS]);

impl Default for Counts {
    fn default() -> Self {
        Self([0; COUNTERS])
    }
}

impl Counts {
    pub(crate) const fn of(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    /// All responses.
    pub(crate) fn responses(&self) -> u64 {
        let classes =
            [Counter::Responses1xx, Counter::Responses2xx, Counter::Responses3xx, Counter::Responses4xx, Counter::Responses5xx];
        classes.into_iter().fold(0, |sum, class| sum.saturating_add(self.of(class)))
    }

    fn with(self, other: &Self, join: impl Fn(Unit, u64, u64) -> u64) -> Self {
        let mut all = self;
        for (counter, number) in in_words().zip(&mut all.0) {
            *number = join(counter.unit(), *number, other.of(counter));
        }
        all
    }

    /// The sums of both.
    #[must_use]
    pub(crate) fn and(self, other: &Self) -> Self {
        self.with(other, |unit, one, other| if unit == Unit::Longest { one.max(other) } else { one.saturating_add(other) })
    }

    /// The larger of each two.
    pub(super) fn highest(self, other: &Self) -> Self {
        self.with(other, |_, one, other| one.max(other))
    }

    /// By how much they are more than others.
    pub(super) fn less(self, before: &Self) -> Self {
        self.with(before, |unit, now, before| if unit == Unit::Longest { now } else { now.saturating_sub(before) })
    }
}

/// All counters, in their order in memory.
pub(super) fn in_words() -> impl Iterator<Item = Counter> {
    const ORDERED: [Counter; COUNTERS] = {
        let mut ordered = [Counter::Responses2xx; COUNTERS];
        let mut index = 0;
        while index < COUNTERS {
            ordered[NAMES[index].0 as usize] = NAMES[index].0;
            index += 1;
        }
        ordered
    };
    ORDERED.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_one_name() {
        for counter in in_words() {
            let names: Vec<&str> = NAMES.iter().filter(|(named, _)| *named == counter).map(|(_, name)| *name).collect();
            assert_eq!(names.len(), 1, "{counter:?}: {names:?}");
            assert_eq!(names[0].ends_with("_seconds"), counter.unit() != Unit::Count, "{names:?}");
        }
    }

    #[test]
    fn sums_do_not_overflow_and_the_longest_is_no_sum() {
        let (mut one, mut other) = (Counts::default(), Counts::default());
        one.0 = [u64::MAX; COUNTERS];
        other.0 = [3; COUNTERS];
        assert_eq!(one.and(&other), one);
        assert_eq!(other.and(&other).of(Counter::Responses4xx), 6);
        assert_eq!(other.and(&other).of(Counter::QueueLongestWait), 3);
        assert_eq!(other.responses(), 15);
    }
}
