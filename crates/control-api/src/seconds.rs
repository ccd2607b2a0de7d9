//! Times as numbers of JSON.

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
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
        serializer.serialize_f64((self.0 * 1000.0).round() / 1000.0)
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        f64::deserialize(deserializer).map(Self)
    }
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
