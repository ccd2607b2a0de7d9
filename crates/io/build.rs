//! Finds the system's libevent when it is asked for. The archive is preferred: a language's extension in which this library ends
//! up then has a libevent of its own, beside that of any other extension, and needs no package where it is installed.

use std::path::Path;
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
    println!("cargo::rerun-if-changed={directory}/libevent_core.a");
    println!("cargo::rustc-link-search=native={directory}");
    let kind = if Path::new(&directory).join("libevent_core.a").exists() { "static" } else { "dylib" };
    println!("cargo::rustc-link-lib={kind}=event_core");
}

fn refuse(why: &str) {
    for line in why.trim().lines() {
        println!("cargo::error={line}");
    }
    println!(
        "cargo::error=the feature libevent needs libevent {OLDEST} or newer and pkg-config (Debian: libevent-dev, pkgconf)"
    );
}
