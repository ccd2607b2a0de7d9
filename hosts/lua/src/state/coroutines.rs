//! The coroutines of a state whose scripts may wait: each runs the answer to a request, or a task of the script.

use super::State;
use crate::application::{Style, luafcgid};
use crate::error_page::Fault;
use crate::exchange::Exchange;
use crate::state_context::{Ending, Failure, Halt, StateContext, Turn, explain_coroutine, protect, resume};
use crate::vm::Slot;
use crate::waits::{Outcome, Wish};
use mlua::ffi::{self, lua_State};
use std::os::raw::c_int;

/// The most ended coroutines that a state keeps for further requests.
const SPARE: usize = 64;

/// A coroutine, which the registry of its state keeps.
#[derive(Debug)]
pub(crate) struct Coroutine {
    thread: *mut lua_State,
    reference: c_int,
}

/// The state's references in the registry, and its spare coroutines.
#[derive(Debug)]
pub(super) struct Coroutines {
    make: c_int,
    explain: c_int,
    spare: Vec<Coroutine>,
}

/// The end of a turn.
pub(crate) enum Step {
    Waits(Wish),
    Ended,
    Badly(Ending),
}

/// Makes the references of a state whose stack is `l`.
///
/// # Safety
/// `l` is a live state below a fence, and `context` outlives the state.
pub(super) unsafe fn prepare(l: *mut lua_State, context: &StateContext) -> Coroutines {
    // SAFETY: as promised by the caller.
    unsafe {
        ffi::lua_pushcclosure(l, make, 0);
        let make = ffi::luaL_ref(l, ffi::LUA_REGISTRYINDEX);
        context.push_function(l, explain_coroutine, 0);
        let explain = ffi::luaL_ref(l, ffi::LUA_REGISTRYINDEX);
        Coroutines { make, explain, spare: Vec::new() }
    }
}

/// Makes a coroutine and returns its reference in the registry.
unsafe extern "C-unwind" fn make(l: *mut lua_State) -> c_int {
    // SAFETY: the host calls this below a fence; this frame holds nothing.
    unsafe {
        ffi::lua_newthread(l);
        let reference = ffi::luaL_ref(l, ffi::LUA_REGISTRYINDEX);
        ffi::lua_pushinteger(l, reference.into());
        1
    }
}

impl State {
    /// The values of a new request.
    pub(crate) fn new_turn(&self) -> Turn {
        self.context.new_turn()
    }

    /// Returns a coroutine that is about to answer a request.
    ///
    /// # Errors
    /// The state has no memory left.
    pub(crate) fn answering_coroutine(&mut self) -> Result<Coroutine, Failure> {
        let coroutine = self.coroutine()?;
        // SAFETY: both stacks belong to this thread and have room for the function that answers requests.
        unsafe {
            ffi::lua_pushvalue(self.thread, super::SERVE);
            ffi::lua_xmove(self.thread, coroutine.thread, 1);
        }
        Ok(coroutine)
    }

    /// Returns a coroutine that is about to run the task that `parent` has spawned with `count` values.
    ///
    /// # Errors
    /// The state has no memory left.
    pub(crate) fn spawned_coroutine(&mut self, parent: &Coroutine, count: c_int) -> Result<Coroutine, Failure> {
        let coroutine = self.coroutine();
        // SAFETY: the values and, below them, the two that name the wait are on top of the parent's stack.
        unsafe {
            match &coroutine {
                Ok(child) if ffi::lua_checkstack(child.thread, count) != 0 => {
                    ffi::lua_xmove(parent.thread, child.thread, count);
                    ffi::lua_settop(parent.thread, -3);
                }
                _ => {
                    ffi::lua_settop(parent.thread, -count - 3);
                    let failure = Failure::new(Fault::Memory, "not enough memory for a task");
                    return coroutine.and(Err(failure));
                }
            }
        }
        coroutine
    }

    fn coroutine(&mut self) -> Result<Coroutine, Failure> {
        let Some(coroutines) = &mut self.coroutines else {
            return Err(Failure::new(Fault::Runtime, "scripts do not wait here"));
        };
        if let Some(spare) = coroutines.spare.pop() {
            return Ok(spare);
        }
        let l = self.thread;
        // SAFETY: the thread runs nothing else; the results are removed again.
        unsafe {
            let height = ffi::lua_gettop(l);
            ffi::lua_rawgeti(l, ffi::LUA_REGISTRYINDEX, coroutines.make.into());
            let ending = protect(l, &self.context, None, 0, 1);
            let reference = ffi::lua_tointeger(l, -1) as c_int;
            ffi::lua_settop(l, height);
            match ending {
                Ending::Returned => {
                    ffi::lua_rawgeti(l, ffi::LUA_REGISTRYINDEX, reference.into());
                    let thread = ffi::lua_tothread(l, -1);
                    ffi::lua_settop(l, height);
                    Ok(Coroutine { thread, reference })
                }
                Ending::Failed(failure) => Err(failure),
                Ending::Late | Ending::Exited => Err(Failure::new(Fault::Runtime, "the script has ended")),
            }
        }
    }

    /// Resumes a coroutine with the result of its wait.
    pub(crate) fn resume(
        &mut self,
        coroutine: &Coroutine,
        outcome: Outcome,
        turn: &mut Turn,
        exchange: Option<&Exchange<'_>>,
        slot: &Slot,
    ) -> Step {
        let (l, context) = (self.thread, &*self.context);
        let explain = self.coroutines.as_ref().map_or(ffi::LUA_NOREF, |coroutines| coroutines.explain);
        context.take_turn(turn, exchange, || {
            // SAFETY: the coroutine is this state's and waits, or has not begun.
            let halt = unsafe {
                let arguments = outcome.push(coroutine.thread);
                resume(l, (coroutine.thread, coroutine.reference), explain, context, slot, arguments)
            };
            match halt {
                Halt::Ended => Step::Ended,
                Halt::Badly(ending) => Step::Badly(ending),
                // SAFETY: the coroutine has just yielded these values.
                Halt::Yielded(count) => match unsafe { Wish::read(coroutine.thread, count) } {
                    Some(wish) => Step::Waits(wish),
                    None => Step::Badly(Ending::Failed(Failure::new(
                        Fault::Runtime,
                        "the script has called coroutine.yield outside of a coroutine of its own",
                    ))),
                },
            }
        })
    }

    /// Keeps a coroutine whose function has returned for a further request.
    pub(crate) fn reuse(&mut self, coroutine: Coroutine) {
        // SAFETY: the coroutine has ended, so its stack may be emptied.
        unsafe { ffi::lua_settop(coroutine.thread, 0) };
        match &mut self.coroutines {
            Some(coroutines) if coroutines.spare.len() < SPARE => coroutines.spare.push(coroutine),
            _ => self.release(&coroutine),
        }
    }

    /// Ends a coroutine wherever it is. In Lua 5.4, its variables that are to be closed are closed.
    pub(crate) fn close(&mut self, coroutine: &Coroutine, turn: &mut Turn, exchange: Option<&Exchange<'_>>, slot: &Slot) {
        #[cfg(feature = "lua54")]
        self.context.take_turn(turn, exchange, || {
            slot.begin(self.thread);
            // SAFETY: the coroutine does not run. Errors of what is closed end here.
            unsafe { ffi::lua_closethread(coroutine.thread, self.thread) };
            slot.end();
        });
        #[cfg(not(feature = "lua54"))]
        let _ = (turn, exchange, slot);
        self.release(coroutine);
    }

    fn release(&self, coroutine: &Coroutine) {
        // SAFETY: this only changes an entry of the registry that exists.
        unsafe { ffi::luaL_unref(self.thread, ffi::LUA_REGISTRYINDEX, coroutine.reference) };
    }

    /// Sends the answer of a script in the style of luafcgid that has called `os.exit`.
    pub(crate) fn ends_answer(&self, turn: &mut Turn, exchange: &Exchange<'_>) {
        if self.style == Style::Luafcgid {
            self.context.take_turn(turn, Some(exchange), || luafcgid::finish(&self.context, exchange));
        }
    }
}
