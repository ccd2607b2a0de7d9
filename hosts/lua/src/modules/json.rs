//! Converts between JSON (RFC 8259) and Lua values.
//!
//! A table is converted to an array if it is marked as an array (`decode` marks arrays), or if its keys are 1 to n. An empty
//! table without this mark is converted to an object. JSON's null is a value of its own, because a Lua table cannot contain
//! nil.

use super::OUTPUT_BYTES;
use mlua::{Error, Lua, Result, Table, Value};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::io::Write as _;

/// The depth of nested values: the same limit as for parsing in `serde_json`.
const DEPTH: usize = 127;

/// Converts a value to JSON text.
///
/// # Errors
/// The value has no JSON form, is nested too deeply, or its text is too long.
pub(super) fn encode(value: &Value, marker: &Table) -> Result<Vec<u8>> {
    let mut encoder = Encoder { out: Vec::new(), depth: 0, marker };
    encoder.value(value)?;
    Ok(encoder.out)
}

/// Converts JSON text to a value.
///
/// # Errors
/// The outer error: Lua has no memory left. The inner error: a message with the fault of the text and the place of the fault.
pub(super) fn decode(lua: &Lua, text: &[u8], marker: &Table) -> Result<std::result::Result<Value, String>> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let mut failure = None;
    let value = Build { lua, marker, failure: &mut failure }.deserialize(&mut deserializer);
    if let Some(failure) = failure {
        return Err(failure);
    }
    Ok(value.and_then(|value| deserializer.end().map(|()| value)).map_err(|error| error.to_string()))
}

struct Encoder<'a> {
    out: Vec<u8>,
    depth: usize,
    marker: &'a Table,
}

impl Encoder<'_> {
    fn value(&mut self, value: &Value) -> Result<()> {
        if self.out.len() > OUTPUT_BYTES {
            return Err(Error::runtime(format!("cannot encode more than {} MiB of JSON", OUTPUT_BYTES >> 20)));
        }
        match value {
            Value::Nil => self.out.extend_from_slice(b"null"),
            Value::LightUserData(pointer) if pointer.0.is_null() => self.out.extend_from_slice(b"null"),
            Value::Boolean(on) => self.out.extend_from_slice(if *on { b"true" } else { b"false" }),
            Value::Integer(number) => {
                let _ = write!(self.out, "{number}");
            }
            Value::Number(number) if number.is_finite() => {
                let _ = write!(self.out, "{number:?}");
            }
            Value::Number(_) => return Err(Error::runtime("JSON has no infinite numbers and no NaN")),
            Value::String(text) => self.text(text)?,
            Value::Table(table) => {
                if self.depth == DEPTH {
                    return Err(Error::runtime(format!(
                        "cannot encode tables within more than {DEPTH} others, or within themselves"
                    )));
                }
                self.depth += 1;
                self.table(table)?;
                self.depth -= 1;
            }
            other => return Err(Error::runtime(format!("JSON has no form for a {}", other.type_name()))),
        }
        Ok(())
    }

    fn text(&mut self, text: &mlua::LuaString) -> Result<()> {
        let text = text.to_str().map_err(|_| Error::runtime("a text in JSON must be UTF-8"))?;
        // Writing into memory does not fail.
        serde_json::to_writer(&mut self.out, &*text).map_err(Error::external)
    }

    fn table(&mut self, table: &Table) -> Result<()> {
        let length = table.raw_len();
        let marked = table.metatable().is_some_and(|metatable| metatable.to_pointer() == self.marker.to_pointer());
        if marked || length > 0 {
            // The length of a table with gaps is not well-defined, so it cannot decide.
            let (mut listed, mut others) = (0, 0);
            for pair in table.pairs::<Value, Value>() {
                let position = pair?.0.as_usize().is_some_and(|key| (1..=length).contains(&key));
                *(if position { &mut listed } else { &mut others }) += 1;
            }
            if listed != length || others > 0 {
                return Err(Error::runtime("a table for JSON must be a list without gaps, or have texts for keys"));
            }
            self.out.push(b'[');
            for index in 1..=length {
                if index > 1 {
                    self.out.push(b',');
                }
                self.value(&table.raw_get(index)?)?;
            }
            self.out.push(b']');
            return Ok(());
        }
        self.object(table)
    }

    fn object(&mut self, table: &Table) -> Result<()> {
        self.out.push(b'{');
        let mut first = true;
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            let Value::String(key) = key else {
                return Err(Error::runtime(format!("a {} cannot be the name of a member in JSON", key.type_name())));
            };
            if !first {
                self.out.push(b',');
            }
            first = false;
            self.text(&key)?;
            self.out.push(b':');
            self.value(&value)?;
        }
        self.out.push(b'}');
        Ok(())
    }
}

/// Builds Lua values while the text is read: everything is in Lua's memory, so the state's memory limit applies.
struct Build<'a> {
    lua: &'a Lua,
    marker: &'a Table,
    /// An error of Lua, not of the text.
    failure: &'a mut Option<Error>,
}

impl Build<'_> {
    fn lua<T, E: serde::de::Error>(&mut self, result: Result<T>) -> std::result::Result<T, E> {
        result.map_err(|error| {
            *self.failure = Some(error);
            E::custom("Lua has failed")
        })
    }

    fn inner(&mut self) -> Build<'_> {
        Build { lua: self.lua, marker: self.marker, failure: self.failure }
    }
}

impl<'de> DeserializeSeed<'de> for Build<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Build<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> std::result::Result<Value, E> {
        Ok(Value::NULL)
    }

    fn visit_bool<E>(self, on: bool) -> std::result::Result<Value, E> {
        Ok(Value::Boolean(on))
    }

    fn visit_i64<E>(self, number: i64) -> std::result::Result<Value, E> {
        Ok(mlua::Integer::try_from(number).map_or(Value::Number(number as f64), Value::Integer))
    }

    fn visit_u64<E>(self, number: u64) -> std::result::Result<Value, E> {
        Ok(mlua::Integer::try_from(number).map_or(Value::Number(number as f64), Value::Integer))
    }

    fn visit_f64<E>(self, number: f64) -> std::result::Result<Value, E> {
        Ok(Value::Number(number))
    }

    fn visit_str<E: serde::de::Error>(mut self, text: &str) -> std::result::Result<Value, E> {
        let text = self.lua.create_string(text);
        self.lua(text).map(Value::String)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> std::result::Result<Value, A::Error> {
        let list = self.lua.create_table();
        let list = self.lua(list)?;
        let mut length = 0;
        while let Some(value) = items.next_element_seed(self.inner())? {
            length += 1;
            let set = list.raw_set(length, value);
            self.lua(set)?;
        }
        let marked = list.set_metatable(Some(self.marker.clone()));
        self.lua(marked)?;
        Ok(Value::Table(list))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> std::result::Result<Value, A::Error> {
        let table = self.lua.create_table();
        let table = self.lua(table)?;
        while let Some(key) = members.next_key_seed(self.inner())? {
            let Value::String(_) = key else { return Err(A::Error::custom("expected a text")) };
            let value = members.next_value_seed(self.inner())?;
            let set = table.raw_set(key, value);
            self.lua(set)?;
        }
        Ok(Value::Table(table))
    }
}
