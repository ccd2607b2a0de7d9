//! Where scripts are, for those who ask: a question comes in a signal handler, where nothing of Lua may be looked at.
//!
//! The handler marks the slots of all threads that run a script, and has each of these threads arm a hook, as for an order to a script
//! that takes too long. The hook tells where its script is, and goes. A thread that waits in a system call is left alone, because the
//! signal would end some calls early. It is marked all the same, and answers if its script goes on before long.

use super::slot::{DESCRIBE, Describe, for_each_entered};
use super::watchdog::{alarm, install_handler};
use oribi_host::Tracing;
use oribi_server::backtrace;
use std::io;

/// How scripts are asked.
#[derive(Debug)]
pub(crate) struct ScriptTracing(());

impl ScriptTracing {
    /// `describe` says what a script that tells where it is answers.
    ///
    /// # Errors
    /// No signal handler could be set.
    pub(crate) fn new(describe: Describe) -> io::Result<Self> {
        let _ = DESCRIBE.set(describe);
        install_handler().map(Self)
    }
}

impl Tracing for ScriptTracing {
    fn trace(&self, question: u32) {
        // SAFETY: asks for a number.
        let own = unsafe { libc::gettid() };
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
