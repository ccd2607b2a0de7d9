//! Reads the frames that carry no message (RFC 9113, sections 6.3 to 6.9; RFC 9218, section 7), and leaves the connection.

use super::super::error::{ErrorCode, StreamError, Violation};
use super::super::frame::{self, HEADER_BYTES, Header, flag};
use super::super::{Limits, Priority};
use super::fields::depends_on;
use super::{Answer, Event, FIRST_WINDOW, FramePart, HIGHEST_STREAM, LARGEST_WINDOW, Leaving, Machine, Read};
use alloc::vec::Vec;

/// Settings (RFC 9113, section 6.5.2; RFC 8441, section 3; RFC 9218, section 2.1).
mod setting {
    pub(super) const ENABLE_PUSH: u16 = 2;
    pub(super) const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub(super) const INITIAL_WINDOW_SIZE: u16 = 4;
    pub(super) const MAX_FRAME_SIZE: u16 = 5;
    pub(super) const MAX_HEADER_LIST_SIZE: u16 = 6;
    pub(super) const ENABLE_CONNECT_PROTOCOL: u16 = 8;
    pub(super) const NO_RFC7540_PRIORITIES: u16 = 9;
}

const SETTING_BYTES: usize = 6;

/// The most bytes of a PRIORITY_UPDATE that is read; a longer one is ignored. The frame is read only when it is complete. The
/// values in use have six bytes.
const PRIORITY_UPDATE_BYTES: u32 = 128;

/// The content of the PING whose acknowledgement shows that the client has read the first GOAWAY.
const LEAVING_PING: &[u8; 8] = b"leaving!";

impl Machine {
    pub(super) fn control(&mut self, header: Header, rest: &[u8], limits: &Limits) -> Result<Read, Violation> {
        let Header { length, kind, id, .. } = header;
        let (on_zero, wanted) = match kind {
            frame::PUSH_PROMISE => return Err(Violation::PUSH),
            frame::SETTINGS => (true, None),
            frame::PING => (true, Some(8)),
            frame::GOAWAY | frame::PRIORITY_UPDATE => (true, None),
            frame::RST_STREAM => (false, Some(4)),
            frame::WINDOW_UPDATE => (id == 0, Some(4)),
            frame::PRIORITY => (false, None),
            _ => {
                self.allowance.frame(limits)?;
                return Ok(self.skip_rest(header, 0));
            }
        };
        match (on_zero, id) {
            (true, 1..) => return Err(Violation::STREAM_NOT_ZERO),
            (false, 0) => return Err(Violation::STREAM_ZERO),
            _ => {}
        }
        if wanted.is_some_and(|wanted| length != wanted) {
            return Err(Violation::FRAME_LENGTH);
        }
        match kind {
            frame::SETTINGS => self.begin_settings(header, limits),
            frame::GOAWAY if length < 8 => Err(Violation::FRAME_LENGTH),
            frame::GOAWAY => {
                // The client opens no more streams, and closes the connection when its last stream has ended.
                self.allowance.frame(limits)?;
                Ok(self.skip_rest(header, 0))
            }
            frame::PRIORITY => {
                if length == 5 && rest.len() < HEADER_BYTES + 5 {
                    // The frame is read again when it is complete, and counts once.
                    return Ok(None);
                }
                self.allowance.frame(limits)?;
                if length == 5 && depends_on(id, &rest[HEADER_BYTES..HEADER_BYTES + 5]) {
                    return Err(Violation::PRIORITY_ITSELF);
                }
                let event = match length {
                    5 => None,
                    // On a stream that is not open, a reset would break a rule itself.
                    _ if self.streams.get(id).is_none() => return Err(Violation::FRAME_LENGTH),
                    _ => self.fail(id, StreamError::PRIORITY_LENGTH),
                };
                let read = self.skip_rest(header, 0);
                Ok(read.map(|(length, _)| (length, event)))
            }
            frame::PRIORITY_UPDATE => self.update_priority(header, rest, limits),
            _ => {
                let Some(payload) = rest.get(HEADER_BYTES..HEADER_BYTES + length as usize) else { return Ok(None) };
                let event = match (kind, payload.first_chunk::<8>(), payload.first_chunk::<4>()) {
                    (frame::PING, Some(opaque), _) => self.ping(header, *opaque, limits)?,
                    (frame::RST_STREAM, ..) => self.stream_reset(id, limits)?,
                    (_, _, Some(bytes)) => self.window_update(id, u32::from_be_bytes(*bytes) & LARGEST_WINDOW, limits)?,
                    _ => None,
                };
                Ok(Some((HEADER_BYTES + payload.len(), event)))
            }
        }
    }

    fn begin_settings(&mut self, header: Header, limits: &Limits) -> Result<Read, Violation> {
        let acknowledges = header.has(flag::ACK);
        if !(header.length as usize).is_multiple_of(SETTING_BYTES) || (acknowledges && header.length > 0) {
            return Err(Violation::FRAME_LENGTH);
        }
        self.allowance.frame(limits)?;
        self.first = false;
        if !acknowledges {
            self.frame = header;
            self.new_window = None;
            self.part = FramePart::Settings;
        }
        Ok(Some((HEADER_BYTES, None)))
    }

    pub(super) fn read_settings(&mut self, rest: &[u8]) -> Result<Read, Violation> {
        let mut taken = 0;
        while self.frame.length > 0 {
            let Some([a, b, c, d, e, f]) = rest.get(taken..).and_then(|rest| rest.first_chunk()) else {
                return Ok((taken > 0).then_some((taken, None)));
            };
            taken += SETTING_BYTES;
            self.frame.length -= SETTING_BYTES as u32;
            let value = u32::from_be_bytes([*c, *d, *e, *f]);
            let most = match u16::from_be_bytes([*a, *b]) {
                setting::ENABLE_PUSH | setting::ENABLE_CONNECT_PROTOCOL | setting::NO_RFC7540_PRIORITIES => 1,
                setting::INITIAL_WINDOW_SIZE if value > LARGEST_WINDOW => return Err(Violation::SETTING_WINDOW),
                setting::INITIAL_WINDOW_SIZE => {
                    self.new_window = Some(value as i32);
                    continue;
                }
                // Frames of the size that every client takes are large enough.
                setting::MAX_FRAME_SIZE if (1 << 14..1 << 24).contains(&value) => continue,
                setting::MAX_FRAME_SIZE => return Err(Violation::SETTING),
                _ => continue,
            };
            if value > most {
                return Err(Violation::SETTING);
            }
        }
        // Only the last of several values has a lasting effect.
        if let Some(window) = self.new_window.take() {
            self.change_windows(window)?;
        }
        self.part = FramePart::Header;
        self.answer = Some(Answer::Acknowledge);
        Ok(Some((taken, None)))
    }

    /// Changes the windows of all streams by as much as the initial window (section 6.9.2).
    fn change_windows(&mut self, window: i32) -> Result<(), Violation> {
        let change = i64::from(window) - i64::from(self.stream_window);
        self.stream_window = window;
        if change == 0 {
            return Ok(());
        }
        for stream in self.streams.iter_mut() {
            let changed = i64::from(stream.window) + change;
            // The window cannot become too small: at most the allowed bytes have been sent.
            stream.window = i32::try_from(changed).map_err(|_| Violation::SETTING_WINDOW)?;
        }
        self.room = change > 0 && self.streams.any_waits();
        Ok(())
    }

    fn ping(&mut self, header: Header, opaque: [u8; 8], limits: &Limits) -> Result<Option<Event>, Violation> {
        self.allowance.frame(limits)?;
        if !header.has(flag::ACK) {
            self.answer = Some(Answer::Pong(opaque));
        } else if self.leaving == Leaving::Announced && opaque == *LEAVING_PING {
            self.answer = Some(Answer::Leave);
        }
        Ok(None)
    }

    fn stream_reset(&mut self, id: u32, limits: &Limits) -> Result<Option<Event>, Violation> {
        if id > self.last {
            return Err(Violation::STREAM_IDLE);
        }
        let known = self.lose(id);
        self.streams.forget(id);
        if known {
            return Ok(Some(Event::Reset { id, error: None }));
        }
        self.allowance.frame(limits)?;
        Ok(None)
    }

    fn window_update(&mut self, id: u32, increment: u32, limits: &Limits) -> Result<Option<Event>, Violation> {
        self.allowance.window_update(limits)?;
        if id == 0 {
            if increment == 0 {
                return Err(Violation::WINDOW_ZERO);
            }
            let before = self.window;
            self.window = before.checked_add(increment as i32).ok_or(Violation::WINDOW_OVERFLOW)?;
            self.room = before <= 0 && self.window > 0 && self.streams.any_waits();
            return Ok(None);
        }
        if id > self.last {
            return Err(Violation::STREAM_IDLE);
        }
        // The client may have sent this update before it knew that the stream had ended.
        let Some(stream) = self.streams.find(id) else { return Ok(None) };
        if increment == 0 {
            return Ok(self.fail(id, StreamError::WINDOW_ZERO));
        }
        let before = stream.window;
        let Some(window) = before.checked_add(increment as i32) else {
            return Ok(self.fail(id, StreamError::WINDOW_OVERFLOW));
        };
        stream.window = window;
        self.room = before <= 0 && window > 0 && self.window > 0 && self.streams.any_waits();
        Ok(None)
    }

    fn update_priority(&mut self, header: Header, rest: &[u8], limits: &Limits) -> Result<Read, Violation> {
        let length = header.length;
        if length < 4 {
            return Err(Violation::FRAME_LENGTH);
        }
        if length > PRIORITY_UPDATE_BYTES {
            self.allowance.frame(limits)?;
            return Ok(self.skip_rest(header, 0));
        }
        let Some(payload) = rest.get(HEADER_BYTES..HEADER_BYTES + length as usize) else { return Ok(None) };
        let Some((id, value)) = payload.split_first_chunk() else { return Ok(None) };
        self.allowance.frame(limits)?;
        let id = u32::from_be_bytes(*id) & HIGHEST_STREAM;
        if id.is_multiple_of(2) {
            return Err(Violation::PRIORITY_UPDATE);
        }
        // Missing parameters have their defaults (RFC 9218, section 7).
        let priority = Priority::read(value).unwrap_or_default();
        if let Some(stream) = self.streams.find(id) {
            stream.priority = priority;
        } else if id > self.last {
            // The oldest entry makes room.
            let [first, second] = self.early;
            self.early = match first {
                Some((early, _)) if early == id => [second, Some((id, priority))],
                _ if second.is_some_and(|(early, _)| early == id) => [first, Some((id, priority))],
                _ => [second, Some((id, priority))],
            };
        }
        Ok(Some((HEADER_BYTES + payload.len(), None)))
    }

    /// Writes the server's preface (section 3.4): its settings, and the window of the connection.
    pub(super) fn write_settings(&self, limits: &Limits, out: &mut Vec<u8>) {
        let list = u32::try_from(limits.kept()).unwrap_or(u32::MAX);
        let settings = [
            Some((setting::MAX_CONCURRENT_STREAMS, limits.streams)),
            Some((setting::INITIAL_WINDOW_SIZE, self.most_allowed_stream)),
            Some((setting::MAX_HEADER_LIST_SIZE, list)),
            self.tunnels.then_some((setting::ENABLE_CONNECT_PROTOCOL, 1)),
            Some((setting::NO_RFC7540_PRIORITIES, 1)),
        ];
        let count = settings.iter().flatten().count();
        let length = (count * SETTING_BYTES) as u32;
        out.extend_from_slice(&Header { length, kind: frame::SETTINGS, flags: 0, id: 0 }.to_bytes());
        for (name, value) in settings.into_iter().flatten() {
            out.extend_from_slice(&name.to_be_bytes());
            out.extend_from_slice(&value.to_be_bytes());
        }
        if self.most_allowed > FIRST_WINDOW {
            frame::write_window_update(0, self.most_allowed - FIRST_WINDOW, out);
        }
    }

    /// Begins to leave (section 6.8): asks the client to open no more streams. Streams that the client opens before it has read
    /// this are still served. When the client has answered a PING, which it does at once, further streams are ignored. Active
    /// streams continue; when there are none, the connection must close. The caller, which has a clock, calls
    /// [`Machine::retire_at_once`] if the answer to the PING takes too long. Before the client's preface has arrived, this
    /// method does nothing, because the server's own preface must come first. So the caller calls it again with the first
    /// request.
    pub fn retire(&mut self, out: &mut Vec<u8>) {
        if self.leaving == Leaving::No && self.refused.is_none() && self.has_begun() {
            self.leaving = Leaving::Announced;
            self.last_of_all = (self.streams.len() == 0).then_some(self.last);
            frame::write_goaway(HIGHEST_STREAM, ErrorCode::NO_ERROR, out);
            frame::write(frame::PING, 0, 0, LEAVING_PING, out);
        }
    }

    /// Ignores all streams but the active ones from now on. Announces this to the client, if the client's preface has arrived.
    pub fn retire_at_once(&mut self, out: &mut Vec<u8>) {
        if self.leaving != Leaving::Decided && self.refused.is_none() {
            self.last_of_all = None;
            if self.answer == Some(Answer::Leave) {
                self.answer = None;
            }
            if self.has_begun() {
                self.leave(out);
            } else {
                self.leaving = Leaving::Decided;
            }
        }
    }

    /// Whether the server's preface has been written, before which no other frame is allowed (section 3.4).
    fn has_begun(&self) -> bool {
        self.part != FramePart::Preface && self.answer != Some(Answer::Settings)
    }

    /// Takes the second step of leaving: announces the last stream that is served.
    pub(super) fn leave(&mut self, out: &mut Vec<u8>) {
        self.leaving = Leaving::Decided;
        frame::write_goaway(self.last, ErrorCode::NO_ERROR, out);
        self.last_served = self.last;
    }
}
