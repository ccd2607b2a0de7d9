//! The part of a lane that other threads and signal handlers access: whether a script runs there, and the orders for it.
//!
//! An order is a mark of the slot. When a mark is set, a signal handler on the lane's thread arms a hook in the running state,
//! which Lua and LuaJIT permit in signal handlers. At the next instruction Lua calls the hook, which carries out the marks: it
//! stops the script, logs its position, or reports its backtrace. Without a hook, marks are read only when the script returns
//! to the server, or calls it. After a log line or a backtrace, the hook that the script itself had set is restored.

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
use rustix::thread::gettid;
use std::cell::Cell;
use std::os::raw::c_int;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering, compiler_fence};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub(super) use entered::for_each_entered;

/// The error message for a script that has exceeded its time limit.
pub(crate) const OUT_OF_TIME: &str = "the script has run for longer than it may";

/// A mark of a slot: the script must be stopped.
const STOP: u8 = 1;
/// A mark: a traceback of the script must be logged.
const WARN: u8 = 2;
/// A mark: the script has changed its deadline.
const MOVED: u8 = 4;
/// A mark: a backtrace of the script is requested. Other threads also set it.
const ASKED: u8 = 8;
/// The marks for which a hook is armed.
const FOR_HOOK: u8 = STOP | WARN | ASKED;

/// The activity of a lane, in the lowest bits of [`Slot::run`].
const DOING: u64 = 3;
const IDLE: u64 = 0;
/// A script runs. Only this value is odd.
const RUNS: u64 = 1;
/// A script waits for the server, whose code runs on the thread.
const RESTS: u64 = 2;

/// The value of [`Slot::allowed`] for a script without a limit.
const UNLIMITED: u64 = u64::MAX;

/// A lane, as other threads see it. The lane's thread writes all fields. Other threads write only `doomed`, `question`, and the
/// mark [`ASKED`].
///
/// Each slot has its own cache lines, because lanes write to their slots all the time.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Slot {
    /// A number whose lowest bits are the activity of the lane ([`DOING`]), so that it is odd while a script runs. It increases
    /// at each change of the activity.
    pub(super) run: AtomicU64,
    /// The main coroutine of the running script: the one in which the host has called it.
    base: AtomicPtr<lua_State>,
    /// The running coroutine of the state, for versions of Lua in which each coroutine has a hook of its own.
    running: AtomicPtr<lua_State>,
    /// The kernel's thread ID of the lane's thread; 0 if there is none.
    thread: AtomicI32,
    /// The value of `run` for which the script must be stopped.
    pub(super) doomed: AtomicU64,
    /// The marks of this run: [`STOP`], [`WARN`], [`MOVED`], [`ASKED`]. Signal handlers on the lane's thread also write them.
    marks: AtomicU8,
    /// With [`ASKED`]: the number of the request for a backtrace.
    question: AtomicU32,
    /// With [`MOVED`]: the time limit that the script has asked for, in milliseconds.
    allowed: AtomicU64,
    /// With [`WARN`]: the time that the script has taken, in milliseconds.
    warned_after: AtomicU64,
    /// Whether code on the lane's thread is changing the hooks, so that a signal handler must not change them. Afterwards that
    /// code reads the marks, and arms the hooks for marks that were set meanwhile.
    held: AtomicBool,
    /// The script's own hooks while this host's hook replaces them: that of `base`, and that of `running` if it is another
    /// coroutine.
    kept: [KeptHook; 2],
}

/// Returns method and path of the request that a state answers. Called in a hook of the state.
pub(crate) type Describe = unsafe fn(*mut lua_State) -> Vec<u8>;

pub(super) static DESCRIBE: OnceLock<Describe> = OnceLock::new();

thread_local! {
    /// The slot of the calling thread. A signal handler may read it, because it has no destructor and a constant initializer.
    static SLOT: Cell<*const Slot> = const { Cell::new(ptr::null()) };
}

impl Slot {
    /// Makes this the slot of the calling thread, which runs scripts from now on.
    pub(crate) fn enter(self: &Arc<Self>) {
        self.thread.store(gettid().as_raw_pid(), Ordering::Relaxed);
        SLOT.set(Arc::as_ptr(self));
        entered::enter(self);
    }

    /// Removes this as the slot of the calling thread, which runs no more scripts.
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

    /// Returns the kernel's thread ID of the thread that has entered the slot, or 0.
    pub(super) fn thread(&self) -> i32 {
        self.thread.load(Ordering::Relaxed)
    }

    /// Removes the orders for the previous request, because another request begins.
    #[inline]
    pub(crate) fn start_afresh(&self) {
        if self.marks.load(Ordering::Relaxed) != 0 {
            self.marks.fetch_and(ASKED, Ordering::Relaxed);
        }
    }

    /// Records that a script begins to run.
    #[inline]
    pub(crate) fn begin(&self, state: *mut lua_State) {
        self.base.store(state, Ordering::Relaxed);
        self.running.store(state, Ordering::Relaxed);
        // The signal handler runs on this thread, so only the compiler must be kept from reordering.
        compiler_fence(Ordering::Release);
        self.step(RUNS - IDLE);
        self.catch_up();
    }

    /// Records that the script has ended; returns whether it was stopped.
    #[inline]
    pub(crate) fn end(&self) -> bool {
        self.step(DOING + 1 - RUNS);
        compiler_fence(Ordering::Acquire);
        self.marks.load(Ordering::Relaxed) != 0 && self.settle()
    }

    /// Handles the marks of a run that has just ended; returns whether it was stopped.
    #[cold]
    fn settle(&self) -> bool {
        let marks = self.marks.swap(0, Ordering::Acquire);
        if marks & FOR_HOOK != 0 {
            // SAFETY: the state that has just run lives and belongs to this thread, and its coroutine that ran last lives, too.
            unsafe { self.put_hooks_back() };
            self.kept.iter().for_each(KeptHook::forget);
        }
        if marks & ASKED != 0 {
            backtrace::answer_without_app(self.question.load(Ordering::Relaxed));
        }
        marks & STOP != 0
    }

    /// Whether the script was stopped in this run.
    pub(crate) fn was_stopped(&self) -> bool {
        self.marks.load(Ordering::Relaxed) & STOP != 0
    }

    /// Arms the hooks for marks that a signal handler has set while no script ran, or for another coroutine.
    #[inline]
    fn catch_up(&self) {
        compiler_fence(Ordering::Acquire);
        if self.marks.load(Ordering::Relaxed) & FOR_HOOK != 0 {
            self.arm_hooks();
        }
    }

    /// Arms the hooks. Called by the lane's thread, or in a signal handler on this thread. Does nothing if no script runs at
    /// present, because the thread executes code of the server, or finalizers after the end of a script: then the hooks are
    /// armed when a script runs again.
    #[cold]
    fn arm_hooks(&self) {
        // The code that is changing the hooks arms them afterwards.
        if self.doing() != RUNS || self.hold() {
            return;
        }
        let (base, running) = (self.base.load(Ordering::Relaxed), self.running.load(Ordering::Relaxed));
        // SAFETY: these states live and run on this thread; lua_sethook may be called then.
        unsafe {
            self.kept[0].replace(base, obey);
            if running == base {
                // The other coroutine, which ran before, may be freed soon.
                self.kept[1].put_back(obey);
            } else {
                self.kept[1].replace(running, obey);
            }
        }
        // The hook also carries out marks that were set meanwhile.
        self.let_go();
    }

    /// Keeps signal handlers from changing the hooks until [`Slot::let_go`]. Returns whether they were already kept from it.
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

    /// Restores the script's own hooks until [`Slot::take_hooks`], because the script is about to change or to read them.
    pub(crate) fn lend_hooks(&self) {
        self.hold();
        // SAFETY: the script runs, so its state and its coroutine live, on this thread.
        unsafe { self.put_hooks_back() };
    }

    /// Lets this host change the hooks again after [`Slot::lend_hooks`], and arms them if there are marks.
    pub(crate) fn take_hooks(&self) {
        self.let_go();
        self.catch_up();
    }

    /// # Safety
    /// The state whose hooks were replaced lives and belongs to this thread, and the coroutines with replaced hooks live, too.
    unsafe fn put_hooks_back(&self) {
        for kept in &self.kept {
            // SAFETY: as promised by the caller.
            unsafe { kept.put_back(obey) };
        }
    }

    /// Adds a mark to the current run; called in a signal handler on the lane's thread.
    fn mark(&self, mark: u8) {
        self.marks.fetch_or(mark, Ordering::Relaxed);
        self.arm_hooks();
    }

    /// Stops the script; called in a signal handler on the lane's thread.
    pub(super) fn stop(&self) {
        self.mark(STOP);
    }

    /// Sets another time limit for the script of the current run, from now on; `None` removes it.
    pub(crate) fn allow(&self, time: Option<Duration>) {
        let milliseconds = time.map_or(UNLIMITED, |time| u64::try_from(time.as_millis()).unwrap_or(UNLIMITED));
        self.allowed.store(milliseconds, Ordering::Relaxed);
        self.marks.fetch_or(MOVED, Ordering::Release);
        // A new value of `run` makes the watchdog count the time from now on.
        self.step(DOING + 1);
        self.catch_up();
    }

    /// Returns the time limit of the current run; `limit` is the limit of scripts that have not changed theirs.
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
        // SAFETY: only copies the pointer.
        if unsafe { lua.exec_raw::<()>((), |l| state = l) }.is_err() {
            // There is not enough memory even for that.
            return work();
        }
        self.begin(state);
        let _run = Finally(|| {
            self.end();
        });
        work()
    }

    /// Runs `work` without counting it as the script's time: the limit starts again afterwards.
    #[inline]
    pub(crate) fn rest<R>(&self, work: impl FnOnce() -> R) -> R {
        // This is also called when no script runs: then the activity does not change.
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

    /// Adds `by` to `run`. Only the lane's thread writes it, so no locked instruction is needed.
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

/// Requests for backtraces.
impl Slot {
    /// Whether the lane answers no request.
    pub(super) fn is_idle(&self) -> bool {
        self.run.load(Ordering::Acquire) & DOING == IDLE
    }

    /// Records a request for a backtrace. Called in a signal handler, on any thread.
    pub(super) fn put(&self, question: u32) {
        self.question.store(question, Ordering::Relaxed);
        self.marks.fetch_or(ASKED, Ordering::Release);
    }

    /// Makes the lane report its backtrace, if a request for one is recorded. Called in a signal handler on the lane's thread.
    pub(super) fn hear_question(&self) {
        if self.marks.load(Ordering::Acquire) & ASKED == 0 {
            return;
        }
        match self.doing() {
            RUNS => self.arm_hooks(),
            // The script has ended since the request.
            IDLE if self.marks.fetch_and(!ASKED, Ordering::Acquire) & ASKED != 0 => {
                backtrace::answer_without_app(self.question.load(Ordering::Relaxed));
            }
            _ => {}
        }
    }

    /// Reports the backtrace of the script, which runs in the coroutine `l`.
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
        backtrace::answer(question, None, &about.unwrap_or_default(), Some(&told), frames.more);
    }
}

/// Calls its function when it is dropped, also after a panic. Without that, after a panic the slot would show for ever that a
/// script runs in a state that no longer exists.
struct Finally<F: Fn()>(F);

impl<F: Fn()> Drop for Finally<F> {
    #[inline]
    fn drop(&mut self) {
        (self.0)();
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // The slot's thread may have ended without leaving the slot.
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

/// The work of a hook after it has taken the marks. Raising an error may skip the drop of this value, so it holds nothing to be
/// dropped.
#[derive(Clone, Copy, Default)]
struct Deeds {
    stop: bool,
    /// Log the position of the script, which has run for this many milliseconds.
    warn: Option<u64>,
    /// Call the hook of the script.
    pass_on: Option<lua_Hook>,
}

impl Slot {
    /// Takes the marks in a hook of the coroutine `l`, and restores the hooks unless the script must be stopped.
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
            // All coroutines share one hook, or `l` inherited this host's hook when another coroutine made it.
            None if of_running.is_empty() => of_base,
            None => of_running,
        };
        self.hold();
        // SAFETY: the state, with its coroutine `l`, runs on this thread.
        unsafe {
            self.put_hooks_back();
            kept.put_back_in(l, obey);
        }
        self.let_go();
        // A handler may have set a mark meanwhile.
        self.catch_up();
        let warn = (marks & WARN != 0).then(|| self.warned_after.load(Ordering::Relaxed));
        Deeds { stop: false, warn, pass_on: kept.hook_for(event) }
    }
}

/// The hook, which carries out the marks.
unsafe extern "C-unwind" fn obey(l: *mut lua_State, event: *mut lua_Debug) {
    // SAFETY: Lua passes valid pointers. An error is raised only when this frame holds nothing to be dropped.
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

/// Logs the position of the script, once.
///
/// # Safety
/// `l` runs in a hook, below a fence, and no frame up to there holds anything to be dropped.
unsafe fn log_place(l: *mut lua_State, milliseconds: u64) {
    // SAFETY: as promised by the caller. Making the traceback raises an error if memory runs out; values to be dropped exist
    // only after that.
    unsafe {
        let height = ffi::lua_gettop(l);
        ffi::luaL_traceback(l, l, ptr::null(), 0);
        let mut stack = Stack::of(l);
        let quiet = stack.quiet();
        let traceback = String::from_utf8_lossy(quiet.string(-1).unwrap_or_default());
        let seconds = Duration::from_millis(milliseconds).as_secs_f64();
        log::warn!("a script has run for {seconds} s and is still running; {traceback}");
        drop(traceback);
        quiet.cut(height);
    }
}

/// Makes Lua call `hook` before every instruction of `l`.
///
/// # Safety
/// `l` is a live state of the calling thread.
pub(crate) unsafe fn arm(l: *mut lua_State, hook: lua_Hook) {
    // SAFETY: as promised by the caller.
    unsafe { ffi::lua_sethook(l, Some(hook), ffi::LUA_MASKCOUNT, 1) };
}

/// Removes the hook of `l`.
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

    /// If a script seemed to run, signals would set hooks in a state that no longer exists.
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
