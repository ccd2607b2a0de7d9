/// The names of Lua's C API: the core, the auxiliary library, the standard libraries, and LuaJIT's own functions. A pattern
/// without a match, such as the last one in a program with Lua 5.4, does no harm. Modules written in C use the Lua functions of
/// the program that loads them, so the build scripts of such programs include this file.
const API: [&str; 4] = ["lua_*", "luaL_*", "luaopen_*", "luaJIT_*"];

/// The arguments for the linker. An exported function is kept even if the program never calls it (GNU ld from 2.35 on, lld from
/// 12 on, mold).
fn export_arguments() -> impl Iterator<Item = String> {
    API.iter().map(|names| format!("-Wl,--export-dynamic-symbol={names}"))
}
