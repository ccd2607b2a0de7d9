//! Times in the formats of logs, always in UTC, because servers move and time zones change twice a year.

use httpdate::HttpDate;
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The end of the year 9999 in seconds: the last second that an HTTP date can express.
const LAST_SECOND: u64 = 253_402_300_799;

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Formats times. The part that depends on the second is made once a second.
#[derive(Debug)]
pub struct Stamp {
    second: u64,
    /// `21/Nov/2026:03:00:00 +0000`
    common: String,
    /// `2026-11-21T03:00:00`
    iso: String,
}

impl Stamp {
    pub fn new() -> Self {
        let mut stamp = Self { second: 0, common: String::new(), iso: String::new() };
        stamp.spell();
        stamp
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

    /// Updates the texts for `time`, and returns its milliseconds.
    fn turn_to(&mut self, time: SystemTime) -> u32 {
        // A clock before 1970 is wrong anyway; it is shown as 1970.
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings() {
        let mut stamp = Stamp::new();
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
            stamp.append_common(time, &mut left);
            stamp.append_iso(time, &mut right);
            assert_eq!(String::from_utf8_lossy(&left), common);
            assert_eq!(String::from_utf8_lossy(&right), iso);
        }
        let mut line = Vec::new();
        stamp.append_iso(UNIX_EPOCH - Duration::from_secs(5), &mut line);
        assert_eq!(line, b"1970-01-01T00:00:00.000Z");
    }
}
