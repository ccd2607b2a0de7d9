//! The access log's line of an exchange, written when its response is finished.

use super::connection::Remote;
use super::{Engine, Exchange};
use crate::log::{AccessEntry, AccessLog, reopen_error_log};
use oribi_io::Backend;
use oribi_message::{HeadLayout, KnownField, RequestHead};
use std::time::{Duration, SystemTime};

/// What clients that went away before their answer are said to have got: the code that nginx made customary for it.
const CLIENT_GONE: u16 = 499;

/// The head of a request that is answered after its host has returned, kept for the log.
#[derive(Debug)]
pub(super) struct Draft {
    head: Vec<u8>,
    layout: HeadLayout,
}

impl Draft {
    pub(super) fn of(exchange: &Exchange) -> Box<Self> {
        Box::new(Self { head: exchange.head_bytes().to_vec(), layout: exchange.lent.layout.clone() })
    }
}

impl<B: Backend> Engine<'_, B> {
    /// Opens the log files again, by their names: whoever rotates logs has moved the old ones away.
    pub fn reopen_logs(&mut self) {
        let access = self.access_log.as_mut().map_or(Ok(()), AccessLog::reopen);
        for (name, outcome) in [("error", reopen_error_log(self.settings)), ("access", access)] {
            if let Err(error) = outcome {
                log::error!("cannot open the {name} log again: {error}");
            }
        }
    }

    /// A host has returned: writes the line if the response is finished, else keeps what the line will need.
    pub(super) fn record(&mut self, index: Option<u32>, exchange: &Exchange) {
        if self.access_log.is_none() {
            return;
        }
        let outcome = match index.and_then(|index| self.connections.get_mut(index)) {
            Some(connection) if connection.fate.is_none() => {
                connection.draft = Some(Draft::of(exchange));
                return;
            }
            Some(connection) => Some((connection.status, connection.sent, connection.complete_at.time())),
            None => None,
        };
        self.record_outcome(exchange, outcome);
    }

    /// Writes the line of an exchange whose host has returned: status, bytes of content and when the request was complete; `None` if
    /// the client has gone.
    pub(super) fn record_outcome(&mut self, exchange: &Exchange, outcome: Option<(u16, u64, Duration)>) {
        if self.access_log.is_none() {
            return;
        }
        let (status, sent, began) = outcome.unwrap_or((CLIENT_GONE, 0, self.backend.now()));
        self.write_line(exchange.lent.remote.address(), Some(exchange.head()), status, sent, began);
    }

    /// A response has been finished after its host had returned.
    pub(super) fn record_draft(&mut self, draft: &Draft, remote: Remote, status: u16, sent: u64, began: Duration) {
        let head = RequestHead::new(&draft.head, &draft.layout);
        self.write_line(remote.address(), Some(head), status, sent, began);
    }

    /// A client has gone before its response was finished, and after its host had returned.
    pub(super) fn record_gone(&mut self, draft: &Draft, remote: Remote, sent: u64, began: Duration) {
        self.record_draft(draft, remote, CLIENT_GONE, sent, began);
    }

    /// A request was refused before a host saw it.
    pub(super) fn record_refusal(&mut self, remote: &[u8], status: u16) {
        self.write_line(remote, None, status, 0, self.backend.now());
    }

    fn write_line(&mut self, remote: &[u8], head: Option<RequestHead<'_>>, status: u16, sent: u64, began: Duration) {
        let Some(log) = &mut self.access_log else { return };
        let duration = self.backend.now().saturating_sub(began);
        let wall_clock = SystemTime::UNIX_EPOCH + self.backend.wall_clock();
        log.record(&AccessEntry {
            // An address is rendered from numbers and is always text.
            remote: str::from_utf8(remote).unwrap_or_default(),
            method: head.map_or(&[], |head| head.method()),
            target: head.map_or(&[], |head| head.target()),
            version: head.map_or("", |head| head.version().as_str()),
            status,
            bytes_sent: sent,
            referer: head.and_then(|head| head.field(KnownField::Referer)),
            user_agent: head.and_then(|head| head.field(KnownField::UserAgent)),
            time: wall_clock.checked_sub(duration).unwrap_or(wall_clock),
            duration,
        });
    }
}
