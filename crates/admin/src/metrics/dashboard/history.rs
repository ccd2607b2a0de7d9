//! The history of the last hour, in memory of a fixed size: a fine track for a few minutes, and a coarse one for the whole
//! hour.
//!
//! A point holds the growth of counters since the previous point, and the highest levels since then. When a track is full,
//! its oldest point makes room for the newest.

use super::json::{Array, Object};
use oribi_stats::totals::{Counter, Counts};
use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime};

/// The number of fine points and their interval: five minutes.
const FINE: (usize, Duration) = (150, Duration::from_secs(2));
/// The number of coarse points and their interval: an hour.
const COARSE: (usize, Duration) = (240, Duration::from_secs(15));

/// The counters whose growth is recorded.
const GROWN: [(Counter, &str); 22] = [
    (Counter::Responses1xx, "1xx"),
    (Counter::Responses2xx, "2xx"),
    (Counter::Responses3xx, "3xx"),
    (Counter::Responses4xx, "4xx"),
    (Counter::Responses5xx, "5xx"),
    (Counter::BytesReceived, "received"),
    (Counter::BytesSent, "sent"),
    (Counter::ConnectionsAccepted, "accepted"),
    (Counter::RequestsQueued, "queued"),
    (Counter::QueueWait, "waited"),
    (Counter::QueueRefused, "refused"),
    (Counter::RequestsLost, "lost"),
    (Counter::WorkersStarted, "started"),
    (Counter::WorkersFailed, "failed"),
    (Counter::EndedByRequests, "ended_requests"),
    (Counter::EndedByLifetime, "ended_lifetime"),
    (Counter::EndedByMemory, "ended_memory"),
    (Counter::EndedByFailure, "ended_failure"),
    (Counter::EndedBecauseStuck, "ended_stuck"),
    (Counter::EndedByReload, "ended_reload"),
    (Counter::EndedByScale, "ended_scale"),
    (Counter::EndedByStop, "ended_stop"),
];

/// The names of the levels, in the order of [`Levels`].
pub(super) const LEVELS: [&str; 8] = ["connections", "queue", "oldest", "running", "threads", "ready", "wanted", "memory"];

/// The value of a level that could not be read.
pub(super) const UNKNOWN: u64 = u64::MAX;

/// The levels at one moment: connections of clients; requests in the queue; the wait of the oldest request in the queue, in
/// milliseconds; requests that workers are running; ready threads and ready workers; the target number of workers; the memory
/// of all workers in bytes.
pub(super) type Levels = [u64; LEVELS.len()];

/// The state at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// The counters of [`GROWN`].
    counted: [u64; GROWN.len()],
    levels: Levels,
}

impl Reading {
    pub(super) fn new(counts: &Counts, levels: Levels) -> Self {
        Self { counted: GROWN.map(|(counter, _)| counts.of(counter)), levels }
    }
}

/// The number of 64-bit words that encode a point for the next program.
pub(super) const WORDS: usize = 2 + GROWN.len() + LEVELS.len();

/// The changes from one moment to the next.
#[derive(Clone, Copy, Debug)]
struct Point {
    /// The time of the point, in milliseconds since 1970.
    at: u64,
    /// Milliseconds since the previous point.
    span: u64,
    grown: [u64; GROWN.len()],
    levels: Levels,
}

impl Point {
    /// Formats the numbers of the point as a JSON array, in the order of [`fields`].
    fn array(&self) -> String {
        let levels = self.levels.iter().map(|level| if *level == UNKNOWN { "null".to_owned() } else { level.to_string() });
        Array::of([self.at, self.span].iter().chain(&self.grown).map(u64::to_string).chain(levels))
    }

    fn words(&self) -> impl Iterator<Item = u64> {
        [self.at, self.span].into_iter().chain(self.grown).chain(self.levels)
    }

    /// Decodes a point; `None` if there are too few words.
    fn of_words(words: &[u64]) -> Option<Self> {
        let (&[at, span], rest) = words.split_first_chunk()?;
        let (&grown, rest) = rest.split_first_chunk()?;
        Some(Self { at, span, grown, levels: *rest.first_chunk()? })
    }
}

/// Returns the names of the numbers of a point, as a JSON array.
fn fields() -> String {
    let grown = GROWN.iter().map(|(_, name)| *name);
    Array::of(["at", "span"].into_iter().chain(grown).chain(LEVELS).map(|name| format!("\"{name}\"")))
}

/// Points at equal intervals.
#[derive(Debug)]
struct Track {
    most: usize,
    every: Duration,
    points: VecDeque<Point>,
    /// The counters at the last point, and the time of that point; `None` if there was none.
    before: Option<([u64; GROWN.len()], Instant)>,
    /// The highest levels since the last point.
    highest: Option<Levels>,
    due: Option<Instant>,
    /// The time of this process's first reading. Points before it are inherited.
    own_from: Option<u64>,
}

impl Track {
    fn new((most, every): (usize, Duration)) -> Self {
        let points = VecDeque::with_capacity(most);
        Self { most, every, points, before: None, highest: None, due: None, own_from: None }
    }

    /// Adds a reading. Returns the point that the reading completes, if it completes one.
    fn note(&mut self, reading: &Reading, now: Instant, at: u64) -> Option<&Point> {
        self.own_from.get_or_insert(at);
        let highest = self.highest.get_or_insert(reading.levels);
        for (highest, level) in highest.iter_mut().zip(reading.levels) {
            // A known level replaces an unknown one.
            *highest = if *highest == UNKNOWN || (level != UNKNOWN && level > *highest) { level } else { *highest };
        }
        if self.due.is_some_and(|due| now < due) {
            return None;
        }
        // A process that slept for long does not make up for the missing points.
        let next = self.due.map(|due| due + self.every).filter(|next| *next > now);
        self.due = Some(next.unwrap_or(now + self.every));
        let levels = self.highest.take().unwrap_or(reading.levels);
        let (before, then) = self.before.replace((reading.counted, now))?;
        let mut grown = reading.counted;
        grown.iter_mut().zip(before).for_each(|(number, before)| *number = number.saturating_sub(before));
        let span = u64::try_from((now - then).as_millis()).unwrap_or(u64::MAX);
        if self.points.len() == self.most {
            self.points.pop_front();
        }
        self.points.push_back(Point { at, span, grown, levels });
        self.points.back()
    }

    fn array(&self) -> String {
        Array::of(self.points.iter().map(Point::array))
    }

    /// Replaces the inherited points by those of the previous program in `words`. Only points from before the track's own
    /// points are taken.
    fn inherit(&mut self, words: &[u64]) {
        let own_from = self.own_from.unwrap_or(u64::MAX);
        self.points.retain(|point| point.at >= own_from);
        let room = self.most - self.points.len();
        let earlier = words.chunks_exact(WORDS).filter_map(Point::of_words).filter(|point| point.at < own_from);
        for point in earlier.collect::<Vec<_>>().into_iter().rev().take(room) {
            self.points.push_front(point);
        }
    }
}

/// The tracks of the last hour.
#[derive(Debug)]
pub(super) struct History {
    fine: Track,
    coarse: Track,
}

/// The points that a reading has completed, as JSON.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Completed {
    pub(super) fine: Option<String>,
    pub(super) coarse: Option<String>,
}

impl History {
    pub(super) fn new() -> Self {
        Self { fine: Track::new(FINE), coarse: Track::new(COARSE) }
    }

    /// Returns the time of the next reading; `None` for at once.
    pub(super) fn due(&self) -> Option<Instant> {
        self.fine.due
    }

    /// Whether the next reading completes a coarse point. For such a point, the levels that are costly to read are read even
    /// without viewers.
    pub(super) fn is_thorough(&self, now: Instant) -> bool {
        self.coarse.due.is_none_or(|due| now >= due)
    }

    /// Adds a reading to both tracks.
    pub(super) fn note(&mut self, reading: &Reading, now: Instant, wall: SystemTime) -> Completed {
        let at = milliseconds(wall);
        let fine = self.fine.note(reading, now, at).map(Point::array);
        Completed { fine, coarse: self.coarse.note(reading, now, at).map(Point::array) }
    }

    /// Returns the encoded points of both tracks, for the next program.
    pub(super) fn words(&self) -> [Vec<u64>; 2] {
        [&self.fine, &self.coarse].map(|track| track.points.iter().flat_map(Point::words).collect())
    }

    /// Takes over the encoded points of the previous program.
    pub(super) fn inherit(&mut self, words: [&[u64]; 2]) {
        for (track, words) in [&mut self.fine, &mut self.coarse].into_iter().zip(words) {
            track.inherit(words);
        }
    }

    /// Returns the times of the points of both tracks, in seconds.
    #[cfg(test)]
    pub(super) fn times(&self) -> [Vec<u64>; 2] {
        [&self.fine, &self.coarse].map(|track| track.points.iter().map(|point| point.at / 1000).collect())
    }

    /// Returns the whole history as JSON.
    pub(super) fn object(&self) -> String {
        Object::new().raw("fields", fields()).raw("fine", self.fine.array()).raw("coarse", self.coarse.array()).end()
    }
}

/// Converts a time of day to milliseconds since 1970.
pub(super) fn milliseconds(wall: SystemTime) -> u64 {
    let since = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_stats::totals::Account;

    /// A server with this number of responses and of connections.
    fn reading(responses: u64, connections: u64) -> Reading {
        let account = Account::unshared();
        account.add(Counter::Responses2xx, responses);
        let mut levels = [0; LEVELS.len()];
        (levels[0], levels[7]) = (connections, UNKNOWN);
        Reading::new(&account.read(), levels)
    }

    /// A history with a clock that only the test advances.
    struct Clocked {
        history: History,
        begun: Instant,
        now: Instant,
    }

    impl Clocked {
        fn new() -> Self {
            let now = Instant::now();
            Self { history: History::new(), begun: now, now }
        }

        fn note(&mut self, reading: &Reading) -> Completed {
            let wall = SystemTime::UNIX_EPOCH + (self.now - self.begun);
            self.history.note(reading, self.now, wall)
        }

        /// The time, span, responses and connections of each point.
        fn told(track: &Track) -> Vec<[u64; 4]> {
            track.points.iter().map(|point| [point.at, point.span, point.grown[1], point.levels[0]]).collect()
        }
    }

    #[test]
    fn a_point_tells_what_has_grown_since_the_one_before() {
        let mut clocked = Clocked::new();
        assert_eq!(clocked.history.due(), None, "at once");
        assert_eq!(clocked.note(&reading(70, 3)), Completed::default(), "what was before is no growth");
        assert_eq!(clocked.history.due(), Some(clocked.now + FINE.1));
        clocked.now += FINE.1;
        let completed = clocked.note(&reading(75, 4));
        assert!(completed.coarse.is_none());
        assert_eq!(Clocked::told(&clocked.history.fine), [[2000, 2000, 5, 4]]);
        let fine = completed.fine.expect("it is complete");
        assert!(fine.starts_with("[2000,2000,0,5,0,") && fine.ends_with(",null]"), "{fine}");
        assert_eq!(fields().matches(',').count(), fine.matches(',').count());
        // A viewer connected, so there is a reading between two points.
        clocked.now += FINE.1 / 2;
        assert_eq!(clocked.note(&reading(76, 9)), Completed::default());
        clocked.now += FINE.1 / 2;
        clocked.note(&reading(78, 1));
        assert_eq!(Clocked::told(&clocked.history.fine)[1], [4000, 2000, 3, 9], "the highest level counts");
    }

    #[test]
    fn coarse_points_sum_up_and_show_peaks() {
        let mut clocked = Clocked::new();
        clocked.note(&reading(0, 0));
        for step in 1..=15 {
            clocked.now += FINE.1 / 2;
            assert_eq!(clocked.history.is_thorough(clocked.now), step == 15);
            clocked.note(&reading(step, if step == 4 { 50 } else { 2 }));
        }
        assert_eq!(Clocked::told(&clocked.history.coarse), [[15_000, 15_000, 15, 50]]);
        let last = Clocked::told(&clocked.history.fine).last().copied();
        assert_eq!(last, Some([14_000, 2000, 2, 2]));
    }

    #[test]
    fn the_oldest_points_make_room_and_memory_does_not_grow() {
        let mut clocked = Clocked::new();
        let capacities = |history: &History| [history.fine.points.capacity(), history.coarse.points.capacity()];
        let before = capacities(&clocked.history);
        let bytes = before.iter().sum::<usize>() * size_of::<Point>();
        assert!(bytes < 128 << 10, "docs/observe.md says how much it takes: {bytes}");
        for step in 0..3000_u64 {
            clocked.note(&reading(step, step));
            clocked.now += FINE.1;
        }
        let (fine, coarse) = (Clocked::told(&clocked.history.fine), Clocked::told(&clocked.history.coarse));
        assert_eq!((fine.len(), coarse.len()), (FINE.0, COARSE.0));
        assert_eq!((fine[149][0], fine[0][0]), (5_998_000, 5_998_000 - 149 * 2000));
        // Readings follow every two seconds, so these points are up to two seconds late, and none is omitted.
        let spans: Vec<u64> = coarse.iter().map(|point| point[1]).collect();
        assert!(spans.iter().all(|span| (14_000..=16_000).contains(span)), "{spans:?}");
        let hour = coarse[239][0] - coarse[0][0];
        assert!((3_580_000..=3_600_000).contains(&hour), "{hour}");
        assert_eq!(capacities(&clocked.history), before);
        let text = clocked.history.object();
        assert_eq!(text.matches('[').count(), 1 + 2 + FINE.0 + COARSE.0);
        assert!(text.len() < 96 << 10, "{}", text.len());
    }

    #[test]
    fn a_pause_is_one_long_point_and_counters_that_shrink_tell_nothing() {
        let mut clocked = Clocked::new();
        clocked.note(&reading(100, 0));
        clocked.now += Duration::from_secs(100);
        clocked.note(&reading(150, 0));
        assert_eq!(Clocked::told(&clocked.history.fine), [[100_000, 100_000, 50, 0]]);
        assert_eq!(clocked.history.due(), Some(clocked.now + FINE.1));
        clocked.now += FINE.1;
        clocked.note(&reading(20, 0));
        assert_eq!(Clocked::told(&clocked.history.fine)[1], [102_000, 2000, 0, 0]);
    }

    #[test]
    fn levels_that_are_known_once_count() {
        let mut clocked = Clocked::new();
        clocked.note(&reading(0, 0));
        let mut weighed = reading(0, 0);
        weighed.levels[7] = 5 << 20;
        clocked.now += FINE.1 / 2;
        clocked.note(&weighed);
        clocked.now += FINE.1 / 2;
        clocked.note(&reading(0, 0));
        assert_eq!(clocked.history.fine.points[0].levels[7], 5 << 20);
    }
}
