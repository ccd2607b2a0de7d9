//! The functions of the module `oribi` that wait: `sleep`, `exec`, `spawn`, `wait`, and sockets.

use super::host_names::HostName;
use super::process::Process;
use super::sockets::Socket;
use crate::waits;
use mlua::{Function, Lua, LuaString, MultiValue, Result, Table, Value};
use std::time::{SystemTime, UNIX_EPOCH};

/// Registry key of the function that makes the module `oribi.ngx`.
const OPEN_NGX: &str = "oribi.waits.ngx";

/// Adds the functions to the module.
pub(super) fn add(lua: &Lua, module: &Table) -> Result<()> {
    let core = lua.create_table()?;
    core.raw_set("now", lua.create_function(|_, ()| Ok(monotonic()))?)?;
    core.raw_set("time", lua.create_function(|_, ()| Ok(since_epoch()))?)?;
    core.raw_set("open", lua.create_function(Socket::open)?)?;
    core.raw_set("resolve", lua.create_function(|lua, name: LuaString| HostName::look_up(lua, &name))?)?;
    core.raw_set("guard", lua.globals().get::<Function>("pcall")?)?;
    core.raw_set("null", Value::NULL)?;
    if let Some(debug) = lua.globals().get::<Option<Table>>("debug")? {
        core.raw_set("traceback", debug.get::<Value>("traceback")?)?;
    }
    let print: Function = lua.globals().get("print")?;
    let log = lua.create_function(move |_, values: MultiValue| print.call::<()>(values))?;
    core.raw_set("start", lua.create_function(Process::start)?)?;
    core.raw_set("blocks", waits::block(lua)?)?;
    let (wait, ended) = waits::function(lua)?;
    let exec = lua.load(include_str!("exec.lua")).set_name("=[oribi]");
    exec.call::<()>((module, &core, waits::kinds(lua)?, &wait))?;
    let chunk = lua.load(include_str!("waiting.lua")).set_name("=[oribi]");
    let open_ngx: Function = chunk.call((module, core, waits::kinds(lua)?, wait, ended, log))?;
    lua.set_named_registry_value(OPEN_NGX, open_ngx)
}

/// Makes the module `oribi.ngx`: the calls of ngx_lua on which drivers rely.
pub(super) fn open_ngx(lua: &Lua) -> Result<Table> {
    lua.globals().get::<Function>("require")?.call::<()>("oribi")?;
    lua.named_registry_value::<Function>(OPEN_NGX)?.call(())
}

/// Seconds of a clock that is never set.
fn monotonic() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Seconds since 1970.
fn since_epoch() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}
