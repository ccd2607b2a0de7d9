//! The share of the traces begun by this server that are marked as sampled (`--trace-sample`).

use std::fmt;

/// A share of traces, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleRatio(u32);

impl SampleRatio {
    /// The ratio by which all traces are sampled.
    pub const ALL: Self = Self(Self::WHOLE);
    const WHOLE: u32 = 1_000_000;

    /// Parses a number from 0 to 1.
    ///
    /// # Errors
    /// The text is not such a number.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let ratio = text.parse::<f64>().ok().filter(|ratio| is_number && (0.0..=1.0).contains(ratio));
        let ratio = ratio.ok_or_else(|| "expected a number from 0 to 1, such as 0.1 for every tenth".to_owned())?;
        Ok(Self((ratio * f64::from(Self::WHOLE)).round() as u32))
    }

    /// Whether a trace that drew this random 64-bit number is sampled.
    #[must_use]
    pub fn includes(self, draw: u64) -> bool {
        (u128::from(draw) * u128::from(Self::WHOLE)) >> 64 < u128::from(self.0)
    }
}

impl fmt::Display for SampleRatio {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (f64::from(self.0) / f64::from(Self::WHOLE)).fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::SampleRatio;

    #[test]
    fn ratios() {
        for (text, shown) in [("1", "1"), ("0", "0"), (" 0.25 ", "0.25"), ("1.0", "1"), ("0.000001", "0.000001"), (".5", "0.5")]
        {
            assert_eq!(SampleRatio::parse(text).map(|ratio| ratio.to_string()), Ok(shown.to_owned()), "{text}");
        }
        for wrong in ["", "1.1", "-0", "nan", "inf", "1e-3", "10%", "x", "2"] {
            assert!(SampleRatio::parse(wrong).is_err(), "{wrong}");
        }
        let half = SampleRatio::parse("0.5").expect("a ratio");
        assert!(half.includes(0) && half.includes(u64::MAX / 2 - 1) && !half.includes(u64::MAX / 2 + 1));
        assert!(SampleRatio::ALL.includes(u64::MAX) && !SampleRatio(0).includes(0));
    }
}
