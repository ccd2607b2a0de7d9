//! A hook of a script's own, kept while one of this host's stands in its place.
//!
//! A signal handler replaces the hook at any moment, also while a module written in C is changing it. So nothing here relies on hook,
//! mask and count fitting together. What is found when the hook is put back, and is not what was set, has been set meanwhile.

use mlua::ffi::{self, lua_Hook, lua_State};
use std::os::raw::c_int;
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI32, AtomicPtr};

/// The hook that a coroutine had, or a whole state where coroutines have no hooks of their own. Only one thread uses it, and signal
/// handlers on this thread.
#[derive(Debug, Default)]
pub(super) struct KeptHook {
    /// The coroutine whose hook has been replaced; null: there is none.
    owner: AtomicPtr<lua_State>,
    hook: AtomicPtr<()>,
    mask: AtomicI32,
    count: AtomicI32,
}

/// A hook that is called before every instruction: the mask and the count for it, beside events that a script's own hook is for.
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
                // It may have been set while LuaJIT was changing its tables of instructions, which have been left without it then.
                ffi::lua_sethook(l, None, 0, 0);
            }
            ffi::lua_sethook(l, Some(own), self.mask.load(Relaxed) | MASK, COUNT);
        }
    }

    /// Puts the hook back that was replaced by `own`, if one was.
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

    /// The same for a coroutine that was made by the owner meanwhile, and so has `own`, too.
    ///
    /// # Safety
    /// As for [`KeptHook::replace`].
    pub(super) unsafe fn put_back_in(&self, l: *mut lua_State, own: lua_Hook) {
        // SAFETY: as promised by the caller.
        unsafe {
            if !ffi::lua_gethook(l).is_some_and(|hook| ptr::fn_addr_eq(hook, own)) {
                // The script has set another one.
                return;
            }
            let (mut mask, mut count) = (ffi::lua_gethookmask(l), ffi::lua_gethookcount(l));
            if self.is_ours(mask, count) {
                (mask, count) = (self.mask.load(Relaxed), self.count.load(Relaxed));
            }
            ffi::lua_sethook(l, self.hook(), mask, count);
        }
    }

    /// Whether it is the hook of this coroutine that has been replaced.
    pub(super) fn belongs_to(&self, l: *mut lua_State) -> bool {
        self.owner.load(Relaxed) == l
    }

    /// Whether there was no hook.
    pub(super) fn is_empty(&self) -> bool {
        self.hook().is_none()
    }

    /// The script's hook, if it wants to be called for this event, too.
    pub(super) fn hook_for(&self, event: c_int) -> Option<lua_Hook> {
        // An event of counting is ours, unless the script counts every instruction.
        let wanted = event != ffi::LUA_HOOKCOUNT || self.mask.load(Relaxed) & MASK != 0 && self.count.load(Relaxed) == COUNT;
        self.hook().filter(|_| wanted)
    }

    /// Forgets a hook that has been put back.
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
