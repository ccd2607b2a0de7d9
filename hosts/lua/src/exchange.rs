//! A request that a script is answering: its data, and the destination of the answer.

use crate::LuaSettings;
use crate::script_path::Found;
use crate::vm::Slot;
use oribi_host::{Content, ExchangeId, Outlet, Reply, ReplyError, Request};
use oribi_live::Command;
use oribi_message::{FieldPair, ResponseHead, Role};
use std::cell::Cell;
use std::time::Duration;

/// The progress of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing has been sent.
    Nothing,
    /// The head has been sent, and content may follow.
    Started,
    /// There is nothing more to send.
    Done,
}

/// An exchange while a script answers it. If it is dropped before the answer is complete, the exchange is given up: the client
/// gets a 500 if nothing has been sent, otherwise the connection is cut.
pub(crate) struct Exchange<'a> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) found: &'a Found,
    pub(crate) settings: &'a LuaSettings,
    /// The number of bytes of the content that the script has read.
    pub(crate) taken: Cell<u64>,
    /// The number of bytes of the data to be filtered that the script has read.
    pub(crate) data_taken: Cell<u64>,
    slot: &'a Slot,
    outlet: &'a dyn Outlet,
    id: ExchangeId,
    progress: Cell<Progress>,
    /// Whether the connection stays open, or the exchange is an event of one that does.
    live: Cell<bool>,
}

impl<'a> Exchange<'a> {
    pub(crate) fn new(
        request: &'a Request<'a>,
        found: &'a Found,
        settings: &'a LuaSettings,
        slot: &'a Slot,
        reply: Reply<'a>,
    ) -> Self {
        let (outlet, id) = reply.detach();
        let (taken, data_taken) = (Cell::new(0), Cell::new(0));
        Self {
            request,
            found,
            settings,
            taken,
            data_taken,
            slot,
            outlet,
            id,
            progress: Cell::new(Progress::Nothing),
            live: Cell::new(false),
        }
    }

    /// Returns the data that the script shall filter for a web server; `None` in any other role than that of a filter.
    pub(crate) fn data(&self) -> Option<Content<'a>> {
        self.request.gateway.filter(|gateway| gateway.role == Role::Filter).map(|gateway| gateway.data)
    }

    #[inline]
    pub(crate) fn progress(&self) -> Progress {
        self.progress.get()
    }

    #[inline]
    pub(crate) const fn slot(&self) -> &'a Slot {
        self.slot
    }

    /// Sends a whole response.
    #[inline]
    pub(crate) fn respond(&self, head: ResponseHead<'_>, parts: &[&[u8]]) {
        self.progress.set(Progress::Done);
        if let Err(error) = self.outlet.respond(self.id, head, parts) {
            self.note(error);
        }
    }

    /// Sends a head whose content follows. While this call waits for the client, the script's time limit does not run. Returns
    /// `false` if nothing more can be sent.
    pub(crate) fn start(&self, head: ResponseHead<'_>) -> bool {
        self.progress.set(Progress::Started);
        let sent = self.slot.rest(|| self.outlet.start(self.id, head));
        self.goes_on(sent)
    }

    /// Sends a piece of content, like [`Exchange::start`]. Returns `false` if nothing more can be sent.
    pub(crate) fn write(&self, piece: &[u8]) -> bool {
        if self.progress.get() != Progress::Started {
            return false;
        }
        let sent = self.slot.rest(|| self.outlet.write(self.id, piece));
        self.goes_on(sent)
    }

    /// Ends the content, unless it has ended.
    pub(crate) fn finish(&self) {
        if self.progress.replace(Progress::Done) == Progress::Started
            && let Err(error) = self.outlet.finish(self.id)
        {
            self.note(error);
        }
    }

    /// Whether connections may stay open without a worker.
    pub(crate) fn has_live_connections(&self) -> bool {
        self.outlet.has_live_connections()
    }

    /// Notes that the connection stays open, or that the exchange is an event of one that does.
    pub(crate) fn note_live(&self) {
        self.live.set(true);
    }

    /// Gives a command to the edge that owns the connections.
    ///
    /// # Errors
    /// See [`Outlet::command`].
    pub(crate) fn command(&self, command: &[u8]) -> Result<(), ReplyError> {
        self.outlet.command(self.id, command)
    }

    /// Closes a connection that stays open, because the script has failed.
    pub(crate) fn close_as_failed(&self) {
        /// RFC 6455, section 7.4.1.
        const FAILED: u16 = 1011;
        if self.live.get() {
            let mut bytes = Vec::new();
            Command::Close { connection: 0, code: FAILED, reason: b"" }.write(&mut bytes);
            // It fails only if nobody waits for it.
            let _ = self.command(&bytes);
        }
    }

    /// Whether content waits for the client, so that the script must not send more now.
    pub(crate) fn is_full(&self) -> bool {
        self.progress.get() == Progress::Started && matches!(self.outlet.has_room(self.id), Ok(false))
    }

    /// Leaves the end of the answer to the caller.
    pub(crate) fn forget(&self) {
        self.progress.set(Progress::Done);
    }

    /// The time that the request has waited for this script.
    pub(crate) fn queue_time(&self) -> Option<Duration> {
        self.outlet.queue_time(self.id)
    }

    /// Ends the content with trailers, unless it has ended.
    pub(crate) fn finish_with_trailers(&self, trailers: &[FieldPair<'_>]) {
        if self.progress.replace(Progress::Done) == Progress::Started
            && let Err(error) = self.outlet.finish_with_trailers(self.id, trailers)
        {
            self.note(error);
        }
    }

    /// Changes the deadline of the script, from now on; `None` removes it.
    pub(crate) fn extend_deadline(&self, time: Option<Duration>) {
        self.slot.allow(time);
        self.outlet.extend_deadline(self.id, time);
    }

    /// Passes a message on to the error log of the web server in front. Without a web server, writes it to the server's own
    /// log.
    pub(crate) fn report(&self, message: &[u8]) {
        if !self.outlet.report(self.id, message) {
            log::info!("{}: {}", self.found.script.display(), String::from_utf8_lossy(message).trim_end());
        }
    }

    fn goes_on(&self, sent: Result<(), ReplyError>) -> bool {
        let Err(error) = sent else { return true };
        self.progress.set(Progress::Done);
        self.note(error);
        false
    }

    /// Logs an invalid response, which the server has replaced by an answer of its own. A client that has gone needs no log
    /// line.
    fn note(&self, error: ReplyError) {
        if let ReplyError::Invalid(why) = error {
            log::error!("{}: the response is invalid: {why}", self.found.script.display());
        }
    }
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        if self.progress.get() != Progress::Done {
            self.outlet.abandon(self.id);
        }
    }
}
