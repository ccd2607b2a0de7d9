//! Passes the orders of the server to the app of a host written in C.
#![allow(unsafe_code)]

use crate::fence::fence;
use crate::table::OribiInterruptFn;
use crate::types::OribiLane;
use oribi_host::{ExchangeId, Interruption, Order};
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

/// `oribi_order`
const ORDER_WARN: u32 = 1;
const ORDER_INTERRUPT: u32 = 2;

/// Passes orders to a context.
pub(crate) struct CInterruption {
    interrupt: OribiInterruptFn,
    context: *mut c_void,
}

// SAFETY: only `interrupt` uses the context, and the server calls it on the thread that uses the context.
unsafe impl Send for CInterruption {}
// SAFETY: as above.
unsafe impl Sync for CInterruption {}

impl CInterruption {
    pub(crate) const fn new(interrupt: OribiInterruptFn, context: *mut c_void) -> Self {
        Self { interrupt, context }
    }
}

impl Interruption for CInterruption {
    fn interrupt(&self, exchange: ExchangeId, order: Order, limit: Duration) {
        let order = match order {
            Order::Warn => ORDER_WARN,
            Order::Interrupt => ORDER_INTERRUPT,
        };
        // No `fence`, because this runs in a signal handler; a function in C does not panic.
        // SAFETY: the server calls this while the context answers the exchange, so the context lives; `CRuntime::new` was
        // promised that the table's functions take its contexts.
        unsafe { (self.interrupt)(self.context, exchange.0, order, limit.as_millis() as u64) };
    }
}

/// Calls `work`, in which the app continues to answer an exchange that it has kept.
///
/// # Safety
/// `lane` is valid, `interrupt` and `work` conform to the header, and take `context` and `argument`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oribi_resume(
    lane: *const OribiLane,
    exchange: u64,
    interrupt: OribiInterruptFn,
    context: *mut c_void,
    work: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
) {
    // SAFETY: the caller's promise; null becomes None.
    let outlet = unsafe { lane.as_ref() }.and_then(OribiLane::outlet);
    // SAFETY: the caller's promise.
    let mut work = || unsafe { work(argument) };
    match outlet {
        Some(outlet) => {
            let interruption = Arc::new(CInterruption::new(interrupt, context));
            fence((), || outlet.resume(ExchangeId(exchange), interruption, &mut work));
        }
        None => work(),
    }
}
