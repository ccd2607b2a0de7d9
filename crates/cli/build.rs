//! Lets modules written in C be loaded into the Lua that is built in.
#![forbid(unsafe_code)]

include!("../../hosts/lua/lua_api.rs");

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../../hosts/lua/lua_api.rs");
    for argument in export_arguments() {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
}
