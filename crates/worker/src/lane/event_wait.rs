//! Waits for events of a lane, in a thread that must not use the lane now.

use crate::event_sources::Interrupter;
use crate::threads::WaitForEvents;
use oribi_host::Wait;
use oribi_io::Waiter;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The shortest interval between log lines of a thread that cannot wait, until its worker is replaced.
const PAUSE: Duration = Duration::from_millis(50);

/// A wait for events of a lane, in a thread that must not use the lane now.
pub(super) struct EventWait<'l, W> {
    pub(super) waiter: &'l Mutex<W>,
    /// The counter of idle lanes; `None` if the lane accepts no clients.
    pub(super) idle: Option<&'l AtomicU32>,
    pub(super) interrupter: &'l Interrupter,
    pub(super) timeout: Option<Duration>,
    pub(super) interrupted: AtomicBool,
}

impl<W: Waiter> Wait for EventWait<'_, W> {
    fn wait(&self) {
        let mut waiter = self.waiter.lock().unwrap_or_else(PoisonError::into_inner);
        self.idle.inspect(|idle| _ = idle.fetch_add(1, Ordering::Relaxed));
        let outcome = waiter.wait(self.timeout);
        self.idle.inspect(|idle| _ = idle.fetch_sub(1, Ordering::Relaxed));
        if let Err(error) = outcome {
            // This cannot return the error, and the next wait will fail in the same way. The thread pauses here because it does
            // not hold the language's lock now.
            log::error!("cannot wait for events: {error}");
            std::thread::sleep(PAUSE);
        }
    }

    fn interrupt(&self) {
        self.interrupted.store(true, Ordering::SeqCst);
        self.interrupter.interrupt();
    }
}

impl<W: Waiter> WaitForEvents for EventWait<'_, W> {
    fn was_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_sources::EventSources;
    use std::os::fd::AsFd;

    /// Records the number of idle lanes during the wait.
    struct IdleDuringWait<'i>(&'i AtomicU32, u32);

    impl Waiter for IdleDuringWait<'_> {
        fn wait(&mut self, _: Option<Duration>) -> std::io::Result<()> {
            self.1 = self.0.load(Ordering::Relaxed);
            Ok(())
        }
    }

    #[test]
    fn only_a_lane_that_takes_clients_counts_as_idle_while_it_waits() {
        let (command, _writer) = std::io::pipe().expect("a pipe");
        let interrupter = EventSources::new(command.as_fd()).expect("epoll").interrupter();
        for takes in [true, false] {
            let idle = AtomicU32::new(5);
            let waiter = Mutex::new(IdleDuringWait(&idle, 0));
            let event_wait = EventWait {
                waiter: &waiter,
                idle: takes.then_some(&idle),
                interrupter: &interrupter,
                timeout: None,
                interrupted: AtomicBool::new(false),
            };
            event_wait.wait();
            assert_eq!(waiter.lock().map(|seen| seen.1).ok(), Some(if takes { 6 } else { 5 }));
            assert_eq!(idle.load(Ordering::Relaxed), 5);
        }
    }
}
