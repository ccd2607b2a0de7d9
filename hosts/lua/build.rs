//! Exports the Lua API from the tests' programs, so that they can load modules written in C.

include!("lua_api.rs");

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=lua_api.rs");
    for argument in export_arguments() {
        println!("cargo::rustc-link-arg-tests={argument}");
    }
}
