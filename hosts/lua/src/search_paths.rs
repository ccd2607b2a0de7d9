//! The places where `require` looks for modules: Lua's built-in ones and those of Debian's packages.
//!
//! Lua's built-in paths only cover `/usr/local`. Debian's packages install modules below `/usr`, those written in C in a
//! directory named after the architecture.

use mlua::{Lua, Table};
use std::env;

/// The Lua version that modules are made for. LuaJIT uses those for 5.1.
const GENERATION: &str = if cfg!(feature = "luajit") { "5.1" } else { "5.4" };

/// The variables from which Lua takes its paths; the first one that is set counts (manual of 5.4, section 6.3).
const PATH_VARIABLES: &[&str] = if cfg!(feature = "luajit") { &["LUA_PATH"] } else { &["LUA_PATH_5_4", "LUA_PATH"] };
const CPATH_VARIABLES: &[&str] = if cfg!(feature = "luajit") { &["LUA_CPATH"] } else { &["LUA_CPATH_5_4", "LUA_CPATH"] };

/// Debian's name of the architecture, as printed by `dpkg-architecture -q DEB_HOST_MULTIARCH`.
const MULTIARCH: &str = if cfg!(target_arch = "x86") {
    "i386-linux-gnu"
} else if cfg!(target_arch = "x86_64") {
    "x86_64-linux-gnu"
} else if cfg!(target_arch = "aarch64") {
    "aarch64-linux-gnu"
} else if cfg!(target_arch = "arm") {
    "arm-linux-gnueabihf"
} else if cfg!(all(target_arch = "powerpc64", target_endian = "little")) {
    "powerpc64le-linux-gnu"
} else if cfg!(target_arch = "riscv64") {
    "riscv64-linux-gnu"
} else if cfg!(target_arch = "s390x") {
    "s390x-linux-gnu"
} else {
    "unknown-linux-gnu"
};

/// A state for the operator's own code, in which modules are found as in scripts' states.
pub(crate) fn operators_state() -> Lua {
    // SAFETY: it runs the operator's own code, which may load any library.
    let lua = unsafe { Lua::unsafe_new() };
    if let Err(error) = extend(&lua) {
        log::warn!("modules are only looked for in Lua's own directories: {error}");
    }
    lua
}

/// Makes the state look for modules in the default places, unless environment variables such as LUA_PATH name other paths. In
/// such a variable `;;` means all default places.
///
/// # Errors
/// The state has no memory left, or no table `package`.
pub(crate) fn extend(lua: &Lua) -> mlua::Result<()> {
    let package: Table = lua.globals().get("package")?;
    for (name, variables, ending) in [("path", PATH_VARIABLES, Ending::Lua), ("cpath", CPATH_VARIABLES, Ending::Native)] {
        let said = variables.iter().find_map(env::var_os);
        // Lua takes bytes; a path that is not UTF-8 has been taken over by Lua itself and stays unchanged.
        let extended = match said.as_ref().map(|said| said.to_str()) {
            Some(None) => continue,
            Some(Some(said)) => put_in(said, || places(ending)),
            None => places(ending),
        };
        package.set(name, extended)?;
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Lua,
    Native,
}

/// The default templates: those built into Lua in their order, then those of packages.
fn places(ending: Ending) -> String {
    let list: Vec<String> = match (ending, cfg!(feature = "luajit")) {
        (Ending::Lua, true) => [
            "./?.lua".to_owned(),
            // Modules of LuaJIT itself, such as `jit.p`.
            "/usr/local/share/luajit-2.1/?.lua".to_owned(),
        ]
        .into_iter()
        .chain(both("/usr/local/share"))
        .chain(both("/usr/share"))
        .chain(["/usr/share/luajit-2.1/?.lua".to_owned()])
        .collect(),
        (Ending::Lua, false) => ["/usr/local/share", "/usr/local/lib", "/usr/share"]
            .into_iter()
            .flat_map(both)
            .chain(["./?.lua".to_owned(), "./?/init.lua".to_owned()])
            .collect(),
        (Ending::Native, luajit) => {
            let mut list = vec![
                format!("/usr/local/lib/lua/{GENERATION}/?.so"),
                format!("/usr/local/lib/{MULTIARCH}/lua/{GENERATION}/?.so"),
                format!("/usr/lib/{MULTIARCH}/lua/{GENERATION}/?.so"),
                format!("/usr/lib/lua/{GENERATION}/?.so"),
                format!("/usr/local/lib/lua/{GENERATION}/loadall.so"),
            ];
            list.insert(if luajit { 0 } else { list.len() }, "./?.so".to_owned());
            list
        }
    };
    list.join(";")
}

fn both(root: &str) -> [String; 2] {
    [format!("{root}/lua/{GENERATION}/?.lua"), format!("{root}/lua/{GENERATION}/?/init.lua")]
}

/// Replaces the first `;;` by the default places, as Lua does.
fn put_in(said: &str, usual: impl FnOnce() -> String) -> String {
    let Some((before, behind)) = said.split_once(";;") else { return said.to_owned() };
    let usual = usual();
    [before, &usual, behind].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(";")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lua_finds_what_it_finds_by_itself_and_what_packages_bring() {
        // SAFETY: nothing is run in this state.
        let lua = unsafe { Lua::unsafe_new() };
        let package: Table = lua.globals().get("package").expect("the library");
        for (name, ending) in [("path", Ending::Lua), ("cpath", Ending::Native)] {
            let own: String = package.get(name).expect("a path");
            let ours = places(ending);
            let places: Vec<&str> = ours.split(';').collect();
            let mut last = 0;
            for place in own.split(';') {
                let found = places.iter().position(|known| *known == place).unwrap_or_else(|| panic!("{place}: {ours}"));
                assert!(found >= last, "{place} comes too early: {ours}");
                last = found;
            }
            assert!(places.iter().any(|place| place.starts_with("/usr/share") || place.starts_with("/usr/lib/")), "{ours}");
        }
    }

    #[test]
    fn two_semicolons_stand_for_the_usual_places() {
        for (said, expected) in [
            ("/a/?.lua", "/a/?.lua"),
            ("", ""),
            (";;", "usual"),
            ("/a/?.lua;;", "/a/?.lua;usual"),
            (";;/a/?.lua", "usual;/a/?.lua"),
            ("/a/?.lua;;/b/?.lua", "/a/?.lua;usual;/b/?.lua"),
        ] {
            assert_eq!(put_in(said, || "usual".to_owned()), expected, "{said:?}");
        }
    }

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn the_architecture_has_a_name() {
        assert_ne!(MULTIARCH, "unknown-linux-gnu");
    }
}
