//! Passes orders to the apps of a lane that exceed their deadlines.

use super::Lane;
use oribi_host::{After, ExchangeId, Host, Interruption, Order, Reply, Request};
use oribi_io::process::orders::{self, Mailbox, Receiver};
use oribi_source::{LentRequest, Source};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

/// The exchanges of a lane whose apps run under a deadline: at most one for each thread that shares the lane.
#[derive(Debug)]
pub(super) struct Deadlines {
    warning: Duration,
    timeout: Duration,
    kept: RefCell<Vec<Rc<Kept>>>,
}

/// An exchange whose app runs. The signal handler also reads and writes it, on the same thread.
struct Kept {
    exchange: ExchangeId,
    interruption: Arc<dyn Interruption>,
    warning: Duration,
    /// The timeout in milliseconds.
    timeout: AtomicU64,
    interrupted: AtomicBool,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").field("exchange", &self.exchange).finish_non_exhaustive()
    }
}

impl Receiver for Kept {
    fn receive(&self, orders: u64) {
        // An app that is interrupted logs its position anyway.
        if orders & orders::INTERRUPT != 0 {
            self.interrupted.store(true, Relaxed);
            let limit = Duration::from_millis(self.timeout.load(Relaxed));
            self.interruption.interrupt(self.exchange, Order::Interrupt, limit);
        } else {
            self.interruption.interrupt(self.exchange, Order::Warn, self.warning);
        }
    }
}

fn in_milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Deadlines {
    pub(super) const fn new(warning: Duration, timeout: Duration) -> Self {
        Self { warning, timeout, kept: RefCell::new(Vec::new()) }
    }

    /// Runs `work`, in which the app answers `exchange`. `interruption` passes orders from `mailbox` to the app.
    pub(super) fn keep<T>(
        &self,
        exchange: ExchangeId,
        mailbox: Mailbox,
        interruption: Arc<dyn Interruption>,
        work: impl FnOnce() -> T,
    ) -> T {
        let (timeout, interrupted) = (AtomicU64::new(in_milliseconds(self.timeout)), AtomicBool::new(false));
        let kept = Rc::new(Kept { exchange, interruption, warning: self.warning, timeout, interrupted });
        self.kept.borrow_mut().push(Rc::clone(&kept));
        let result = orders::obey(mailbox, &*kept, work);
        self.kept.borrow_mut().retain(|other| !Rc::ptr_eq(other, &kept));
        result
    }

    /// Records the deadline that the app of `exchange` has set, for messages about it.
    pub(super) fn extend(&self, exchange: ExchangeId, time: Option<Duration>) {
        let Some(time) = time else { return };
        for kept in self.kept.borrow().iter().filter(|kept| kept.exchange == exchange) {
            kept.timeout.store(in_milliseconds(time), Relaxed);
        }
    }

    /// Whether the app of `exchange` was interrupted.
    pub(super) fn has_interrupted(&self, exchange: ExchangeId) -> bool {
        self.kept.borrow().iter().any(|kept| kept.exchange == exchange && kept.interrupted.load(Relaxed))
    }
}

impl<S: Source> Lane<'_, S> {
    /// Makes `host` answer, and passes on the orders of the process that keeps the deadlines.
    pub(super) fn answer_in_time(
        &self,
        deadlines: &Deadlines,
        exchange: &S::Exchange,
        request: &Request<'_>,
        host: &mut dyn Host,
    ) -> After {
        let id = exchange.id();
        let kept_here = self.running.as_ref().and_then(|running| running.mailbox(id));
        let mailbox = kept_here.or_else(|| self.source.borrow().mailbox(id));
        let (Some(mailbox), Some(interruption)) = (mailbox, host.interruption()) else {
            return host.answer(request, Reply::new(self, id));
        };
        let later = self.source.borrow().mailbox_after_answer(exchange);
        deadlines.keep(id, mailbox, Arc::clone(&interruption), || match later {
            Some(later) => deadlines.keep(id, later, interruption, || host.answer(request, Reply::new(self, id))),
            None => host.answer(request, Reply::new(self, id)),
        })
    }

    /// Runs `work`, in which the app continues to answer an exchange that it has kept, and passes on the orders of the edge.
    /// Without an edge there are none, because nobody watches the app after its first call.
    pub(super) fn resume_in_time(&self, exchange: ExchangeId, interruption: Arc<dyn Interruption>, work: &mut dyn FnMut()) {
        let Some(deadlines) = &self.deadlines else { return work() };
        let mailbox = self.source.borrow().mailbox(exchange);
        match mailbox {
            Some(mailbox) => deadlines.keep(exchange, mailbox, interruption, work),
            None => work(),
        }
    }
}
