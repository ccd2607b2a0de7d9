//! Exports the Lua API from programs with this host, so that they can load modules written in C.

/// The functions of Lua's C API that a program must export, as patterns: the core, the auxiliary library, the standard
/// libraries, and LuaJIT's own functions. Lua modules written in C call these functions in the program that loads them. A
/// pattern without a match, such as the last one in a program with Lua 5.4, does no harm.
const API: [&str; 4] = ["lua_*", "luaL_*", "luaopen_*", "luaJIT_*"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The arguments by which the linker exports these functions, and keeps them even if the program never calls them (GNU ld
    // from 2.35 on, lld from 12 on, mold).
    let arguments = API.map(|names| format!("-Wl,--export-dynamic-symbol={names}"));
    for argument in &arguments {
        println!("cargo::rustc-link-arg-tests={argument}");
    }
    // For the build scripts of programs that depend on this crate.
    println!("cargo::metadata=export={}", arguments.join(" "));
}
