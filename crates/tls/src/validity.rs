//! The period in which a certificate is valid (RFC 5280, section 4.1.2.5), for operators: clients judge it themselves.

use crate::der::{GENERALIZED_TIME, UTC_TIME, element};
use crate::outline::Outline;

/// Seconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

const DAY: u64 = 24 * 3600;

impl Validity {
    /// Parses the period of a certificate; `None` without one.
    pub(crate) fn of(certificate: &[u8]) -> Option<Self> {
        let times = Outline::of(certificate)?.times;
        let (kind, start, behind) = element(times)?;
        let start = seconds(kind, start)?;
        let (kind, end, _) = element(behind)?;
        Some(Self { start, end: seconds(kind, end)? })
    }

    /// The last day on which it is valid, in UTC.
    pub(crate) fn last_day(self) -> String {
        let (year, month, day) = date(self.end / DAY);
        format!("{year:04}-{month:02}-{day:02}")
    }
}

/// Parses a time: `YYMMDDHHMMSSZ`, where 50 is 1950, or `YYYYMMDDHHMMSSZ`. Times before 1970 count as 1970.
fn seconds(kind: u8, text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text.strip_suffix(b"Z")?).ok()?;
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number = |start: usize| text.get(start..start + 2)?.parse::<u64>().ok();
    let (year, at) = match (kind, text.len()) {
        (UTC_TIME, 12) => (number(0).map(|year| if year < 50 { 2000 + year } else { 1900 + year })?, 2),
        (GENERALIZED_TIME, 14) => (number(0)? * 100 + number(2)?, 4),
        _ => return None,
    };
    let [month, day, hour, minute, second] = [number(at)?, number(at + 2)?, number(at + 4)?, number(at + 6)?, number(at + 8)?];
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    Some(days(year, month, day) * DAY + hour * 3600 + minute * 60 + second)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar. The years begin in March here, so that a leap day is the last day
/// of its year.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year.saturating_sub(1), month + 9) };
    (year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day).saturating_sub(719_469)
}

/// The date of a day.
fn date(wanted: u64) -> (u64, u64, u64) {
    // A guess that is never too late, and at most a year too early.
    let mut year = 1970 + wanted / 366;
    while days(year + 1, 1, 1) <= wanted {
        year += 1;
    }
    let month = (1..=12).rev().find(|&month| days(year, month, 1) <= wanted).unwrap_or(1);
    (year, month, wanted - days(year, month, 1) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (text, expected) in [
            ("19700101000000", 0),
            ("20000229235959", 951_868_799),
            ("20261123073000", 1_795_419_000),
            ("21000301000000", 4_107_542_400),
            ("99991231235959", 253_402_300_799),
        ] {
            assert_eq!(seconds(GENERALIZED_TIME, format!("{text}Z").as_bytes()), Some(expected), "{text}");
        }
        assert_eq!(seconds(UTC_TIME, b"491231235959Z"), Some(2_524_607_999));
        assert_eq!(seconds(UTC_TIME, b"500101000000Z"), Some(0), "1950");
        for text in ["261123073000", "2611230730Z", "26112307300xZ", "261323073000Z", "261100073000Z", "Z", ""] {
            assert_eq!(seconds(UTC_TIME, text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn days_and_dates_are_each_others_opposites() {
        for day in (0..60_000).chain([2_932_896]) {
            let (year, month, of_month) = date(day);
            assert_eq!(days(year, month, of_month), day);
        }
        assert_eq!(date(20_780), (2026, 11, 23));
    }

    #[test]
    fn nothing_makes_it_panic() {
        for size in 0..40 {
            for byte in [0, 0x30, 0x81, 0x83, 0xff] {
                assert_eq!(Validity::of(&vec![byte; size]), None);
            }
        }
    }
}
