//! The decision whether a response may be stored, and for how long it is fresh (RFC 9111, sections 3 and 4.2; RFC 5861).

use crate::control::{self, ResponseControl};
use crate::date;
use crate::vary::Vary;
use oribi_message::FieldPair;
use std::time::Duration;

/// The rules of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The time in seconds for which a response is fresh that does not say it; `None`: such a response is not stored.
    pub default_age: Option<u32>,
    /// The most bytes of content.
    pub max_object: u64,
    /// The time in seconds for which a stale response answers while the app is asked, unless the response says it.
    pub stale_while_revalidate: u32,
    /// The time in seconds for which a stale response answers in place of an error, unless the response says it.
    pub stale_if_error: u32,
    /// Whether Cache-Control and Pragma of requests are heeded.
    pub heeds_requests: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self { default_age: None, max_object: 1 << 20, stale_while_revalidate: 0, stale_if_error: 0, heeds_requests: false }
    }
}

/// The times of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The time at which the app was asked, on a clock that never goes back.
    pub asked: Duration,
    /// The time at which the response arrived, on the same clock.
    pub now: Duration,
    /// The same time in seconds since 1970.
    pub date: u64,
}

/// The reason why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its status.
    Status,
    /// A field of the response or of the request forbids it.
    Forbidden,
    /// It says nothing of its freshness, or it is stale and cannot be validated.
    NotFresh,
    /// It is too large.
    Size,
}

/// The decision to store a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The time in seconds for which it is fresh, from its generation on.
    pub lifetime: u32,
    /// Its age in seconds when it arrived.
    pub age: u32,
    /// The seconds for which it may answer stale while the app is asked.
    pub stale_while_revalidate: u32,
    /// The seconds for which it may answer stale in place of an error.
    pub stale_if_error: u32,
    /// Whether it must not answer stale because a request allows that (`max-stale`).
    pub strict: bool,
    /// Whether it may answer requests with Authorization.
    pub shared: bool,
    /// The request fields on which it depends.
    pub vary: Vary,
}

impl Rules {
    /// Decides about a response. `authorized`: whether its request had Authorization.
    ///
    /// # Errors
    /// The reason why it is not stored.
    pub fn judge(&self, authorized: bool, status: u16, fields: &[FieldPair<'_>], times: &Times) -> Result<Judgement, Refusal> {
        if !is_understood(status) {
            return Err(Refusal::Status);
        }
        let has = |wanted: &[u8]| fields.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
        let all = |wanted: &'static [u8]| fields.iter().filter(move |(name, _)| name.eq_ignore_ascii_case(wanted));
        let mut control = ResponseControl::default();
        // A field for caches that belong to the origin has precedence (RFC 9213).
        let targeted: Vec<&[u8]> = all(b"cdn-cache-control").map(|(_, value)| *value).collect();
        let targeted = Some(targeted.join(&b","[..])).filter(|value| control::is_dictionary(value));
        match &targeted {
            Some(value) => control.read(value),
            None => all(b"cache-control").for_each(|(_, value)| control.read(value)),
        }
        if control.no_store || control.private || has(b"set-cookie") || has(b"content-range") || has(b"set-cookie2") {
            return Err(Refusal::Forbidden);
        }
        let shared = control.public || control.must_revalidate || control.s_maxage.is_some();
        if authorized && !shared {
            return Err(Refusal::Forbidden);
        }
        let Some(vary) = Vary::of(fields.iter().copied()) else { return Err(Refusal::Forbidden) };
        let written = all(b"date").next().and_then(|(_, value)| date::parse(value)).unwrap_or(times.date);
        let expires = || {
            let mut values = all(b"expires").map(|(_, value)| *value);
            let value = values.next().filter(|_| targeted.is_none())?;
            // Several values: the least of them; an invalid one is in the past (section 5.3).
            let earliest = values.map(date::parse).fold(date::parse(value), Ord::min);
            let lifetime = earliest.map_or(0, |expires| expires.saturating_sub(written));
            Some(u32::try_from(lifetime).unwrap_or(u32::MAX))
        };
        let said = control.s_maxage.or(control.max_age).or_else(expires);
        let assumed = self.default_age.filter(|_| is_heuristically_cacheable(status) && targeted.is_none());
        let lifetime = match said {
            _ if control.no_cache => 0,
            Some(lifetime) => lifetime,
            None => assumed.ok_or(Refusal::NotFresh)?,
        };
        let strict = control.no_cache || control.must_revalidate || control.proxy_revalidate;
        // `s-maxage` asks a shared cache to validate (section 5.2.2.10), unless the response itself allows more.
        let by_rules = |seconds: u32| if control.s_maxage.is_some() { 0 } else { seconds };
        let window = |own: Option<u32>, rule: u32| if strict { 0 } else { own.unwrap_or_else(|| by_rules(rule)) };
        let judgement = Judgement {
            lifetime,
            age: age_on_arrival(all(b"age").map(|(_, value)| *value), written, times),
            stale_while_revalidate: window(control.stale_while_revalidate, self.stale_while_revalidate),
            stale_if_error: window(control.stale_if_error, self.stale_if_error),
            // `s-maxage` includes `proxy-revalidate`, whatever a request allows.
            strict: strict || control.s_maxage.is_some(),
            shared,
            vary,
        };
        let is_useful = judgement.age < judgement.lifetime.saturating_add(judgement.longest_window());
        if !is_useful && !has(b"etag") && !has(b"last-modified") {
            return Err(Refusal::NotFresh);
        }
        Ok(judgement)
    }
}

impl Judgement {
    fn longest_window(&self) -> u32 {
        self.stale_while_revalidate.max(self.stale_if_error)
    }
}

/// The age of a response when it arrives (section 4.2.3).
fn age_on_arrival<'f>(ages: impl Iterator<Item = &'f [u8]>, written: u64, times: &Times) -> u32 {
    let apparent = u32::try_from(times.date.saturating_sub(written)).unwrap_or(u32::MAX);
    // A list counts by its first value; an invalid one is as if it were not there (section 5.1).
    let first = ages.flat_map(control::elements).next();
    let delay = u32::try_from(times.now.saturating_sub(times.asked).as_secs()).unwrap_or(u32::MAX);
    let corrected = first.and_then(control::seconds).map_or(0, |age| age.saturating_add(delay));
    apparent.max(corrected)
}

/// Whether the cache knows the meaning of a status, so that it may store the response.
fn is_understood(status: u16) -> bool {
    is_heuristically_cacheable(status) || matches!(status, 302 | 303 | 307)
}

/// The statuses of responses that a cache may store although they do not say so (RFC 9110, section 15.1), but 206.
fn is_heuristically_cacheable(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: u64 = 784_111_777;
    const TIMES: Times = Times { asked: Duration::from_secs(100), now: Duration::from_secs(102), date: DATE };
    const RULES: Rules =
        Rules { default_age: None, max_object: 1, stale_while_revalidate: 0, stale_if_error: 0, heeds_requests: false };

    /// Judges a response with these lines of fields.
    fn judge_by(rules: &Rules, authorized: bool, status: u16, lines: &[&str]) -> Result<Judgement, Refusal> {
        let pair = |line: &&'static str| line.split_once(": ").map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let lines: Vec<&'static str> = lines.iter().map(|line| &*line.to_string().leak()).collect();
        let fields: Vec<FieldPair<'_>> = lines.iter().filter_map(pair).collect();
        rules.judge(authorized, status, &fields, &TIMES)
    }

    fn judge(status: u16, lines: &[&str]) -> Result<Judgement, Refusal> {
        judge_by(&RULES, false, status, lines)
    }

    #[test]
    fn lifetimes_are_those_of_the_most_specific_field() {
        let table: &[(&[&str], Option<u32>)] = &[
            (&[], None),
            (&["Cache-Control: max-age=10"], Some(10)),
            (&["Cache-Control: max-age=10", "Cache-Control: s-maxage=20"], Some(20)),
            (&["Cache-Control: s-maxage=0, max-age=10", "ETag: \"a\""], Some(0)),
            (&["Cache-Control: public"], None),
            (&["Expires: Sun, 06 Nov 1994 08:50:37 GMT"], Some(60)),
            (&["Expires: Sun, 06 Nov 1994 08:50:37 GMT", "Date: Sun, 06 Nov 1994 08:50:07 GMT"], Some(30)),
            (&["Expires: Sun, 06 Nov 1994 08:50:37 GMT", "Expires: 0", "ETag: \"a\""], Some(0)),
            (&["Expires: Sun, 06 Nov 1994 08:50:37 GMT", "Cache-Control: max-age=5"], Some(5)),
            (&["Expires: 0", "ETag: \"a\""], Some(0)),
            (&["Expires: 0"], None),
            (&["Cache-Control: max-age=0"], None),
            (&["Cache-Control: max-age=x"], None),
            (&["Cache-Control: max-age=0", "Last-Modified: x"], Some(0)),
            (&["Cache-Control: no-cache, max-age=10", "ETag: \"a\""], Some(0)),
            (&["Cache-Control: no-cache, max-age=10"], None),
            (&["Cache-Control: max-age=10, stale-if-error=5"], Some(10)),
            (&["Cache-Control: max-age=0, stale-while-revalidate=5"], Some(0)),
            (&["CDN-Cache-Control: max-age=7", "Cache-Control: no-store"], Some(7)),
            (&["CDN-Cache-Control: no-store", "Cache-Control: max-age=7"], None),
            (&["CDN-Cache-Control: MAX-AGE=7", "Cache-Control: max-age=9"], Some(9)),
            (&["CDN-Cache-Control: max-age=\"7\"", "Cache-Control: max-age=9"], Some(9)),
            (&["CDN-Cache-Control: ", "Cache-Control: max-age=9"], Some(9)),
        ];
        for (lines, expected) in table {
            assert_eq!(judge(200, lines).ok().map(|judgement| judgement.lifetime), *expected, "{lines:?}");
        }
    }

    #[test]
    fn fields_forbid_storing() {
        let fresh = "Cache-Control: max-age=10";
        assert!(judge(200, &[fresh]).is_ok());
        for line in [
            "Cache-Control: no-store",
            "Cache-Control: private",
            "Cache-Control: private=\"x\"",
            "Set-Cookie: a=b",
            "Vary: *",
            "vary: a, *",
            "Content-Range: bytes 0-1/2",
        ] {
            assert_eq!(judge(200, &[fresh, line]), Err(Refusal::Forbidden), "{line}");
        }
        assert_eq!(judge_by(&RULES, true, 200, &[fresh]), Err(Refusal::Forbidden));
        for more in ["public", "s-maxage=5", "must-revalidate"] {
            let line = format!("Cache-Control: {more}");
            assert!(judge_by(&RULES, true, 200, &[fresh, &line]).is_ok_and(|judgement| judgement.shared), "{more}");
        }
    }

    #[test]
    fn only_known_statuses_are_stored_and_those_without_freshness_only_by_rule() {
        let rules = Rules { default_age: Some(60), ..RULES };
        for status in 200..600 {
            let explicit = judge(status, &["Cache-Control: max-age=10"]).is_ok();
            let heuristic = judge_by(&rules, false, status, &[]).is_ok_and(|judgement| judgement.lifetime == 60);
            let known = [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501].contains(&status);
            assert_eq!((explicit, heuristic), (known || [302, 303, 307].contains(&status), known), "{status}");
            assert!(judge(status, &["ETag: \"a\""]).is_err(), "{status}");
        }
        assert_eq!(judge_by(&rules, false, 200, &["Cache-Control: max-age=5"]).map(|judgement| judgement.lifetime), Ok(5));
    }

    #[test]
    fn the_age_is_that_of_the_clock_or_of_the_caches_in_front() {
        let age = |lines: &[&str]| {
            let lines: Vec<&str> = lines.iter().chain(&["Cache-Control: max-age=10000"]).copied().collect();
            judge(200, &lines).map(|judgement| judgement.age)
        };
        assert_eq!(age(&[]), Ok(0));
        assert_eq!(age(&["Age: 30"]), Ok(32), "and the delay");
        assert_eq!(age(&["Age: 30, 50"]), Ok(32));
        assert_eq!(age(&["Age: x"]), Ok(0));
        assert_eq!(age(&["Date: Sun, 06 Nov 1994 08:48:37 GMT"]), Ok(60));
        assert_eq!(age(&["Date: Sun, 06 Nov 1994 08:48:37 GMT", "Age: 30"]), Ok(60));
        assert_eq!(age(&["Date: Sun, 06 Nov 1994 08:59:37 GMT"]), Ok(0), "a clock that is ahead");
        assert_eq!(judge(200, &["Cache-Control: max-age=20", "Age: 30"]), Err(Refusal::NotFresh), "stale on arrival");
    }

    #[test]
    fn stale_responses_answer_as_the_response_or_the_rule_says() {
        let rules = Rules { stale_while_revalidate: 5, stale_if_error: 6, ..RULES };
        let windows = |control: &str| {
            let line = format!("Cache-Control: {control}");
            let judgement = judge_by(&rules, false, 200, &[&line, "ETag: \"a\""]).expect("stored");
            (judgement.stale_while_revalidate, judgement.stale_if_error)
        };
        assert_eq!(windows("max-age=1"), (5, 6));
        assert_eq!(windows("max-age=1, stale-while-revalidate=0, stale-if-error=9"), (0, 9));
        assert_eq!(windows("s-maxage=1"), (0, 0));
        assert_eq!(windows("s-maxage=1, stale-while-revalidate=7"), (7, 0));
        for strict in ["must-revalidate", "proxy-revalidate", "no-cache"] {
            assert_eq!(
                windows(&format!("max-age=1, stale-while-revalidate=7, stale-if-error=7, {strict}")),
                (0, 0),
                "{strict}"
            );
        }
    }
}
