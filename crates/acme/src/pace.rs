//! The pauses between attempts.

use ring::rand::{SecureRandom, SystemRandom};
use std::time::Duration;

/// The first and the longest pause after a failure to reach the authority: such failures cost the authority nothing.
const UNREACHABLE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(3600));

/// The first and the longest pause after a refusal. Authorities limit refusals: Let's Encrypt allows five an hour for each
/// name.
const REFUSED: (Duration, Duration) = (Duration::from_secs(300), Duration::from_secs(6 * 3600));

/// The longest pause that an authority may ask for.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Unreachable,
    /// The authority has refused, and may have named a pause (Retry-After).
    Refused(Option<Duration>),
}

/// Returns the pause after failure `number`, counted from 1. The pause doubles with each failure and is changed at random by at
/// most a quarter, so that servers that started together do not try again together. If the authority asks for a longer pause,
/// that pause is returned, at most a week.
pub(crate) fn pause(failure: Failure, number: u32) -> Duration {
    let (first, longest) = if failure == Failure::Unreachable { UNREACHABLE } else { REFUSED };
    let pause = first.saturating_mul(1 << number.saturating_sub(1).min(20)).min(longest);
    let pause = pause.mul_f64(0.75 + random() / 2.0);
    match failure {
        Failure::Refused(Some(asked)) => asked.min(LONGEST).max(pause),
        _ => pause,
    }
}

/// Returns a random number from 0 to 1, and 0 if the system has no random numbers. In that case all servers try again at the
/// same time, which does not harm this server.
fn random() -> f64 {
    let mut bytes = [0; 4];
    let _ = SystemRandom::new().fill(&mut bytes);
    f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_the_longest_and_differ() {
        let within = |pause: Duration, seconds: f64| (0.74 * seconds..1.26 * seconds).contains(&pause.as_secs_f64());
        assert!(within(pause(Failure::Unreachable, 1), 5.0) && within(pause(Failure::Unreachable, 4), 40.0));
        assert!(within(pause(Failure::Unreachable, u32::MAX), 3600.0));
        assert!(within(pause(Failure::Refused(None), 2), 600.0) && within(pause(Failure::Refused(None), 40), 21_600.0));
        let many: Vec<_> = (0..20).map(|_| pause(Failure::Unreachable, 3)).collect();
        assert!(many.iter().any(|pause| *pause != many[0]));
    }

    #[test]
    fn an_authority_may_ask_for_more_time_but_not_for_less() {
        let asked = |seconds: u64| pause(Failure::Refused(Some(Duration::from_secs(seconds))), 1);
        assert_eq!(asked(7200), Duration::from_secs(7200));
        assert!(asked(1) > Duration::from_secs(200));
        assert_eq!(asked(u64::MAX), LONGEST);
    }
}
