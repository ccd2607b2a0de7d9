//! Values of a script, looked at while nothing of Lua can run.
//!
//! Where the strings of a script stand belongs to Lua. Whatever runs in between may free them: the script clears a table, a collection
//! follows, and the memory has a new owner. Something of a script runs whenever it is called, but also whenever Lua allocates, for
//! that may start a finalizer, and when a function returns, for that may call a hook. So there are two views of a stack. With
//! [`Stack`] anything may be done; [`Stack::quiet`] borrows it, and what it lends lasts no longer than that borrow. The compiler
//! refuses to keep such bytes beyond a call of Lua.

use super::stack::{Message, raise_message, type_name};
use mlua::ffi::{self, lua_State};
use std::marker::PhantomData;
use std::os::raw::c_int;

/// The stack of a running function.
pub(crate) struct Stack(*mut lua_State);

impl Stack {
    /// The stack of the running function.
    ///
    /// # Safety
    /// `l` is below a fence and outlives what is returned; nobody uses `l` itself while something that [`Stack::quiet`] has lent is used.
    #[inline]
    pub(crate) const unsafe fn of(l: *mut lua_State) -> Self {
        Self(l)
    }

    /// The stack while nothing runs.
    #[inline]
    pub(crate) const fn quiet(&mut self) -> Quiet<'_> {
        Quiet { l: self.0, _stack: PhantomData }
    }

    /// Calls the function at `index` without arguments and leaves its result on top.
    ///
    /// # Safety
    /// No frame up to the fence holds anything to be dropped.
    #[inline]
    pub(crate) unsafe fn call(&mut self, index: c_int) {
        // SAFETY: as promised by the caller.
        unsafe {
            ffi::lua_pushvalue(self.0, index);
            ffi::lua_call(self.0, 0, 1);
        }
    }

    /// Raises an error.
    ///
    /// # Safety
    /// As for [`Stack::call`].
    pub(crate) unsafe fn raise(&mut self, message: &Message) -> ! {
        // SAFETY: as promised by the caller.
        unsafe { raise_message(self.0, message) }
    }
}

/// A stack while nothing runs: nothing here calls a function, allocates or raises an error. A running function has room for twenty
/// values by itself (LUA_MINSTACK); those who push must not need more.
pub(crate) struct Quiet<'q> {
    l: *mut lua_State,
    _stack: PhantomData<&'q mut Stack>,
}

impl<'q> Quiet<'q> {
    /// The type of the value at `index`.
    #[inline]
    pub(crate) fn kind(&self, index: c_int) -> c_int {
        // SAFETY: looks at a value.
        unsafe { ffi::lua_type(self.l, index) }
    }

    /// What a value of its type is called.
    pub(crate) fn kind_name(&self, index: c_int) -> &'static str {
        // SAFETY: looks at a value.
        unsafe { type_name(self.l, index) }
    }

    /// The string at `index`; `None`: something else is there.
    #[inline]
    pub(crate) fn string(&self, index: c_int) -> Option<&'q [u8]> {
        if self.kind(index) != ffi::LUA_TSTRING {
            return None;
        }
        let mut length = 0;
        // SAFETY: only what is no string is converted. The string is kept by the stack or by a table in it, and stays where it is for
        // as long as nothing runs, which 'q is.
        unsafe {
            let start = ffi::lua_tolstring(self.l, index, &raw mut length);
            Some(std::slice::from_raw_parts(start.cast(), length))
        }
    }

    /// The number at `index`, which is one.
    #[inline]
    pub(crate) fn number(&self, index: c_int) -> f64 {
        // SAFETY: looks at a value.
        unsafe { ffi::lua_tonumber(self.l, index) }
    }

    /// The integer at `index`, if that is a number which Lua keeps apart from others as such.
    #[cfg(not(feature = "luajit"))]
    pub(crate) fn integer(&self, index: c_int) -> Option<i64> {
        // SAFETY: looks at a value.
        unsafe { (ffi::lua_isinteger(self.l, index) != 0).then(|| ffi::lua_tointeger(self.l, index)) }
    }

    /// How many values there are.
    #[inline]
    pub(crate) fn height(&self) -> c_int {
        // SAFETY: looks at the stack.
        unsafe { ffi::lua_gettop(self.l) }
    }

    /// Takes values off until there are so many. What was lent of them is good still: nothing is freed while nothing runs.
    #[inline]
    pub(crate) fn cut(&self, height: c_int) {
        // SAFETY: there are no variables to be closed among them.
        unsafe { ffi::lua_settop(self.l, height) };
    }

    /// Pushes the element of the table at `index` without asking its metatable.
    #[inline]
    pub(crate) fn push_element(&self, index: c_int, place: usize) {
        // SAFETY: looks into a table.
        unsafe { ffi::lua_rawgeti(self.l, index, place as ffi::lua_Integer) };
    }

    /// Calls `each` for every pair of the table at `index`: the key is next to the top then, the value on top. `each` leaves the stack as it is.
    ///
    /// # Errors
    /// The first one of `each`.
    #[inline]
    pub(crate) fn pairs<E>(&self, index: c_int, mut each: impl FnMut() -> Result<(), E>) -> Result<(), E> {
        // SAFETY: nothing runs, so the table does not change, and its keys are all known to it.
        unsafe {
            ffi::lua_pushnil(self.l);
            while ffi::lua_next(self.l, index) != 0 {
                each()?;
                ffi::lua_settop(self.l, -2);
            }
        }
        Ok(())
    }
}
