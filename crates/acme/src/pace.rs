//! The pauses between attempts. The last one is stored beside the certificate's file: a server that is started again and again
//! must not ask the authority at each start.

use crate::due::{due, present};
use crate::files::account_key;
use crate::record::{self, now};
use crate::settings::{Names, Settings};
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

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

/// A pause after failures, or after a certificate was issued, that a new process must obey.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pause {
    /// Failures in a row; an attempt that has not ended counts. Zero after a certificate.
    pub(crate) failures: u32,
    /// The time of the next attempt, in seconds since the Unix epoch.
    until: u64,
}

impl Pause {
    /// The pause of this length, from now on.
    pub(crate) fn new(failures: u32, length: Duration) -> Self {
        Self { failures, until: now().saturating_add(length.as_secs() + 1) }
    }

    /// Reads the pause that an earlier process has left. `None` if there is none for this certificate, account and settings.
    pub(crate) fn read(settings: &Settings, names: &Names, account: &str) -> Option<Self> {
        record::read(&settings.pause_file(names), &subject(settings, names, account), Self::parse)
    }

    fn parse(value: &Value) -> Option<Self> {
        let failures = u32::try_from(value["failures"].as_u64()?).ok()?;
        let pause = Self { failures, until: value["until"].as_u64()? };
        // A longer one is from a clock that was wrong.
        (pause.left() <= LONGEST + Duration::from_secs(1)).then_some(pause)
    }

    /// Stores the pause.
    pub(crate) fn write(&self, settings: &Settings, names: &Names, account: &str) -> Result<(), String> {
        let content = json!({"failures": self.failures, "until": self.until});
        record::write(&settings.pause_file(names), subject(settings, names, account), content)
    }

    /// The rest of the pause.
    pub(crate) fn left(&self) -> Duration {
        Duration::from_secs(self.until.saturating_sub(now()))
    }

    /// Says how long the pause is, and which file ends it. `None` if no certificate waits for its end.
    pub(crate) fn describe(&self, settings: &Settings, names: &Names) -> Option<String> {
        let (left, file) = (self.left().as_secs(), settings.pause_file(names));
        if left == 0 || !due(present(settings, names).as_ref(), names, SystemTime::now()).is_zero() {
            return None;
        }
        let why = match self.failures {
            0 => "the last certificate was issued not long ago",
            _ => "the last attempt has failed, or was cut off",
        };
        Some(format!(
            "{names}: {why}, so the next attempt is in {left} s. To order at once, remove {} and restart the server",
            file.display()
        ))
    }
}

/// The subject of a stored pause. Other options may be the remedy for a failure, so they are tried at once.
fn subject(settings: &Settings, names: &Names, account: &str) -> Value {
    let mut subject = record::subject(settings, names, account);
    subject["challenge"] = json!(settings.challenge.name());
    subject["email"] = json!(settings.email);
    subject["ca"] = json!(settings.authorities.as_ref().map(|path| path.to_string_lossy()));
    subject
}

/// Returns a sentence for each certificate that a new server would not order at once, although it is due.
#[must_use]
pub fn pauses(settings: &Settings) -> Vec<String> {
    let Ok(key) = account_key(settings) else { return Vec::new() };
    let account = key.thumbprint();
    let certificates = settings.certificates.iter();
    certificates.filter_map(|names| Pause::read(settings, names, &account)?.describe(settings, names)).collect()
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
