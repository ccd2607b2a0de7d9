//! The clock of the times in shared memory.

use oribi_io::clock::monotonic;

/// Returns the milliseconds of the monotonic clock, which all processes share and which is never set.
pub(crate) fn milliseconds() -> u64 {
    monotonic().as_millis() as u64
}
