//! The modules that scripts can `require` without installing anything: `luafcgid`, which replaces the original module, and
//! `oribi`.
//!
//! The parsers of clients' input (`form`, `multipart`, `cookie`) know no Lua; the modules only make Lua tables of the results.
//! For invalid input the modules' functions return nil and a message. Arguments of a wrong type raise errors.

mod app_metrics;
pub mod cookie;
pub mod form;
mod host_names;
mod html;
mod json;
mod kept_streams;
mod live;
mod luafcgid;
pub mod multipart;
mod oribi;
mod process;
pub mod received;
mod serialize;
mod sockets;
mod stream;
mod tls;
mod trust;
mod waiting;

pub(crate) use kept_streams::close_expired;
pub(crate) use process::reap;
pub(crate) use sockets::MemoryLimit;

use mlua::{Lua, Table};

/// The longest text, in bytes, that a function of these modules makes of a table. Tables that contain the same table several
/// times can expand to endless text, which the state's memory limit would notice too late.
const OUTPUT_BYTES: usize = 64 << 20;

/// Registers the modules in a state. A module is made when a script first requires it, so other states pay nothing.
///
/// # Errors
/// The state has no memory left.
pub fn install(lua: &Lua, environment: &str) -> mlua::Result<()> {
    let preload: Table = lua.globals().get::<Table>("package")?.get("preload")?;
    preload.raw_set("luafcgid", lua.create_function(|lua, ()| luafcgid::open(lua))?)?;
    preload.raw_set("oribi.ngx", lua.create_function(|lua, ()| waiting::open_ngx(lua))?)?;
    let environment = environment.to_owned();
    preload.raw_set("oribi", lua.create_function(move |lua, ()| oribi::open(lua, &environment))?)
}

#[cfg(test)]
mod tests;
