//! Counters and histograms of scripts, for `--metrics`.

use mlua::{Error, FromLua, Lua, LuaString, Result, Table, Value};
use oribi_server::app_metrics::{self, Label};

/// `oribi.count(name, [amount, [labels]])`
pub(super) fn count(lua: &Lua, (name, amount, labels): (Value, Value, Value)) -> Result<()> {
    let amount = if amount.is_nil() { Value::Integer(1) } else { amount };
    add(lua, app_metrics::count, (name, amount, labels))
}

/// `oribi.observe(name, value, [labels])`
pub(super) fn observe(lua: &Lua, arguments: (Value, Value, Value)) -> Result<()> {
    add(lua, app_metrics::observe, arguments)
}

type Act = fn(&[u8], f64, &[Label<'_>]) -> std::result::Result<(), String>;

fn add(lua: &Lua, act: Act, (name, number, labels): (Value, Value, Value)) -> Result<()> {
    if !app_metrics::are_counted() {
        return Ok(());
    }
    let name = LuaString::from_lua(name, lua)?;
    let number = f64::from_lua(number, lua)?;
    let mut texts: Vec<(LuaString, LuaString)> = Vec::new();
    if let Some(labels) = Option::<Table>::from_lua(labels, lua)? {
        for pair in labels.pairs::<Value, Value>() {
            let (label, value) = pair?;
            let Value::String(label) = label else { return Err(Error::runtime("the name of a label is a string")) };
            let value = match value {
                Value::Boolean(value) => lua.create_string(value.to_string())?,
                value => LuaString::from_lua(value, lua)?,
            };
            texts.push((label, value));
        }
    }
    let bytes: Vec<_> = texts.iter().map(|(label, value)| (label.as_bytes(), value.as_bytes())).collect();
    let labels: Vec<Label<'_>> = bytes.iter().map(|(label, value)| (&**label, &**value)).collect();
    act(&name.as_bytes(), number, &labels).map_err(Error::runtime)
}
