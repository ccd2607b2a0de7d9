//! Passes the output of workers on to the clients. The pool has checked to which exchange the output belongs. Everything else
//! in it is untrusted input, which this module or the engine checks.

use super::AppPool;
use oribi_engine::Progress;
use oribi_host::{ExchangeId, Piece, ReplyError};
use oribi_io::Backend;
use oribi_ipc::slot::{Content, Head, Malformed};
use oribi_pool::{DescriptorRequest, Event, FilePart, Ticket};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

impl<B: Backend> AppPool<'_, '_, B> {
    /// Handles the output of workers; returns whether there was any. `takes_time`: whether the output may be newer than the
    /// last reading of the clock. Then the clock is read again.
    pub(in super::super) fn handle_answers(&mut self, takes_time: bool) -> bool {
        if !self.pool.gather() {
            return false;
        }
        if takes_time {
            self.lane.source().catch_up(false);
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        let mut any = false;
        // Responses on streams of one connection are sent together.
        self.lane.source().gather_answers();
        while let Some(event) = self.pool.next(&mut bytes) {
            any = true;
            self.handle_answer(event, &bytes);
        }
        self.lane.source().send_gathered_answers();
        self.bytes = bytes;
        self.send_lone_heads();
        if any {
            self.moved = self.now();
        }
        any
    }

    fn handle_answer(&mut self, event: Event, bytes: &[u8]) {
        match event {
            Event::Whole(ticket, head) => self.handle_whole(ticket, bytes, head),
            Event::Head(ticket) => self.handle_head(ticket, bytes),
            Event::Interim(ticket) => self.handle_interim(ticket, bytes),
            Event::Content(ticket) => self.handle_content(ticket, bytes),
            Event::Trailers(ticket) => self.handle_trailers(ticket, bytes),
            Event::File(ticket, file, part) => self.handle_file(ticket, file, part),
            Event::Commands(ticket) => self.handle_commands(ticket, bytes),
            Event::Message(ticket) => self.handle_message(ticket, bytes),
            Event::DescriptorRequest(ticket, request) => self.handle_descriptor_request(ticket, request),
            Event::Deadline(ticket, time) => self.change_deadline(ticket, time),
            Event::Finished(ticket) => self.handle_end(ticket, false),
            Event::Abandoned(ticket) => self.handle_end(ticket, true),
            Event::Lost(ticket) => self.handle_loss(ticket),
            Event::Broken(worker) => self.handle_breach(worker),
        }
    }

    /// Returns the exchange of a request, if its client waits for the worker's output, and records the output as progress.
    /// `None` if no client waits.
    #[inline]
    fn destination(&mut self, ticket: Ticket) -> Option<ExchangeId> {
        let now = if self.deadlines.are_set() { Some(self.now()) } else { None };
        let entry = self.table.get(ticket)?;
        if now.is_some() && entry.exchange.is_some() {
            entry.progress = now;
        }
        entry.exchange
    }

    #[inline]
    fn handle_whole(&mut self, ticket: Ticket, bytes: &[u8], head: usize) {
        if self.hears && self.is_question(ticket) && !self.hear(ticket, &bytes[..head]) {
            self.table.remove(ticket);
            self.commands.remove(&ticket);
            return;
        }
        if !self.commands.is_empty() {
            if self.holds(ticket) {
                return self.hold_whole(ticket, bytes, head);
            }
            self.commands_ended(ticket, false);
        }
        let Some((exchange, begun)) = self.table.conclude(ticket) else { return };
        let Some(exchange) = exchange else { return self.fetched_whole(ticket, bytes, head) };
        let (head, content) = bytes.split_at(head);
        let wait = self.wait_of(ticket);
        let lane = &self.lane;
        let answered = self.heads.read(head, |Head { head, content: kind }| match kind {
            Content::Whole { size } if !begun && size == content.len() as u64 => {
                Ok(lane.source().respond_behind(wait, exchange, head, &[content]))
            }
            _ => Err(Malformed),
        });
        match answered.and_then(|answered| answered) {
            Ok(Err(ReplyError::Invalid(why))) => log::error!("the response of an app is invalid: {why}"),
            Ok(_) => {}
            Err(Malformed) => {
                self.report_wait(ticket, exchange);
                if begun {
                    return self.lane.source().abandon(exchange);
                }
                log::error!("a worker has sent an invalid response");
                self.refuse(exchange, 502);
            }
        }
    }

    fn handle_head(&mut self, ticket: Ticket, bytes: &[u8]) {
        let Some(exchange) = self.destination(ticket) else { return self.fetched_head(ticket, bytes) };
        if self.hears && self.is_question(ticket) && !self.hear(ticket, bytes) {
            return self.discard(ticket);
        }
        self.report_wait(ticket, exchange);
        let lane = &self.lane;
        let mut status = 0;
        let begun = self.heads.read(bytes, |Head { head, content }| {
            status = head.status;
            let size = match content {
                Content::Whole { size } => Some(size),
                Content::Started => None,
                Content::Interim | Content::Trailers => return Err(Malformed),
            };
            Ok(lane.source().start_with_size(exchange, head, size))
        });
        match begun.and_then(|begun| begun) {
            Ok(Ok(())) => {
                if let Some(entry) = self.table.get(ticket) {
                    entry.begun = true;
                }
                self.unsent_heads.push(ticket);
                if !self.commands.is_empty() {
                    self.stream_begun(ticket, status);
                }
            }
            Ok(Err(refusal)) => self.handle_refusal(ticket, refusal),
            Err(Malformed) => self.handle_nonsense(ticket),
        }
    }

    fn handle_interim(&mut self, ticket: Ticket, bytes: &[u8]) {
        let Some(exchange) = self.destination(ticket) else { return self.fetched_interim(ticket, bytes) };
        if self.hears && self.is_question(ticket) {
            return;
        }
        let lane = &self.lane;
        let sent = self.heads.read(bytes, |Head { head, content }| match content {
            Content::Interim => Ok(lane.source().inform(exchange, head.status, head.fields)),
            Content::Whole { .. } | Content::Started | Content::Trailers => Err(Malformed),
        });
        match sent.and_then(|sent| sent) {
            // If the engine refuses this interim response, the final response still follows.
            Ok(_) => self.keep_waiting_if_slow(ticket, exchange),
            Err(Malformed) => self.handle_nonsense(ticket),
        }
    }

    fn handle_content(&mut self, ticket: Ticket, bytes: &[u8]) {
        // Empty content does not count as progress of the app.
        let destination = if bytes.is_empty() { self.table.exchange(ticket) } else { self.destination(ticket) };
        let Some(exchange) = destination else {
            if !self.fetched_content(ticket, bytes) {
                self.handle_excess(ticket);
            }
            return;
        };
        self.pass_on(ticket, exchange, Piece::Bytes(bytes));
    }

    /// Ends a response with trailers. The end event that follows then has no effect.
    fn handle_trailers(&mut self, ticket: Ticket, bytes: &[u8]) {
        if self.has_fetch(ticket) {
            self.stop_capture(ticket);
        }
        let Some(exchange) = self.destination(ticket) else { return };
        if !self.table.get(ticket).is_some_and(|entry| entry.begun) {
            return self.handle_nonsense(ticket);
        }
        let lane = &self.lane;
        let ended = self.heads.read(bytes, |Head { head, content }| match content {
            Content::Trailers => Ok(lane.source().finish_with_trailers(exchange, head.fields)),
            Content::Whole { .. } | Content::Started | Content::Interim => Err(Malformed),
        });
        match ended.and_then(|ended| ended) {
            Ok(Ok(())) => {
                if let Some(entry) = self.table.get(ticket) {
                    entry.exchange = None;
                }
            }
            Ok(Err(refusal)) => self.handle_refusal(ticket, refusal),
            Err(Malformed) => self.handle_nonsense(ticket),
        }
    }

    /// Sends a piece of a response. When all of the announced content has arrived, finishes the response, even if its app
    /// still runs. So the client may send its next request, and a web server gets the end together with the content, and
    /// keeps its connection.
    pub(super) fn pass_on(&mut self, ticket: Ticket, exchange: ExchangeId, piece: Piece<'_>) {
        let written = self.lane.source().write_up_to_end(exchange, piece);
        match written {
            Ok(Progress::Waiting(bytes)) => self.note_written(ticket, Ok(bytes)),
            Ok(Progress::Finished) => {
                if let Some(entry) = self.table.get(ticket) {
                    entry.exchange = None;
                    entry.complete = true;
                }
            }
            Err(refusal) => self.handle_refusal(ticket, refusal),
        }
    }

    /// Handles content for which no client waits: if the client has the complete response already, informs the app.
    #[cold]
    fn handle_excess(&mut self, ticket: Ticket) {
        if self.table.get(ticket).is_some_and(|entry| std::mem::take(&mut entry.complete)) {
            log::error!("a response was cut off: more content than its Content-Length");
            self.discard(ticket);
        }
    }

    fn handle_file(&mut self, ticket: Ticket, file: Option<File>, part: FilePart) {
        if self.has_fetch(ticket) && self.fetched_file(ticket, file.as_ref(), part) {
            return;
        }
        let Some(exchange) = self.destination(ticket) else { return };
        if self.table.get(ticket).is_some_and(|entry| entry.socket_taken) {
            // The app may have made the socket blocking, and no system call sends a file to a blocking socket without
            // waiting.
            log::error!("a file was not sent: the app has taken over the socket of the client");
            return self.give_up(ticket, 500);
        }
        let FilePart { offset, size } = part;
        let ends_somewhere = offset.checked_add(size).is_some_and(|end| i64::try_from(end).is_ok());
        // Reading from a file that is not regular could block forever.
        let is_regular = |file: &File| file.metadata().is_ok_and(|data| data.is_file());
        match file {
            Some(file) if ends_somewhere && is_regular(&file) => {
                self.pass_on(ticket, exchange, Piece::File { file: &Arc::new(file), offset, size });
            }
            Some(_) => self.handle_nonsense(ticket),
            None => {
                log::error!("a response was cut off: the file that its worker sends did not arrive");
                self.give_up(ticket, 500);
            }
        }
    }

    /// Handles the result of writing content: if the client is slow, its worker must wait.
    fn note_written(&mut self, ticket: Ticket, written: Result<usize, ReplyError>) {
        match written {
            Ok(waiting) => {
                let most = self.lane.source().output_limit();
                if waiting > most && self.pool.pause(ticket) {
                    if let Some(entry) = self.table.get(ticket) {
                        entry.paused = true;
                    }
                    self.paused.push(ticket);
                }
            }
            Err(refusal) => self.handle_refusal(ticket, refusal),
        }
    }

    /// Handles the engine's refusal of a response. If the client has disconnected, the engine itself reports that.
    pub(super) fn handle_refusal(&mut self, ticket: Ticket, refusal: ReplyError) {
        if let ReplyError::Invalid(why) = refusal {
            log::error!("the response of an app is invalid: {why}");
            if let Some(entry) = self.table.get(ticket) {
                entry.exchange = None;
            }
        }
    }

    fn handle_message(&mut self, ticket: Ticket, bytes: &[u8]) {
        let Some(exchange) = self.destination(ticket) else { return };
        let reported = self.lane.source().report(exchange, bytes);
        if reported {
            self.keep_waiting_if_slow(ticket, exchange);
        } else {
            log::error!("{}", String::from_utf8_lossy(bytes).trim_end());
        }
    }

    /// Makes an app wait for a slow client after it has written anything but content, because it may write much of that, too.
    fn keep_waiting_if_slow(&mut self, ticket: Ticket, exchange: ExchangeId) {
        let waiting = self.lane.source().waiting(exchange);
        self.note_written(ticket, waiting);
    }

    pub(super) fn handle_end(&mut self, ticket: Ticket, abandoned: bool) {
        let Some(entry) = self.table.remove(ticket) else { return };
        if !self.commands.is_empty() {
            if !self.holds(ticket) {
                self.commands_ended(ticket, abandoned);
            } else if entry.exchange.is_some() && entry.begun && !abandoned {
                return self.keep_open(ticket);
            } else {
                // An app that has sent trailers, or all of the announced content, has ended the response itself.
                self.drop_held(ticket);
            }
        }
        let Some(exchange) = entry.exchange else { return self.fetched_end(ticket, entry, abandoned) };
        let mut engine = self.lane.source();
        if abandoned || !entry.begun {
            engine.abandon(exchange);
        } else if let Err(ReplyError::Invalid(why)) = engine.finish(exchange) {
            log::error!("the response of an app is invalid: {why}");
            engine.abandon(exchange);
        }
    }

    /// Handles invalid data of a worker in the frames of an exchange: answers 502, and treats the worker as broken.
    pub(super) fn handle_nonsense(&mut self, ticket: Ticket) {
        let holder = self.pool.holder(ticket);
        self.fail(ticket, 502);
        if let Some(worker) = holder {
            self.handle_breach(worker);
        }
    }

    fn handle_descriptor_request(&mut self, ticket: Ticket, request: DescriptorRequest) {
        if self.has_fetch(ticket) {
            self.stop_capture(ticket);
        }
        let destination = self.destination(ticket);
        if destination.is_none() && !self.has_event(ticket) {
            return;
        }
        let outcome = match request {
            DescriptorRequest::Content | DescriptorRequest::Data => {
                let overflow = self.table.get(ticket).and_then(|entry| entry.overflow.as_deref());
                let file = overflow.and_then(|files| {
                    if request == DescriptorRequest::Content { &files.content } else { &files.data }.as_ref()
                });
                file.map_or(Err(io::ErrorKind::NotFound.into()), |file| self.pool.send_descriptor(ticket, file.as_fd()))
            }
            DescriptorRequest::Socket => match destination.filter(|_| !self.has_event(ticket)) {
                Some(exchange) => self.pass_socket(ticket, exchange),
                None => Err(io::Error::other("the connection stays open without the app")),
            },
        };
        if let Err(error) = outcome {
            log::error!("cannot send a worker the descriptor that its app needs: {error}");
            let status = if oribi_engine::shortage::is_of_descriptors(&error) { 503 } else { 500 };
            self.give_up(ticket, status);
        }
    }

    /// Passes the socket of a client to its app (Rack hijack), or postpones that until earlier responses have been sent.
    fn pass_socket(&mut self, ticket: Ticket, exchange: ExchangeId) -> io::Result<()> {
        if self.hears && self.is_question(ticket) {
            return Err(io::Error::other("the request only asks whether another one may go on"));
        }
        let taken = self.lane.source().take_socket(exchange);
        match taken {
            Ok(socket) => {
                if let Some(entry) = self.table.get(ticket) {
                    entry.socket_taken = true;
                }
                self.pool.send_descriptor(ticket, socket.as_fd())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.awaited_sockets.push(ticket);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Sends the heads for which no content has arrived so far: an app that sends a head alone expects the client to get it.
    fn send_lone_heads(&mut self) {
        let mut heads = std::mem::take(&mut self.unsent_heads);
        for ticket in heads.drain(..) {
            if let Some(exchange) = self.table.exchange(ticket) {
                self.pass_on(ticket, exchange, Piece::Bytes(b""));
            }
        }
        self.unsent_heads = heads;
    }

    /// Resumes the exchanges that have waited for their clients, where the clients have taken enough.
    pub(in super::super) fn resume_waiting_exchanges(&mut self) {
        if !self.paused.is_empty() {
            let mut paused = std::mem::take(&mut self.paused);
            paused.retain(|&ticket| !self.resume_if_taken(ticket));
            paused.append(&mut self.paused);
            self.paused = paused;
        }
        if !self.awaited_sockets.is_empty() {
            for ticket in std::mem::take(&mut self.awaited_sockets) {
                self.handle_descriptor_request(ticket, DescriptorRequest::Socket);
            }
        }
    }

    /// Resumes the reading of frames if the client has taken enough, or has disconnected. Returns whether it has resumed.
    fn resume_if_taken(&mut self, ticket: Ticket) -> bool {
        let most = self.lane.source().output_limit();
        let exchange = self.table.exchange(ticket);
        let waits = exchange.is_some_and(|exchange| self.lane.source().waiting(exchange).is_ok_and(|waiting| waiting > most));
        if waits {
            return false;
        }
        self.pool.resume(ticket);
        let now = self.now();
        if let Some(entry) = self.table.get(ticket) {
            entry.paused = false;
            entry.progress = entry.progress.map(|_| now);
            self.deadlines.resumed(now);
        }
        true
    }
}
