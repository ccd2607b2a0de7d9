//! Exports the Lua API from the program, so that modules written in C can be loaded into the built-in Lua.
#![forbid(unsafe_code)]

include!("../../hosts/lua/lua_api.rs");

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../../hosts/lua/lua_api.rs");
    for argument in export_arguments() {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
}
