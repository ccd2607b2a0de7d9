//! Formats times for logs, always in UTC, because servers move and time zones change twice a year.

use httpdate::HttpDate;
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The last second of the year 9999, in seconds since 1970: the last second that an HTTP date can express.
const LAST_SECOND: u64 = 253_402_300_799;

const LONG_MONTHS: [&str; 12] =
    ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];

const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Formats times. The part that depends on the second is formatted once a second.
#[derive(Debug)]
pub struct DateCache {
    second: u64,
    /// `21/Nov/2026:03:00:00 +0000`
    common: String,
    /// `2026-11-21T03:00:00`
    iso: String,
    /// `Sat, 21 Nov 2026 03:00:00 GMT`, from which the other forms are derived.
    date: String,
}

impl DateCache {
    pub fn new() -> Self {
        let mut date_cache = Self { second: 0, common: String::new(), iso: String::new(), date: String::new() };
        date_cache.spell();
        date_cache
    }

    /// Appends `21/Nov/2026:03:00:00 +0000`, Apache's format.
    pub fn append_common(&mut self, time: SystemTime, line: &mut Vec<u8>) {
        self.turn_to(time);
        line.extend_from_slice(self.common.as_bytes());
    }

    /// Appends `2026-11-21T03:00:00.123Z` (RFC 3339).
    pub fn append_iso(&mut self, time: SystemTime, line: &mut Vec<u8>) {
        let milliseconds = self.turn_to(time);
        line.extend_from_slice(self.iso.as_bytes());
        // Writing into memory does not fail.
        let _ = write!(line, ".{milliseconds:03}Z");
    }

    /// Appends the time as strftime does in the C locale. Unknown conversions are left out.
    pub fn append_calendar(&mut self, time: SystemTime, form: &str, line: &mut Vec<u8>) {
        self.turn_to(time);
        let mut rest = form;
        while let Some((plain, behind)) = rest.split_once('%') {
            line.extend_from_slice(plain.as_bytes());
            let mut letters = behind.chars();
            if let Some(letter) = letters.next() {
                self.append_letter(letter, line);
            }
            rest = letters.as_str();
        }
        line.extend_from_slice(rest.as_bytes());
    }

    fn append_letter(&self, letter: char, line: &mut Vec<u8>) {
        let Self { date, iso, second, .. } = self;
        let (weekday, day, month, year) = (&date[..3], &date[5..7], &date[8..11], &date[12..16]);
        let (hour, minute, number) = (&date[17..19], &date[20..22], &iso[5..7]);
        // The twelve-hour clock: each half of the day begins with hour 12.
        let half_day = (second / 3600 + 11) % 12 + 1;
        let half = if second / 3600 % 24 < 12 { "AM" } else { "PM" };
        let long = |names: &[&'static str], short: &str| names.iter().find(|name| name.starts_with(short)).copied();
        let text = match letter {
            'a' => weekday,
            'A' => long(&WEEKDAYS, weekday).unwrap_or_default(),
            'b' | 'h' => month,
            'B' => long(&LONG_MONTHS, month).unwrap_or_default(),
            'd' => day,
            'e' if day.starts_with('0') => return line.extend_from_slice(&[b' ', day.as_bytes()[1]]),
            'e' => day,
            'F' => &iso[..10],
            'H' => hour,
            'm' => number,
            'M' => minute,
            'p' => half,
            'R' => &date[17..22],
            'S' => &date[23..25],
            't' => "\t",
            'T' => &date[17..25],
            'y' => &year[2..],
            'Y' => year,
            'z' => "+0000",
            'Z' => "UTC",
            '%' => "%",
            // Writing into memory does not fail.
            'I' => return drop(write!(line, "{half_day:02}")),
            'r' => return drop(write!(line, "{half_day:02}{} {half}", &date[19..25])),
            _ => "",
        };
        line.extend_from_slice(text.as_bytes());
    }

    /// Updates the texts for `time`, and returns the milliseconds of `time` within its second.
    fn turn_to(&mut self, time: SystemTime) -> u32 {
        // A clock before 1970 is wrong anyway; it is displayed as 1970.
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let second = since.as_secs().min(LAST_SECOND);
        if second != self.second {
            self.second = second;
            self.spell();
        }
        since.subsec_millis()
    }

    fn spell(&mut self) {
        // "Sun, 06 Nov 1994 08:49:37 GMT" has all parts of the date at fixed places (RFC 9110, section 5.6.7).
        let date = HttpDate::from(UNIX_EPOCH + Duration::from_secs(self.second)).to_string();
        let (day, month, year, time) = (&date[5..7], &date[8..11], &date[12..16], &date[17..25]);
        let number = MONTHS.iter().position(|name| *name == month).map_or(0, |index| index + 1);
        self.common = format!("{day}/{month}/{year}:{time} +0000");
        self.iso = format!("{year}-{number:02}-{day}T{time}");
        self.date = date;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings() {
        let mut date_cache = DateCache::new();
        for (seconds, milliseconds, common, iso) in [
            (0, 0, "01/Jan/1970:00:00:00 +0000", "1970-01-01T00:00:00.000Z"),
            (784_111_777, 5, "06/Nov/1994:08:49:37 +0000", "1994-11-06T08:49:37.005Z"),
            (1_709_164_799, 999, "28/Feb/2024:23:59:59 +0000", "2024-02-28T23:59:59.999Z"),
            (1_709_164_800, 0, "29/Feb/2024:00:00:00 +0000", "2024-02-29T00:00:00.000Z"),
            (LAST_SECOND, 0, "31/Dec/9999:23:59:59 +0000", "9999-12-31T23:59:59.000Z"),
            (LAST_SECOND + 1, 0, "31/Dec/9999:23:59:59 +0000", "9999-12-31T23:59:59.000Z"),
        ] {
            let time = UNIX_EPOCH + Duration::from_millis(seconds * 1000 + milliseconds);
            let (mut left, mut right) = (Vec::new(), Vec::new());
            date_cache.append_common(time, &mut left);
            date_cache.append_iso(time, &mut right);
            assert_eq!(String::from_utf8_lossy(&left), common);
            assert_eq!(String::from_utf8_lossy(&right), iso);
        }
        for (seconds, text) in [
            (
                784_111_777,
                "Sun Sunday Nov November 06  6 1994-11-06 08 08 11 49 AM 08:49 08:49:37 AM 37 08:49:37 94 1994 +0000 UTC %",
            ),
            (
                1_709_164_799,
                "Wed Wednesday Feb February 28 28 2024-02-28 23 11 02 59 PM 23:59 11:59:59 PM 59 23:59:59 24 2024 +0000 UTC %",
            ),
        ] {
            let mut line = Vec::new();
            let form = "%a %A %b %B %d %e %F %H %I %m %M %p %R %r %S %T %y %Y %z %Z %%";
            date_cache.append_calendar(UNIX_EPOCH + Duration::from_secs(seconds), form, &mut line);
            assert_eq!(String::from_utf8_lossy(&line), text);
        }
        let mut line = Vec::new();
        date_cache.append_iso(UNIX_EPOCH - Duration::from_secs(5), &mut line);
        assert_eq!(line, b"1970-01-01T00:00:00.000Z");
    }
}
