//! A lane as the outlet of its host: passes the host's calls on to the source. Marked functions are compiled once, as those of
//! the engine.

use super::app_chunks::HeldHead;
use super::{Lane, app_chunks};
use crate::event_sources::EventSources;
use oribi_host::{ExchangeId, Interruption, Outlet, Piece, ReplyError};
use oribi_ipc::posts::Outbox;
use oribi_live::are_for_all;
use oribi_message::{FieldPair, PreparedFields, ResponseHead};
use oribi_proto::h1::{InvalidResponse, check_head};
use oribi_source::Source;
use oribi_stats::scoreboard::DrainState;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

impl<S: Source> Outlet for Lane<'_, S> {
    #[inline(never)]
    fn respond(&self, exchange: ExchangeId, head: ResponseHead<'_>, parts: &[&[u8]]) -> Result<(), ReplyError> {
        if let Some(sent) = self.send_named(exchange, &head) {
            return sent;
        }
        if app_chunks::are_announced(&head) {
            return self.respond_taken_apart(exchange, &head, app_chunks::split_chunks(parts));
        }
        let mut source = self.source_after_app(exchange);
        let sent = source.respond(exchange, head, parts);
        source.submit();
        drop(source);
        self.tell_of_use(exchange);
        sent
    }

    #[inline(never)]
    fn respond_pieces(&self, exchange: ExchangeId, head: ResponseHead<'_>, pieces: &[Piece<'_>]) -> Result<(), ReplyError> {
        if let Some(sent) = self.send_named(exchange, &head) {
            return sent;
        }
        if app_chunks::are_announced(&head) {
            return self.respond_taken_apart(exchange, &head, app_chunks::split_chunked_pieces(pieces));
        }
        let mut source = self.source_after_app(exchange);
        let sent = source.respond_pieces(exchange, head, pieces);
        source.submit();
        drop(source);
        self.tell_of_use(exchange);
        sent
    }

    #[inline(never)]
    fn respond_prepared(&self, exchange: ExchangeId, fields: &PreparedFields, content: Piece<'_>) -> Result<(), ReplyError> {
        let mut source = self.source_after_app(exchange);
        let sent = source.respond_prepared(exchange, fields, content);
        source.submit();
        drop(source);
        self.tell_of_use(exchange);
        sent
    }

    fn check(&self, head: ResponseHead<'_>) -> Result<(), ReplyError> {
        let checked = if app_chunks::are_announced(&head) {
            check_head(&ResponseHead { fields: &app_chunks::other_fields(&head), ..head })
        } else {
            check_head(&head)
        };
        checked.map_err(|InvalidResponse(why)| ReplyError::Invalid(why))
    }

    #[inline(never)]
    fn start(&self, exchange: ExchangeId, head: ResponseHead<'_>) -> Result<(), ReplyError> {
        if let Some(sent) = self.send_named(exchange, &head) {
            self.file_responses.iter().for_each(|file_responses| file_responses.drop_content(exchange));
            return sent;
        }
        if !app_chunks::are_announced(&head) {
            return self.source_after_app(exchange).start(exchange, head);
        }
        let mut source = self.source_after_app(exchange);
        let held = HeldHead::new(&head);
        if held.with(|head| check_head(&head)).is_err() {
            return held.with(|head| source.start(exchange, head));
        }
        source.waiting(exchange)?;
        self.app_chunks.begin(exchange, held, |id| source.waiting(id).is_ok());
        Ok(())
    }

    #[inline(never)]
    fn write(&self, exchange: ExchangeId, piece: &[u8]) -> Result<(), ReplyError> {
        let written = self.write_piece(exchange, piece);
        // An empty piece, or one for a client that has disconnected, is not progress of an app.
        if !piece.is_empty() && matches!(written, Ok(()) | Err(ReplyError::Woken)) {
            self.note_progress(exchange);
        }
        written
    }

    #[inline(never)]
    fn offer(&self, exchange: ExchangeId, piece: &[u8]) -> Result<bool, ReplyError> {
        if self.content_is_dropped(exchange, piece)? {
            return Ok(true);
        }
        let has_room = match self.app_chunks.read(exchange, piece) {
            None => self.offer_content(exchange, piece)?,
            // A part of a frame; an empty piece is an order to send the head.
            Some(Ok(content)) if content.is_empty() && !piece.is_empty() => true,
            Some(Ok(content)) => {
                self.start_held(exchange)?;
                let pieces = if content.is_empty() { NOTHING } else { &content };
                pieces.iter().try_fold(true, |_, piece| self.offer_content(exchange, piece))?
            }
            Some(Err(broken)) => {
                self.abandon(exchange);
                return Err(broken);
            }
        };
        if !piece.is_empty() {
            self.note_progress(exchange);
        }
        Ok(has_room)
    }

    fn has_room(&self, exchange: ExchangeId) -> Result<bool, ReplyError> {
        let source = self.source.borrow();
        Ok(source.waiting(exchange)? <= source.output_limit())
    }

    #[inline(never)]
    fn finish(&self, exchange: ExchangeId) -> Result<(), ReplyError> {
        self.end_content(exchange, |source| source.finish(exchange))
    }

    #[inline(never)]
    fn finish_with_trailers(&self, exchange: ExchangeId, trailers: &[FieldPair<'_>]) -> Result<(), ReplyError> {
        self.end_content(exchange, |source| source.finish_with_trailers(exchange, trailers))
    }

    #[inline(never)]
    fn abandon(&self, exchange: ExchangeId) {
        // A file that was sent instead of the content is complete, independently of that content.
        if self.file_responses.as_ref().is_some_and(|file_responses| file_responses.end(exchange)) {
            return;
        }
        // The response is incomplete in any case, even if its chunks are complete.
        let _ = self.app_chunks.end(exchange);
        if self.deadlines.as_ref().is_some_and(|deadlines| deadlines.has_interrupted(exchange)) {
            self.source_after_app(exchange).abandon_late(exchange);
        } else {
            self.source_after_app(exchange).abandon(exchange);
        }
        self.send_pending(exchange);
    }

    fn has_deadlines(&self) -> bool {
        self.deadlines.is_some()
    }

    fn queue_time(&self, exchange: ExchangeId) -> Option<Duration> {
        self.source().queue_time(exchange)
    }

    #[inline]
    fn reports_queue_times(&self) -> bool {
        self.reports_queue_times
    }

    fn extend_deadline(&self, exchange: ExchangeId, time: Option<Duration>) {
        if let Some(deadlines) = &self.deadlines {
            deadlines.extend(exchange, time);
            match &self.running {
                Some(running) => running.extend(exchange, time),
                None => self.source.borrow_mut().extend_deadline(exchange, time),
            }
        }
    }

    #[inline(never)]
    fn resume(&self, exchange: ExchangeId, interruption: Arc<dyn Interruption>, work: &mut dyn FnMut()) {
        self.resume_in_time(exchange, interruption, work);
    }

    #[inline(never)]
    fn inform(&self, exchange: ExchangeId, status: u16, fields: &[FieldPair<'_>]) -> Result<(), ReplyError> {
        let sent = self.source.borrow_mut().inform(exchange, status, fields);
        self.send_pending(exchange);
        sent
    }

    fn has_live_connections(&self) -> bool {
        self.source.borrow().has_live_connections()
    }

    fn command(&self, exchange: ExchangeId, commands: &[u8]) -> Result<(), ReplyError> {
        let given = self.source.borrow_mut().command(exchange, commands);
        if given != Err(ReplyError::Gone) || !are_for_all(commands) {
            return given;
        }
        // The client of this request has gone, or its response has ended; those who have subscribed have not.
        Outbox::of_process().map_or(given, |outbox| {
            outbox.deliver(commands).map_err(|error| {
                log::error!("a message does not reach all clients: {error}");
                ReplyError::Gone
            })
        })
    }

    fn report(&self, exchange: ExchangeId, message: &[u8]) -> bool {
        self.source.borrow_mut().report(exchange, message)
    }

    fn retire(&self) {
        if self.ends_with_context.get() {
            let mut source = self.source.borrow_mut();
            source.catch_up(self.slot.is_to_stop());
            source.stop(false);
        }
    }

    fn stops(&self) -> bool {
        self.source.borrow().stops() || self.slot.drain_state() == DrainState::Closing
    }

    fn waiting(&self) -> usize {
        self.with_news(S::waiting_requests)
    }

    fn has_gone(&self, exchange: ExchangeId) -> bool {
        self.with_news(|source| source.waiting(exchange).is_err())
    }

    fn waker(&self) -> Waker {
        self.event_sources.as_ref().map_or_else(|| Waker::noop().clone(), EventSources::waker)
    }

    fn watch(&self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        self.event_sources.as_ref().ok_or(io::ErrorKind::Unsupported)?.watch(descriptor)
    }

    fn unwatch(&self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        self.event_sources.as_ref().ok_or(io::ErrorKind::Unsupported)?.unwatch(descriptor)
    }

    fn wake_after(&self, time: Option<Duration>) -> io::Result<()> {
        self.event_sources.as_ref().ok_or(io::ErrorKind::Unsupported)?.wake_after(time)
    }

    #[inline(never)]
    fn take_socket(&self, exchange: ExchangeId) -> io::Result<OwnedFd> {
        let taken = self.source.borrow_mut().take_socket(exchange);
        self.tell_of_use(exchange);
        taken
    }
}

/// Replaces an empty list of content when the app has written an empty piece: writing that piece makes the app wait for its
/// client.
const NOTHING: &[&[u8]] = &[b""];

impl<S: Source> Lane<'_, S> {
    /// Handles events in the middle of an app, and then queries the source.
    fn with_news<T>(&self, ask: impl FnOnce(&S) -> T) -> T {
        let mut source = self.source_with_events();
        // If this fails, the next turn also fails.
        let _ = source.do_pending_work();
        let answer = ask(&source);
        drop(source);
        self.resume_held_apps();
        // The app continues, and a thread that waits for these events will no longer see them.
        self.wake_another_thread();
        answer
    }

    /// Ends content by `end`, unless a file was sent in its place.
    #[inline]
    fn end_content(&self, exchange: ExchangeId, end: impl FnOnce(&mut S) -> Result<(), ReplyError>) -> Result<(), ReplyError> {
        if self.file_responses.as_ref().is_some_and(|file_responses| file_responses.end(exchange)) {
            return Ok(());
        }
        let held = self.app_chunks.take_head(exchange);
        if let Err(broken) = self.app_chunks.end(exchange) {
            self.abandon(exchange);
            return Err(broken);
        }
        if let Some(held) = held {
            held.with(|head| self.source_after_app(exchange).start(exchange, head))?;
        }
        let finished = end(&mut self.source.borrow_mut());
        self.send_pending(exchange);
        finished
    }

    /// Sends the head of content in chunks if it has not been sent.
    fn start_held(&self, exchange: ExchangeId) -> Result<(), ReplyError> {
        let Some(held) = self.app_chunks.take_head(exchange) else { return Ok(()) };
        held.with(|head| self.source_after_app(exchange).start(exchange, head))
    }

    /// Whether a file was sent in place of the content. Then the app need not produce any, so a piece is an error.
    fn content_is_dropped(&self, exchange: ExchangeId, piece: &[u8]) -> Result<bool, ReplyError> {
        let Some(file_responses) = self.file_responses.as_ref().filter(|responses| responses.drops_content(exchange)) else {
            return Ok(false);
        };
        if piece.is_empty() {
            return Ok(true);
        }
        file_responses.end(exchange);
        Err(ReplyError::Gone)
    }

    /// Sends content without waiting for the client. Returns whether there is room for more.
    fn offer_content(&self, exchange: ExchangeId, piece: &[u8]) -> Result<bool, ReplyError> {
        let (waiting, most) = {
            let mut source = self.source.borrow_mut();
            (source.write(exchange, piece)?, source.output_limit())
        };
        self.send_pending(exchange);
        Ok(waiting <= most)
    }

    fn write_piece(&self, exchange: ExchangeId, piece: &[u8]) -> Result<(), ReplyError> {
        if self.content_is_dropped(exchange, piece)? {
            return Ok(());
        }
        match self.app_chunks.read(exchange, piece) {
            None => self.write_content(exchange, piece),
            // A part of a frame; an empty piece is an order to send the head.
            Some(Ok(content)) if content.is_empty() && !piece.is_empty() => Ok(()),
            Some(Ok(content)) => {
                self.start_held(exchange)?;
                self.write_all_content(exchange, &content)
            }
            Some(Err(broken)) => {
                self.abandon(exchange);
                Err(broken)
            }
        }
    }

    /// Sends several pieces of content. A piece whose write returns [`ReplyError::Woken`] counts as written, so the others are
    /// written anyway.
    fn write_all_content(&self, exchange: ExchangeId, pieces: &[&[u8]]) -> Result<(), ReplyError> {
        let mut woken = Ok(());
        let pieces = if pieces.is_empty() { NOTHING } else { pieces };
        for piece in pieces {
            match self.write_content(exchange, piece) {
                Err(ReplyError::Woken) => woken = Err(ReplyError::Woken),
                outcome => outcome?,
            }
        }
        woken
    }

    /// Sends a piece of content, framed for the client.
    fn write_content(&self, exchange: ExchangeId, piece: &[u8]) -> Result<(), ReplyError> {
        let mut source = self.source.borrow_mut();
        let most = source.output_limit();
        let mut waiting = source.write(exchange, piece)?;
        while waiting > most {
            if self.event_sources.as_ref().is_some_and(EventSources::take_ring) {
                return Err(ReplyError::Woken);
            }
            // The app waits for its client; meanwhile the lane serves other connections as far as they need no app.
            if let Some(running) = &self.running {
                running.hold(exchange);
            }
            let waited = self.wait_for_client(source, exchange, most);
            self.note_progress(exchange);
            let Some(next) = waited.map_err(|_| ReplyError::Gone)? else { return Err(ReplyError::Woken) };
            source = next;
            // The client may take a long time. The loop to which this app returns handles the wake-up.
            if !self.pass_on_command(&mut source) {
                return Err(ReplyError::Gone);
            }
            waiting = source.waiting(exchange)?;
        }
        let looks = source.is_due_to_look();
        drop(source);
        self.send_pending(exchange);
        // An app that never waits for its client gets no other signal that the client has disconnected.
        if looks && self.has_gone(exchange) { Err(ReplyError::Gone) } else { Ok(()) }
    }

    /// Answers with the content of an app's chunks, or with an error if the app broke a rule.
    #[cold]
    fn respond_taken_apart(
        &self,
        exchange: ExchangeId,
        head: &ResponseHead<'_>,
        content: Result<Vec<&[u8]>, ReplyError>,
    ) -> Result<(), ReplyError> {
        let mut source = self.source_after_app(exchange);
        let sent = match content {
            Ok(parts) => source.respond(exchange, ResponseHead { fields: &app_chunks::other_fields(head), ..*head }, &parts),
            Err(broken) => {
                source.abandon(exchange);
                Err(broken)
            }
        };
        drop(source);
        self.send_pending(exchange);
        sent
    }
}
