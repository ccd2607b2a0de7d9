//! Access to a script's values while no Lua code can run.
//!
//! Lua owns the memory of a script's strings, and any Lua code may free them: it clears a table, a garbage collection follows,
//! and the memory is reused. Lua code runs when it is called, but also when Lua allocates memory (which may start a finalizer)
//! and when a function returns (which may call a hook). So there are two views of a stack. [`Stack`] allows everything.
//! [`Stack::quiet`] allows nothing that can run Lua code. It borrows the [`Stack`], and its results live no longer than that
//! borrow, so the compiler refuses code that keeps borrowed bytes during a call into Lua.

use super::stack::{Message, raise_message, type_name};
use mlua::ffi::{self, lua_State};
use std::marker::PhantomData;
use std::os::raw::c_int;

/// The stack of a running function.
pub(crate) struct Stack(*mut lua_State);

impl Stack {
    /// Returns the stack of the running function.
    ///
    /// # Safety
    /// `l` is below a fence and outlives the result. While a value that [`Stack::quiet`] has lent is in use, `l` itself is not.
    #[inline]
    pub(crate) const unsafe fn of(l: *mut lua_State) -> Self {
        Self(l)
    }

    /// The view of the stack in which no Lua code runs.
    #[inline]
    pub(crate) const fn quiet(&mut self) -> Quiet<'_> {
        Quiet { l: self.0, _stack: PhantomData }
    }

    /// Calls the function at `index` without arguments and leaves `results` values on top.
    ///
    /// # Safety
    /// No frame up to the fence holds anything to be dropped.
    #[inline]
    pub(crate) unsafe fn call(&mut self, index: c_int, results: c_int) {
        // SAFETY: as promised by the caller.
        unsafe {
            ffi::lua_pushvalue(self.0, index);
            ffi::lua_call(self.0, 0, results);
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

/// A view of a stack in which no Lua code runs: nothing here calls a function, allocates or raises an error. A running function
/// has room for twenty values (LUA_MINSTACK); callers must not push more.
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

    /// The name of the type of a value.
    pub(crate) fn kind_name(&self, index: c_int) -> &'static str {
        // SAFETY: looks at a value.
        unsafe { type_name(self.l, index) }
    }

    /// The string at `index`; `None` for another type.
    #[inline]
    pub(crate) fn string(&self, index: c_int) -> Option<&'q [u8]> {
        if self.kind(index) != ffi::LUA_TSTRING {
            return None;
        }
        let mut length = 0;
        // SAFETY: the value is a string, so `lua_tolstring` does not convert it. The stack, or a table on it, keeps the string
        // alive. The string stays in place while no Lua code runs, that is during 'q.
        unsafe {
            let start = ffi::lua_tolstring(self.l, index, &raw mut length);
            Some(std::slice::from_raw_parts(start.cast(), length))
        }
    }

    /// The number at `index`, which must be one.
    #[inline]
    pub(crate) fn number(&self, index: c_int) -> f64 {
        // SAFETY: looks at a value.
        unsafe { ffi::lua_tonumber(self.l, index) }
    }

    /// The integer at `index`, if Lua stores the number as an integer.
    #[cfg(not(feature = "luajit"))]
    pub(crate) fn integer(&self, index: c_int) -> Option<i64> {
        // SAFETY: looks at a value.
        unsafe { (ffi::lua_isinteger(self.l, index) != 0).then(|| ffi::lua_tointeger(self.l, index)) }
    }

    /// The number of values on the stack.
    #[inline]
    pub(crate) fn height(&self) -> c_int {
        // SAFETY: looks at the stack.
        unsafe { ffi::lua_gettop(self.l) }
    }

    /// Removes values down to `height`. Borrowed bytes of them stay valid: nothing is freed while no Lua code runs.
    #[inline]
    pub(crate) fn cut(&self, height: c_int) {
        // SAFETY: none of them is a variable to be closed.
        unsafe { ffi::lua_settop(self.l, height) };
    }

    /// Pushes an element of the table at `index`, without its metatable.
    #[inline]
    pub(crate) fn push_element(&self, index: c_int, place: usize) {
        // SAFETY: looks into a table.
        unsafe { ffi::lua_rawgeti(self.l, index, place as ffi::lua_Integer) };
    }

    /// Calls `each` for every pair of the table at `index`, with the key next to the top of the stack and the value on top.
    /// `each` must not change the stack.
    ///
    /// # Errors
    /// The first error of `each`.
    #[inline]
    pub(crate) fn pairs<E>(&self, index: c_int, mut each: impl FnMut() -> Result<(), E>) -> Result<(), E> {
        // SAFETY: no Lua code runs, so the table does not change, and its keys are valid.
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
