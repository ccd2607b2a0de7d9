//! `require "luafcgid"`: the functions of luafcgid's companion module, with the same names.

use super::form;
use super::serialize::serialize;
use mlua::{Lua, LuaString, Result, Table, Value};

/// Makes the module.
pub(super) fn open(lua: &Lua) -> Result<Table> {
    let module = lua.create_table()?;
    module.raw_set("serialize", lua.create_function(|lua, value: Value| lua.create_string(serialize(&value)?))?)?;
    module
        .raw_set("urlencode", lua.create_function(|lua, text: LuaString| lua.create_string(form::encode(&text.as_bytes())))?)?;
    module
        .raw_set("urldecode", lua.create_function(|lua, text: LuaString| lua.create_string(form::decode(&text.as_bytes())))?)?;
    module.raw_set("parse", lua.create_function(|lua, text: Option<LuaString>| parse(lua, text.as_ref()))?)?;
    // As modules did in luafcgid's time: scripts call `require "luafcgid"` and then use the global.
    lua.globals().raw_set("luafcgid", &module)?;
    Ok(module)
}

/// A table of names and values; a repeated name has a list.
fn parse(lua: &Lua, text: Option<&LuaString>) -> Result<Table> {
    let values = lua.create_table()?;
    let Some(text) = text else { return Ok(values) };
    for (name, value) in form::pairs(&text.as_bytes()) {
        let (name, value) = (lua.create_string(name)?, lua.create_string(value)?);
        match values.raw_get(&name)? {
            Value::Nil => values.raw_set(name, value)?,
            Value::Table(list) => list.raw_push(value)?,
            before => values.raw_set(name, lua.create_sequence_from([before, Value::String(value)])?)?,
        }
    }
    Ok(values)
}
