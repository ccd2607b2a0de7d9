//! Connections that scripts keep for later. They are not in the states of the scripts, so that another thread can close them
//! when their time is over.

use super::stream::Stream;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A kept connection; without a time, it is kept without limit.
type Entry = (Stream, Option<Instant>);

/// The connections of this process by their numbers, and the last number.
struct Kept {
    streams: Option<HashMap<u64, Entry>>,
    issued: u64,
}

static KEPT: Mutex<Kept> = Mutex::new(Kept { streams: None, issued: 0 });

fn kept() -> MutexGuard<'static, Kept> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take(number: u64) -> Option<Entry> {
    kept().streams.as_mut()?.remove(&number)
}

/// The number of a kept connection, which is closed when the value is dropped.
pub(super) struct KeptStream(u64);

impl KeptStream {
    /// Keeps a connection for some time, or without limit.
    pub(super) fn new(stream: Stream, time: Option<Duration>) -> Self {
        let until = time.and_then(|time| Instant::now().checked_add(time));
        let mut kept = kept();
        kept.issued += 1;
        let number = kept.issued;
        kept.streams.get_or_insert_default().insert(number, (stream, until));
        Self(number)
    }

    /// Takes the connection back. `None`: its time is over.
    pub(super) fn take_back(self) -> Option<Stream> {
        let (stream, until) = take(self.0)?;
        until.is_none_or(|until| Instant::now() < until).then_some(stream)
    }
}

impl Drop for KeptStream {
    fn drop(&mut self) {
        if let Some((mut stream, _)) = take(self.0) {
            stream.end();
        }
    }
}

/// Closes the connections whose time is over, and those that their peers have closed.
pub(crate) fn close_expired() {
    let now = Instant::now();
    let mut kept = kept();
    let Some(streams) = &mut kept.streams else { return };
    streams.retain(|_, (stream, until)| {
        let stays = until.is_none_or(|until| now < until) && stream.is_quiet();
        if !stays {
            stream.end();
        }
        stays
    });
}
