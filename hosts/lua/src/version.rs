//! The version of the built-in Lua.

use mlua::Lua;

/// The built-in Lua's own version text: `LuaJIT 2.1.1748459687`, `Lua 5.4`.
#[must_use]
pub fn built_in() -> String {
    let said = Lua::new().load("return jit and jit.version or _VERSION").eval();
    said.unwrap_or_else(|_| NAME.to_owned())
}

#[cfg(feature = "luajit")]
const NAME: &str = "LuaJIT";
#[cfg(not(feature = "luajit"))]
const NAME: &str = "Lua 5.4";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_lua_that_was_asked_for() {
        assert!(built_in().starts_with(NAME), "{}", built_in());
    }
}
