//! Ends scripts that run for longer than they may.
//!
//! A hook that counts instructions all the time would make every script slow. So each lane has a slot with a number that is odd
//! while a script runs, and a thread looks at the slots now and then: a number that stands still for too long means a script that
//! does not end. Its thread is sent a signal, whose handler arms a hook in the running state, which Lua (and LuaJIT) allow to a
//! handler on the state's own thread. From then on, every instruction raises an error, so that no `pcall` keeps it for long, and
//! the state is thrown away. A function in C is not interrupted, nor a finalizer, where no hook is called: a pattern that never
//! ends is left to `--request-timeout`. In the handler of an error that a hook has raised, none is called either: `prelude.lua`
//! sees to that.

use mlua::Lua;
use mlua::ffi::{self, lua_Debug, lua_State};
use std::cell::Cell;
use std::os::raw::c_int;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, Ordering, compiler_fence};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// What a script is told that has used up its time.
pub(crate) const OUT_OF_TIME: &str = "the script has run for longer than it may";

/// Looks in the time that a script has: a script gets a tenth more at worst.
const LOOKS: u32 = 10;
/// More often is not worth the processor's time ...
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
/// ... and less often not the wait of whoever has a long limit.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How soon a script is looked at again that had to be stopped: it may have gone on in another coroutine.
const AGAIN: Duration = Duration::from_millis(20);

/// What the thread that looks knows of a lane. Written by the lane's thread, but for `doomed`.
///
/// A cache line for each: lanes write to their slots all the time.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Slot {
    /// Odd while a script runs.
    turn: AtomicU64,
    /// The state whose handler was called.
    base: AtomicPtr<lua_State>,
    /// The coroutine of it that runs, where Lua arms hooks for each on its own.
    running: AtomicPtr<lua_State>,
    /// The lane's thread, as the kernel knows it; 0 without.
    thread: AtomicI32,
    /// The turn that is to be ended.
    doomed: AtomicU64,
    /// Whether the script was stopped in this turn.
    stopped: AtomicBool,
}

thread_local! {
    /// The slot of the calling thread. Without a destructor and with a constant start, a signal handler may read it.
    static SLOT: Cell<*const Slot> = const { Cell::new(ptr::null()) };
}

impl Slot {
    /// The calling thread runs scripts from now on, and this slot tells of it.
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

    /// The slot of the calling thread, if scripts that it runs are watched.
    pub(crate) fn with_current<R>(work: impl FnOnce(Option<&Self>) -> R) -> R {
        // SAFETY: set by `enter`, whose caller keeps the slot until `leave`.
        work(unsafe { SLOT.get().as_ref() })
    }

    /// A script begins to run.
    #[inline]
    pub(crate) fn begin(&self, state: *mut lua_State) {
        self.stopped.store(false, Ordering::Relaxed);
        self.base.store(state, Ordering::Relaxed);
        self.running.store(state, Ordering::Relaxed);
        // The handler runs on this thread: only the compiler must be kept from changing the order.
        compiler_fence(Ordering::Release);
        self.step();
    }

    /// The script has ended; tells whether it had to be stopped.
    #[inline]
    pub(crate) fn end(&self) -> bool {
        self.step();
        compiler_fence(Ordering::Acquire);
        self.was_stopped()
    }

    /// Whether the script had to be stopped in this turn.
    pub(crate) fn was_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Has `work`, which runs functions of `lua` in no coroutine of its own, stopped as a script is that runs for too long.
    pub(crate) fn watch<R>(&self, lua: &Lua, work: impl FnOnce() -> R) -> R {
        let mut state = ptr::null_mut();
        // SAFETY: looks at no more than the pointer.
        if unsafe { lua.exec_raw::<()>((), |l| state = l) }.is_err() {
            // There is no memory left even for that.
            return work();
        }
        self.begin(state);
        let result = work();
        if self.end() {
            // SAFETY: the state lives, and this thread has just used it.
            unsafe { disarm(state) };
        }
        result
    }

    /// Does something that does not count as the script's time: its limit starts anew behind.
    #[inline]
    pub(crate) fn rest<R>(&self, work: impl FnOnce() -> R) -> R {
        self.step();
        let result = work();
        self.step();
        result
    }

    /// Only the lane's thread writes the turn, so that no locked instruction is needed.
    #[inline]
    fn step(&self) {
        self.turn.store(self.turn.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Another coroutine of the state runs from now on.
    pub(crate) fn switch(&self, running: *mut lua_State) {
        self.running.store(running, Ordering::Relaxed);
    }
}

/// The thread that looks, and the slots that it looks at.
#[derive(Debug)]
pub(crate) struct Watchdog {
    limit: Duration,
    /// A lane has its slot as long as its context lasts; those that have gone are forgotten.
    slots: Mutex<Vec<Weak<Slot>>>,
}

impl Watchdog {
    /// Whether hooks are called in loops that LuaJIT has compiled: cargo has been told to have that built in.
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

    /// Starts to look, in a thread of its own that lasts as long as the process.
    ///
    /// # Errors
    /// No thread or no signal handler is to be had.
    pub(crate) fn start(self: &Arc<Self>) -> std::io::Result<()> {
        install_handler()?;
        let this = Arc::clone(self);
        thread::Builder::new().name("lua-watchdog".to_owned()).spawn(move || this.watch())?;
        Ok(())
    }

    fn watch(&self) {
        let pause = (self.limit / LOOKS).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        // For each slot the turn that was seen last, and since when. A slot in here keeps its place in memory, which is its name.
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
                let turn = slot.turn.load(Ordering::Acquire);
                if *last != turn {
                    (*last, *since) = (turn, now);
                } else if turn % 2 == 1 && now - *since >= self.limit {
                    slot.doomed.store(turn, Ordering::Release);
                    alarm(slot.thread.load(Ordering::Relaxed));
                    next = next.min(AGAIN);
                }
            }
            thread::sleep(next);
        }
    }
}

/// The signal that has a thread look whether its script is to be stopped: one that nobody else has a meaning for.
fn signal() -> c_int {
    libc::SIGRTMIN() + 2
}

fn alarm(thread: i32) {
    if thread != 0 {
        // SAFETY: if the thread has ended, nothing is sent; if its number has a new owner, that one's slot says nothing.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal()) };
    }
}

fn install_handler() -> std::io::Result<()> {
    static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();
    let installed = INSTALLED.get_or_init(|| {
        // SAFETY: a zeroed sigaction is a valid one, and the handler keeps to what a handler may do.
        let status = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_alarm as extern "C" fn(c_int) as usize;
            // System calls go on: only Lua is to be stopped.
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal(), &raw const action, ptr::null_mut())
        };
        if status == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().raw_os_error().unwrap_or_default()) }
    });
    installed.map_err(std::io::Error::from_raw_os_error)
}

/// Runs on the lane's thread. If that is in the middle of the doomed turn, it stays there until this has returned.
extern "C" fn on_alarm(_signal: c_int) {
    // SAFETY: as in `with_current`.
    let Some(slot) = (unsafe { SLOT.get().as_ref() }) else { return };
    let turn = slot.turn.load(Ordering::Relaxed);
    if turn % 2 == 0 || slot.doomed.load(Ordering::Acquire) != turn {
        return;
    }
    slot.stopped.store(true, Ordering::Relaxed);
    let (base, running) = (slot.base.load(Ordering::Relaxed), slot.running.load(Ordering::Relaxed));
    // SAFETY: the turn is odd, so these states live and run on this thread; lua_sethook may be called then.
    unsafe {
        arm(base, stop);
        if running != base {
            arm(running, stop);
        }
    }
}

unsafe extern "C-unwind" fn stop(l: *mut lua_State, _: *mut lua_Debug) {
    // SAFETY: a hook may raise an error; this frame holds nothing.
    unsafe {
        super::stack::push_bytes(l, OUT_OF_TIME.as_bytes());
        ffi::lua_error(l)
    }
}

/// Has `hook` called before every instruction.
///
/// # Safety
/// `l` is a live state of the calling thread.
pub(crate) unsafe fn arm(l: *mut lua_State, hook: ffi::lua_Hook) {
    // SAFETY: as promised by the caller.
    unsafe { ffi::lua_sethook(l, Some(hook), ffi::LUA_MASKCOUNT, 1) };
}

/// Takes the hook away.
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
