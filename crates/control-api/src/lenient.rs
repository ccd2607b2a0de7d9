//! Reads fields that a server of another version may lack, or may send with another type.

use serde::de::{Deserialize, DeserializeOwned, Deserializer};
use serde_json::Value;

/// Reads a field; a value of another type counts as the default.
pub(crate) fn or_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: DeserializeOwned + Default,
    D: Deserializer<'de>,
{
    Ok(T::deserialize(Value::deserialize(deserializer)?).unwrap_or_default())
}

/// Reads a list; elements of another type are left out, and a value that is no list counts as an empty one.
pub(crate) fn elements<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: DeserializeOwned,
    D: Deserializer<'de>,
{
    Ok(elements_if_any(deserializer)?.unwrap_or_default())
}

/// As [`elements`], but a value that is no list counts as `None`.
pub(crate) fn elements_if_any<'de, T, D>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    T: DeserializeOwned,
    D: Deserializer<'de>,
{
    Ok(match Value::deserialize(deserializer)? {
        Value::Array(values) => Some(values.into_iter().filter_map(|value| T::deserialize(value).ok()).collect()),
        _ => None,
    })
}
