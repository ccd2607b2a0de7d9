//! The sleep of a worker, and its wake-up.

use super::{Taken, Worker};
use crate::orders::Orders;
use crate::shape::Layout;
use crate::sleep::Waits;
use crate::step::step;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

impl Worker {
    /// Announces that this worker is about to sleep, and checks once more for work: if it returns `None`, the worker may sleep.
    /// The edge makes the worker's [`descriptor`](Self::descriptor) readable when there is a request for the worker. With
    /// `for_room`, for a worker that has more to write in another exchange, the edge does so also when there is room. Call
    /// [`Worker::awake`] after the sleep.
    pub fn prepare_to_sleep(&mut self, for_room: bool) -> Option<Taken> {
        self.watch_edge();
        // A worker that can take nothing must not be woken for a request that another worker could take.
        let waits = match (self.usable_area(), for_room) {
            (Some(_), false) => Waits::Work,
            (Some(_), true) => Waits::WorkOrRoom,
            (None, _) => Waits::Room,
        };
        self.say_sleep(waits);
        let taken = self.take();
        if taken.is_some() {
            self.awake();
        }
        taken
    }

    /// Announces that this worker is about to sleep. The edge wakes the worker for each order for one of its exchanges. With
    /// `takes`, the edge also wakes it for a request, if the worker has an area for one. With `for_room`, or if the worker
    /// takes no request, the edge also wakes it when there is room. The caller must then check once more for all of these
    /// before it sleeps. It need not call [`Worker::awake`]; without that call the edge rings at most once in vain for this
    /// sleep.
    pub fn announce_sleep(&mut self, takes: bool, for_room: bool) {
        self.watch_edge();
        let waits = match (takes && self.usable_area().is_some(), for_room) {
            (true, false) => Waits::Work,
            (true, true) => Waits::WorkOrRoom,
            // The edge rings for orders in each sleep, but not for requests in this one.
            (false, _) => Waits::Room,
        };
        self.say_sleep(waits);
    }

    /// The number of requests that wait for any worker of the pool.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.queue().depth()
    }

    /// Whether a request waits for any worker of the pool.
    #[must_use]
    pub fn has_queued(&self) -> bool {
        self.queue().has_waiting()
    }

    /// Announces that this worker is about to sleep in the middle of an exchange, until the edge makes room or has an order.
    /// Returns `false` if the worker must not sleep, because there already is room for `bytes` more bytes, or an order.
    pub fn prepare_to_wait_for_room(&mut self, taken: &Taken, bytes: usize) -> bool {
        self.flush_before_waiting(taken);
        self.say_sleep(Waits::Room);
        let needed = Self::needed(taken, bytes).min(self.areas[taken.area as usize].size);
        let may_sleep = self.room(taken.area) < needed && self.orders(taken) == Orders::default();
        if !may_sleep {
            self.awake();
        }
        may_sleep
    }

    /// Announces that the worker is awake.
    pub fn awake(&mut self) {
        if self.sleep.waits != Waits::No {
            self.sleep = self.sleep.ended();
            self.sleep_word().store(self.sleep.bits(), SeqCst);
        }
    }

    fn say_sleep(&mut self, waits: Waits) {
        self.sleep = self.sleep.next(waits);
        step();
        self.sleep_word().store(self.sleep.bits(), SeqCst);
    }

    fn sleep_word(&self) -> &AtomicU64 {
        &self.answers.words()[Layout::WORKER_SLEEP]
    }

    /// The descriptor that becomes readable when this worker is woken. If it is watched edge-triggered, it need not be read.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.doorbell.as_fd()
    }

    /// The descriptor that becomes readable when a requested descriptor or a call of the edge has arrived.
    #[must_use]
    pub fn line(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }
}
