//! `require "oribi"`: functions that most apps need for reading requests and writing responses.

use super::cookie::{self, Attributes, SameSite};
use super::{app_metrics, form, html, json, live, multipart, waiting};
use mlua::{Error, Lua, LuaString, Result, Table, Value};

/// Makes the module.
pub(super) fn open(lua: &Lua, environment: &str) -> Result<Table> {
    let module = lua.create_table()?;
    module.raw_set("version", env!("CARGO_PKG_VERSION"))?;
    module.raw_set("environment", environment)?;
    module.raw_set("parse_form", lua.create_function(|lua, text: Option<LuaString>| parse_form(lua, text.as_ref()))?)?;
    module.raw_set("parse_multipart", lua.create_function(parse_multipart)?)?;
    module
        .raw_set("parse_cookies", lua.create_function(|lua, field: Option<LuaString>| parse_cookies(lua, field.as_ref()))?)?;
    module.raw_set("set_cookie", lua.create_function(set_cookie)?)?;
    module.raw_set(
        "escape_html",
        lua.create_function(|lua, text: LuaString| lua.create_string(html::escape(&text.as_bytes())))?,
    )?;
    module.raw_set("redirect", lua.create_function(redirect)?)?;
    module.raw_set("json", open_json(lua)?)?;
    module.raw_set("count", lua.create_function(app_metrics::count)?)?;
    module.raw_set("observe", lua.create_function(app_metrics::observe)?)?;
    live::add(lua, &module)?;
    waiting::add(lua, &module)?;
    Ok(module)
}

/// Parses a form into two tables: the first has each name with its first value, the second each name with a list of all its
/// values. So the type of an entry does not depend on what the client has sent.
fn parse_form(lua: &Lua, text: Option<&LuaString>) -> Result<(Table, Table)> {
    let (first, all) = (lua.create_table()?, lua.create_table()?);
    let Some(text) = text else { return Ok((first, all)) };
    for (name, value) in form::pairs(&text.as_bytes()) {
        let (name, value) = (lua.create_string(name)?, lua.create_string(value)?);
        match all.raw_get::<Option<Table>>(&name)? {
            Some(list) => list.raw_push(value)?,
            None => {
                first.raw_set(&name, &value)?;
                all.raw_set(name, lua.create_sequence_from([value])?)?;
            }
        }
    }
    Ok((first, all))
}

/// A list of the parts, and a table with the first value of each field that is not a file; or nil and an error message.
fn parse_multipart(lua: &Lua, (content, content_type): (LuaString, Option<LuaString>)) -> Result<(Value, Value)> {
    let content = content.as_bytes();
    let content_type = content_type.as_ref().map(LuaString::as_bytes);
    let parts = match multipart::parse(&content, content_type.as_deref().unwrap_or_default()) {
        Ok(parts) => parts,
        Err(why) => return Ok((Value::Nil, Value::String(lua.create_string(why)?))),
    };
    let (list, values) = (lua.create_table()?, lua.create_table()?);
    for part in parts {
        let table = lua.create_table()?;
        let (name, content) = (lua.create_string(&part.name)?, lua.create_string(part.content)?);
        if part.filename.is_none() && values.raw_get::<Value>(&name)?.is_nil() {
            values.raw_set(&name, &content)?;
        }
        let fields = lua.create_table()?;
        for (name, value) in &part.fields {
            fields.raw_set(lua.create_string(name.to_ascii_lowercase())?, lua.create_string(value)?)?;
        }
        if let Some(filename) = &part.filename {
            table.raw_set("filename", lua.create_string(filename)?)?;
        }
        if let Some(content_type) = part.field("Content-Type") {
            table.raw_set("content_type", lua.create_string(content_type)?)?;
        }
        table.raw_set("name", name)?;
        table.raw_set("content", content)?;
        table.raw_set("fields", fields)?;
        list.raw_push(table)?;
    }
    Ok((Value::Table(list), Value::Table(values)))
}

/// Each name with its first value: browsers send the cookie with the most specific path first (RFC 6265, section 5.4).
fn parse_cookies(lua: &Lua, field: Option<&LuaString>) -> Result<Table> {
    let cookies = lua.create_table()?;
    let Some(field) = field else { return Ok(cookies) };
    for (name, value) in cookie::parse(&field.as_bytes()) {
        let name = lua.create_string(name)?;
        if cookies.raw_get::<Value>(&name)?.is_nil() {
            cookies.raw_set(name, lua.create_string(value)?)?;
        }
    }
    Ok(cookies)
}

/// The value of a Set-Cookie field. An invalid argument is the app's mistake, so it raises an error.
fn set_cookie(lua: &Lua, (name, value, given): (String, LuaString, Option<Table>)) -> Result<LuaString> {
    let mut attributes = Attributes::default();
    if let Some(given) = given {
        for pair in given.pairs::<String, Value>() {
            let (attribute, value) = pair?;
            take_attribute(lua, &mut attributes, &attribute, value)?;
        }
    }
    let field = cookie::set(&name, &value.as_bytes(), &attributes).map_err(Error::runtime)?;
    lua.create_string(field)
}

fn take_attribute(lua: &Lua, attributes: &mut Attributes, name: &str, value: Value) -> Result<()> {
    match name {
        "path" => attributes.path = Some(lua.unpack(value)?),
        "domain" => attributes.domain = Some(lua.unpack(value)?),
        "max_age" => attributes.max_age = Some(lua.unpack(value)?),
        "expires" => attributes.expires = Some(lua.unpack(value)?),
        "secure" => attributes.secure = lua.unpack(value)?,
        "http_only" => attributes.http_only = lua.unpack(value)?,
        "partitioned" => attributes.partitioned = lua.unpack(value)?,
        "same_site" => {
            let wish: String = lua.unpack(value)?;
            attributes.same_site = Some(match wish.to_ascii_lowercase().as_str() {
                "strict" => SameSite::Strict,
                "lax" => SameSite::Lax,
                "none" => SameSite::None,
                _ => return Err(Error::runtime("same_site must be Strict, Lax or None")),
            });
        }
        _ => return Err(Error::runtime(format!("a cookie has no attribute `{}`", name.escape_debug()))),
    }
    Ok(())
}

/// The three values of a redirecting response, by default a 303.
fn redirect(lua: &Lua, (location, status): (LuaString, Option<u16>)) -> Result<(u16, Table, &'static str)> {
    let fits = location.as_bytes().iter().all(|&byte| byte > 0x20 && byte != 0x7f);
    if !fits || location.as_bytes().is_empty() {
        return Err(Error::runtime("a location is a URI: it has no spaces, line ends or other control characters"));
    }
    let status = status.unwrap_or(303);
    if !matches!(status, 301 | 302 | 303 | 307 | 308) {
        return Err(Error::runtime(format!("{status} is no redirection")));
    }
    let fields = lua.create_table()?;
    fields.raw_set("Location", location)?;
    Ok((status, fields, ""))
}

fn open_json(lua: &Lua) -> Result<Table> {
    // The metatable that marks a table as an array even if it is empty.
    let marker = lua.create_table()?;
    let module = lua.create_table()?;
    module.raw_set("null", Value::NULL)?;
    let array = marker.clone();
    let mark = move |lua: &Lua, table: Option<Table>| {
        let table = table.map_or_else(|| lua.create_table(), Ok)?;
        table.set_metatable(Some(array.clone()))?;
        Ok(table)
    };
    module.raw_set("array", lua.create_function(mark)?)?;
    let known = marker.clone();
    let encode = move |lua: &Lua, value: Value| lua.create_string(json::encode(&value, &known)?);
    module.raw_set("encode", lua.create_function(encode)?)?;
    let decode = move |lua: &Lua, text: LuaString| match json::decode(lua, &text.as_bytes(), &marker)? {
        Ok(value) => Ok((value, Value::Nil)),
        Err(why) => Ok((Value::Nil, Value::String(lua.create_string(why)?))),
    };
    module.raw_set("decode", lua.create_function(decode)?)?;
    Ok(module)
}
