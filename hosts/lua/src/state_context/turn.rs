//! The turns of coroutines: the values of the context that belong to one request, put in place while a coroutine of the
//! request runs.

use super::StateContext;
use crate::answer::{KeptHead, LuafcgidAnswer};
use crate::error_page::Fault;
use crate::exchange::Exchange;
use std::os::raw::c_void;
use std::ptr;

/// The values of a request while none of its coroutines runs.
#[derive(Debug)]
pub(crate) struct Turn {
    serial: u64,
    object: *const c_void,
    data: *const c_void,
    luafcgid_answer: LuafcgidAnswer,
    head: KeptHead,
}

impl Turn {
    /// The values for a task of the request, which reads the request and sends nothing.
    pub(crate) fn for_task(&self) -> Self {
        Self { luafcgid_answer: LuafcgidAnswer::default(), head: KeptHead::default(), ..*self }
    }
}

impl StateContext {
    /// The values of a new request.
    pub(crate) fn new_turn(&self) -> Turn {
        self.issued.set(self.issued.get() + 1);
        Turn {
            serial: self.issued.get(),
            object: ptr::null(),
            data: ptr::null(),
            luafcgid_answer: LuafcgidAnswer::default(),
            head: KeptHead::default(),
        }
    }

    /// Sets `exchange`, with the values of its request, as the current one while `work` runs.
    pub(crate) fn take_turn<R>(&self, turn: &mut Turn, exchange: Option<&Exchange<'_>>, work: impl FnOnce() -> R) -> R {
        struct Back<'a>(&'a StateContext, &'a mut Turn);
        impl Drop for Back<'_> {
            fn drop(&mut self) {
                let Self(context, turn) = self;
                context.swap(turn);
                context.exchange.set(ptr::null());
            }
        }
        self.swap(turn);
        self.exchange.set(exchange.map_or(ptr::null(), |exchange| ptr::from_ref(exchange).cast()));
        self.fault.set(Fault::Runtime);
        self.describing.set(false);
        let _back = Back(self, turn);
        work()
    }

    fn swap(&self, turn: &mut Turn) {
        turn.serial = self.serial.replace(turn.serial);
        turn.object = self.object.replace(turn.object);
        turn.data = self.data.replace(turn.data);
        // SAFETY: no Lua code runs, so nothing borrows these values.
        unsafe {
            ptr::swap(self.luafcgid_answer.get(), &raw mut turn.luafcgid_answer);
            ptr::swap(&raw mut (*self.answer.get()).head, &raw mut turn.head);
        }
    }
}
