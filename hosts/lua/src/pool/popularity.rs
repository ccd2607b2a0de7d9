//! How much a script is asked for: the score that decides which state goes when another one needs its room.
//!
//! Each request counts one, and what was counted halves with every minute. So a script that is asked for steadily has a score of
//! 87 times its requests per second, and one that was popular once is worth nothing ten minutes later. A state is worth the score
//! of its script divided by the number of the script's states: the third clone of a busy script may go before the only state of
//! another, and the states of a script that is asked for all the time outlast any number of scripts that are asked for once.
//!
//! luafcgid promised "popularity" and evicted what had been used longest ago, so that a burst of rare scripts threw out all others.
//!
//! Requests are counted as whole numbers; the clock is read only when the score is asked for.

use std::time::{Duration, Instant};

/// How long it takes for a request to count half.
const HALF_LIFE: Duration = Duration::from_secs(60);

/// The score of a script.
#[derive(Clone, Copy, Debug)]
pub(super) struct Popularity {
    score: f64,
    /// When that was the score, and how many requests it takes account of.
    at: Instant,
    requests: u64,
}

impl Popularity {
    pub(super) const fn new(now: Instant) -> Self {
        Self { score: 0.0, at: now, requests: 0 }
    }

    /// The score now that there have been so many requests in all.
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
