//! Backtraces of apps: the frames that a worker reports on request, and the state of its threads according to the kernel.
//!
//! Each worker has an area in the memory that it shares with the first process. A question to the worker is a signal with a
//! number (`oribi_io::process::asking`). A worker that gets no question has no cost. The language runtime waits for a safe
//! moment, and then writes here the frames of each thread that runs an app. An answer carries the number of its question and
//! a checksum, so that incomplete, late or torn answers are ignored.

mod look;
mod record;

pub use look::{SystemThread, is_running, state_of, threads_of};
pub(crate) use record::Area;
pub use record::{AskPolicy, BacktraceAnswer, LINES, ThreadBacktrace};

pub use oribi_io::process::asking::waits;

use oribi_host::Tracing;
use oribi_io::process::asking;
use std::io;
use std::sync::{Arc, OnceLock};

/// The area of this process.
static AREA: OnceLock<Area> = OnceLock::new();

/// Makes a new worker answer questions. `alone`: whether the app runs on the first thread of the process, and on no other.
///
/// # Errors
/// The operating system refused a call.
pub fn answer_questions(area: Area, tracing: Option<Arc<dyn Tracing>>, alone: bool) -> io::Result<()> {
    let Some(tracing) = tracing else {
        area.announce(AskPolicy::Mute);
        return Ok(());
    };
    let _ = AREA.set(area);
    let policy = if alone && tracing.disturbs() { AskPolicy::WhileRunning } else { AskPolicy::Anytime };
    asking::hear(Box::new(move |question| tracing.trace(question)))?;
    area.announce(policy);
    Ok(())
}

/// Announces how many threads of the worker will answer `question`, or have answered it. May be called in signal handlers.
pub fn expect(question: u32, threads: u32) {
    if let Some(area) = AREA.get() {
        area.expect(question, threads);
    }
}

/// Answers `question` for a thread; `thread` is `None` for the calling thread. `about` describes the request. `frames` are
/// the frames of its app, the innermost first, and `more` is the number of frames that were omitted. `frames` is `None` if
/// the thread no longer runs an app.
pub fn answer(question: u32, thread: Option<u32>, about: &[u8], frames: Option<&[&[u8]]>, more: usize) {
    if let Some(area) = AREA.get() {
        area.answer(question, thread.unwrap_or_else(own_thread), about, frames, more);
    }
}

/// Answers a question for the calling thread, which no longer runs an app. May be called in signal handlers.
pub fn answer_without_app(question: u32) {
    if let Some(area) = AREA.get() {
        area.answer_without_app(question, own_thread());
    }
}

fn own_thread() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}
