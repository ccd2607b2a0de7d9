//! The time when a certificate must be ordered or renewed.

use crate::settings::{Names, Settings};
use oribi_tls::Identity;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The fraction of a certificate's life after which it is renewed.
pub(crate) const RENEW_AFTER: f64 = 2.0 / 3.0;

/// The certificate in the file; `None` if there is none or it cannot be used.
pub(crate) fn present(settings: &Settings, names: &Names) -> Option<Identity> {
    let file = settings.file(names);
    Identity::of(&file.display().to_string(), &std::fs::read(&file).ok()?).ok()
}

/// The time until a certificate must be renewed.
pub(crate) fn due(present: Option<&Identity>, names: &Names, now: SystemTime) -> Duration {
    let Some(identity) = present.filter(|identity| !identity.is_self_signed && names.are(&identity.names)) else {
        return Duration::ZERO;
    };
    let life = Duration::from_secs(identity.end.saturating_sub(identity.start));
    let moment = UNIX_EPOCH + Duration::from_secs(identity.start) + life.mul_f64(RENEW_AFTER);
    moment.duration_since(now).unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_renewed_when_a_third_of_its_life_is_left() {
        let names = Names::parse("a.org,b.org").expect("they are good");
        let identity = |names: &[&str], is_self_signed| Identity {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            start: 1_000_000,
            end: 1_000_900,
            is_self_signed,
        };
        let at = |second: u64| UNIX_EPOCH + Duration::from_secs(1_000_000 + second);
        let good = identity(&["b.org", "a.org"], false);
        assert_eq!(due(Some(&good), &names, at(100)), Duration::from_secs(500));
        assert_eq!(due(Some(&good), &names, at(601)), Duration::ZERO);
        for other in [identity(&["a.org"], false), identity(&["a.org", "b.org"], true)] {
            assert_eq!(due(Some(&other), &names, at(100)), Duration::ZERO);
        }
        assert_eq!(due(None, &names, at(100)), Duration::ZERO);
    }
}
