//! Backtraces of scripts. A request for backtraces arrives in a signal handler, where Lua must not be accessed.
//!
//! The handler marks the slots of all threads that run a script, and makes each of these threads arm a hook, as for an order to
//! a script that takes too long. The hook reports the backtrace and is removed. A thread that waits in a system call gets no
//! signal, because a signal would end some system calls early. The slot of such a thread is marked nevertheless, and the thread
//! reports if its script continues in time.

use super::slot::{DESCRIBE, Describe, for_each_entered};
use super::watchdog::{alarm, install_handler};
use oribi_host::Tracing;
use oribi_server::backtrace;
use rustix::thread::gettid;
use std::io;

/// Requests backtraces from scripts.
#[derive(Debug)]
pub(crate) struct ScriptTracing(());

impl ScriptTracing {
    /// Sets the function that describes the request which a script answers, and the signal handler.
    ///
    /// # Errors
    /// The signal handler could not be set.
    pub(crate) fn new(describe: Describe) -> io::Result<Self> {
        let _ = DESCRIBE.set(describe);
        install_handler().map(Self)
    }
}

impl Tracing for ScriptTracing {
    fn trace(&self, question: u32) {
        let own = gettid().as_raw_pid();
        let mut threads = 0;
        for_each_entered(|slot| {
            if slot.is_idle() {
                return;
            }
            threads += 1;
            slot.put(question);
            match slot.thread() {
                thread if thread == own => slot.hear_question(),
                thread if backtrace::waits(thread) => {}
                thread => alarm(thread),
            }
        });
        backtrace::expect(question, threads);
    }
}
