//! A script's own hook, kept while a hook of this host replaces it.
//!
//! A signal handler replaces the hook at any moment, even while a module written in C is changing it. So the kept hook, mask
//! and count need not belong together. Restoring compares each value with the value that was set here: if they differ, the
//! script has changed the value meanwhile, and its value stays.

use mlua::ffi::{self, lua_Hook, lua_State};
use std::os::raw::c_int;
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI32, AtomicPtr};

/// The hook of a coroutine, or of a whole state if its coroutines share one hook. Only one thread and the signal handlers on
/// this thread use it.
#[derive(Debug, Default)]
pub(super) struct KeptHook {
    /// The coroutine whose hook has been replaced; null if none has been.
    owner: AtomicPtr<lua_State>,
    hook: AtomicPtr<()>,
    mask: AtomicI32,
    count: AtomicI32,
}

/// The mask and the count by which Lua calls this host's hook before every instruction. The events of the script's own hook are
/// added to the mask.
const MASK: c_int = ffi::LUA_MASKCOUNT;
const COUNT: c_int = 1;

impl KeptHook {
    /// Makes Lua call `own` before every instruction of `l`.
    ///
    /// # Safety
    /// `l` is a live state of the calling thread. So is the coroutine whose hook this value has replaced before and not
    /// restored.
    pub(super) unsafe fn replace(&self, l: *mut lua_State, own: lua_Hook) {
        // SAFETY: as promised by the caller.
        unsafe {
            let owner = self.owner.load(Relaxed);
            if !owner.is_null() && owner != l {
                self.put_back(own);
            }
            let hook = ffi::lua_gethook(l);
            let is_own = hook.is_some_and(|hook| ptr::fn_addr_eq(hook, own));
            if !is_own {
                self.hook.store(hook.map_or(ptr::null_mut(), |hook| hook as *mut ()), Relaxed);
            }
            let (mask, count) = (ffi::lua_gethookmask(l), ffi::lua_gethookcount(l));
            if !is_own || !self.is_ours(mask, count) {
                self.mask.store(mask, Relaxed);
                self.count.store(count, Relaxed);
            }
            self.owner.store(l, Relaxed);
            if is_own {
                // LuaJIT may have been changing its tables of instructions when the hook was set, and then it has not put the
                // hook into them. Setting the hook anew does that.
                ffi::lua_sethook(l, None, 0, 0);
            }
            ffi::lua_sethook(l, Some(own), self.mask.load(Relaxed) | MASK, COUNT);
        }
    }

    /// Restores the script's hook, if `own` has replaced one.
    ///
    /// # Safety
    /// As for [`KeptHook::replace`].
    pub(super) unsafe fn put_back(&self, own: lua_Hook) {
        let owner = self.owner.swap(ptr::null_mut(), Relaxed);
        if !owner.is_null() {
            // SAFETY: as promised by the caller.
            unsafe { self.put_back_in(owner, own) };
        }
    }

    /// Restores the script's hook in `l`, if `l` has the hook `own`. Needed for a coroutine that the owner has made since the
    /// replacement, because it has inherited `own`.
    ///
    /// # Safety
    /// As for [`KeptHook::replace`].
    pub(super) unsafe fn put_back_in(&self, l: *mut lua_State, own: lua_Hook) {
        // SAFETY: as promised by the caller.
        unsafe {
            if !ffi::lua_gethook(l).is_some_and(|hook| ptr::fn_addr_eq(hook, own)) {
                // The script has set another hook.
                return;
            }
            let (mut mask, mut count) = (ffi::lua_gethookmask(l), ffi::lua_gethookcount(l));
            if self.is_ours(mask, count) {
                (mask, count) = (self.mask.load(Relaxed), self.count.load(Relaxed));
            }
            ffi::lua_sethook(l, self.hook(), mask, count);
        }
    }

    /// Whether the hook of this coroutine has been replaced.
    pub(super) fn belongs_to(&self, l: *mut lua_State) -> bool {
        self.owner.load(Relaxed) == l
    }

    /// Whether the script had no hook.
    pub(super) fn is_empty(&self) -> bool {
        self.hook().is_none()
    }

    /// Returns the script's hook if the script wants it to be called for this event.
    pub(super) fn hook_for(&self, event: c_int) -> Option<lua_Hook> {
        // A count event is caused by the host's hook, unless the script's own hook also counts every instruction.
        let wanted = event != ffi::LUA_HOOKCOUNT || self.mask.load(Relaxed) & MASK != 0 && self.count.load(Relaxed) == COUNT;
        self.hook().filter(|_| wanted)
    }

    /// Forgets a hook that has been restored.
    pub(super) fn forget(&self) {
        self.hook.store(ptr::null_mut(), Relaxed);
        self.mask.store(0, Relaxed);
        self.count.store(0, Relaxed);
    }

    fn is_ours(&self, mask: c_int, count: c_int) -> bool {
        (mask, count) == (self.mask.load(Relaxed) | MASK, COUNT)
    }

    fn hook(&self) -> Option<lua_Hook> {
        let hook = self.hook.load(Relaxed);
        // SAFETY: null, which is None, or a hook that Lua had.
        unsafe { std::mem::transmute::<*mut (), Option<lua_Hook>>(hook) }
    }
}
