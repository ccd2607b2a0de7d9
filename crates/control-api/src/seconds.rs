//! Times as numbers of JSON.

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Error, Serialize, Serializer};
use serde_json::value::RawValue;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

/// A time in seconds, displayed and written to the millisecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Seconds(pub f64);

impl From<Duration> for Seconds {
    fn from(time: Duration) -> Self {
        Self(time.as_secs_f64())
    }
}

impl Display for Seconds {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:.3}", self.0)
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        number(&self.to_string(), serializer)
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        f64::deserialize(deserializer).map(Self)
    }
}

/// Writes a number with these digits. Writes null for a text that is no number of JSON, such as `NaN`.
pub(crate) fn number<S: Serializer>(digits: &str, serializer: S) -> Result<S::Ok, S::Error> {
    if !digits.ends_with(|last: char| last.is_ascii_digit()) {
        return serializer.serialize_unit();
    }
    RawValue::from_string(digits.to_owned()).map_err(Error::custom)?.serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::to_json;

    #[test]
    fn times_have_three_digits_after_the_point() {
        let times = [0, 1_500_000, 61_000_600, 999_999].map(|time| to_json(&Seconds::from(Duration::from_micros(time))));
        assert_eq!(times, ["0.000", "1.500", "61.001", "1.000"]);
        assert_eq!(to_json(&[Seconds(f64::NAN), Seconds(f64::INFINITY), Seconds(-0.5)]), "[null,null,-0.500]");
    }

    #[test]
    fn any_number_is_read() {
        let read = |text| serde_json::from_str::<Seconds>(text).ok();
        assert_eq!(["1.500", "2", "-3", "9e12"].map(read), [1.5, 2.0, -3.0, 9e12].map(|time| Some(Seconds(time))));
        assert_eq!(["null", "\"1\"", "[1]"].map(read), [None; 3]);
    }
}
