//! The pauses between attempts.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The first pause. Each further pause is twice as long as the one before, up to the longest pause.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);

/// The limits of a pause that a collector asks for. The lower limit protects the collector: if its clock is behind, it may ask
/// for no pause by mistake.
const MOST_ASKED: Duration = Duration::from_secs(300);
const LEAST_ASKED: Duration = Duration::from_secs(1);

/// Returns the pause after failure `number`, counted from 0. `asked` is the pause that the collector has asked for, which has
/// precedence. From any other pause a random part, at most a half, is subtracted, so that servers that lost the collector
/// together do not try again together.
pub(crate) fn pause(number: u32, asked: Option<Duration>) -> Duration {
    if let Some(asked) = asked {
        return asked.clamp(LEAST_ASKED, MOST_ASKED);
    }
    let pause = FIRST.saturating_mul(1 << number.min(10)).min(LONGEST);
    pause.mul_f64(1.0 - 0.5 * chance())
}

/// A random number from 0 to 1.
fn chance() -> f64 {
    // The standard library draws new hash keys for each call.
    let drawn = RandomState::new().hash_one(0) as u32;
    f64::from(drawn) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_differ_and_the_collector_has_its_way() {
        for (number, most) in [(0, 1.0), (1, 2.0), (3, 8.0), (10, 30.0), (u32::MAX, 30.0)] {
            let pause = pause(number, None).as_secs_f64();
            assert!((most / 2.0..=most).contains(&pause), "{number}: {pause}");
        }
        let many: Vec<_> = (0..20).map(|_| pause(3, None)).collect();
        assert!(many.iter().any(|pause| *pause != many[0]));
        for (asked, pause_is) in [(0, 1), (7, 7), (1000, 300)] {
            assert_eq!(pause(5, Some(Duration::from_secs(asked))), Duration::from_secs(pause_is));
        }
    }
}
