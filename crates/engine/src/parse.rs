//! 3. Parse: the machine reads a head and its content from the received bytes.

use super::Engine;
use super::apply_forwarded::apply_forwarded;
use super::connection::{Connection, Reading, State};
use super::content::{Room, StoredContent};
use super::deadline::Deadline;
use super::exchange::Received;
use super::memory::Memory;
use super::misdirected::is_misdirected;
use super::name::ExchangeIndex;
use super::send::Still;
use oribi_config::Forwarding;
use oribi_io::Backend;
use oribi_message::{RequestHead, Span};
use oribi_proto::h1::{Event, Framing, Refusal};
use oribi_proto::h2::Opening;
use std::io;

impl<B: Backend> Engine<'_, B> {
    /// Lets the machine read unread input until it needs more, or a request is complete.
    #[inline(never)]
    pub(super) fn parse(&mut self, index: u32) -> Still {
        loop {
            let Connection { line, machine, input, state, requests, remote, forwarding, .. } = &mut self.connections[index];
            let State::Reading(reading) = state else { return Still::Open };
            let step = machine.handle_input(input.unread(), &mut self.memory.blank.layout, &self.limits.http);
            let start = input.position();
            match step.event {
                Event::NeedInput => {
                    input.consume(step.consumed);
                    return self.await_input(index);
                }
                Event::Head { start: skipped, content } => {
                    let encryption = self.backend.encryption(&line.socket);
                    if encryption.is_some_and(|encryption| encryption.http2) {
                        // The client agreed on HTTP/2 but sends HTTP/1, so the client gets the error in HTTP/2.
                        return self.speak_http2(index);
                    }
                    let https = encryption.is_some();
                    input.head = Some(Span::new(start + skipped, start + step.consumed));
                    input.consume(step.consumed);
                    self.tally.count_version(self.memory.blank.layout.version);
                    let fresh = self.memory.spare_requests.pop().unwrap_or_default();
                    let mut request = std::mem::replace(&mut self.memory.blank, fresh);
                    request.earlier = *requests;
                    *requests += 1;
                    request.remote = *remote;
                    request.forwarded.https = https;
                    if https
                        && is_misdirected(&self.backend, &line.socket, RequestHead::new(input.head_bytes(), &request.layout))
                    {
                        self.recycle(request);
                        return self.refuse(index, Refusal::MISDIRECTED);
                    }
                    if *forwarding != Forwarding::Kept
                        && let Err(contradiction) =
                            apply_forwarded(&mut request, input.head_bytes(), *forwarding, &self.settings.proxies)
                    {
                        self.recycle(request);
                        self.tell_of_contradiction(contradiction);
                        return self.refuse(index, Refusal::FORWARDED);
                    }
                    if let Some(ids) = &mut self.server_fields.ids {
                        let Received { layout, text, id, .. } = &mut *request;
                        *id = Some(ids.identify(layout, input.head_bytes(), text, *forwarding));
                    }
                    if let Some(traces) = &mut self.observing.traces {
                        traces.place(&mut request.layout, input.head_bytes(), &mut request.text, *forwarding);
                    }
                    if content == Framing::None {
                        self.queue(index, request);
                        return Still::Open;
                    }
                    reading.request = Some(request);
                    let size = match content {
                        Framing::None | Framing::Empty => {
                            self.store(index, StoredContent::EMPTY);
                            return self.complete(index);
                        }
                        Framing::Length(size) => Some(size),
                        Framing::Chunked => None,
                    };
                    if self.make_room_for_content(index, size) == Still::Gone {
                        return Still::Gone;
                    }
                }
                Event::Content(range) => {
                    let piece = &input.unread()[range];
                    reading.content_left = reading.content_left.saturating_sub(piece.len() as u64);
                    let added = match &mut reading.request {
                        Some(request) => request.content.add(piece, &self.uploads.bounds),
                        None => Ok(()),
                    };
                    input.consume(step.consumed);
                    if let Err(error) = added {
                        return self.refuse_storage(index, &error);
                    }
                }
                Event::Trailers(range) => {
                    if let Some(request) = &mut reading.request {
                        request.trailers.add(&input.unread()[range]);
                    }
                    input.consume(step.consumed);
                }
                Event::End => {
                    input.consume(step.consumed);
                    if let Some(request) = &mut reading.request {
                        request.trailers.complete();
                    }
                    return self.complete(index);
                }
                Event::Refused(refusal) => match self.opening(index) {
                    Opening::Http2 => return self.speak_http2(index),
                    Opening::Unclear => return self.await_input(index),
                    Opening::Other => return self.refuse(index, refusal),
                },
            }
        }
    }

    fn store(&mut self, index: u32, content: StoredContent) {
        if let State::Reading(Reading { request: Some(request), .. }) = &mut self.connections[index].state {
            request.content = content;
        }
    }

    /// Chooses a place for content of known or unknown size, and sets the deadline for it.
    fn make_room_for_content(&mut self, index: u32, size: Option<u64>) -> Still {
        let Self { connections, uploads, memory: Memory { spare_content, .. }, .. } = self;
        let Connection { input, state, .. } = &mut connections[index];
        let room = &mut Room { input: Some(input), spare: spare_content, bounds: uploads.bounds };
        let stored = StoredContent::with_room(size, room);
        if let (State::Reading(reading), Some(size)) = (state, size) {
            reading.content_left = size;
        }
        match stored {
            Ok(content) => {
                let is_file = content.held().files > 0;
                self.store(index, content);
                self.deadlines.set(index, Deadline::Content, self.backend.now());
                if is_file { self.bound_content(ExchangeIndex::Connection(index)) } else { Still::Open }
            }
            Err(error) => self.refuse_storage(index, &error),
        }
    }

    /// Prepares to wait for more input.
    #[inline(never)]
    fn await_input(&mut self, index: u32) -> Still {
        let now = self.backend.now();
        let connection = &mut self.connections[index];
        let State::Reading(reading) = &connection.state else { return Still::Open };
        let mut still = Still::Open;
        match &reading.request {
            None if !connection.input.has_unread() => connection.input.release(&mut self.memory.inputs),
            None => {
                if connection.requests > 0 && !self.deadlines.runs(index, Deadline::Head) {
                    self.deadlines.set(index, Deadline::Head, now);
                }
            }
            Some(request) => {
                if connection.machine.expects_continue() && !connection.input.has_unread() && request.content.is_empty() {
                    let output = connection.line.output.get_or_insert_with(|| self.memory.outputs.take());
                    connection.machine.write_continue(output.tail());
                    connection.line.trim(&mut self.memory.outputs);
                    still = self.flush(index);
                }
            }
        }
        if still == Still::Gone {
            return Still::Gone;
        }
        let connection = &mut self.connections[index];
        if !connection.line.readable {
            connection.input.park(&mut self.memory.inputs);
        }
        let Connection { state: State::Reading(Reading { request: Some(request), .. }), input, .. } = connection else {
            return Still::Open;
        };
        let buffer = if input.pinned { input.capacity() } else { 0 };
        request.content.count(buffer, &self.uploads.bounds);
        self.bound_content(ExchangeIndex::Connection(index))
    }

    /// Queues a request that is complete.
    #[inline(never)]
    pub(super) fn complete(&mut self, index: u32) -> Still {
        let connection = &mut self.connections[index];
        let State::Reading(reading) = &mut connection.state else { return Still::Open };
        let Some(mut request) = reading.request.take() else { return Still::Open };
        if let Err(error) = request.content.complete(&self.uploads.bounds) {
            reading.request = Some(request);
            return self.refuse_storage(index, &error);
        }
        self.queue(index, request);
        Still::Open
    }

    #[inline(always)]
    fn queue(&mut self, index: u32, mut request: Box<Received>) {
        request.complete_at = self.backend.now().into();
        let connection = &mut self.connections[index];
        connection.enter(State::Queued(request));
        self.deadlines.clear(index);
        if connection.in_a_row > 0 {
            // This is the next of several requests in one buffer, which are answered in a row.
            self.run_queue.ready.push_front(ExchangeIndex::Connection(index));
        } else {
            self.run_queue.ready.push_back(ExchangeIndex::Connection(index));
        }
    }

    pub(super) fn refuse_storage(&mut self, index: u32, error: &io::Error) -> Still {
        log::error!("cannot store request content in {}: {error}", self.settings.temporary_directory.display());
        self.refuse(index, crate::shortage::refusal(error))
    }
}
