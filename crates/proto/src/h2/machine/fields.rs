//! Reads HEADERS and CONTINUATION (RFC 9113, sections 6.2, 6.10 and 8.1).
//!
//! A block that is whole in the input is decoded there. Only a block that arrives in pieces is collected first.

use super::super::error::{StreamError, Violation};
use super::super::frame::{HEADER_BYTES, Header, flag};
use super::super::head::{self, Trouble};
use super::super::hpack::Fault;
use super::super::streams::{Reading, Stream};
use super::super::{Limits, Priority};
use super::{Answer, Event, FramePart, HIGHEST_STREAM, Leaving, Machine, Read};
use crate::h2::error::ErrorCode;
use alloc::vec::Vec;
use oribi_message::HeadLayout;

/// The bytes of a block may exceed the size of its fields by this factor: Huffman codes may be longer than their text.
const BLOCK_FACTOR: usize = 2;

/// The bytes of an obsolete priority in HEADERS, which is ignored except for its dependency (see `depends_on`).
const PRIORITY_BYTES: usize = 5;

/// Whether the obsolete priority at the start of `bytes` makes a stream depend on `id`. RFC 9113 requires the rest of the
/// priority to be ignored. A stream that depends on itself is an error in RFC 7540, section 5.3.1, and no client sends that by
/// mistake.
pub(super) fn depends_on(id: u32, bytes: &[u8]) -> bool {
    bytes.first_chunk().is_some_and(|&parent| u32::from_be_bytes(parent) & HIGHEST_STREAM == id)
}

impl Machine {
    #[inline]
    pub(super) fn begin_fields(
        &mut self,
        header: Header,
        rest: &[u8],
        text: &mut Vec<u8>,
        layout: &mut HeadLayout,
        limits: &Limits,
    ) -> Result<Read, Violation> {
        let Header { id, length, .. } = header;
        if id == 0 {
            return Err(Violation::STREAM_ZERO);
        }
        if id.is_multiple_of(2) {
            return Err(Violation::STREAM_EVEN);
        }
        if id <= self.last && self.streams.get(id).is_none() && !self.streams.is_abandoned(id) && !self.is_ignored(id) {
            // Section 5.1.1: a stream that has been passed over can no longer be opened.
            return Err(if id > self.last_but_one && id < self.last {
                Violation::STREAM_ORDER
            } else {
                Violation::STREAM_CLOSED
            });
        }
        let padded = usize::from(header.has(flag::PADDED));
        let front = padded + if header.has(flag::PRIORITY) { PRIORITY_BYTES } else { 0 };
        let Some(behind) = (length as usize).checked_sub(front) else { return Err(Violation::FRAME_LENGTH) };
        if rest.len() < HEADER_BYTES + front {
            return Ok(None);
        }
        if header.has(flag::PRIORITY) && depends_on(id, &rest[HEADER_BYTES + padded..]) {
            return Err(Violation::PRIORITY_ITSELF);
        }
        let padding = if padded > 0 { rest[HEADER_BYTES] } else { 0 };
        let Some(fragment) = behind.checked_sub(usize::from(padding)) else { return Err(Violation::PADDING) };
        self.block_ends = header.has(flag::END_STREAM);
        self.block_frames = 1;
        self.continuing = true;
        self.frame = header;
        self.padding = padding;
        self.read_fragment(rest, HEADER_BYTES + front, fragment, text, layout, limits)
    }

    pub(super) fn continue_fields(
        &mut self,
        header: Header,
        rest: &[u8],
        text: &mut Vec<u8>,
        layout: &mut HeadLayout,
        limits: &Limits,
    ) -> Result<Read, Violation> {
        if !self.continuing {
            return Err(Violation::CONTINUATION);
        }
        self.block_frames = self.block_frames.saturating_add(1);
        if self.block_frames > limits.field_frames {
            return Err(Violation::CONTINUATIONS);
        }
        self.frame = header;
        self.padding = 0;
        self.read_fragment(rest, HEADER_BYTES, header.length as usize, text, layout, limits)
    }

    /// Reads a fragment of a block, which has `fragment` bytes and starts at `start`.
    #[inline]
    fn read_fragment(
        &mut self,
        rest: &[u8],
        start: usize,
        fragment: usize,
        text: &mut Vec<u8>,
        layout: &mut HeadLayout,
        limits: &Limits,
    ) -> Result<Read, Violation> {
        if self.block.len() + fragment > limits.kept() * BLOCK_FACTOR {
            return Err(Violation::BLOCK_LENGTH);
        }
        if self.block.is_empty()
            && self.frame.has(flag::END_HEADERS)
            && let Some(block) = rest.get(start..start + fragment)
        {
            self.frame.length = u32::from(self.padding);
            self.part = if self.padding > 0 { FramePart::Skipped } else { FramePart::Header };
            let event = self.end_block(block, text, layout, limits)?;
            return Ok(Some((start + fragment, event)));
        }
        self.frame.length = fragment as u32;
        self.part = FramePart::Fields;
        Ok(Some((start, None)))
    }

    /// Collects the part of a fragment that has arrived.
    pub(super) fn read_fields(
        &mut self,
        rest: &[u8],
        text: &mut Vec<u8>,
        layout: &mut HeadLayout,
        limits: &Limits,
    ) -> Result<Read, Violation> {
        let length = rest.len().min(self.frame.length as usize);
        if length == 0 && self.frame.length > 0 {
            return Ok(None);
        }
        self.block.extend_from_slice(&rest[..length]);
        self.frame.length -= length as u32;
        if self.frame.length > 0 {
            return Ok(Some((length, None)));
        }
        self.frame.length = u32::from(self.padding);
        self.part = if self.padding > 0 { FramePart::Skipped } else { FramePart::Header };
        if !self.frame.has(flag::END_HEADERS) {
            return Ok(Some((length, None)));
        }
        let block = core::mem::take(&mut self.block);
        let event = self.end_block(&block, text, layout, limits)?;
        Ok(Some((length, event)))
    }

    /// Handles a complete block: the block begins a request, ends a request as trailers, or is no longer needed.
    #[inline]
    fn end_block(
        &mut self,
        block: &[u8],
        text: &mut Vec<u8>,
        layout: &mut HeadLayout,
        limits: &Limits,
    ) -> Result<Option<Event>, Violation> {
        self.continuing = false;
        let id = self.frame.id;
        if id <= self.last {
            return self.end_trailers(id, block, text, layout, limits);
        }
        self.last_but_one = self.last;
        self.last = id;
        if self.leaving == Leaving::Decided {
            self.skip_block(block, text, limits)?;
            return self.allowance.frame(limits).map(|()| None);
        }
        if self.streams.len() >= limits.streams as usize {
            self.skip_block(block, text, limits)?;
            self.reject(id, ErrorCode::REFUSED_STREAM);
            return Ok(None);
        }
        let ends = self.block_ends;
        let reading = if ends { Reading::Ended } else { Reading::Open };
        match head::read(&mut self.decoder, block, ends, self.tunnels, text, layout, limits) {
            Ok(outline) => {
                let mut stream = Stream::new(id, self.stream_window, self.most_allowed_stream, reading);
                stream.bodiless = outline.bodiless;
                stream.tunnel = outline.protocol.is_some();
                stream.expects_continue = outline.expects_continue;
                stream.announced = outline.content_length.is_some();
                stream.left = match outline.content_length {
                    Some(length) => length,
                    None if stream.tunnel => u64::MAX,
                    None => limits.content_bytes,
                };
                let early = self.take_early(id);
                let said = || outline.priority.and_then(|value| Priority::read(value.of(text)));
                stream.priority = early.or_else(said).unwrap_or_default();
                self.begin(stream);
                Ok(Some(Event::Head { id, outline, complete: ends }))
            }
            Err(Trouble::Refused(refusal, bodiless)) => {
                let reading = if ends { Reading::Ended } else { Reading::Skipped };
                let mut stream = Stream::new(id, self.stream_window, self.most_allowed_stream, reading);
                stream.bodiless = bodiless;
                self.begin(stream);
                Ok(Some(Event::Refused { id, refusal }))
            }
            Err(Trouble::Malformed(why)) => {
                self.reject(id, ErrorCode::PROTOCOL_ERROR);
                Ok(Some(Event::Malformed { id, why }))
            }
            Err(Trouble::Fault(fault)) => Err(violation(fault)),
        }
    }

    #[inline]
    fn begin(&mut self, stream: Stream) {
        self.last_served = stream.id;
        self.allowance.request();
        self.streams.add(stream);
    }

    /// Resets a stream that was never opened.
    #[cold]
    fn reject(&mut self, id: u32, code: ErrorCode) {
        if !self.block_ends {
            self.streams.abandon(id);
        }
        self.answer = Some(Answer::Reset { id, code });
        self.allowance.reset();
    }

    #[cold]
    fn end_trailers(
        &mut self,
        id: u32,
        block: &[u8],
        text: &mut Vec<u8>,
        layout: &mut HeadLayout,
        limits: &Limits,
    ) -> Result<Option<Event>, Violation> {
        let Some(stream) = self.streams.find(id) else {
            self.skip_block(block, text, limits)?;
            if self.block_ends {
                self.streams.forget(id);
            }
            return self.allowance.frame(limits).map(|()| None);
        };
        if stream.reading == Reading::Ended {
            self.skip_block(block, text, limits)?;
            return Ok(self.fail(id, StreamError::HALF_CLOSED));
        }
        let read = head::read_trailers(&mut self.decoder, block, text, layout, limits);
        if let Err(Trouble::Fault(fault)) = read {
            return Err(violation(fault));
        }
        if !self.block_ends {
            return Ok(self.fail(id, StreamError::TRAILERS_OPEN));
        }
        match read {
            Err(Trouble::Refused(refusal, _)) if stream.reading == Reading::Open => {
                stream.reading = Reading::Ended;
                Ok(Some(Event::Refused { id, refusal }))
            }
            Err(Trouble::Malformed(_)) => Ok(self.fail(id, StreamError::MALFORMED_TRAILERS)),
            _ => Ok(match self.end_content(id) {
                Some(Event::End { id, .. }) => Some(Event::End { id, trailers: !layout.fields.is_empty() }),
                other => other,
            }),
        }
    }

    #[cold]
    fn skip_block(&mut self, block: &[u8], text: &mut Vec<u8>, limits: &Limits) -> Result<(), Violation> {
        match head::skip(&mut self.decoder, block, text, limits) {
            Err(Trouble::Fault(fault)) => Err(violation(fault)),
            _ => Ok(()),
        }
    }

    /// Takes the priority that the client sent for this stream before opening the stream.
    #[inline]
    fn take_early(&mut self, id: u32) -> Option<Priority> {
        let place = self.early.iter().position(|early| early.is_some_and(|(early, _)| early == id))?;
        self.early[place].take().map(|(_, priority)| priority)
    }
}

const fn violation(fault: Fault) -> Violation {
    match fault {
        Fault::Invalid => Violation::COMPRESSION,
        Fault::Large => Violation::LIST_LENGTH,
    }
}
