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
        assert_eq!(write(u64::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
