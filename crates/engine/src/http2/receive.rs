//! Assembles complete requests from frames.

use super::super::apply_forwarded::apply_forwarded;
use super::super::carrier::Carrier;
use super::super::connection::{Connection, Fate, State};
use super::super::content::{Room, StoredContent};
use super::super::deadline::Deadline;
use super::super::memory::Memory;
use super::super::misdirected::is_misdirected;
use super::super::name::ExchangeIndex;
use super::super::send::Still;
use super::super::stream::{Stream, StreamState};
use super::super::trailers::ReceivedTrailers;
use super::super::tunnel::Tunnel;
use super::super::uploads::Destination;
use super::super::{Engine, ServeState};
use super::tunnel::as_upgrade;
use core::ops::Range;
use oribi_config::Forwarding;
use oribi_io::Backend;
use oribi_message::RequestHead;
use oribi_proto::h2::{Event, Outline, Refusal, Violation};
use oribi_stats::totals::Counter;

/// A head of at least this size is counted before any content has arrived. A smaller head takes less memory than the stream
/// itself.
const LARGE_HEAD: usize = 2 << 10;

impl<B: Backend> Engine<'_, B> {
    /// Lets the machine read unread input until it needs more.
    pub(in super::super) fn parse_frames(&mut self, index: u32) -> Still {
        let now = self.backend.now().as_nanos() as u64;
        if let Some(machine) = self.connections[index].carrier().and_then(Carrier::http2) {
            machine.pass_time(now, &self.limits.frames);
        }
        loop {
            let Connection { line, input, state, .. } = &mut self.connections[index];
            let State::Carrying(carrier) = state else { return Still::Open };
            let Some(machine) = carrier.http2() else { return Still::Open };
            let (text, layout) = (&mut self.memory.head_text, &mut self.memory.blank.layout);
            let step = machine.handle_input(input.unread(), text, layout, &self.limits.frames);
            let start = input.position();
            input.consume(step.consumed);
            let still = match step.event {
                Event::NeedInput => return Still::Open,
                Event::Head { id, outline, complete } => self.begin_request(index, id, outline, complete),
                Event::Content { id, range } => self.take_piece(index, id, start + range.start..start + range.end),
                Event::End { id, trailers } => match self.reading_stream(index, id) {
                    Some(number) => {
                        if trailers {
                            self.take_trailers(number);
                        }
                        self.complete_stream(number)
                    }
                    None => {
                        self.end_of_tunnel(index, id);
                        if self.connections.get(index).is_some() { Still::Open } else { Still::Gone }
                    }
                },
                Event::Refused { id, refusal } => {
                    if carrier.number(id).is_none() {
                        self.tally.count(Counter::Http2Streams);
                    }
                    self.refuse_request(index, id, refusal)
                }
                Event::Reset { id, error } => {
                    match error {
                        Some(error) => log::debug!("a stream was reset: {}", error.reason()),
                        None => self.tally.count(Counter::Http2ResetsByClient),
                    }
                    if let Some(number) = carrier.number(id) {
                        self.lose_stream(number);
                    }
                    self.end_or_rest(index)
                }
                Event::Malformed { why, .. } => {
                    self.tally.count(Counter::Http2Streams);
                    log::debug!("a stream was reset: {}", why.reason());
                    Still::Open
                }
                Event::Room => self.send_waiting(index),
                Event::Answer => {
                    let (reset, calms) = (machine.resets(), machine.calms());
                    machine.write_answer(
                        &self.limits.frames,
                        line.output.get_or_insert_with(|| self.memory.outputs.take()).tail(),
                    );
                    line.trim(&mut self.memory.outputs);
                    self.count_reset(reset);
                    if let Some(violation) = calms {
                        self.note_violation(violation);
                    }
                    self.flush_and_rest(index)
                }
                Event::Refuse(violation) => return self.refuse_client(index, violation),
            };
            if still == Still::Gone {
                return Still::Gone;
            }
        }
    }

    /// Begins a request whose head has been read: its layout is in the blank request.
    fn begin_request(&mut self, index: u32, id: u32, outline: Outline, complete: bool) -> Still {
        let now = self.backend.now();
        self.tally.count_http2();
        let fresh = self.memory.spare_requests.pop().unwrap_or_default();
        let mut request = std::mem::replace(&mut self.memory.blank, fresh);
        std::mem::swap(&mut request.text, &mut self.memory.head_text);
        let connection = &mut self.connections[index];
        request.earlier = connection.requests;
        connection.requests = connection.requests.wrapping_add(1);
        request.remote = connection.remote;
        let socket = &connection.line.socket;
        request.forwarded.https = self.backend.encryption(socket).is_some();
        let head = RequestHead::new(&request.text, &request.layout);
        if request.forwarded.https && is_misdirected(&self.backend, socket, head) {
            self.recycle_carried(request);
            return self.refuse_request(index, id, Refusal::MISDIRECTED);
        }
        let forwarding = connection.forwarding;
        if forwarding != Forwarding::Kept {
            let text = std::mem::take(&mut request.text);
            let applied = apply_forwarded(&mut request, &text, forwarding, &self.settings.proxies);
            request.text = text;
            if let Err(contradiction) = applied {
                self.recycle_carried(request);
                self.tell_of_contradiction(contradiction);
                return self.refuse_request(index, id, Refusal::FORWARDED);
            }
        }
        if let Some(ids) = &mut self.server_fields.ids {
            request.id = Some(ids.identify_in(&mut request.layout, &mut request.text, forwarding));
        }
        if let Some(traces) = &mut self.observing.traces {
            traces.place_in(&mut request.layout, &mut request.text, forwarding);
        }
        let remote = request.remote;
        let mut trouble = None;
        let tunnels = outline.protocol.is_some();
        if let Some(protocol) = outline.protocol
            && (complete || !as_upgrade(&mut request, protocol))
        {
            self.recycle_carried(request);
            return self.refuse_request(index, id, Refusal::METHOD_CONNECT);
        }
        let complete = complete || tunnels;
        if complete {
            request.complete_at = now.into();
        } else {
            let bounds = self.uploads.bounds;
            // If the connection may have no more files, large content also begins in memory.
            let size = outline.content_length.filter(|size| *size <= bounds.in_memory as u64 || !self.has_all_files(index));
            let room = &mut Room { input: None, spare: &mut self.memory.spare_content, bounds };
            match StoredContent::with_room(size, room) {
                Ok(content) => {
                    request.content = content;
                    if request.text.len() >= LARGE_HEAD {
                        request.content.count(request.text.len(), &bounds);
                    }
                }
                Err(error) => trouble = Some(error),
            }
        }
        let announced = outline.content_length;
        let number = self.streams.insert_with(|| Stream::of_client(index, id, remote, request, complete, announced));
        if tunnels {
            self.streams[number].tunnel = Some(Box::new(Tunnel::Asked { early: Vec::new(), ended: false }));
        }
        if let Some(carrier) = self.connections[index].carrier() {
            carrier.add(id, number);
        }
        self.no_longer_idle(index);
        if self.part_with_client(index) == Still::Gone {
            return Still::Gone;
        }
        if let Some(error) = trouble {
            return self.refuse_stream_storage(number, &error);
        }
        if complete {
            // There is no content to complete, and no deadline for content runs.
            self.run_queue.ready.push_back(ExchangeIndex::Stream(number));
            return Still::Open;
        }
        self.stream_deadlines.set(number, Deadline::Content, now);
        if self.bound_content(ExchangeIndex::Stream(number)) == Still::Gone {
            return Still::Gone;
        }
        if outline.expects_continue {
            let Connection { line, state, .. } = &mut self.connections[index];
            if let State::Carrying(carrier) = state
                && let Some(machine) = carrier.http2()
            {
                machine.write_continue(id, line.output.get_or_insert_with(|| self.memory.outputs.take()).tail());
                return self.flush(index);
            }
        }
        Still::Open
    }

    /// Announces to the client that its connection is about to end, if that is so.
    fn part_with_client(&mut self, index: u32) -> Still {
        let requests = self.connections[index].requests;
        if let Some(most) = self.settings.limits.requests_per_connection {
            // A client that ignores the first announcement may not continue for ever.
            if requests == most {
                self.tally.count(Counter::LimitKeepaliveRequests);
            }
            if requests >= most.saturating_add(self.settings.limits.http2_streams) {
                return self.leave_client_at_once(index);
            }
            if requests >= most {
                return self.leave_client(index);
            }
        }
        let serves = self.stage == ServeState::Serving || self.stage == ServeState::Thinning && !self.has_ended(index);
        if serves && !self.hands_over { Still::Open } else { self.leave_client(index) }
    }

    fn take_piece(&mut self, index: u32, id: u32, range: Range<usize>) -> Still {
        let Some(number) = self.reading_stream(index, id) else { return self.take_from_tunnel(index, id, range) };
        let StreamState::Requested(requested) = &self.streams[number].state else { return Still::Open };
        let place = self.room_on_connection(index, number, &requested.request.content, range.len());
        if place == Destination::None {
            return self.refuse_excess(number);
        }
        let Self { streams, connections, uploads, memory: Memory { outputs, .. }, .. } = self;
        let Connection { line, input, state, .. } = &mut connections[index];
        let StreamState::Requested(requested) = &mut streams[number].state else { return Still::Open };
        let (piece, content) = (&input.bytes()[range], &mut requested.request.content);
        let added = match place {
            Destination::File => content.move_to_file(piece.len(), &uploads.bounds),
            _ => Ok(()),
        };
        let added = added.and_then(|()| match place {
            Destination::Waits => content.add_here(piece, &uploads.bounds),
            _ => content.add(piece, &uploads.bounds),
        });
        if let Err(error) = added {
            return self.refuse_stream_storage(number, &error);
        }
        // Content that is complete with this piece is passed on at once, so it is not counted.
        if requested.announced.is_none_or(|size| content.size() < size) {
            content.count(requested.request.text.len(), &uploads.bounds);
        }
        if let State::Carrying(carrier) = state {
            if place == Destination::Waits {
                requested.withheld += piece.len();
                carrier.withholds = true;
            }
            if let Some(machine) = carrier.http2() {
                let output = line.output.get_or_insert_with(|| outputs.take());
                match place {
                    Destination::Waits => machine.withhold(id, piece.len(), output.tail()),
                    _ => machine.consume(id, piece.len(), output.tail()),
                }
                line.trim(outputs);
            }
        }
        if self.bound_content(ExchangeIndex::Stream(number)) == Still::Gone {
            return Still::Gone;
        }
        self.flush(index)
    }

    /// Takes trailers that the machine has just read into the fields of the blank request.
    fn take_trailers(&mut self, number: u32) {
        let StreamState::Requested(requested) = &mut self.streams[number].state else { return };
        let fields = RequestHead::new(&self.memory.head_text, &self.memory.blank.layout).fields();
        requested.request.trailers = ReceivedTrailers::of(fields.map(|(_, name, value)| (name, value)));
    }

    /// Answers a request that the machine or the engine refuses. The request may have no stream yet.
    #[inline(never)]
    fn refuse_request(&mut self, index: u32, id: u32, refusal: Refusal) -> Still {
        let Connection { line, state, remote, .. } = &mut self.connections[index];
        let State::Carrying(carrier) = state else { return Still::Open };
        if let Some(number) = carrier.number(id) {
            return self.refuse_stream(number, refusal);
        }
        let Some(machine) = carrier.http2() else { return Still::Open };
        log::debug!("refused a request: {} {}", refusal.status(), refusal.reason());
        let https = self.backend.encryption(&line.socket).is_some();
        let output = line.output.get_or_insert_with(|| self.memory.outputs.take());
        machine.write_refusal(id, refusal, &self.server_fields.of_refusal(https, None), output.tail());
        let _ = machine.finish(id, output.tail());
        let remote = *remote;
        let ending = self.ending_of(index);
        self.record_refusal(&remote, None, refusal, ending);
        self.flush_and_rest(index)
    }

    /// Sends the error to a client that broke a rule, and ends its connection.
    fn refuse_client(&mut self, index: u32, violation: Violation) -> Still {
        let Connection { line, state, input, .. } = &mut self.connections[index];
        let State::Carrying(mut carrier) = std::mem::replace(state, State::Flushing(Fate::Linger)) else { return Still::Open };
        // If the machine was already ending the connection, the violation was noted when that began.
        let mut noted = false;
        if let Some(machine) = carrier.http2() {
            noted = machine.is_calming();
            machine.write_answer(&self.limits.frames, line.output.get_or_insert_with(|| self.memory.outputs.take()).tail());
            line.trim(&mut self.memory.outputs);
        }
        input.release(&mut self.memory.inputs);
        self.deadlines.clear(index);
        if !noted {
            self.note_violation(violation);
        }
        self.lose_streams(*carrier);
        if self.connections[index].line.output.is_none() { self.go_on(index, Fate::Linger) } else { self.flush(index) }
    }
}
