/// The functions of Lua's C API that a program must export, as patterns: the core, the auxiliary library, the standard
/// libraries, and LuaJIT's own functions. Lua modules written in C call these functions in the program that loads them, so the
/// build scripts of such programs include this file. A pattern without a match, such as the last one in a program with Lua 5.4,
/// does no harm.
const API: [&str; 4] = ["lua_*", "luaL_*", "luaopen_*", "luaJIT_*"];

/// The arguments by which the linker exports these functions, and keeps them even if the program never calls them (GNU ld from
/// 2.35 on, lld from 12 on, mold).
fn export_arguments() -> impl Iterator<Item = String> {
    API.iter().map(|names| format!("-Wl,--export-dynamic-symbol={names}"))
}
