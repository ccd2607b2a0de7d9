//! Writes the source of some crates of the workspace, and of all crates that they are built from, so that cargo builds them
//! without this repository and without a network. The CPAN distribution, the gem and the tarball contain such a folder.
//!
//! The crates are those that `cargo package` packs, without tests. `cargo vendor-filterer` adds the crates from elsewhere, and
//! replaces those for other systems by empty ones, which cargo wants to see because they are locked.

use super::command::run;
use super::manifest::{package_profiles, section};
use super::version_of;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The systems for which the source can be built without a network.
const PLATFORMS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];

/// Files of crates from elsewhere that a build for these systems does not read, as CRATE#PATH.
const LEFT_OUT: &[&str] = &[
    "*#tests",
    "*#benches",
    "linux-raw-sys#src/arm",
    "linux-raw-sys#src/csky",
    "linux-raw-sys#src/hexagon",
    "linux-raw-sys#src/loongarch64",
    "linux-raw-sys#src/mips",
    "linux-raw-sys#src/mips32r6",
    "linux-raw-sys#src/mips64",
    "linux-raw-sys#src/mips64r6",
    "linux-raw-sys#src/powerpc",
    "linux-raw-sys#src/powerpc64",
    "linux-raw-sys#src/riscv32",
    "linux-raw-sys#src/riscv64",
    "linux-raw-sys#src/s390x",
    "linux-raw-sys#src/sparc",
    "linux-raw-sys#src/sparc64",
    "linux-raw-sys#src/x32",
    "linux-raw-sys#src/x86",
    "libc#src/fuchsia",
    "libc#src/windows",
    "libc#src/unix/bsd",
    "libc#src/unix/solarish",
    "libc#src/unix/nto",
    "libc#src/unix/aix",
    "libc#src/unix/haiku",
];

/// The settings of cargo in the folder: its crates are in `vendor`, and LuaJIT is compiled as in the repository.
const SETTINGS: &str = r#"[source.crates-io]
replace-with = "vendored-sources"

[source.vendored-sources]
directory = "vendor"
"#;

/// Writes the folder, which must not exist.
///
/// # Errors
/// The failed step, with the messages of cargo.
pub fn write(root: &Path, folder: &Path, packages: &[&str]) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir(folder).map_err(failed)?;
    let folder = &folder.canonicalize().map_err(failed)?;
    let workspace = metadata(root)?;
    let crates = closure(&workspace, packages)?;
    unpack(root, &workspace, &folder.join("crates"), &crates)?;

    let manifest = fs::read_to_string(root.join("Cargo.toml")).map_err(failed)?;
    let profile = section(&manifest, "[profile.release]").ok_or("Cargo.toml: no [profile.release]")?;
    let patches: String = crates.iter().map(|name| format!("{name} = {{ path = \"crates/{name}\" }}\n")).collect();
    let workspace =
        format!("[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\"]\n\n[patch.crates-io]\n{patches}\n{profile}");
    fs::write(folder.join("Cargo.toml"), &workspace).map_err(failed)?;
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock")).map_err(failed)?;
    // Removes the crates that are not needed here from the lock file.
    run(Command::new("cargo").args(["metadata", "--quiet", "--format-version", "1", "--offline"]).current_dir(folder))?;
    let lock = fs::read_to_string(folder.join("Cargo.lock")).map_err(failed)?;
    let workspace = format!("{workspace}{}", package_profiles(&manifest, &lock));
    fs::write(folder.join("Cargo.toml"), workspace).map_err(failed)?;

    let mut vendor = Command::new(root.join("target/tools/bin/cargo-vendor-filterer"));
    vendor.args(PLATFORMS.iter().map(|platform| format!("--platform={platform}")));
    vendor.args(LEFT_OUT.iter().map(|path| format!("--exclude-crate-path={path}")));
    run(vendor.arg("vendor").current_dir(folder))?;

    let settings = fs::read_to_string(root.join(".cargo/config.toml")).map_err(failed)?;
    let environment = section(&settings, "[env]").ok_or(".cargo/config.toml: no [env]")?;
    fs::create_dir(folder.join(".cargo")).map_err(failed)?;
    fs::write(folder.join(".cargo/config.toml"), format!("{SETTINGS}\n{environment}")).map_err(failed)
}

/// The workspace, as `cargo metadata` describes it.
fn metadata(root: &Path) -> Result<Value, String> {
    let metadata = run(Command::new("cargo").args(["metadata", "--format-version", "1", "--locked"]).current_dir(root))?;
    serde_json::from_slice(&metadata).map_err(|error| format!("cargo metadata: {error}"))
}

/// The names of the packages, and of the crates of this workspace that they are built from.
fn closure(workspace: &Value, packages: &[&str]) -> Result<BTreeSet<String>, String> {
    let members: Vec<&Value> =
        workspace["packages"].as_array().into_iter().flatten().filter(|package| package["source"].is_null()).collect();
    let mut found = BTreeSet::new();
    let mut waiting: Vec<&str> = packages.to_vec();
    while let Some(name) = waiting.pop() {
        let Some(package) = members.iter().find(|package| package["name"] == name) else { continue };
        if found.insert(name.to_owned()) {
            let dependencies = package["dependencies"].as_array().into_iter().flatten();
            waiting.extend(
                dependencies
                    .filter(|dependency| dependency["kind"] != "dev")
                    .filter_map(|dependency| dependency["name"].as_str()),
            );
        }
    }
    if found.is_empty() { Err(format!("no crate of this workspace is called {}", packages.join(", "))) } else { Ok(found) }
}

/// Packs crates of this workspace and unpacks them below a folder, each in a folder of its name.
fn unpack(root: &Path, workspace: &Value, folder: &Path, crates: &BTreeSet<String>) -> Result<(), String> {
    let target = Path::new(workspace["target_directory"].as_str().ok_or("cargo metadata: no target_directory")?);
    let packages = crates.iter().flat_map(|name| ["--package", name]);
    run(Command::new("cargo")
        .args(["package", "--quiet", "--no-verify", "--allow-dirty", "--locked"])
        .args(packages)
        .current_dir(root))?;
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let version = version_of(root)?;
    for name in crates {
        let packed = target.join(format!("package/{name}-{version}.crate"));
        run(Command::new("tar").arg("--extract").arg("--file").arg(&packed).arg("--directory").arg(folder))?;
        let unpacked = folder.join(format!("{name}-{version}"));
        // They are for cargo's own registry.
        for left in ["Cargo.toml.orig", "Cargo.lock", ".cargo_vcs_info.json"] {
            let _ = fs::remove_file(unpacked.join(left));
        }
        fs::rename(&unpacked, folder.join(name)).map_err(|error| format!("{}: {error}", unpacked.display()))?;
    }
    Ok(())
}
