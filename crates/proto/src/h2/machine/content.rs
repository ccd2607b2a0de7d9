//! Reads DATA, and lets the client send more (RFC 9113, sections 5.2, 6.1 and 6.9).

use super::super::error::{StreamError, Violation};
use super::super::frame::{self, FRAME_BYTES, HEADER_BYTES, Header, flag};
use super::super::streams::Reading;
use super::{Event, FramePart, Leaving, Limits, Machine, Read};
use crate::h1::Refusal;
use alloc::vec::Vec;

impl Machine {
    /// Reads the header of a DATA frame. All checks happen here, so that the content itself is passed on without a check.
    pub(super) fn begin_content(&mut self, header: Header, rest: &[u8], limits: &Limits) -> Result<Read, Violation> {
        let Header { id, length, .. } = header;
        if id == 0 {
            return Err(Violation::STREAM_ZERO);
        }
        let padded = u32::from(header.has(flag::PADDED));
        if padded > length {
            return Err(Violation::FRAME_LENGTH);
        }
        let Some(rest) = rest.get(HEADER_BYTES..HEADER_BYTES + padded as usize) else { return Ok(None) };
        let padding = rest.first().copied().unwrap_or(0);
        let Some(content) = (length - padded).checked_sub(u32::from(padding)) else { return Err(Violation::PADDING) };
        if id > self.last {
            return Err(Violation::STREAM_IDLE);
        }
        // The whole frame counts (section 6.9.1).
        self.allowed = self.allowed.checked_sub(length).ok_or(Violation::WINDOW_EXCEEDED)?;
        let taken = HEADER_BYTES + padded as usize;
        self.frame = Header { length: length - padded, ..header };
        self.padding = 0;
        self.part = if self.frame.length == 0 { FramePart::Header } else { FramePart::Skipped };
        let tunnel = self.streams.get(id).is_some_and(|stream| stream.tunnel);
        let ends = header.has(flag::END_STREAM);
        match content {
            // Frames in a tunnel are as small as its messages.
            1.. if tunnel => {}
            0 if ends => {}
            content => self.allowance.content(content, limits)?,
        }
        let Some(stream) = self.streams.find(id) else {
            if !self.streams.is_abandoned(id) && !self.is_ignored(id) {
                return Err(Violation::STREAM_CLOSED);
            }
            self.credit += length;
            if ends {
                self.streams.forget(id);
            }
            return Ok(Some((taken, None)));
        };
        let error = if stream.reading == Reading::Ended {
            Some(StreamError::HALF_CLOSED)
        } else if length > stream.allowed {
            Some(StreamError::WINDOW_EXCEEDED)
        } else if stream.announced && u64::from(content) > stream.left {
            Some(StreamError::CONTENT_LONG)
        } else {
            None
        };
        if let Some(error) = error {
            self.credit += length;
            let event = self.fail(id, error);
            if ends {
                self.streams.forget(id);
            }
            return Ok(Some((taken, event)));
        }
        stream.allowed -= length;
        if stream.reading == Reading::Skipped {
            self.credit += length;
            if ends {
                stream.reading = Reading::Ended;
            }
            return Ok(Some((taken, None)));
        }
        if u64::from(content) > stream.left {
            self.credit += length;
            stream.reading = if ends { Reading::Ended } else { Reading::Skipped };
            return Ok(Some((taken, Some(Event::Refused { id, refusal: Refusal::CONTENT_SIZE }))));
        }
        stream.left -= u64::from(content);
        stream.held += content;
        stream.credit += length - content;
        self.credit += length - content;
        if content > 0 {
            self.frame.length = content;
            self.padding = padding;
            self.part = FramePart::Content;
            return Ok(Some((taken, None)));
        }
        // There is only padding, which is skipped.
        let event = if ends { self.end_content(id) } else { None };
        Ok(Some((taken, event)))
    }

    /// Passes on content, and handles the end of its frame.
    pub(super) fn read_content(&mut self, rest: &[u8], pos: usize) -> Read {
        let id = self.frame.id;
        if self.frame.length > 0 {
            let length = rest.len().min(self.frame.length as usize);
            if length == 0 {
                return None;
            }
            self.frame.length -= length as u32;
            // The caller may have ended the stream in the meantime. Then its held content has already been credited to the
            // client.
            let is_active = self.streams.get(id).is_some_and(|stream| stream.reading == Reading::Open);
            let event = is_active.then(|| Event::Content { id, range: pos..pos + length });
            return Some((length, event));
        }
        self.frame.length = u32::from(self.padding);
        self.part = if self.padding > 0 { FramePart::Skipped } else { FramePart::Header };
        if !self.frame.has(flag::END_STREAM) {
            return Some((0, None));
        }
        let is_active = self.streams.get(id).is_some();
        if !is_active {
            self.streams.forget(id);
        }
        let event = if is_active { self.end_content(id) } else { None };
        Some((0, event))
    }

    /// Handles the end of a stream whose request was open or is skipped.
    pub(super) fn end_content(&mut self, id: u32) -> Option<Event> {
        let stream = self.streams.find(id)?;
        let reading = core::mem::replace(&mut stream.reading, Reading::Ended);
        if reading != Reading::Open {
            return None;
        }
        if stream.announced && stream.left > 0 {
            return self.fail(id, StreamError::CONTENT_SHORT);
        }
        Some(Event::End { id, trailers: false })
    }

    /// Records that `size` bytes of content have been consumed, or that there is room for as many more; a window update
    /// follows sooner or later.
    pub fn consume(&mut self, id: u32, size: usize, out: &mut Vec<u8>) {
        let Some(stream) = self.streams.find(id) else { return };
        let size = stream.held.min(size as u32);
        stream.held -= size;
        self.credit += size;
        self.allow(id, size as usize, out);
        if self.owes_credit() {
            self.write_credit(out);
        }
    }

    /// Records that `size` bytes of content have been consumed, but that there is no room for more of this stream: the client
    /// may send the same number of bytes again, but only on other streams, until [`Machine::allow`] is called.
    pub fn withhold(&mut self, id: u32, size: usize, out: &mut Vec<u8>) {
        let Some(stream) = self.streams.find(id) else { return };
        let size = stream.held.min(size as u32);
        stream.held -= size;
        self.credit += size;
        if self.owes_credit() {
            self.write_credit(out);
        }
    }

    /// Records that there is room for `size` bytes of a stream that were withheld.
    #[inline]
    pub fn allow(&mut self, id: u32, size: usize, out: &mut Vec<u8>) {
        let Some(stream) = self.streams.find(id) else { return };
        stream.credit += size as u32;
        // Half a window in one go keeps the client sending, at the cost of few frames. A client that may send all of its
        // announced content needs nothing more.
        let needed = stream.reading == Reading::Open && !(stream.announced && stream.left <= u64::from(stream.allowed));
        if needed && stream.credit >= self.most_allowed_stream / 2 {
            let credit = core::mem::take(&mut stream.credit);
            stream.allowed += credit;
            frame::write_window_update(id, credit, out);
        }
    }

    /// Whether a window update of the connection is due. Half of the window is announced in one go, or half of the bytes that are left
    /// while streams hold content: the client may be unable to send half of the window.
    #[inline]
    pub(super) const fn owes_credit(&self) -> bool {
        let (credit, allowed) = (self.credit, self.allowed);
        credit >= self.most_allowed / 2 || credit > 0 && (allowed == 0 || credit >= allowed && credit >= FRAME_BYTES as u32)
    }

    pub(super) fn write_credit(&mut self, out: &mut Vec<u8>) {
        let credit = core::mem::take(&mut self.credit);
        self.allowed += credit;
        frame::write_window_update(0, credit, out);
    }

    /// Whether a stream was opened after the announcement that it would not be served.
    pub(super) fn is_ignored(&self, id: u32) -> bool {
        self.leaving == Leaving::Decided && id > self.last_served
    }
}
