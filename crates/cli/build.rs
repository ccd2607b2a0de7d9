//! Exports the Lua API from the program, so that modules written in C can be loaded into the built-in Lua.
#![forbid(unsafe_code)]

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // From the build script of oribi-lua.
    let arguments = std::env::var("DEP_ORIBI_LUA_EXPORT").unwrap_or_default();
    for argument in arguments.split_whitespace() {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
}
