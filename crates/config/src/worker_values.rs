//! Parses the values of the settings of the number of workers.

use super::value::small_count;
use super::worker_range::WorkerRange;

/// Parses one number, or two as `MIN:MAX`. Each may be `auto`, for the number of `processors`. `limit`: the highest number.
pub(super) fn worker_range(text: &str, processors: usize, limit: u32) -> Result<WorkerRange, String> {
    let number = |text: &str| {
        let automatic = text.trim().eq_ignore_ascii_case("auto");
        if automatic { Ok(processors.max(1)) } else { small_count(text, 0..=limit) }
    };
    let expected = |why: String| format!("{why}, or auto, or two as MIN:MAX");
    let Some((least, most)) = text.split_once(':') else { return number(text).map(WorkerRange::from).map_err(expected) };
    match (number(least).map_err(expected)?, number(most).map_err(expected)?) {
        (_, 0) => Err("expected MIN:MAX with a MAX of at least 1".to_owned()),
        (least, most) if least > most => {
            Err(format!("expected MIN:MAX with a MIN of at most MAX, and not {least} workers at least and {most} at most"))
        }
        (least, most) => Ok(WorkerRange::between(least, most)),
    }
}

/// Parses a share in percent, with or without its sign.
pub(super) fn percent(text: &str) -> Result<u8, String> {
    let text = text.trim();
    let number = small_count(text.strip_suffix('%').unwrap_or(text), 1..=100);
    number.map(|number| number as u8).map_err(|_| "expected a share in percent from 1 to 100".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_is_fixed_and_two_are_the_ends_of_a_range() {
        for (text, least, most) in [
            ("3", 3, 3),
            ("0", 1, 1),
            ("auto", 6, 6),
            ("2:8", 2, 8),
            ("0:4", 0, 4),
            (" 1 : auto ", 1, 6),
            ("4:4", 4, 4),
            ("AUTO:8", 6, 8),
        ] {
            let range = worker_range(text, 6, 8).expect(text);
            assert_eq!((range.least(), range.most()), (least, most), "{text}");
            assert_eq!(range.follows_load(), least < most, "{text}");
            assert_eq!(range.at_start(), least.max(1), "{text}");
            assert_eq!(worker_range(&range.to_string(), 1, 8), Ok(range), "{text} is shown as it can be set");
        }
        for (text, expected) in [
            ("9", "expected a whole number from 0 to 8, or auto, or two as MIN:MAX"),
            ("many", "expected a whole number from 0 to 8, or auto, or two as MIN:MAX"),
            ("1:9", "expected a whole number from 0 to 8, or auto, or two as MIN:MAX"),
            ("1:", "expected a whole number from 0 to 8, or auto, or two as MIN:MAX"),
            (":4", "expected a whole number from 0 to 8, or auto, or two as MIN:MAX"),
            ("1:2:3", "expected a whole number from 0 to 8, or auto, or two as MIN:MAX"),
            ("0:0", "expected MIN:MAX with a MAX of at least 1"),
            ("4:2", "expected MIN:MAX with a MIN of at most MAX, and not 4 workers at least and 2 at most"),
            ("7:auto", "expected MIN:MAX with a MIN of at most MAX, and not 7 workers at least and 6 at most"),
        ] {
            assert_eq!(worker_range(text, 6, 8), Err(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn shares_are_in_percent() {
        assert_eq!(["1", "90", " 100 ", "75%"].map(percent), [Ok(1), Ok(90), Ok(100), Ok(75)]);
        for text in ["", "0", "101", "%", "-1", "0.9"] {
            assert!(percent(text).is_err(), "{text}");
        }
    }
}
