/// The names of Lua's C API: the core, the auxiliary library, the standard libraries, and what only LuaJIT has. A pattern that
/// matches nothing, as the last does in a program with Lua 5.4, does no harm. Build scripts of programs that shall load modules
/// written in C include this file: such modules take Lua's functions from the program that loads them.
const API: [&str; 4] = ["lua_*", "luaL_*", "luaopen_*", "luaJIT_*"];

/// What to tell the linker. A function that is exported is kept, even if nothing in the program calls it (GNU ld from 2.35 on, lld
/// from 12 on, mold).
fn export_arguments() -> impl Iterator<Item = String> {
    API.iter().map(|names| format!("-Wl,--export-dynamic-symbol={names}"))
}
