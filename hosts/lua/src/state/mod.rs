//! A Lua state with a script in it.
//!
//! The script's functions run in a coroutine of the state that is used for nothing else. The host calls them instead of
//! resuming the coroutine, so a `yield` outside the script's own coroutines is an error. Where handlers may wait
//! (`--concurrency`), each request has a coroutine of its own, which the host resumes ([`coroutines`]).

mod coroutines;
mod libraries;

pub(crate) use coroutines::{Coroutine, Step};

use crate::LuaSettings;
use crate::application::{self, Style};
use crate::error_page::Fault;
use crate::exchange::{Exchange, Progress};
use crate::modules::MemoryLimit;
use crate::pool::Loaded;
use crate::state_context::{Ending, Failure, StateContext, explain, protect};
use crate::vm::Slot;
use coroutines::Coroutines;
use mlua::ffi::{self, lua_State};
use mlua::{Lua, LuaOptions, StdLib};
use oribi_server::app_metrics::{self, Context};
use std::os::raw::c_int;
use std::path::{Path, PathBuf};
use std::ptr;

/// The place of the serving function on the thread's stack, above the message handler.
const SERVE: c_int = 2;

/// A state with a loaded script: answers one request at a time.
pub(crate) struct State {
    /// The Lua state. Declared before `context`, so that it is closed first: its functions hold the address of the context.
    lua: Lua,
    thread: *mut lua_State,
    style: Style,
    context: Box<StateContext>,
    /// `None` unless handlers may wait.
    coroutines: Option<Coroutines>,
    /// Whether metrics count this state.
    counted: bool,
}

// SAFETY: with mlua's feature "send" a Lua state may change threads between calls. `thread` and `context` are used only by
// methods of `State`, so only by the thread that has borrowed or owns it.
unsafe impl Send for State {}

/// The condition of a state that has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// The state can answer again.
    Good,
    /// The state's script was interrupted, so the state must not be used again.
    Spoilt,
}

impl State {
    /// Makes a state and runs the script in it; the top level of the script initializes the app. The load fails if the script
    /// cannot be read, is not valid Lua, raises an error, or defines no handler.
    pub(crate) fn load(script: &Path, settings: &LuaSettings) -> Loaded<Self, Failure> {
        match Self::prepare(script, settings) {
            Ok(mut state) => {
                let result = state.run_script();
                let dependencies = state.take_loaded();
                Loaded { state: result.map(|()| state), dependencies }
            }
            Err(error) => {
                let failure = Failure::new(Fault::Memory, &error.to_string());
                Loaded { state: Err(failure), dependencies: vec![script.to_owned()] }
            }
        }
    }

    /// A state with its libraries.
    fn prepare(script: &Path, settings: &LuaSettings) -> mlua::Result<Self> {
        // SAFETY: the scripts are the operator's own. package.path and package.cpath limit what they may load.
        let lua = unsafe { Lua::unsafe_new_with(StdLib::ALL, LuaOptions::new()) };
        let context = Box::new(StateContext::new(script.to_owned(), settings.waits));
        libraries::prepare(&lua, &context, script, settings)?;
        let (mut thread, mut coroutines) = (ptr::null_mut(), None);
        // SAFETY: below mlua's fence; the registry keeps the thread alive, and the state's context outlives the state.
        unsafe {
            lua.exec_raw::<()>((), |l| {
                thread = ffi::lua_newthread(l);
                ffi::luaL_ref(l, ffi::LUA_REGISTRYINDEX);
                context.own(l);
                context.push_function(thread, explain, 0);
                application::push_chooser(thread, &context, settings);
                coroutines = settings.waits.then(|| coroutines::prepare(l, &context));
            })?;
        }
        // Only now, so that a limit that is too low for Lua itself fails in the script.
        let limit = settings.state_memory.map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        // LuaJIT cannot be limited on a machine without room for a state with its own allocator.
        match lua.set_memory_limit(limit) {
            Ok(_) if limit > 0 => drop(lua.set_app_data(MemoryLimit(limit))),
            Ok(_) => {}
            Err(error) => log::debug!("the memory of a state is not limited: {error}"),
        }
        let counted = app_metrics::are_counted();
        app_metrics::note_context(Context::LuaState, 1);
        Ok(Self { lua, thread, style: Style::Oribi, context, coroutines, counted })
    }

    /// Runs the script, by calling the chooser at index [`SERVE`], which the function that answers requests replaces.
    fn run_script(&mut self) -> Result<(), Failure> {
        let (l, context) = (self.thread, &*self.context);
        context.note_loaded(context.script.clone());
        // SAFETY: the coroutine runs nothing else. The chooser returns the function that answers requests, and the number of
        // the style.
        let ending = unsafe {
            debug_assert_eq!(ffi::lua_gettop(l), SERVE);
            Slot::with_current(|slot| protect(l, context, slot, 0, 2))
        };
        match ending {
            Ending::Returned => {
                // SAFETY: as above.
                unsafe {
                    self.style = Style::numbered(ffi::lua_tointeger(l, -1) as u8);
                    ffi::lua_settop(l, SERVE);
                }
                Ok(())
            }
            Ending::Failed(failure) => Err(failure),
            Ending::Late => Err(Failure::new(Fault::Time, "the script has taken longer to load than it may")),
            Ending::Exited => Err(Failure::new(Fault::Runtime, "the script has called os.exit while it was loaded")),
        }
    }

    /// The style in which the script answers.
    pub(crate) const fn style(&self) -> Style {
        self.style
    }

    /// Answers a request. After a failure, the exchange is unanswered, or cut off if the answer had begun.
    #[inline]
    pub(crate) fn answer(&mut self, exchange: &Exchange<'_>) -> (Condition, Result<(), Failure>) {
        let (l, context) = (self.thread, &*self.context);
        let result = context.serve(exchange, || {
            // SAFETY: the thread runs nothing else, and SERVE takes no argument.
            let ending = unsafe {
                ffi::lua_pushvalue(l, SERVE);
                protect(l, context, Some(exchange.slot()), 0, 0)
            };
            match ending {
                Ending::Returned => (Condition::Good, Ok(())),
                Ending::Late => (Condition::Spoilt, Ok(())),
                ending => self.end_badly(ending, exchange),
            }
        });
        // SAFETY: removes the results of the call.
        unsafe { ffi::lua_settop(l, SERVE) };
        result
    }

    #[cold]
    fn end_badly(&self, ending: Ending, exchange: &Exchange<'_>) -> (Condition, Result<(), Failure>) {
        match ending {
            Ending::Failed(failure) => {
                let spoilt = matches!(failure.fault, Fault::Time | Fault::Memory);
                (if spoilt { Condition::Spoilt } else { Condition::Good }, Err(failure))
            }
            _ if self.style == Style::Luafcgid => {
                application::luafcgid::finish(&self.context, exchange);
                (Condition::Spoilt, Ok(()))
            }
            // The script has answered and then called `os.exit`, as a finalizer may do.
            _ if exchange.progress() == Progress::Done => (Condition::Spoilt, Ok(())),
            _ => (Condition::Spoilt, Err(Failure::new(Fault::Runtime, "the script has called os.exit before it had answered"))),
        }
    }

    /// The path of the script.
    pub(crate) fn script(&self) -> &Path {
        &self.context.script
    }

    /// The files that were loaded since the last call.
    pub(crate) fn take_loaded(&mut self) -> Vec<PathBuf> {
        self.context.take_loaded()
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // The memory limit does not apply to the script's finalizers.
        let _ = self.lua.set_memory_limit(0);
        // A state that is older than its worker was never counted.
        if self.counted {
            app_metrics::note_context(Context::LuaState, -1);
        }
    }
}
