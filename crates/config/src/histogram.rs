//! The bounds of the buckets in the histograms of request times.

use super::bounds::Bound;
use std::time::Duration;

/// The usual bounds in milliseconds: those that clients of other servers use by default, and longer ones for slow reports.
const USUAL: [u64; 14] = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 50_000];

/// The bounds that are used by default.
pub(super) fn usual_bounds() -> Vec<Bound> {
    USUAL.into_iter().filter_map(|milliseconds| Bound::at(Duration::from_millis(milliseconds)).ok()).collect()
}

/// Parses the bounds.
///
/// # Errors
/// The expected form.
pub(super) fn bounds(text: &str) -> Result<Vec<Bound>, String> {
    let bounds: Result<Vec<Bound>, String> = text.split(',').map(|text| bound(text.trim())).collect();
    let bounds = bounds?;
    if bounds.is_sorted_by(|one, next| one < next) {
        Ok(bounds)
    } else {
        Err("expected each time to be longer than the one before".to_owned())
    }
}

/// Formats the value so that [`bounds`] can parse it.
pub(super) fn show_bounds(bounds: &[Bound]) -> String {
    bounds.iter().map(|bound| show(bound.time())).collect::<Vec<_>>().join(",")
}

/// Parses one bound. Times are counted between fixed bounds, so that histograms of different programs can be added.
fn bound(text: &str) -> Result<Bound, String> {
    let time = time(text).ok_or("expected times such as 500us, 2.5ms or 1s, with commas between them")?;
    let near = |(low, high): (Bound, Bound)| {
        let (low, high) = (show(low.time()), show(high.time()));
        format!("{text} is not one of the bounds by which times are counted; the nearest are {low} and {high}")
    };
    Bound::at(time).map_err(near)
}

/// Parses a time exactly; [`super::value::duration`] is not exact below a millisecond.
fn time(text: &str) -> Option<Duration> {
    let units = [("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000), ("", 1_000_000_000_u64)];
    let (number, unit) = units.into_iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
    let (whole, fraction) = number.trim_end().split_once('.').unwrap_or((number.trim_end(), "0"));
    let digits = |text: &str| (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let (whole, part): (u64, u64) = (whole.parse().ok()?, fraction.parse().ok()?);
    let part = u128::from(part) * u128::from(unit) / 10_u128.pow(fraction.len() as u32);
    Some(Duration::from_nanos(whole.checked_mul(unit)?.checked_add(u64::try_from(part).ok()?)?))
}

/// Formats the value so that [`time`] can parse it.
fn show(time: Duration) -> String {
    let nanoseconds = time.as_nanos();
    let (unit, name) = match nanoseconds {
        0..1_000_000 => (1_000, "us"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    format!("{}{name}", nanoseconds as f64 / f64::from(unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bound_is_shown_in_the_form_that_is_read() {
        for any in Bound::all() {
            assert_eq!(bound(&show(any.time())), Ok(any));
        }
        assert_eq!(usual_bounds().len(), USUAL.len());
        let shown = |text| show_bounds(&bounds(text).expect(text));
        assert_eq!(shown("10us, 2.50 ms,0.1,1.5s,100"), "10us,2.5ms,100ms,1.5s,100s");
    }

    #[test]
    fn mistakes_say_what_would_be_right() {
        for (text, why) in [
            ("", "expected times"),
            ("1ms,", "expected times"),
            ("1h", "expected times"),
            ("-1", "expected times"),
            ("1.", "expected times"),
            ("99999999999s", "expected times"),
            ("10ms,5ms", "longer than the one before"),
            ("5ms,5ms", "longer than the one before"),
            ("2.6ms", "the nearest are 2.5ms and 3ms"),
            ("2.5001ms", "the nearest are 2.5ms and 3ms"),
            ("0", "the nearest are 10us and 10us"),
            ("999999999s", "the nearest are 90s and 100s"),
        ] {
            let error = bounds(text).expect_err(text);
            assert!(error.contains(why), "{text:?}: {error}");
        }
    }
}
