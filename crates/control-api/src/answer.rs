//! The answer to an order: `"ok":true` and its fields, or `"ok":false` and the reason.

use crate::to_json;
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::fmt::{self, Display, Formatter};

/// The answer of a server to an order. `T` is a structure, whose fields stand beside `ok`.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer<T> {
    /// The server has carried out the order.
    Done(T),
    /// The server has not carried out the order.
    Failed(Failure),
}

/// The reason why an order has failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// The reason, for users; `None` if the server has given none.
    pub error: Option<String>,
}

impl Failure {
    /// Returns the reason, or a text that says that there is none.
    #[must_use]
    pub fn reason(&self) -> &str {
        self.error.as_deref().unwrap_or("the server gave no reason")
    }
}

/// The error if an answer is not JSON. Displayed as a message for users, with the reason.
#[derive(Debug)]
pub struct NotJson(serde_json::Error);

impl Display for NotJson {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "the answer is not JSON, so this is not an Oribi server: {}", self.0)
    }
}

impl std::error::Error for NotJson {}

impl<T> Answer<T> {
    /// Returns the answer to an order that has failed for this reason.
    pub fn failed(why: impl Into<String>) -> Self {
        Self::Failed(Failure { error: Some(why.into()) })
    }
}

impl<T: Serialize> Answer<T> {
    /// Returns the answer as JSON, without a line end.
    #[must_use]
    pub fn to_json(&self) -> String {
        to_json(self)
    }
}

impl<T: Serialize> Serialize for Answer<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Success<'a, T> {
            ok: bool,
            #[serde(flatten)]
            fields: &'a T,
        }
        #[derive(Serialize)]
        struct Reason<'a> {
            ok: bool,
            #[serde(skip_serializing_if = "Option::is_none")]
            error: Option<&'a str>,
        }
        match self {
            Self::Done(fields) => Success { ok: true, fields }.serialize(serializer),
            Self::Failed(Failure { error }) => Reason { ok: false, error: error.as_deref() }.serialize(serializer),
        }
    }
}

impl<T: DeserializeOwned + Default> Answer<T> {
    /// Parses a line, with or without a line end. JSON that is not an answer counts as a failure without a reason.
    ///
    /// # Errors
    /// The line is not JSON.
    pub fn parse(line: &str) -> Result<Self, NotJson> {
        let answer: Value = serde_json::from_str(line).map_err(NotJson)?;
        if answer.get("ok").and_then(Value::as_bool) == Some(true) {
            return Ok(Self::Done(T::deserialize(answer).unwrap_or_default()));
        }
        let error = answer.get("error").and_then(Value::as_str).map(str::to_owned);
        Ok(Self::Failed(Failure { error }))
    }
}

#[cfg(test)]
mod tests;
