//! The functions of the module `oribi` for connections that an edge keeps open: WebSockets and event streams. `live.lua` has
//! the functions that scripts call; those here read the request, and write commands for the edge.

use crate::exchange::Exchange;
use crate::state_context::StateContext;
use mlua::{Error, Lua, LuaString, Result, Table};
use oribi_host::ReplyError;
use oribi_live::event::{CONNECTION, EVENT, PENDING, split};
use oribi_live::{Command, Kind, LARGEST_CHANNEL, LARGEST_COMMAND, Offer, Wants, are_for_all};
use oribi_server::posts::Outbox;

/// The most bytes of the data of a connection.
const LARGEST_DATA: usize = 64 << 10;

/// Adds the functions to the module.
pub(super) fn add(lua: &Lua, module: &Table) -> Result<()> {
    let core = lua.create_table()?;
    core.raw_set("exchange", lua.create_function(|lua, ()| StateContext::with_exchange(lua, |_, serial| serial as f64))?)?;
    core.raw_set(
        "offer",
        lua.create_function(|lua, ()| StateContext::with_exchange(lua, |exchange, _| exchange.and_then(offer)))?,
    )?;
    core.raw_set("event", lua.create_function(event)?)?;
    core.raw_set("split", lua.create_function(|lua, content: LuaString| split_content(lua, &content))?)?;
    core.raw_set("accept", lua.create_function(accept)?)?;
    core.raw_set("hold", lua.create_function(|lua, data: LuaString| hold(lua, &data))?)?;
    core.raw_set("send", lua.create_function(send)?)?;
    core.raw_set("close", lua.create_function(close)?)?;
    core.raw_set(
        "subscribe",
        lua.create_function(|lua, name: LuaString| give(lua, &Command::Subscribe(channel(&name.as_bytes())?)))?,
    )?;
    core.raw_set(
        "unsubscribe",
        lua.create_function(|lua, name: LuaString| give(lua, &Command::Unsubscribe(&name.as_bytes())))?,
    )?;
    core.raw_set("publish", lua.create_function(publish)?)?;
    core.raw_set("data", lua.create_function(|lua, data: LuaString| give(lua, &Command::Data(kept(&data.as_bytes())?)))?)?;
    core.raw_set(
        "want",
        lua.create_function(|lua, (drained, shutdown)| give(lua, &Command::Want(Wants { drained, shutdown })))?,
    )?;
    let chunk = lua.load(include_str!("live.lua")).set_name("=[oribi]");
    chunk.into_function()?.call((module, core))
}

/// The kind of connection that the current request may become.
fn offer(exchange: &Exchange<'_>) -> Option<&'static str> {
    let offer = Offer::of(exchange.request).filter(|_| exchange.has_live_connections())?;
    Some(match offer {
        Offer::WebSocket => "WebSocket",
        Offer::EventStream => "event stream",
    })
}

/// The kind of the event that the current request is, the name of its connection, and the messages of which a part may not have been
/// sent; nothing for an ordinary request.
fn event(lua: &Lua, (): ()) -> Result<(Option<LuaString>, Option<LuaString>, Option<u32>)> {
    let found = StateContext::with_exchange(lua, |exchange, _| {
        let request = exchange.filter(|exchange| exchange.request.web_server().is_none())?.request;
        let mut marks = request.head.fields().filter(|(known, ..)| known.is_none());
        let kind = marks.by_ref().find(|(_, name, _)| *name == EVENT.as_bytes())?.2.to_vec();
        let connection = marks.by_ref().find(|(_, name, _)| *name == CONNECTION.as_bytes())?.2.to_vec();
        let pending = marks.find(|(_, name, _)| *name == PENDING.as_bytes());
        let pending = pending.and_then(|(.., value)| str::from_utf8(value).ok()?.parse().ok()).unwrap_or(0);
        exchange.inspect(|exchange| exchange.note_live());
        Some((kind, connection, pending))
    })?;
    let Some((kind, connection, pending)) = found else { return Ok((None, None, None)) };
    Ok((Some(lua.create_string(kind)?), Some(lua.create_string(connection)?), Some(pending)))
}

/// The data of a connection, and the payload of its event.
fn split_content(lua: &Lua, content: &LuaString) -> Result<(LuaString, LuaString)> {
    let content = content.as_bytes();
    let (data, payload) = split(&content).ok_or_else(|| Error::runtime("this is no event"))?;
    Ok((lua.create_string(data)?, lua.create_string(payload)?))
}

fn accept(lua: &Lua, (fields, data): (LuaString, LuaString)) -> Result<()> {
    give(lua, &Command::Accept { fields: &fields.as_bytes(), data: kept(&data.as_bytes())? })?;
    StateContext::with_exchange(lua, |exchange, _| exchange.into_iter().for_each(Exchange::note_live))
}

fn hold(lua: &Lua, data: &LuaString) -> Result<()> {
    give(lua, &Command::Hold { data: kept(&data.as_bytes())? })?;
    StateContext::with_exchange(lua, |exchange, _| exchange.into_iter().for_each(Exchange::note_live))
}

fn send(lua: &Lua, (name, kind, payload): (Option<String>, String, LuaString)) -> Result<bool> {
    give(
        lua,
        &Command::Send { connection: connection(name.as_deref())?, kind: kind_named(&kind)?, payload: &payload.as_bytes() },
    )
}

fn close(lua: &Lua, (name, code, reason): (Option<String>, i64, LuaString)) -> Result<bool> {
    let code =
        u16::try_from(code).ok().filter(|code| matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)).ok_or_else(|| {
            Error::runtime(format!("the code of a close is 1000 to 1003, 1007 to 1014 or 3000 to 4999, not {code}"))
        })?;
    if reason.as_bytes().len() > 123 {
        return Err(Error::runtime("the reason for a close has at most 123 bytes"));
    }
    give(lua, &Command::Close { connection: connection(name.as_deref())?, code, reason: &reason.as_bytes() })
}

fn publish(lua: &Lua, (name, payload, kind): (LuaString, LuaString, Option<String>)) -> Result<bool> {
    let kind = kind_named(kind.as_deref().unwrap_or("text"))?;
    give(lua, &Command::Publish { kind, channel: channel(&name.as_bytes())?, payload: &payload.as_bytes() })
}

/// The number of a connection; 0 for that of the current request.
fn connection(name: Option<&str>) -> Result<u64> {
    let Some(name) = name else { return Ok(0) };
    u64::from_str_radix(name, 16).map_err(|_| Error::runtime("the id of a connection has 16 hexadecimal digits"))
}

fn kind_named(name: &str) -> Result<Kind> {
    match name {
        "text" => Ok(Kind::Text),
        "binary" => Ok(Kind::Binary),
        "event" => Ok(Kind::Event),
        _ => Err(Error::runtime(format!("a message is `text`, `binary` or `event`, not `{}`", name.escape_debug()))),
    }
}

fn channel(name: &[u8]) -> Result<&[u8]> {
    let fits = name.len() <= LARGEST_CHANNEL;
    fits.then_some(name).ok_or_else(|| Error::runtime(format!("the name of a channel has at most {LARGEST_CHANNEL} bytes")))
}

fn kept(data: &[u8]) -> Result<&[u8]> {
    let fits = data.len() <= LARGEST_DATA;
    fits.then_some(data).ok_or_else(|| {
        Error::runtime(format!("the data of a connection, with the name of its handlers, has at most {LARGEST_DATA} bytes"))
    })
}

/// Gives a command to the edge. Returns false if the response has ended, or its client has gone.
fn give(lua: &Lua, command: &Command<'_>) -> Result<bool> {
    let mut bytes = Vec::new();
    command.write(&mut bytes);
    if bytes.len() > LARGEST_COMMAND {
        return Err(Error::runtime(format!("a message has at most {LARGEST_COMMAND} bytes")));
    }
    let given = StateContext::with_exchange(lua, |exchange, _| exchange.map(|exchange| exchange.command(&bytes)))?;
    match given {
        None if are_for_all(&bytes) => {
            let outbox = Outbox::of_process();
            let outbox =
                outbox.ok_or_else(|| Error::runtime("messages can be sent only by a server with an edge (--edge on)"))?;
            outbox.deliver(&bytes).map(|()| true).map_err(|error| Error::runtime(error.to_string()))
        }
        None => Err(Error::runtime("messages to one client can be sent only during a request or an event")),
        Some(Ok(())) => Ok(true),
        Some(Err(ReplyError::Gone)) => Ok(false),
        Some(Err(error)) => Err(Error::runtime(error.to_string())),
    }
}
