//! The findings of the clients of a run.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The number of different failures that are kept: enough to see the cause.
const KEPT: usize = 20;

#[derive(Default)]
pub struct Findings(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    answered: BTreeMap<&'static str, usize>,
    failures: Vec<String>,
    /// Whether a worker is being killed, and the time at which the last killed worker was dead.
    killing: bool,
    killed: Option<Instant>,
    longest_wait: Duration,
}

impl Findings {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request that got the expected answer.
    pub fn note_answer(&self, kind: &'static str) {
        *self.inner().answered.entry(kind).or_default() += 1;
    }

    pub fn note_wait(&self, wait: Duration) {
        let mut inner = self.inner();
        inner.longest_wait = inner.longest_wait.max(wait);
    }

    pub fn note_failure(&self, kind: &str, failure: &str) {
        let mut inner = self.inner();
        if inner.failures.len() < KEPT {
            inner.failures.push(format!("{kind}: {failure}"));
        }
    }

    /// Calls `kill`, which kills a worker and waits until it is dead. The worker may still answer until then, so the kill
    /// counts from that moment.
    pub fn note_kill(&self, kill: impl FnOnce()) {
        self.inner().killing = true;
        kill();
        let mut inner = self.inner();
        inner.killed = Some(Instant::now());
        inner.killing = false;
    }

    /// Whether a connection whose worker was alive at `moment` may have been lost with a worker that was killed.
    pub fn killed_since(&self, moment: Instant) -> bool {
        let inner = self.inner();
        inner.killing || inner.killed.is_some_and(|killed| killed >= moment)
    }

    pub fn answered(&self) -> usize {
        self.inner().answered.values().sum()
    }

    pub fn failures(&self) -> Vec<String> {
        self.inner().failures.clone()
    }

    pub fn summary(&self) -> String {
        let inner = self.inner();
        let answered = inner.answered.iter().map(|(kind, count)| format!("{kind} {count}"));
        format!("answered: {}; longest wait {:?}", answered.collect::<Vec<_>>().join(", "), inner.longest_wait)
    }
}
