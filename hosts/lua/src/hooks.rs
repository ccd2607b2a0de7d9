//! Functions of the operator that are called in addition to the scripts: `startup`, `load`, `request`, `response`, `flush`,
//! `housekeeping` and `shutdown`.
//!
//! The hooks `load`, `request`, `response` and `flush` run in the states of the scripts. They are copied there as byte code, so
//! they may use globals, but no local variables of the file that defines them, because these variables do not exist in the
//! scripts' states. The other hooks run in the state in which that file was run.

use crate::pool::ScriptCounters;
use crate::search_paths::operators_state;
use crate::vm::Slot;
use crate::vm::stack::push_bytes;
use mlua::chunk::ChunkMode;
use mlua::ffi::{self, lua_State};
use mlua::{Function, IntoLuaMulti, Lua, Table, Value, Variadic};
use std::ffi::CStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Registry keys of the functions of `wrap.lua` in a state.
const WRAP_HANDLER: &CStr = c"oribi.hooks.handler";
const WRAP_FLUSH: &CStr = c"oribi.hooks.flush";

/// All hooks of the operator.
#[derive(Clone, Debug, Default)]
pub struct Hooks {
    /// The hooks that run in the states of scripts.
    pub scripts: ScriptHooks,
    /// Hooks that run in a state of their own.
    pub process: ProcessHooks,
}

/// Hooks that run in the state of a script, as byte code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptHooks {
    /// `load(script)`: called when a script has been loaded into a new state.
    pub load: Option<Arc<[u8]>>,
    /// `request(...)`: called with the handler's arguments. If the hook's first result is not nil, its results are the answer,
    /// and the handler is not called.
    pub request: Option<Arc<[u8]>>,
    /// `response(...)`: called with the handler's arguments, followed by the handler's results. If the hook's first result is
    /// not nil, the hook's results replace the answer.
    pub response: Option<Arc<[u8]>>,
    /// `flush(con)`: called before `con:flush()` sends.
    pub flush: Option<Arc<[u8]>>,
}

/// Hooks that run in a state of their own.
#[derive(Clone, Debug, Default)]
pub struct ProcessHooks {
    /// The state of the hooks, which lives as long as they do.
    state: Option<Lua>,
    /// `startup()`: called before a worker answers its first request.
    pub startup: Option<Function>,
    /// `housekeeping(scripts)`: called after the sweep, with a list of the pool's data about each script.
    pub housekeeping: Option<Function>,
    /// `shutdown()`: called when a worker has answered its last request.
    pub shutdown: Option<Function>,
}

impl Hooks {
    /// Reads the hooks from a configuration value: a table with functions, or the name of a file that returns such a table. The
    /// name is relative to `directory`. Nil means no hooks.
    ///
    /// # Errors
    /// A message that names the faulty hook or file, and the reason. Because a hook may protect something, one faulty hook
    /// makes the whole call fail.
    pub fn read(state: &Lua, value: &Value, directory: &Path) -> Result<Self, String> {
        match value {
            Value::Nil => Ok(Self::default()),
            Value::Table(table) => Self::from_table(state, table),
            Value::String(name) => Self::run_file(state, &directory.join(name.to_string_lossy())),
            other => Err(format!("hooks must be a table or the name of a file, not a {}", other.type_name())),
        }
    }

    /// Reads the hooks from a file that returns a table with functions, in a new state.
    ///
    /// # Errors
    /// As for [`Hooks::read`].
    pub fn from_file(file: &Path) -> Result<Self, String> {
        Self::run_file(&operators_state(), file)
    }

    fn run_file(state: &Lua, file: &Path) -> Result<Self, String> {
        let failed = |why: String| format!("{}: {why}", file.display());
        let text = fs::read(file).map_err(|error| failed(format!("cannot read it: {error}")))?;
        let chunk = state.load(text).set_name(format!("@{}", file.display())).set_mode(ChunkMode::Text);
        match chunk.eval() {
            Ok(Value::Table(table)) => Self::from_table(state, &table).map_err(failed),
            Ok(other) => Err(failed(format!("it must return a table of hooks, not a {}", other.type_name()))),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    fn from_table(state: &Lua, table: &Table) -> Result<Self, String> {
        let mut hooks = Self::default();
        speak_to_log(state).map_err(|error| error.to_string())?;
        hooks.process.state = Some(state.clone());
        for pair in table.pairs::<Value, Value>() {
            let (name, value) = pair.map_err(|error| error.to_string())?;
            let name = name.to_string().unwrap_or_default();
            let Value::Function(function) = value else {
                return Err(format!("the hook {} is a {}, not a function", name.escape_debug(), value.type_name()));
            };
            let Hooks { scripts, process } = &mut hooks;
            let place = match name.as_str() {
                "load" => &mut scripts.load,
                "request" => &mut scripts.request,
                "response" => &mut scripts.response,
                "flush" => &mut scripts.flush,
                _ => {
                    let place = match name.as_str() {
                        "startup" => &mut process.startup,
                        "housekeeping" => &mut process.housekeeping,
                        "shutdown" => &mut process.shutdown,
                        _ => return Err(format!("there is no hook {}", name.escape_debug())),
                    };
                    *place = Some(function);
                    continue;
                }
            };
            *place = Some(pack(state, &name, &function)?);
        }
        Ok(hooks)
    }
}

/// Makes `print` write to the log, because a server's standard output is not read.
fn speak_to_log(state: &Lua) -> mlua::Result<()> {
    let print = |_: &Lua, values: Variadic<Value>| {
        let texts: Vec<String> = values.iter().map(Value::to_string).collect::<mlua::Result<_>>()?;
        log::info!("hooks: {}", texts.join("\t"));
        Ok(())
    };
    state.globals().raw_set("print", state.create_function(print)?)
}

/// A function as byte code.
fn pack(state: &Lua, name: &str, function: &Function) -> Result<Arc<[u8]>, String> {
    const FIND_LOCAL: &str = "local hook = ...
        for index = 1, math.huge do
            local name = debug.getupvalue(hook, index)
            if name ~= '_ENV' then return name end
        end";
    let code = function.dump(false);
    if code.is_empty() {
        return Err(format!("the hook {name} is not written in Lua"));
    }
    let local: Option<String> = state.load(FIND_LOCAL).call(function).map_err(|error| error.to_string())?;
    if let Some(local) = local {
        return Err(format!(
            "the hook {name} uses the local variable {local} of the file: it runs in the states of scripts, where that does \
             not exist"
        ));
    }
    Ok(code.into())
}

impl ProcessHooks {
    /// Calls the hook for the start of a worker.
    pub fn run_startup(&self) {
        self.run("startup", self.startup.as_ref(), ());
    }

    /// Called after a sweep; `scripts` is called only if there is a hook.
    pub fn run_housekeeping(&self, scripts: impl FnOnce() -> Vec<ScriptCounters>) {
        let (Some(hook), Some(state)) = (&self.housekeeping, &self.state) else { return };
        let list = scripts().iter().map(|counters| describe(state, counters)).collect::<mlua::Result<Vec<Table>>>();
        match list {
            Ok(list) => self.run("housekeeping", Some(hook), list),
            Err(error) => log::error!("the hook housekeeping: {error}"),
        }
    }

    /// Calls the hook for the end of a worker.
    pub fn run_shutdown(&self) {
        self.run("shutdown", self.shutdown.as_ref(), ());
    }

    /// Calls a hook, if there is one. If scripts of the calling thread are watched, the hook has the same time limit.
    fn run(&self, name: &str, hook: Option<&Function>, arguments: impl IntoLuaMulti) {
        let (Some(hook), Some(state)) = (hook, &self.state) else { return };
        let result = Slot::with_current(|slot| match slot {
            Some(slot) => slot.watch(state, || hook.call::<()>(arguments)),
            None => hook.call(arguments),
        });
        if let Err(error) = result {
            log::error!("the hook {name}: {error}");
        }
    }
}

/// The pool's data about a script, as a table.
fn describe(state: &Lua, counters: &ScriptCounters) -> mlua::Result<Table> {
    let ScriptCounters { script, requests, loads, evictions, reloads, failures, score, states } = counters;
    let table = state.create_table()?;
    table.raw_set("script", state.create_string(script.as_os_str().as_bytes())?)?;
    for (name, number) in
        [("requests", requests), ("loads", loads), ("evictions", evictions), ("reloads", reloads), ("failures", failures)]
    {
        table.raw_set(name, *number)?;
    }
    table.raw_set("score", *score)?;
    table.raw_set("states", *states)?;
    Ok(table)
}

impl ScriptHooks {
    /// Loads the hooks into the state of a script, where [`wrap_handler`] and [`wrap_flush`] find them.
    ///
    /// # Errors
    /// The state has no memory left.
    pub(crate) fn install(&self, lua: &Lua) -> mlua::Result<()> {
        if *self == Self::default() {
            return Ok(());
        }
        let unpack = |code: &Option<Arc<[u8]>>| -> mlua::Result<Option<Function>> {
            code.as_ref().map(|code| lua.load(&code[..]).set_mode(ChunkMode::Binary).into_function()).transpose()
        };
        let hooks = (unpack(&self.load)?, unpack(&self.request)?, unpack(&self.response)?, unpack(&self.flush)?);
        let wrap = lua.load(include_str!("hooks/wrap.lua")).set_name("=[oribi]");
        let (wrap_handler, wrap_flush): (Function, Function) = wrap.call(hooks)?;
        for (name, function) in [(WRAP_HANDLER, wrap_handler), (WRAP_FLUSH, wrap_flush)] {
            lua.set_named_registry_value(&name.to_string_lossy(), function)?;
        }
        Ok(())
    }
}

/// If there are hooks, replaces the handler on top of the stack by a function that also calls them.
///
/// # Safety
/// `l` is below a fence, and no frame up to there holds anything to be dropped.
pub(crate) unsafe fn wrap_handler(l: *mut lua_State, script: &[u8]) {
    // SAFETY: as promised by the caller.
    unsafe {
        ffi::lua_getfield(l, ffi::LUA_REGISTRYINDEX, WRAP_HANDLER.as_ptr());
        if ffi::lua_type(l, -1) != ffi::LUA_TFUNCTION {
            ffi::lua_settop(l, -2);
            return;
        }
        ffi::lua_insert(l, -2);
        push_bytes(l, script);
        ffi::lua_call(l, 2, 1);
    }
}

/// If there is a `flush` hook, changes the table of methods on top of the stack: its method `flush` first calls the hook.
///
/// # Safety
/// As for [`wrap_handler`].
pub(crate) unsafe fn wrap_flush(l: *mut lua_State) {
    // SAFETY: as promised by the caller.
    unsafe {
        ffi::lua_getfield(l, ffi::LUA_REGISTRYINDEX, WRAP_FLUSH.as_ptr());
        if ffi::lua_type(l, -1) != ffi::LUA_TFUNCTION {
            ffi::lua_settop(l, -2);
            return;
        }
        ffi::lua_pushvalue(l, -2);
        ffi::lua_call(l, 1, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Hooks, String> {
        // SAFETY: the script is this test's own.
        let state = unsafe { Lua::unsafe_new() };
        let value: Value = state.load(text).eval().expect("a value");
        Hooks::read(&state, &value, Path::new("/nowhere"))
    }

    #[test]
    fn hooks_are_functions_of_a_table() {
        let hooks = read(
            "return { startup = function() end, load = function() end, request = function() return path end,
                response = function() end, flush = function() end, housekeeping = print, shutdown = function() end }",
        )
        .expect("hooks");
        let ScriptHooks { load, request, response, flush } = &hooks.scripts;
        assert!([load, request, response, flush].iter().all(|hook| hook.is_some()));
        let ProcessHooks { startup, housekeeping, shutdown, .. } = &hooks.process;
        assert!([startup, housekeeping, shutdown].iter().all(|hook| hook.is_some()));
        assert_eq!(read("return nil").expect("none").scripts, ScriptHooks::default());
    }

    #[test]
    fn what_is_no_hook_is_named() {
        for (text, part) in [
            ("return 7", "not a integer"),
            ("return { request = 7 }", "the hook request is a integer"),
            ("return { reqest = function() end }", "there is no hook reqest"),
            ("return { load = print }", "not written in Lua"),
            ("local secret = 1 return { request = function() return secret end }", "the local variable secret"),
            ("local a, b = 1, 2 return { flush = function() print(a) return b end }", "the local variable a"),
            ("return 'missing.lua'", "/nowhere/missing.lua: cannot read it"),
        ] {
            let why = read(text).expect_err(text);
            assert!(why.contains(part), "{text}: {why}");
        }
    }

    #[test]
    fn hooks_stand_in_a_file_of_their_own() {
        let directory = tempfile::tempdir().expect("a directory");
        // SAFETY: the script is this test's own.
        let state = unsafe { Lua::unsafe_new() };
        let file = directory.path().join("hooks.lua");
        for (text, part) in [
            ("return { load = function() end }", None),
            ("return 1", Some("it must return a table")),
            ("return {", Some("hooks.lua:1:")),
            ("return { x = print }", Some("hooks.lua: there is no hook x")),
        ] {
            fs::write(&file, text).expect("written");
            let name = Value::String(state.create_string("hooks.lua").expect("a string"));
            let hooks = Hooks::read(&state, &name, directory.path());
            match (part, hooks) {
                (None, Ok(hooks)) => assert!(hooks.scripts.load.is_some()),
                (Some(part), Err(why)) => assert!(why.contains(part), "{why}"),
                (_, other) => panic!("{text}: {other:?}"),
            }
        }
    }

    /// Wraps `handler` with the hooks in a state and calls the result with 1 and 2.
    fn call(hooks: &str, handler: &str) -> String {
        let hooks = read(hooks).expect("hooks").scripts;
        let lua = Lua::new();
        hooks.install(&lua).expect("installed");
        let handler: Function = lua.load(handler).eval().expect("a function");
        let wrap: Option<Function> = lua.named_registry_value(&WRAP_HANDLER.to_string_lossy()).ok();
        let handler = wrap.map_or(handler.clone(), |wrap| wrap.call((handler, "/app.lua")).expect("a function"));
        let show: Function = lua
            .load(
                "local call = ... local list = { n = 0 } local function show(...) list = { n = select('#', ...), ... } end
                show(call(1, 2)) for i = 1, list.n do list[i] = tostring(list[i]) end
                return table.concat(list, ' ', 1, list.n) .. (seen and ' ' .. seen or '')",
            )
            .into_function()
            .expect("a function");
        show.call(handler).expect("a string")
    }

    #[test]
    fn hooks_are_called_around_the_handler() {
        let handler = "return function(a, b) return 200, nil, a + b end";
        assert_eq!(call("return {}", handler), "200 nil 3");
        assert_eq!(call("return { load = function(script) seen = script end }", handler), "200 nil 3 /app.lua");
        assert_eq!(call("return { request = function(a, b) seen = a .. b end }", handler), "200 nil 3 12");
        assert_eq!(call("return { request = function() return 403, nil, 'no' end }", handler), "403 nil no");
        assert_eq!(
            call("return { response = function(a, b, status, _, sum) seen = a .. b .. status .. sum end }", handler),
            "200 nil 3 122003"
        );
        assert_eq!(call("return { response = function(a, b, status) return status + 1 end }", handler), "201");
        let both = "return { request = function() return 403 end, response = function(a, b, status) return status, 'x' end }";
        assert_eq!(call(both, handler), "403 x");
        let neither = "return { request = function() end, response = function() end }";
        assert_eq!(call(neither, handler), "200 nil 3");
        assert_eq!(call(neither, "return function() end"), "");
    }

    #[test]
    fn hooks_of_the_process_run_in_their_own_state() {
        let hooks = read(
            "local count = 0
            return {
                startup = function() count = 1 end,
                housekeeping = function(scripts)
                    local script = scripts[1]
                    seen = table.concat({ script.script, script.requests, script.states, script.score, count }, ' ')
                end,
                shutdown = function() error('oh') end,
            }",
        )
        .expect("hooks")
        .process;
        let counters = || {
            let script = "/srv/app.lua".into();
            vec![ScriptCounters { script, requests: 7, loads: 1, evictions: 0, reloads: 0, failures: 0, score: 2.5, states: 1 }]
        };
        hooks.run_startup();
        hooks.run_housekeeping(counters);
        let seen: String = hooks.state.as_ref().expect("a state").globals().get("seen").expect("a text");
        assert_eq!(seen, "/srv/app.lua 7 1 2.5 1");
        // An error is a line in the log.
        hooks.run_shutdown();
        ProcessHooks::default().run_startup();
    }
}
