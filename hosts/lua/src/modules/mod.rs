//! The modules that scripts can `require` without installing anything: `luafcgid`, as its namesake had it, and `oribi`.
//!
//! What comes from clients is parsed by code that knows no Lua (`form`, `multipart`, `cookie`); the modules only make
//! tables of it. Input that does not fit is answered with nil and a message; arguments of a wrong type are errors.

pub mod cookie;
pub mod form;
mod html;
mod json;
mod luafcgid;
pub mod multipart;
mod oribi;
mod serialize;

use mlua::{Lua, Table};

/// The most that a function of these modules makes of a table: tables that share parts can stand for texts without end, which
/// no limit of the state would notice while they are put together.
const OUTPUT_BYTES: usize = 64 << 20;

/// Lets a state find the modules. They are made when a script asks for them, so that a state which does not pays nothing.
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
