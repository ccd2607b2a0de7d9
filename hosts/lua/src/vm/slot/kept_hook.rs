//! A script's own hook, kept while it is replaced by one of this host.
//!
//! A signal handler replaces the hook at any moment, also while a module written in C is changing it. So hook, mask and count
//! need not match. A value that differs, when the hook is restored, from the value that was set here has been set by the
//! script meanwhile.

use mlua::ffi::{self, lua_Hook, lua_State};
use std::os::raw::c_int;
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI32, AtomicPtr};

/// The hook of a coroutine, or of a whole state if coroutines have no hooks of their own. Only one thread uses it, and signal
/// handlers on this thread.
#[derive(Debug, Default)]
pub(super) struct KeptHook {
    /// The coroutine whose hook has been replaced; null: there is none.
    owner: AtomicPtr<lua_State>,
    hook: AtomicPtr<()>,
    mask: AtomicI32,
    count: AtomicI32,
}

/// The mask and the count of a hook that is called before every instruction, in addition to the events of a script's own
/// hook.
const MASK: c_int = ffi::LUA_MASKCOUNT;
const COUNT: c_int = 1;

impl KeptHook {
    /// Makes Lua call `own` before every instruction of `l`.
    ///
    /// # Safety
    /// `l` is a live state of the calling thread, and so is the one whose hook has been replaced and not been put back.
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
                // LuaJIT may have been changing its tables of instructions when the hook was set, and has left them without
                // it then.
                ffi::lua_sethook(l, None, 0, 0);
            }
            ffi::lua_sethook(l, Some(own), self.mask.load(Relaxed) | MASK, COUNT);
        }
    }

    /// Restores the hook that was replaced by `own`, if there is one.
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

    /// Restores it in a coroutine that the owner has made meanwhile, and that has therefore inherited `own`.
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

    /// Whether the replaced hook is that of this coroutine.
    pub(super) fn belongs_to(&self, l: *mut lua_State) -> bool {
        self.owner.load(Relaxed) == l
    }

    /// Whether the script had no hook.
    pub(super) fn is_empty(&self) -> bool {
        self.hook().is_none()
    }

    /// The script's hook, if it is also for this event.
    pub(super) fn hook_for(&self, event: c_int) -> Option<lua_Hook> {
        // A counting event is the host's, unless the script counts every instruction.
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
