//! Stops scripts that exceed their time limit.
//!
//! A hook that always counts instructions would make every script slow. So each lane has a slot with a number that is odd while
//! a script runs, and a thread looks at the slots now and then: if an odd number stays the same for too long, the script does
//! not end. The thread then sends a signal to the lane's thread. The signal handler arms a hook in the running state, which Lua
//! and LuaJIT permit in a handler on the state's own thread. From then on every instruction raises an error, so no `pcall` can
//! keep the script running for long, and the state is thrown away. Functions in C and finalizers are not interrupted, because
//! no hooks are called in them; a pattern that never ends is left to `--request-kill`. Within a message handler for an error
//! that a hook has raised, no hooks are called, either; `prelude.lua` handles that case.
//!
//! The server's deadlines (`--request-warning`, `--request-timeout`) come the same way, through [`Interruption`]: the server calls
//! it in a signal handler on the lane's thread. A hook that warns logs a traceback and removes itself.

use super::quiet::Stack;
use mlua::Lua;
use mlua::ffi::{self, lua_Debug, lua_State};
use oribi_host::{ExchangeId, Interruption, Order};
use std::cell::Cell;
use std::os::raw::c_int;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU8, AtomicU64, Ordering, compiler_fence};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// The error message for a script that has exceeded its time limit.
pub(crate) const OUT_OF_TIME: &str = "the script has run for longer than it may";

/// How often to look within a script's time limit: at worst a script gets a tenth more.
const LOOKS: u32 = 10;
/// Looking more often is not worth the processor time ...
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
/// ... and looking less often would exceed a long limit by too much.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// When to look again at a script that was stopped: it may have gone on in another coroutine.
const AGAIN: Duration = Duration::from_millis(20);

/// A mark of a slot: its script must be stopped.
const STOP: u8 = 1;
/// A mark: a traceback of its script must be logged.
const WARN: u8 = 2;
/// A mark: the script has moved its deadline.
const MOVED: u8 = 4;

/// The value of [`Slot::allowed`] for a script without a limit.
const UNLIMITED: u64 = u64::MAX;

/// The watchdog's view of a lane. The lane's thread writes everything except `doomed`.
///
/// Each has its own cache line, because lanes write to their slots all the time.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Slot {
    /// Odd while a script runs.
    run: AtomicU64,
    /// The state whose handler was called.
    base: AtomicPtr<lua_State>,
    /// The running coroutine of the state, for Luas whose hooks belong to single coroutines.
    running: AtomicPtr<lua_State>,
    /// The kernel's id of the lane's thread; 0 if there is none.
    thread: AtomicI32,
    /// The run that must be stopped.
    doomed: AtomicU64,
    /// What is different in this run from others: [`STOP`], [`WARN`], [`MOVED`]. Signal handlers on the lane's thread write it, too.
    marks: AtomicU8,
    /// With [`MOVED`]: the time limit that the script has asked for, in milliseconds.
    allowed: AtomicU64,
    /// With [`WARN`]: the time that the script has taken, in milliseconds.
    warned_after: AtomicU64,
}

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
    }

    /// The calling thread runs no more scripts.
    pub(crate) fn leave(&self) {
        self.thread.store(0, Ordering::Relaxed);
        SLOT.set(ptr::null());
    }

    /// The slot of the calling thread, if its scripts are watched.
    pub(crate) fn with_current<R>(work: impl FnOnce(Option<&Self>) -> R) -> R {
        // SAFETY: set by `enter`, whose caller keeps the slot until `leave`.
        work(unsafe { SLOT.get().as_ref() })
    }

    /// A request begins. Orders for the one before it are forgotten.
    #[inline]
    pub(crate) fn start_afresh(&self) {
        self.marks.store(0, Ordering::Relaxed);
    }

    /// A script begins to run.
    #[inline]
    pub(crate) fn begin(&self, state: *mut lua_State) {
        self.base.store(state, Ordering::Relaxed);
        self.running.store(state, Ordering::Relaxed);
        // The signal handler runs on this thread, so only the compiler must be kept from reordering.
        compiler_fence(Ordering::Release);
        self.step();
        self.catch_up();
    }

    /// The script has ended; returns whether it was stopped.
    #[inline]
    pub(crate) fn end(&self) -> bool {
        self.step();
        compiler_fence(Ordering::Acquire);
        self.marks.load(Ordering::Relaxed) != 0 && self.settle()
    }

    /// The run that has just ended was different.
    #[cold]
    fn settle(&self) -> bool {
        let marks = self.marks.swap(0, Ordering::Relaxed);
        if marks & (STOP | WARN) != 0 {
            // SAFETY: the state that has just run lives, on this thread.
            unsafe { disarm(self.base.load(Ordering::Relaxed)) };
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
        if self.marks.load(Ordering::Relaxed) & (STOP | WARN) != 0 {
            self.arm_hooks();
        }
    }

    /// Called while a script runs: by its thread, or in a signal handler on its thread.
    #[cold]
    fn arm_hooks(&self) {
        let hook = if self.was_stopped() { stop } else { warn };
        let (base, running) = (self.base.load(Ordering::Relaxed), self.running.load(Ordering::Relaxed));
        // SAFETY: these states live and run on this thread; lua_sethook may be called then.
        unsafe {
            arm(base, hook);
            if running != base {
                arm(running, hook);
            }
        }
    }

    /// Adds a mark to the present run; called in a signal handler on the lane's thread. If no script runs just now, because the
    /// server has the thread, the hooks are armed when one does.
    fn mark(&self, mark: u8) {
        self.marks.fetch_or(mark, Ordering::Relaxed);
        if self.run.load(Ordering::Relaxed) % 2 == 1 {
            self.arm_hooks();
        }
    }

    /// The script of the present run has asked for another time limit, from now on; `None`: for none.
    pub(crate) fn allow(&self, time: Option<Duration>) {
        let milliseconds = time.map_or(UNLIMITED, |time| u64::try_from(time.as_millis()).unwrap_or(UNLIMITED));
        self.allowed.store(milliseconds, Ordering::Relaxed);
        self.marks.fetch_or(MOVED, Ordering::Release);
        // Another number: the watchdog counts from now on.
        self.step();
        self.step();
        self.catch_up();
    }

    /// The time limit of the present run, where `limit` is that of all scripts.
    fn limit(&self, limit: Duration) -> Duration {
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
        let result = work();
        self.end();
        result
    }

    /// Runs `work` without counting it as the script's time: the limit starts anew afterwards.
    #[inline]
    pub(crate) fn rest<R>(&self, work: impl FnOnce() -> R) -> R {
        self.step();
        let result = work();
        self.step();
        self.catch_up();
        result
    }

    /// Only the lane's thread writes the run, so no locked instruction is needed.
    #[inline]
    fn step(&self) {
        self.run.store(self.run.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Records that another coroutine of the state runs now.
    pub(crate) fn switch(&self, running: *mut lua_State) {
        self.running.store(running, Ordering::Relaxed);
        self.catch_up();
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

/// The watching thread, and the slots that it watches.
#[derive(Debug)]
pub(crate) struct Watchdog {
    limit: Duration,
    /// A lane keeps its slot as long as its context; dropped slots are forgotten.
    slots: Mutex<Vec<Weak<Slot>>>,
}

impl Watchdog {
    /// Whether hooks are called in loops that LuaJIT has compiled: a build option of LuaJIT, set through cargo.
    pub(crate) const REACHES_COMPILED_LOOPS: bool = !cfg!(feature = "luajit") || option_env!("TARGET_FLAGS").is_some();

    pub(crate) const fn new(limit: Duration) -> Self {
        Self { limit, slots: Mutex::new(Vec::new()) }
    }

    /// A slot for a lane.
    pub(crate) fn slot(&self) -> Arc<Slot> {
        let slot = Arc::new(Slot::default());
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.retain(|slot| slot.strong_count() > 0);
        slots.push(Arc::downgrade(&slot));
        slot
    }

    /// Starts to watch, in a thread that lasts as long as the process.
    ///
    /// # Errors
    /// No thread or no signal handler could be created.
    pub(crate) fn start(self: &Arc<Self>) -> std::io::Result<()> {
        install_handler()?;
        let this = Arc::clone(self);
        thread::Builder::new().name("lua-watchdog".to_owned()).spawn(move || this.watch())?;
        Ok(())
    }

    fn watch(&self) {
        let pause = (self.limit / LOOKS).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        // For each slot, the run that was seen last, and since when. A slot in this list stays at its address, which
        // identifies it.
        let mut seen: Vec<(Weak<Slot>, u64, Instant)> = Vec::new();
        loop {
            let now = Instant::now();
            let mut next = pause;
            seen.retain(|(slot, ..)| slot.strong_count() > 0);
            for slot in self.slots.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                if !seen.iter().any(|(known, ..)| known.ptr_eq(slot)) {
                    seen.push((Weak::clone(slot), 0, now));
                }
            }
            for (slot, last, since) in &mut seen {
                let Some(slot) = slot.upgrade() else { continue };
                let run = slot.run.load(Ordering::Acquire);
                if *last != run {
                    (*last, *since) = (run, now);
                } else if run % 2 == 1 && now - *since >= slot.limit(self.limit) {
                    slot.doomed.store(run, Ordering::Release);
                    alarm(slot.thread.load(Ordering::Relaxed));
                    next = next.min(AGAIN);
                }
            }
            thread::sleep(next);
        }
    }
}

/// The signal that makes a thread check whether to stop its script; no other code uses it.
fn signal() -> c_int {
    libc::SIGRTMIN() + 2
}

fn alarm(thread: i32) {
    if thread != 0 {
        // SAFETY: if the thread has ended, nothing is sent; if its id has a new owner, that thread's slot asks for nothing.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal()) };
    }
}

fn install_handler() -> std::io::Result<()> {
    static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();
    let installed = INSTALLED.get_or_init(|| {
        // SAFETY: a zeroed sigaction is valid, and the handler does only what a handler may do.
        let status = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_alarm as extern "C" fn(c_int) as usize;
            // System calls are restarted: only Lua is to be stopped.
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal(), &raw const action, ptr::null_mut())
        };
        if status == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().raw_os_error().unwrap_or_default()) }
    });
    installed.map_err(std::io::Error::from_raw_os_error)
}

/// Runs on the lane's thread. If that thread is in the middle of the doomed run, it stays there until this returns.
extern "C" fn on_alarm(_signal: c_int) {
    // SAFETY: as in `with_current`.
    let Some(slot) = (unsafe { SLOT.get().as_ref() }) else { return };
    let run = slot.run.load(Ordering::Relaxed);
    if run % 2 == 1 && slot.doomed.load(Ordering::Acquire) == run {
        slot.mark(STOP);
    }
}

/// Logs where the script is, once.
unsafe extern "C-unwind" fn warn(l: *mut lua_State, _: *mut lua_Debug) {
    let wanted = Slot::with_current(|slot| {
        slot.filter(|slot| slot.marks.fetch_and(!WARN, Ordering::Relaxed) & WARN != 0).map(|slot| {
            // SAFETY: the script runs, so its state lives, on this thread.
            unsafe { disarm(slot.base.load(Ordering::Relaxed)) };
            Duration::from_millis(slot.warned_after.load(Ordering::Relaxed)).as_secs_f64()
        })
    });
    // SAFETY: a hook may raise an error, as the traceback does without memory; what is to be dropped is made after that.
    unsafe {
        disarm(l);
        let Some(seconds) = wanted else { return };
        ffi::luaL_traceback(l, l, ptr::null(), 0);
        let mut stack = Stack::of(l);
        let quiet = stack.quiet();
        let traceback = String::from_utf8_lossy(quiet.string(-1).unwrap_or_default());
        log::warn!("a script has run for {seconds} s and goes on; {traceback}");
        drop(traceback);
        quiet.cut(1);
    }
}

unsafe extern "C-unwind" fn stop(l: *mut lua_State, _: *mut lua_Debug) {
    // SAFETY: a hook may raise an error; this frame holds nothing.
    unsafe {
        super::stack::push_bytes(l, OUT_OF_TIME.as_bytes());
        ffi::lua_error(l)
    }
}

/// Makes Lua call `hook` before every instruction.
///
/// # Safety
/// `l` is a live state of the calling thread.
pub(crate) unsafe fn arm(l: *mut lua_State, hook: ffi::lua_Hook) {
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

    #[test]
    fn contexts_that_have_gone_leave_no_slots() {
        let watchdog = Watchdog::new(Duration::from_secs(1));
        let kept = watchdog.slot();
        for _ in 0..100 {
            drop(watchdog.slot());
        }
        assert!(watchdog.slots.lock().expect("a lock").len() <= 2);
        drop(kept);
    }
}
