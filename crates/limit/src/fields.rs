//! The fields that tell a client about a limit: Retry-After (RFC 9110, section 10.2.3), and RateLimit and RateLimit-Policy
//! (draft-ietf-httpapi-ratelimit-headers-10), which are lists of structured fields (RFC 9651).

use crate::{Rule, Verdict};
use core::time::Duration;
use std::io::Write;

/// Appends a member of RateLimit-Policy: the name, the quota in requests (`q`) and its window in whole seconds (`w`), such as
/// `"api";q=100;w=60`. If the burst is not the quota, it is a parameter of its own (`oribi-burst`). A window below a second
/// becomes one second, with as many requests.
///
/// Members of several rules are separated by commas; that is up to the caller. Bytes of the name that a structured string
/// cannot have are left out.
pub fn write_policy(name: &str, rule: &Rule, field: &mut Vec<u8>) {
    write_name(name, field);
    let window = ceil_seconds(rule.per).max(1);
    let nanoseconds = u128::from(window) * 1_000_000_000;
    let quota = u128::from(rule.requests) * nanoseconds / rule.per.as_nanos().max(1);
    write_parameter("q", quota as u64, field);
    write_parameter("w", window, field);
    if u128::from(rule.burst) != quota {
        write_parameter("oribi-burst", rule.burst.into(), field);
    }
}

/// Appends a member of RateLimit: the name, the remaining requests (`r`) and the seconds until another one is allowed (`t`),
/// such as `"api";r=50;t=1`. If the whole burst remains, there is no `t`.
pub fn write_limit(name: &str, verdict: Verdict, field: &mut Vec<u8>) {
    write_name(name, field);
    write_parameter("r", verdict.remaining.into(), field);
    if !verdict.reset.is_zero() {
        write_parameter("t", ceil_seconds(verdict.reset), field);
    }
}

/// The value of Retry-After for a request that was refused, in seconds: at least 1, as 0 would have the client come back at
/// once.
#[must_use]
pub fn retry_after_seconds(verdict: Verdict) -> u64 {
    ceil_seconds(verdict.retry_after).max(1)
}

fn ceil_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

fn write_name(name: &str, field: &mut Vec<u8>) {
    field.push(b'"');
    for byte in name.bytes().filter(|byte| matches!(byte, b' '..=b'~')) {
        if matches!(byte, b'"' | b'\\') {
            field.push(b'\\');
        }
        field.push(byte);
    }
    field.push(b'"');
}

fn write_parameter(name: &str, value: u64, field: &mut Vec<u8>) {
    // An integer of a structured field has at most 15 digits. A vector takes all bytes.
    let _ = write!(field, ";{name}={}", value.min(999_999_999_999_999));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(name: &str, requests: u32, per: Duration, burst: u32) -> String {
        let mut field = Vec::new();
        write_policy(name, &Rule { requests, per, burst }, &mut field);
        String::from_utf8(field).expect("it is ASCII")
    }

    #[test]
    fn a_policy_has_a_quota_and_a_window() {
        let second = Duration::from_secs(1);
        assert_eq!(policy("api", 100, 60 * second, 100), "\"api\";q=100;w=60");
        assert_eq!(policy("api", 100, 60 * second, 20), "\"api\";q=100;w=60;oribi-burst=20");
        assert_eq!(policy("a", 5, second / 10, 50), "\"a\";q=50;w=1");
        assert_eq!(policy("a", 3, second * 3 / 2, 4), "\"a\";q=4;w=2");
        assert_eq!(policy("a \"b\\c\"\né", 1, second, 1), "\"a \\\"b\\\\c\\\"\";q=1;w=1");
        assert_eq!(policy("a", u32::MAX, Duration::from_nanos(1), 1), "\"a\";q=999999999999999;w=1;oribi-burst=1");
    }

    #[test]
    fn a_limit_has_the_remaining_requests_and_the_time_until_another() {
        let write = |remaining, reset| {
            let verdict = Verdict { allowed: true, remaining, retry_after: Duration::ZERO, reset };
            let mut field = b"x, ".to_vec();
            write_limit("api", verdict, &mut field);
            String::from_utf8(field).expect("it is ASCII")
        };
        assert_eq!(write(50, Duration::from_millis(1)), "x, \"api\";r=50;t=1");
        assert_eq!(write(0, Duration::from_secs(30)), "x, \"api\";r=0;t=30");
        assert_eq!(write(100, Duration::ZERO), "x, \"api\";r=100");
    }

    #[test]
    fn seconds_are_rounded_up() {
        for (time, seconds) in [(0, 1), (1, 1), (999, 1), (1000, 1), (1001, 2), (60_000, 60)] {
            let retry_after = Duration::from_millis(time);
            let verdict = Verdict { allowed: false, remaining: 0, retry_after, reset: retry_after };
            assert_eq!(retry_after_seconds(verdict), seconds, "{time} ms");
        }
    }
}
