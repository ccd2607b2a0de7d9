//! The counters of a server.

use crate::Seconds;
use serde::de::{Deserializer, Error};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};

/// The counters of a server, by name, and the time since they began. docs/counters.md lists the names; servers of other
/// versions have others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    /// The time since the counting began.
    pub seconds: Seconds,
    /// Names and values: in the order in which the server writes them, or alphabetically if they were read.
    pub values: Vec<(Cow<'static, str>, CounterValue)>,
}

/// The value of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CounterValue {
    /// A number of events or bytes.
    Count(u64),
    /// A time.
    Time(Seconds),
}

impl CounterValue {
    /// Returns the number, of events or of seconds.
    #[must_use]
    pub fn number(self) -> f64 {
        match self {
            Self::Count(count) => count as f64,
            Self::Time(Seconds(time)) => time,
        }
    }
}

impl Display for CounterValue {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => count.fmt(formatter),
            Self::Time(time) => time.fmt(formatter),
        }
    }
}

impl Counters {
    /// Returns a counter; `None` if the server does not have it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<CounterValue> {
        self.values.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    /// Returns the number of a counter, of events or of seconds; zero if the server does not have it.
    #[must_use]
    pub fn number(&self, name: &str) -> f64 {
        self.get(name).map_or(0.0, CounterValue::number)
    }
}

/// The name of the time since the counting began, beside those of the counters.
const SECONDS: &str = "seconds";

impl Serialize for Counters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1 + self.values.len()))?;
        map.serialize_entry(SECONDS, &self.seconds)?;
        for (name, value) in &self.values {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Counters {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut all = Map::deserialize(deserializer).map_err(D::Error::custom)?;
        let seconds = all.remove(SECONDS).and_then(|time| Seconds::deserialize(time).ok()).unwrap_or_default();
        let one = |(name, value): (String, Value)| Some((name.into(), CounterValue::deserialize(value).ok()?));
        Ok(Self { seconds, values: all.into_iter().filter_map(one).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::to_json;

    #[test]
    fn counters_are_written_in_their_order_and_found_by_name() {
        let values = vec![
            ("waits_seconds".into(), CounterValue::Time(Seconds(1.25))),
            ("requests".into(), CounterValue::Count(u64::MAX)),
        ];
        let counters = Counters { seconds: Seconds(2.0), values };
        let json = "{\"seconds\":2.000,\"waits_seconds\":1.250,\"requests\":18446744073709551615}";
        assert_eq!(to_json(&counters), json);
        let read: Counters = serde_json::from_str(json).expect("they are counters");
        assert_eq!(read.seconds, counters.seconds);
        for (name, value) in counters.values {
            assert_eq!(read.get(&name), Some(value), "{name}");
        }
        assert_eq!((read.get("others"), read.number("others"), read.number("waits_seconds")), (None, 0.0, 1.25));
    }

    #[test]
    fn what_is_no_number_is_no_counter() {
        let read: Counters = serde_json::from_str(r#"{ "a": "1", "b": [], "c": null, "d": 4, "seconds": {} }"#).expect("a map");
        assert_eq!(read, Counters { seconds: Seconds(0.0), values: vec![("d".into(), CounterValue::Count(4))] });
        assert!(serde_json::from_str::<Counters>("[1]").is_err());
    }
}
