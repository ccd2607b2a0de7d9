//! The modules that scripts can `require` without installing anything: `luafcgid`, which replaces the original module, and
//! `oribi`.
//!
//! Code that knows no Lua parses the clients' input (`form`, `multipart`, `cookie`); the modules only make tables of the
//! results. For invalid input they return nil and a message; arguments of a wrong type are errors.

mod app_metrics;
pub mod cookie;
pub mod form;
mod html;
mod json;
mod luafcgid;
pub mod multipart;
mod oribi;
mod serialize;

use mlua::{Lua, Table};

/// The most text that a function of these modules makes of a table, in bytes: tables that share parts can expand to endless
/// text, which the state's memory limit would notice too late.
const OUTPUT_BYTES: usize = 64 << 20;

/// Registers the modules in a state. They are made when a script requires them, so other states pay nothing.
///
/// # Errors
/// The state has no memory left.
pub fn install(lua: &Lua, environment: &str) -> mlua::Result<()> {
    let preload: Table = lua.globals().get::<Table>("package")?.get("preload")?;
    preload.raw_set("luafcgid", lua.create_function(|lua, ()| luafcgid::open(lua))?)?;
    let environment = environment.to_owned();
    preload.raw_set("oribi", lua.create_function(move |lua, ()| oribi::open(lua, &environment))?)
}

#[cfg(test)]
mod tests;
