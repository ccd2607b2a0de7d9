//! Dates of fields, in seconds since 1970.

use std::time::UNIX_EPOCH;

/// Returns the date of a field (RFC 9110, section 5.6.7); `None` if it is invalid.
pub(crate) fn parse(value: &[u8]) -> Option<u64> {
    let time = httpdate::parse_http_date(std::str::from_utf8(value).ok()?).ok()?;
    // A date before 1970 is as old as one of 1970.
    Some(time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

/// Writes a date.
pub(crate) fn format(seconds: u64) -> String {
    // Later dates than the year 9999 have no form.
    const LAST: u64 = 253_402_300_799;
    httpdate::fmt_http_date(UNIX_EPOCH + std::time::Duration::from_secs(seconds.min(LAST)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_forms_are_one_date() {
        for text in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(parse(text.as_bytes()), Some(784_111_777), "{text}");
        }
        for text in ["", "0", "-1", "Sun, 06 Nov 1994 08:49:37", "\u{e9}"] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(format(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert!(format(u64::MAX).starts_with("Fri, 31 Dec 9999"));
    }
}
