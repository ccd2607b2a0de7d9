//! Links the system's libevent if the feature `libevent` is on. It links the shared library: this crate is also part of
//! language extensions, and the objects of a static archive cannot always be linked into those. The build scripts of the
//! extensions name libevent again for the linker.

use std::process::Command;

const OLDEST: &str = "2.1";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_LIBEVENT").is_none() {
        return;
    }
    let found = Command::new("pkg-config").args(["--variable=libdir", &format!("libevent_core >= {OLDEST}")]).output();
    let directory = match &found {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        Ok(output) => return refuse(&String::from_utf8_lossy(&output.stderr)),
        Err(error) => return refuse(&format!("pkg-config: {error}")),
    };
    println!("cargo::rustc-link-search=native={directory}");
    println!("cargo::rustc-link-lib=dylib=event_core");
}

fn refuse(why: &str) {
    for line in why.trim().lines() {
        println!("cargo::error={line}");
    }
    println!(
        "cargo::error=the feature libevent needs libevent {OLDEST} or newer and pkg-config (Debian: libevent-dev, pkgconf)"
    );
}
