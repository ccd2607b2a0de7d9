//! Stops scripts that exceed their time limit.
//!
//! A hook that always counts instructions would make every script slow. So each lane has a slot with a number that is odd while
//! a script runs, and the watchdog's thread reads the slots at intervals. If an odd number stays the same for longer than the
//! time limit, the thread sends a signal to the lane's thread. The signal handler arms a hook in the running state ([`Slot`]).
//! From then on every instruction raises an error, so no `pcall` can keep the script running for long, and the state is thrown
//! away.
//!
//! Lua calls no hooks in functions written in C and in finalizers, so these are not interrupted; a pattern match that never
//! ends is left to `--request-kill`. Lua calls no hooks, either, in a message handler for an error that a hook has raised;
//! `prelude.lua` handles that case.
//!
//! The server's deadlines (`--request-warning`, `--request-timeout`) reach the slot through `Interruption`, which the server
//! calls in a signal handler on the lane's thread. Requests for backtraces arrive in a signal handler, too (`tracing.rs`).

use super::slot::Slot;
use std::os::raw::c_int;
use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// The number of looks within a script's time limit: at worst a script gets a tenth more.
const LOOKS: u32 = 10;
/// The shortest pause between two looks: a shorter one is not worth the processor time.
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
/// The longest pause between two looks: a longer one would exceed a long limit by too much.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// The first and the longest pause before a script that continues after its stop, perhaps in another coroutine, is stopped
/// again. The pause doubles each time. Arming a hook walks through all open calls, which takes tens of milliseconds in an
/// endless recursion. So the pause must grow until the script, or the C function that it is in, can end between two signals.
const AGAIN: Duration = Duration::from_millis(20);
const LONGEST_AGAIN: Duration = Duration::from_secs(2);

/// The watching thread's record of a slot.
#[derive(Debug)]
struct WatchedSlot {
    /// Keeps the memory of the slot allocated, so that its address identifies the slot.
    slot: Weak<Slot>,
    /// The latest run, and the time of its first look.
    run: u64,
    since: Instant,
    /// The time of the next stop, and the pause after it.
    again: Instant,
    pause: Duration,
}

impl WatchedSlot {
    const fn new(slot: Weak<Slot>, now: Instant) -> Self {
        Self { slot, run: 0, since: now, again: now, pause: AGAIN }
    }

    /// Records the current run.
    fn see(&mut self, run: u64, now: Instant) {
        if self.run != run {
            (self.run, self.since, self.again, self.pause) = (run, now, now, AGAIN);
        }
    }

    /// Whether a script runs, and has run for longer than `limit`.
    fn is_overdue(&self, limit: Duration, now: Instant) -> bool {
        self.run % 2 == 1 && now - self.since >= limit
    }

    /// Records that the script was stopped.
    fn alarmed(&mut self, now: Instant) {
        self.again = now + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_AGAIN);
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

    /// Makes a slot for a lane.
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
        let mut seen: Vec<WatchedSlot> = Vec::new();
        loop {
            let now = Instant::now();
            let mut next = pause;
            seen.retain(|seen| seen.slot.strong_count() > 0);
            for slot in self.slots.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                if !seen.iter().any(|known| known.slot.ptr_eq(slot)) {
                    seen.push(WatchedSlot::new(Weak::clone(slot), now));
                }
            }
            for seen in &mut seen {
                let Some(slot) = seen.slot.upgrade() else { continue };
                let run = slot.run.load(Ordering::Acquire);
                seen.see(run, now);
                if seen.is_overdue(slot.limit(self.limit), now) {
                    if seen.again <= now {
                        slot.doomed.store(run, Ordering::Release);
                        alarm(slot.thread());
                        seen.alarmed(now);
                    }
                    next = next.min(seen.again - now);
                }
            }
            thread::sleep(next);
        }
    }
}

/// The signal that makes a thread check whether to stop its script, or to report its backtrace; no other code uses it.
fn signal() -> c_int {
    libc::SIGRTMIN() + 2
}

/// Makes a thread check its slot. May be called in a signal handler, where it may change errno.
pub(super) fn alarm(thread: i32) {
    if thread != 0 {
        // SAFETY: if the thread has ended, nothing is sent; if its id has a new owner, that thread's slot has no marks.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal()) };
    }
}

/// Sets the handler of that signal, in this process and those that it forks.
pub(super) fn install_handler() -> std::io::Result<()> {
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

/// Handles the signal, on the lane's thread. The thread executes nothing else until this returns, so a run that is to be
/// stopped does not end in between.
extern "C" fn on_alarm(_signal: c_int) {
    Slot::with_current(|slot| {
        let Some(slot) = slot else { return };
        let run = slot.run.load(Ordering::Relaxed);
        if run % 2 == 1 && slot.doomed.load(Ordering::Acquire) == run {
            slot.stop();
        }
        slot.hear_question();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_goes_on_is_stopped_less_and_less_often() {
        let (start, limit) = (Instant::now(), Duration::from_secs(1));
        let mut seen = WatchedSlot::new(Weak::new(), start);
        seen.see(1, start);
        assert!(!seen.is_overdue(limit, start + limit / 2) && seen.is_overdue(limit, start + limit));
        let mut now = start + limit;
        let pauses = [(); 9].map(|()| {
            assert!(seen.again <= now);
            seen.alarmed(now);
            let pause = seen.again - now;
            now = seen.again;
            seen.see(1, now);
            pause.as_millis()
        });
        assert_eq!(pauses, [20, 40, 80, 160, 320, 640, 1280, 2000, 2000]);
        // The next run has its whole time, and is stopped at once when it is over.
        seen.see(3, now);
        assert!(!seen.is_overdue(limit, now) && seen.is_overdue(limit, now + limit) && seen.again <= now + limit);
        seen.see(4, now);
        assert!(!seen.is_overdue(limit, now + 5 * limit), "none runs");
    }

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
