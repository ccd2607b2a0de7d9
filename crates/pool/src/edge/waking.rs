//! Sleeping and waking.

use super::Edge;
use crate::shape::Layout;
use crate::sleep::{Sleep, Waits};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

impl Edge {
    /// Wakes as many sleeping workers as requests have been put into the queue since the last call, and the workers for which
    /// room was made. Call it once for each batch.
    pub fn wake_workers(&mut self) {
        for place in &mut self.places {
            if self.unannounced == 0 && !place.read {
                continue;
            }
            let read = std::mem::take(&mut place.read);
            let sleep = Sleep::from_bits(place.answers.words()[Layout::WORKER_SLEEP].load(SeqCst));
            if place.broken || place.dying || !sleep.is_to_be_woken(place.rung) {
                continue;
            }
            let for_work = sleep.waits.for_work() && self.unannounced > 0;
            if for_work || (read && sleep.waits.for_room()) {
                place.rung = sleep;
                place.bell.ring();
                self.unannounced -= usize::from(for_work);
            }
        }
        // A worker that is awake looks at the queue before it sleeps.
        self.unannounced = 0;
    }

    /// Call it now and then while a request waits: the worker that was woken for it may have died or may have been stopped
    /// before it took it, while others sleep.
    pub fn wake_another(&mut self) {
        if self.oldest().is_some() {
            self.unannounced = self.unannounced.max(1);
            self.wake_workers();
        }
    }

    /// Announces that the edge is about to sleep, and looks for news once more: `true` if it may sleep. Workers that have news
    /// then make its [`descriptor`](Self::descriptor) readable. Call [`Edge::awake`] afterwards.
    pub fn prepare_to_sleep(&mut self) -> bool {
        self.wake_workers();
        self.sleep = self.sleep.next(Waits::Work);
        self.requests.words()[Layout::EDGE_SLEEP].store(self.sleep.bits(), SeqCst);
        let has_news = |place: &super::Place| !place.broken && place.answers.words()[Layout::NEWS].load(SeqCst) != 0;
        let may_sleep = self.lively.is_empty() && self.found.is_empty() && !self.places.iter().any(has_news);
        if !may_sleep {
            self.awake();
        }
        may_sleep
    }

    /// Announces that the edge is awake.
    pub fn awake(&mut self) {
        if self.sleep.waits != Waits::No {
            self.sleep = self.sleep.ended();
            self.requests.words()[Layout::EDGE_SLEEP].store(self.sleep.bits(), Relaxed);
        }
    }
}
