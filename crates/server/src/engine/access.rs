//! The access log's line of an exchange, written when its response is finished.

use super::answer::{Draft, LateLine, Outcome};
use super::exchange::Received;
use super::{Engine, Exchange};
use crate::log::{AccessEntry, AccessLog, reopen_error_log};
use oribi_io::Backend;
use oribi_message::RequestHead;
use std::fs::File;
use std::time::SystemTime;

/// The status in the log for a client that left before its answer: the code that nginx introduced.
const CLIENT_GONE: u16 = 499;

impl<B: Backend> Engine<'_, B> {
    /// Opens the log files again by their names, after log rotation has moved the old ones away.
    pub fn reopen_logs(&mut self) {
        let access = self.access_log.as_mut().map_or(Ok(()), AccessLog::reopen);
        for (name, outcome) in [("error", reopen_error_log(self.settings)), ("access", access)] {
            if let Err(error) = outcome {
                log::error!("cannot open the {name} log again: {error}");
            }
        }
    }

    /// Goes on with this access log, which somebody else has opened again.
    pub(crate) fn use_access_log(&mut self, file: File) {
        if let Some(log) = &mut self.access_log {
            log.replace(file);
        }
    }

    /// From now on only somebody else opens the access log: see [`Engine::use_access_log`].
    pub(crate) fn expect_access_log(&mut self) {
        if let Some(log) = &mut self.access_log {
            log.expect_file();
        }
    }

    /// Called when a host has returned: writes the line if the response is finished, or if the client has gone (`None`).
    /// Otherwise returns what the line will need later.
    pub(super) fn record(&mut self, exchange: &Exchange, outcome: Option<Outcome>) -> Option<Box<Draft>> {
        self.access_log.as_ref()?;
        let outcome = match outcome {
            Some(Outcome { finished: false, .. }) => return Some(draft(exchange)),
            Some(outcome) => outcome,
            None => self.bare(CLIENT_GONE),
        };
        let request = Some((exchange.head(), exchange.received.listener));
        self.write_line(exchange.received.remote.address(), request, &outcome);
        None
    }

    /// Writes the line of a response that was finished, or whose client left, after its host had returned.
    pub(super) fn record_late(&mut self, line: Option<LateLine>) {
        let Some(LateLine { draft, mut outcome }) = line else { return };
        if !outcome.finished {
            outcome.status = CLIENT_GONE;
        }
        let head = RequestHead::new(&draft.head, &draft.layout);
        self.write_line(draft.remote.address(), Some((head, draft.listener)), &outcome);
    }

    /// Counts a request that was refused before it reached a host, and writes its line.
    pub(super) fn record_refusal(&mut self, remote: &[u8], status: u16) {
        self.tally.responded(status);
        self.write_line(remote, None, &self.bare(status));
    }

    /// A response without content, this moment.
    fn bare(&self, status: u16) -> Outcome {
        Outcome { finished: true, status, sent: 0, began: self.backend.now(), noted: None }
    }

    /// `request`: its head, and the number of its listener.
    fn write_line(&mut self, remote: &[u8], request: Option<(RequestHead<'_>, u16)>, outcome: &Outcome) {
        let Some(log) = &mut self.access_log else { return };
        let duration = self.backend.now().saturating_sub(outcome.began);
        let wall_clock = SystemTime::UNIX_EPOCH + self.backend.wall_clock();
        log.record(&AccessEntry {
            // An address is rendered from numbers and is always text.
            remote: str::from_utf8(remote).unwrap_or_default(),
            server: request.map(|(_, listener)| self.listeners[usize::from(listener)].endpoint()),
            head: request.map(|(head, _)| head),
            status: outcome.status,
            bytes_sent: outcome.sent,
            noted: outcome.noted.as_deref().unwrap_or_default(),
            time: wall_clock.checked_sub(duration).unwrap_or(wall_clock),
            duration,
        });
    }
}

/// The parts of a request that its line needs if it is answered later.
fn draft(exchange: &Exchange) -> Box<Draft> {
    let Received { layout, remote, listener, .. } = &*exchange.received;
    Box::new(Draft { head: exchange.head_bytes().to_vec(), layout: layout.clone(), remote: *remote, listener: *listener })
}
