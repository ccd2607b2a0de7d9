//! The popularity of a script: the score that decides which state is closed when another one needs its room.
//!
//! Each request adds 1 to the score of its script, and the score halves every minute. So a script with steady traffic has a
//! score of 87 times its requests per second, and ten minutes after its last request the score of a popular script is nearly
//! zero. The worth of a state is the score of its script divided by the number of the script's states. So the third clone of a
//! busy script may be closed before the only state of another script. The states of a script with steady traffic are kept,
//! however many scripts are requested only once.
//!
//! luafcgid promised "popularity" but evicted the least recently used state, so a burst of rare scripts evicted all others.
//!
//! Requests are counted as whole numbers; the clock is read only when the score is needed.

use std::time::{Duration, Instant};

/// The time after which a request counts half.
const HALF_LIFE: Duration = Duration::from_secs(60);

/// The score of a script.
#[derive(Clone, Copy, Debug)]
pub(super) struct Popularity {
    score: f64,
    /// The time of the score, and the number of requests that it includes.
    at: Instant,
    requests: u64,
}

impl Popularity {
    pub(super) const fn new(now: Instant) -> Self {
        Self { score: 0.0, at: now, requests: 0 }
    }

    /// The current score, given the total number of requests.
    pub(super) fn score(&mut self, requests: u64, now: Instant) -> f64 {
        let half_lives = now.saturating_duration_since(self.at).as_secs_f64() / HALF_LIFE.as_secs_f64();
        self.score = self.score * (-half_lives).exp2() + (requests - self.requests) as f64;
        self.at = now;
        self.requests = requests;
        self.score
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_half_after_a_minute() {
        let start = Instant::now();
        let mut popularity = Popularity::new(start);
        assert_eq!(popularity.score(8, start), 8.0);
        assert_eq!(popularity.score(8, start + HALF_LIFE), 4.0);
        assert_eq!(popularity.score(9, start + 2 * HALF_LIFE), 3.0);
        assert!(popularity.score(9, start + 60 * HALF_LIFE) < 1e-9);
    }

    #[test]
    fn how_often_it_is_asked_for_does_not_matter() {
        let start = Instant::now();
        let (mut often, mut once) = (Popularity::new(start), Popularity::new(start));
        often.score(100, start);
        once.score(100, start);
        for second in 1..=300 {
            often.score(100, start + Duration::from_secs(second));
        }
        let end = start + Duration::from_secs(300);
        assert!((often.score(100, end) - once.score(100, end)).abs() < 1e-9);
    }

    #[test]
    fn who_is_asked_for_all_the_time_outlasts_who_was_asked_for_once() {
        let start = Instant::now();
        let (mut steady, mut burst) = (Popularity::new(start), Popularity::new(start));
        burst.score(1000, start);
        for second in 1..=600 {
            steady.score(second, start + Duration::from_secs(second));
        }
        let end = start + Duration::from_secs(600);
        assert!(steady.score(600, end) > 80.0 && burst.score(1000, end) < 1.0);
    }
}
