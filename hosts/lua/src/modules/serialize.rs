//! Formats a Lua value as Lua source: `load("return " .. text)()` makes an equal value.

use super::OUTPUT_BYTES;
use mlua::{Error, Result, Table, Value};
use std::cmp::Ordering;
use std::io::Write as _;

/// The depth of nested tables: Lua's own parser stops at 200 levels (LUAI_MAXCCALLS).
const DEPTH: usize = 100;

/// Writes a value.
///
/// # Errors
/// The value contains a function, a thread, userdata or itself, is nested too deeply, or its text is too long.
pub(super) fn serialize(value: &Value) -> Result<Vec<u8>> {
    let mut writer = Writer { out: Vec::new(), above: Vec::new() };
    writer.value(value)?;
    Ok(writer.out)
}

struct Writer {
    out: Vec<u8>,
    /// The tables around the current one.
    above: Vec<*const std::ffi::c_void>,
}

impl Writer {
    fn value(&mut self, value: &Value) -> Result<()> {
        if self.out.len() > OUTPUT_BYTES {
            return Err(Error::runtime(format!("cannot serialize more than {} MiB", OUTPUT_BYTES >> 20)));
        }
        match value {
            Value::Nil => self.out.extend_from_slice(b"nil"),
            Value::Boolean(on) => self.out.extend_from_slice(if *on { b"true" } else { b"false" }),
            Value::Integer(number) => self.integer(*number),
            Value::Number(number) => self.number(*number),
            Value::String(text) => self.text(&text.as_bytes()),
            Value::Table(table) => return self.table(table),
            other => return Err(Error::runtime(format!("cannot serialize a {}", other.type_name()))),
        }
        Ok(())
    }

    #[allow(clippy::unnecessary_cast, reason = "mlua's integer has another size where Lua has no integers")]
    fn integer(&mut self, number: mlua::Integer) {
        // Lua would read these digits as a float and negate that (manual of 5.4, section 3.1).
        if number as i64 == i64::MIN {
            self.out.extend_from_slice(b"(-9223372036854775807-1)");
        } else {
            let _ = write!(self.out, "{number}");
        }
    }

    fn number(&mut self, number: f64) {
        if number.is_nan() {
            self.out.extend_from_slice(b"(0/0)");
        } else if number.is_infinite() {
            self.out.extend_from_slice(if number > 0.0 { b"(1/0)" } else { b"(-1/0)" });
        } else {
            // The shortest text that reads back as the same number, with a dot or an exponent so that it stays a float.
            let _ = write!(self.out, "{number:?}");
        }
    }

    /// Writes a text in quotes. Control characters are written as decimal escapes, as newer Lua does for `%q`, so that a format
    /// of lines can hold the source.
    fn text(&mut self, text: &[u8]) {
        self.out.push(b'"');
        for &byte in text {
            match byte {
                b'"' | b'\\' => self.out.extend_from_slice(&[b'\\', byte]),
                b'\n' => self.out.extend_from_slice(b"\\n"),
                // Three digits, because a digit may follow.
                0..=31 | 127 => {
                    let _ = write!(self.out, "\\{byte:03}");
                }
                other => self.out.push(other),
            }
        }
        self.out.push(b'"');
    }

    fn table(&mut self, table: &Table) -> Result<()> {
        let identity = table.to_pointer();
        if self.above.contains(&identity) {
            return Err(Error::runtime("cannot serialize a table that contains itself"));
        }
        if self.above.len() == DEPTH {
            return Err(Error::runtime(format!("cannot serialize tables within more than {DEPTH} others")));
        }
        self.above.push(identity);
        self.out.push(b'{');
        let length = table.raw_len();
        for index in 1..=length {
            if index > 1 {
                self.out.push(b',');
            }
            self.value(&table.raw_get(index)?)?;
        }
        let mut first = length == 0;
        for (key, value) in sorted_rest(table, length)? {
            if !first {
                self.out.push(b',');
            }
            first = false;
            self.out.push(b'[');
            self.value(&key)?;
            self.out.extend_from_slice(b"]=");
            self.value(&value)?;
        }
        self.out.push(b'}');
        self.above.pop();
        Ok(())
    }
}

/// Everything but the list part, in an order that does not depend on the table's history: numbers, texts, then the rest.
fn sorted_rest(table: &Table, length: usize) -> Result<Vec<(Value, Value)>> {
    let mut rest = Vec::new();
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        let listed = match key {
            #[allow(clippy::unnecessary_cast, reason = "mlua's integer has another size where Lua has no integers")]
            Value::Integer(number) => number >= 1 && number as u64 <= length as u64,
            _ => false,
        };
        if !listed {
            rest.push((key, value));
        }
    }
    rest.sort_by(|(left, _), (right, _)| compare(left, right));
    Ok(rest)
}

fn compare(left: &Value, right: &Value) -> Ordering {
    let number = |value: &Value| match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        _ => None,
    };
    match (number(left), number(right), left, right) {
        (Some(left), Some(right), ..) => left.total_cmp(&right),
        (Some(_), None, ..) => Ordering::Less,
        (None, Some(_), ..) => Ordering::Greater,
        (_, _, Value::String(left), Value::String(right)) => left.as_bytes().as_ref().cmp(right.as_bytes().as_ref()),
        (_, _, Value::String(_), _) => Ordering::Less,
        (_, _, _, Value::String(_)) => Ordering::Greater,
        (_, _, Value::Boolean(left), Value::Boolean(right)) => left.cmp(right),
        _ => Ordering::Equal,
    }
}
