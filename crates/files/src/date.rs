//! Dates in the format of HTTP (RFC 9110, section 5.6.7), in whole seconds since the Unix epoch.

use httpdate::{HttpDate, parse_http_date};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The last second of the last year with four digits.
const LAST: u64 = 253_402_300_799;

/// Parses a date in one of the three formats that a recipient must accept.
pub(crate) fn read(value: &[u8]) -> Option<u64> {
    let date = parse_http_date(std::str::from_utf8(value).ok()?).ok()?;
    date.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

/// Formats a date.
pub(crate) fn write(seconds: u64) -> String {
    HttpDate::from(UNIX_EPOCH + Duration::from_secs(seconds.min(LAST))).to_string()
}

/// Formats a date in the form of RFC 3339.
pub(crate) fn iso(seconds: u64) -> String {
    let seconds = seconds.min(LAST);
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March, so that the day that may be missing is the last one.
    let days = days + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// The current second.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_three_formats_are_read_and_one_is_written() {
        // The date of RFC 9110, section 5.6.7.
        const SECOND: u64 = 784_111_777;
        for text in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(read(text.as_bytes()), Some(SECOND), "{text}");
        }
        assert_eq!(write(SECOND), "Sun, 06 Nov 1994 08:49:37 GMT");
        for text in ["", "yesterday", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 GMT, Sun", "784111777"] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
        for (seconds, text) in [
            (SECOND, "1994-11-06T08:49:37Z"),
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (u64::MAX, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(iso(seconds), text);
        }
        assert_eq!(write(u64::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
