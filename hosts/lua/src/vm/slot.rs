//! What others see of a lane: whether a script runs there, and what it is to be told.
//!
//! A signal handler on the lane's thread arms a hook in the running state, which Lua and LuaJIT permit there. The hook does what the
//! slot's marks say at the next instruction: it stops the script, logs where it is, or tells that to somebody who has asked. Nothing
//! looks at the marks otherwise, except where the server has the thread anyway. A hook that the script had is put back.

mod entered;
mod frames;
mod kept_hook;

use super::quiet::Stack;
use super::stack::push_bytes;
use frames::Frames;
use kept_hook::KeptHook;
use mlua::Lua;
use mlua::ffi::{self, lua_Debug, lua_Hook, lua_State};
use oribi_host::{ExchangeId, Interruption, Order};
use oribi_server::backtrace;
use std::cell::Cell;
use std::os::raw::c_int;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering, compiler_fence};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub(super) use entered::for_each_entered;

/// The error message for a script that has exceeded its time limit.
pub(crate) const OUT_OF_TIME: &str = "the script has run for longer than it may";

/// A mark of a slot: its script must be stopped.
const STOP: u8 = 1;
/// A mark: a traceback of its script must be logged.
const WARN: u8 = 2;
/// A mark: the script has moved its deadline.
const MOVED: u8 = 4;
/// A mark: somebody wants to know where the script is. Other threads set it, too.
const ASKED: u8 = 8;
/// The marks for which a hook is armed.
const FOR_HOOK: u8 = STOP | WARN | ASKED;

/// What a lane does, in the lowest bits of [`Slot::run`].
const DOING: u64 = 3;
const IDLE: u64 = 0;
/// A script runs. Only this one is odd.
const RUNS: u64 = 1;
/// A script waits for the server, whose code runs on the thread.
const RESTS: u64 = 2;

/// The value of [`Slot::allowed`] for a script without a limit.
const UNLIMITED: u64 = u64::MAX;

/// Others' view of a lane. The lane's thread writes everything except `doomed`, `question` and a mark.
///
/// Each has its own cache lines, because lanes write to their slots all the time.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Slot {
    /// Odd while a script runs; another number whenever that changes.
    pub(super) run: AtomicU64,
    /// The state whose handler was called.
    base: AtomicPtr<lua_State>,
    /// The running coroutine of the state, for Luas whose hooks belong to single coroutines.
    running: AtomicPtr<lua_State>,
    /// The kernel's id of the lane's thread; 0 if there is none.
    thread: AtomicI32,
    /// The run that must be stopped.
    pub(super) doomed: AtomicU64,
    /// What is different in this run from others: [`STOP`], [`WARN`], [`MOVED`], [`ASKED`]. Signal handlers on the lane's thread
    /// write it, too.
    marks: AtomicU8,
    /// With [`ASKED`]: the number of the question.
    question: AtomicU32,
    /// With [`MOVED`]: the time limit that the script has asked for, in milliseconds.
    allowed: AtomicU64,
    /// With [`WARN`]: the time that the script has taken, in milliseconds.
    warned_after: AtomicU64,
    /// The hooks are being changed, so a signal handler must not change them. Whoever changes them looks at the marks afterwards.
    held: AtomicBool,
    /// The script's own hooks, while this host's stand in their place: that of `base`, and that of another running coroutine.
    kept: [KeptHook; 2],
}

/// Says which request a state answers: method and path. Called in a hook of the state.
pub(crate) type Describe = unsafe fn(*mut lua_State) -> Vec<u8>;

pub(super) static DESCRIBE: OnceLock<Describe> = OnceLock::new();

thread_local! {
    /// The slot of the calling thread. A signal handler may read it, because it has no destructor and a constant initializer.
    static SLOT: Cell<*const Slot> = const { Cell::new(ptr::null()) };
}

impl Slot {
    /// From now on the calling thread runs scripts and reports them in this slot.
    pub(crate) fn enter(self: &Arc<Self>) {
        // SAFETY: asks for a number.
        self.thread.store(unsafe { libc::gettid() }, Ordering::Relaxed);
        SLOT.set(Arc::as_ptr(self));
        entered::enter(self);
    }

    /// The calling thread runs no more scripts.
    pub(crate) fn leave(&self) {
        entered::leave(self);
        self.thread.store(0, Ordering::Relaxed);
        SLOT.set(ptr::null());
    }

    /// The slot of the calling thread, if its scripts are watched. May be called in a signal handler.
    pub(crate) fn with_current<R>(work: impl FnOnce(Option<&Self>) -> R) -> R {
        // SAFETY: set by `enter`, whose caller keeps the slot until `leave`.
        work(unsafe { SLOT.get().as_ref() })
    }

    /// The kernel's id of the thread that has entered it; 0: none has.
    pub(super) fn thread(&self) -> i32 {
        self.thread.load(Ordering::Relaxed)
    }

    /// A request begins. Orders for the one before it are forgotten.
    #[inline]
    pub(crate) fn start_afresh(&self) {
        if self.marks.load(Ordering::Relaxed) != 0 {
            self.marks.fetch_and(ASKED, Ordering::Relaxed);
        }
    }

    /// A script begins to run.
    #[inline]
    pub(crate) fn begin(&self, state: *mut lua_State) {
        self.base.store(state, Ordering::Relaxed);
        self.running.store(state, Ordering::Relaxed);
        // The signal handler runs on this thread, so only the compiler must be kept from reordering.
        compiler_fence(Ordering::Release);
        self.step(RUNS - IDLE);
        self.catch_up();
    }

    /// The script has ended; returns whether it was stopped.
    #[inline]
    pub(crate) fn end(&self) -> bool {
        self.step(DOING + 1 - RUNS);
        compiler_fence(Ordering::Acquire);
        self.marks.load(Ordering::Relaxed) != 0 && self.settle()
    }

    /// The run that has just ended was different.
    #[cold]
    fn settle(&self) -> bool {
        let marks = self.marks.swap(0, Ordering::Acquire);
        if marks & FOR_HOOK != 0 {
            // SAFETY: the state that has just run lives, on this thread, and so does its coroutine that ran last.
            unsafe { self.put_hooks_back() };
            self.kept.iter().for_each(KeptHook::forget);
        }
        if marks & ASKED != 0 {
            backtrace::tell_nothing(self.question.load(Ordering::Relaxed));
        }
        marks & STOP != 0
    }

    /// Whether the script was stopped in this run.
    pub(crate) fn was_stopped(&self) -> bool {
        self.marks.load(Ordering::Relaxed) & STOP != 0
    }

    /// Arms the hooks for what a signal handler has noted while no script ran, or for another coroutine.
    #[inline]
    fn catch_up(&self) {
        compiler_fence(Ordering::Acquire);
        if self.marks.load(Ordering::Relaxed) & FOR_HOOK != 0 {
            self.arm_hooks();
        }
    }

    /// Called by the thread, or in a signal handler on the thread. Nothing happens if no script runs just now, because the server has
    /// the thread, or finalizers run after a script: then the hooks are armed when one does.
    #[cold]
    fn arm_hooks(&self) {
        // Whoever changes them does this when he is done.
        if self.doing() != RUNS || self.hold() {
            return;
        }
        let (base, running) = (self.base.load(Ordering::Relaxed), self.running.load(Ordering::Relaxed));
        // SAFETY: these states live and run on this thread; lua_sethook may be called then.
        unsafe {
            self.kept[0].replace(base, obey);
            if running == base {
                // The coroutine that ran before may be gone soon.
                self.kept[1].put_back(obey);
            } else {
                self.kept[1].replace(running, obey);
            }
        }
        // What has been marked meanwhile is done in the hook, too.
        self.let_go();
    }

    /// No signal handler changes the hooks until [`Slot::let_go`]; returns whether somebody is changing them already.
    fn hold(&self) -> bool {
        let held = self.held.load(Ordering::Relaxed);
        self.held.store(true, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        held
    }

    fn let_go(&self) {
        compiler_fence(Ordering::SeqCst);
        self.held.store(false, Ordering::Relaxed);
    }

    /// The script is going to change its hooks, or to look at them: it has them back until [`Slot::take_hooks`].
    pub(crate) fn lend_hooks(&self) {
        self.hold();
        // SAFETY: the script runs, so its state and its coroutine live, on this thread.
        unsafe { self.put_hooks_back() };
    }

    /// It has done so.
    pub(crate) fn take_hooks(&self) {
        self.let_go();
        self.catch_up();
    }

    /// # Safety
    /// The state whose hooks were replaced lives and runs on this thread, and so does its coroutine.
    unsafe fn put_hooks_back(&self) {
        for kept in &self.kept {
            // SAFETY: as promised by the caller.
            unsafe { kept.put_back(obey) };
        }
    }

    /// Adds a mark to the present run; called in a signal handler on the lane's thread.
    fn mark(&self, mark: u8) {
        self.marks.fetch_or(mark, Ordering::Relaxed);
        self.arm_hooks();
    }

    /// Has the script stopped; called in a signal handler on the lane's thread.
    pub(super) fn stop(&self) {
        self.mark(STOP);
    }

    /// The script of the present run has asked for another time limit, from now on; `None`: for none.
    pub(crate) fn allow(&self, time: Option<Duration>) {
        let milliseconds = time.map_or(UNLIMITED, |time| u64::try_from(time.as_millis()).unwrap_or(UNLIMITED));
        self.allowed.store(milliseconds, Ordering::Relaxed);
        self.marks.fetch_or(MOVED, Ordering::Release);
        // Another number: the watchdog counts from now on.
        self.step(DOING + 1);
        self.catch_up();
    }

    /// The time limit of the present run, where `limit` is that of all scripts.
    pub(super) fn limit(&self, limit: Duration) -> Duration {
        if self.marks.load(Ordering::Acquire) & MOVED == 0 {
            return limit;
        }
        match self.allowed.load(Ordering::Relaxed) {
            UNLIMITED => Duration::MAX,
            milliseconds => Duration::from_millis(milliseconds),
        }
    }

    /// Runs `work`, which calls functions of `lua` outside of coroutines, with the time limit of a script.
    pub(crate) fn watch<R>(&self, lua: &Lua, work: impl FnOnce() -> R) -> R {
        let mut state = ptr::null_mut();
        // SAFETY: looks at no more than the pointer.
        if unsafe { lua.exec_raw::<()>((), |l| state = l) }.is_err() {
            // No memory is left even for that.
            return work();
        }
        self.begin(state);
        let _run = Finally(|| {
            self.end();
        });
        work()
    }

    /// Runs `work` without counting it as the script's time: the limit starts anew afterwards.
    #[inline]
    pub(crate) fn rest<R>(&self, work: impl FnOnce() -> R) -> R {
        // Also called when the script has ended.
        let runs = self.run.load(Ordering::Relaxed) & RUNS;
        self.step(runs * (RESTS - RUNS));
        let _rest = Finally(|| {
            self.step(runs * (DOING + 1 - RESTS + RUNS));
            if runs == RUNS {
                self.catch_up();
            }
        });
        work()
    }

    /// Only the lane's thread writes the run, so no locked instruction is needed.
    #[inline]
    fn step(&self, by: u64) {
        self.run.store(self.run.load(Ordering::Relaxed) + by, Ordering::Release);
    }

    fn doing(&self) -> u64 {
        self.run.load(Ordering::Relaxed) & DOING
    }

    /// Records that another coroutine of the state runs now.
    pub(crate) fn switch(&self, running: *mut lua_State) {
        self.running.store(running, Ordering::Relaxed);
        self.catch_up();
    }
}

/// Questions where the script is.
impl Slot {
    /// Whether it answers no request.
    pub(super) fn is_idle(&self) -> bool {
        self.run.load(Ordering::Acquire) & DOING == IDLE
    }

    /// Notes a question. Called in a signal handler, on any thread.
    pub(super) fn put(&self, question: u32) {
        self.question.store(question, Ordering::Relaxed);
        self.marks.fetch_or(ASKED, Ordering::Release);
    }

    /// Sees to it that a question is answered. Called in a signal handler on the lane's thread.
    pub(super) fn hear_question(&self) {
        if self.marks.load(Ordering::Acquire) & ASKED == 0 {
            return;
        }
        match self.doing() {
            RUNS => self.arm_hooks(),
            // It has ended since it was asked.
            IDLE if self.marks.fetch_and(!ASKED, Ordering::Acquire) & ASKED != 0 => {
                backtrace::tell_nothing(self.question.load(Ordering::Relaxed));
            }
            _ => {}
        }
    }

    /// Tells where the script is, which runs in the coroutine `l`.
    fn tell(&self, l: *mut lua_State) {
        let question = self.question.load(Ordering::Relaxed);
        let base = self.base.load(Ordering::Relaxed);
        let mut frames = Frames::default();
        // SAFETY: called in a hook of `l`, which runs in `base` or in a coroutine that has been resumed there.
        let about = unsafe {
            frames.add(l);
            if l != base {
                frames.add(base);
            }
            DESCRIBE.get().map(|describe| describe(l))
        };
        let told: Vec<&[u8]> = frames.told.iter().map(Vec::as_slice).collect();
        backtrace::tell(question, None, &about.unwrap_or_default(), Some(&told), frames.more);
    }
}

/// Does this when it is dropped: after a panic, too. Otherwise the slot would say for ever that a script runs, in a state that is gone.
struct Finally<F: Fn()>(F);

impl<F: Fn()> Drop for Finally<F> {
    #[inline]
    fn drop(&mut self) {
        (self.0)();
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // Its thread may have ended without leaving it.
        entered::leave(self);
    }
}

impl Interruption for Slot {
    fn interrupt(&self, _exchange: ExchangeId, order: Order, limit: Duration) {
        match order {
            Order::Warn => {
                self.warned_after.store(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
                self.mark(WARN);
            }
            Order::Interrupt => self.mark(STOP),
        }
    }
}

/// What is left to do in a hook, where an error may be raised: nothing here needs a drop.
#[derive(Clone, Copy, Default)]
struct Deeds {
    stop: bool,
    /// Log where the script is, which has run for so many milliseconds.
    warn: Option<u64>,
    /// Call the hook of the script.
    pass_on: Option<lua_Hook>,
}

impl Slot {
    /// Takes the marks in a hook of the coroutine `l`, and puts the hooks back unless the script is to be stopped.
    fn take_marks(&self, l: *mut lua_State, event: c_int) -> Deeds {
        let marks = self.marks.fetch_and(!(WARN | ASKED), Ordering::Acquire);
        if marks & ASKED != 0 {
            self.tell(l);
        }
        if marks & STOP != 0 {
            return Deeds { stop: true, ..Deeds::default() };
        }
        let [of_base, of_running] = &self.kept;
        let kept = match self.kept.iter().find(|kept| kept.belongs_to(l)) {
            Some(kept) => kept,
            // All coroutines share it, or `l` was made by one that had the hook at that moment, and has it from there.
            None if of_running.is_empty() => of_base,
            None => of_running,
        };
        self.hold();
        // SAFETY: the state runs, on this thread.
        unsafe {
            self.put_hooks_back();
            kept.put_back_in(l, obey);
        }
        self.let_go();
        // A handler may have left a mark meanwhile.
        self.catch_up();
        let warn = (marks & WARN != 0).then(|| self.warned_after.load(Ordering::Relaxed));
        Deeds { stop: false, warn, pass_on: kept.hook_for(event) }
    }
}

/// The hook.
unsafe extern "C-unwind" fn obey(l: *mut lua_State, event: *mut lua_Debug) {
    // SAFETY: Lua passes both; an error is raised when nothing is left to be dropped.
    unsafe {
        let deeds = Slot::with_current(|slot| slot.map(|slot| slot.take_marks(l, (*event).event)));
        let Some(Deeds { stop, warn, pass_on }) = deeds else { return disarm(l) };
        if stop {
            push_bytes(l, OUT_OF_TIME.as_bytes());
            ffi::lua_error(l);
        }
        if let Some(milliseconds) = warn {
            log_place(l, milliseconds);
        }
        if let Some(hook) = pass_on {
            hook(l, event);
        }
    }
}

/// Logs where the script is, once.
///
/// # Safety
/// `l` runs in a hook, below a fence, and no frame up to there holds anything to be dropped.
unsafe fn log_place(l: *mut lua_State, milliseconds: u64) {
    // SAFETY: the traceback raises an error without memory; what is to be dropped is made after that.
    unsafe {
        let height = ffi::lua_gettop(l);
        ffi::luaL_traceback(l, l, ptr::null(), 0);
        let mut stack = Stack::of(l);
        let quiet = stack.quiet();
        let traceback = String::from_utf8_lossy(quiet.string(-1).unwrap_or_default());
        let seconds = Duration::from_millis(milliseconds).as_secs_f64();
        log::warn!("a script has run for {seconds} s and goes on; {traceback}");
        drop(traceback);
        quiet.cut(height);
    }
}

/// Makes Lua call `hook` before every instruction.
///
/// # Safety
/// `l` is a live state of the calling thread.
pub(crate) unsafe fn arm(l: *mut lua_State, hook: lua_Hook) {
    // SAFETY: as promised by the caller.
    unsafe { ffi::lua_sethook(l, Some(hook), ffi::LUA_MASKCOUNT, 1) };
}

/// Removes the hook.
///
/// # Safety
/// As for [`arm`].
pub(crate) unsafe fn disarm(l: *mut lua_State) {
    // SAFETY: as promised by the caller.
    unsafe { ffi::lua_sethook(l, None, 0, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Otherwise signals would have hooks set in a state that is gone.
    #[test]
    fn no_script_seems_to_run_after_a_panic() {
        let slot = Slot::default();
        for _ in 0..3 {
            slot.begin(ptr::null_mut());
            catch_unwind(AssertUnwindSafe(|| slot.rest(|| panic!("the server's")))).expect_err("the panic goes on");
            assert_eq!(slot.doing(), RUNS, "Lua goes on behind the server's function");
            assert!(!slot.end());
            assert!(slot.is_idle());
        }
    }
}
