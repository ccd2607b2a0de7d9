//! Frames of a client, joined to messages.

mod snapshot;

use crate::fault::{Fault, Mistake};
use crate::head::{self, Expected, Head, Opcode};
use crate::inflate::Inflater;
use crate::mask;
use crate::status;
use std::mem;

/// The bounds of what a client may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a message, after inflation; 1 MiB by default. A longer one is a fault of code 1009.
    pub message: usize,
    /// Frames of a message besides one for each 32 bytes of it; 16,384 by default. One more is a fault of code 1008.
    pub frames_of_message: usize,
}

/// Bytes that are worth a frame: frames with more of them are bounded by the length of the message.
const BYTES_OF_FRAME: usize = 32;

impl Default for Limits {
    fn default() -> Self {
        Self { message: 1 << 20, frames_of_message: 16_384 }
    }
}

impl Limits {
    /// Bytes of a message in frames. Compression makes random bytes a little longer: by five for each of its blocks.
    const fn payload(&self, compressed: bool) -> usize {
        if compressed { self.message.saturating_add(self.message / 64 + 128) } else { self.message }
    }
}

/// A message or a control frame of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A message in UTF-8.
    Text(&'a str),
    /// A message of any bytes.
    Binary(&'a [u8]),
    /// A ping, which is to be answered by a pong with the same bytes; at most 125.
    Ping(&'a [u8]),
    /// A pong; at most 125 bytes.
    Pong(&'a [u8]),
    /// The client's close frame. Nothing comes after it.
    Close {
        /// The status code; 1005 if the frame has none.
        code: u16,
        /// At most 123 bytes.
        reason: &'a str,
    },
}

/// The reading half of a connection: bytes go in, messages come out.
#[derive(Debug)]
pub struct Reader {
    /// A message or a frame of which a part has arrived. None between messages.
    partial: Option<Box<Partial>>,
    deflate: bool,
    closed: bool,
    failed: Option<Mistake>,
}

#[derive(Debug, Default)]
struct Partial {
    /// The message whose last frame has not arrived yet.
    message: Option<Begun>,
    /// The frame whose payload is arriving.
    frame: Option<Frame>,
    /// The bytes of a head that is not complete.
    head: [u8; head::LONGEST],
    head_length: usize,
    /// The payload so far of a message.
    payload: Vec<u8>,
    /// The first bytes of `payload` that are known to be UTF-8. Up to three bytes behind them begin a character.
    checked: usize,
    /// The payload so far of a control frame.
    control: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Begun {
    text: bool,
    compressed: bool,
    frames: usize,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    opcode: Opcode,
    last: bool,
    compressed: bool,
    mask: [u8; 4],
    /// The bytes of the payload that have not arrived.
    missing: usize,
}

impl Reader {
    /// A reader for a new connection. `deflate`: permessage-deflate was agreed upon ([`Deflate`](crate::Deflate)).
    pub const fn new(deflate: bool) -> Self {
        Self { partial: None, deflate, closed: false, failed: None }
    }

    /// Takes in `bytes`, which it unmasks in place, and calls `taken` for each complete message and control frame, in order. A
    /// message in one frame that is whole in `bytes` is not copied. If `taken` returns false, the reader stops behind that
    /// message. Returns the number of bytes that were consumed; the caller gives the others again. Bytes behind a close frame
    /// are dropped.
    ///
    /// # Errors
    /// The client has made a mistake. The connection must be closed; each further call returns the same error.
    pub fn read(
        &mut self,
        bytes: &mut [u8],
        limits: &Limits,
        inflate: &mut Inflater,
        taken: &mut dyn FnMut(Message<'_>) -> bool,
    ) -> Result<usize, Fault> {
        if let Some(mistake) = self.failed {
            return Err(mistake.into());
        }
        self.consume(bytes, limits, inflate, taken).map_err(|mistake| {
            self.failed = Some(mistake);
            self.partial = None;
            mistake.into()
        })
    }

    /// Whether no part of a message or frame has arrived that is not complete.
    pub fn is_between_messages(&self) -> bool {
        self.partial.is_none()
    }

    /// The bytes of heap memory that the reader holds; 0 between messages.
    pub fn held(&self) -> usize {
        self.partial
            .as_ref()
            .map_or(0, |partial| size_of::<Partial>() + partial.payload.capacity() + partial.control.capacity())
    }

    fn consume(
        &mut self,
        bytes: &mut [u8],
        limits: &Limits,
        inflate: &mut Inflater,
        taken: &mut dyn FnMut(Message<'_>) -> bool,
    ) -> Result<usize, Mistake> {
        let mut consumed = 0;
        loop {
            if self.closed {
                return Ok(bytes.len());
            }
            let rest = &mut bytes[consumed..];
            if rest.is_empty() {
                return Ok(consumed);
            }
            let (frame, start) = match self.partial.as_mut().and_then(|partial| partial.frame.take()) {
                Some(frame) => (frame, 0),
                None => match self.begin_frame(rest, limits)? {
                    Some(begun) => begun,
                    None => return Ok(bytes.len()),
                },
            };
            let length = frame.missing.min(rest.len() - start);
            consumed += start + length;
            let payload = &mut rest[start..start + length];
            mask::apply(payload, frame.mask);
            let wants_more = if length < frame.missing {
                self.keep(frame, payload, limits)?;
                true
            } else if frame.opcode.is_control() {
                self.finish_control(&frame, payload, taken)?
            } else {
                self.finish_data(&frame, payload, limits, inflate, taken)?
            };
            if !wants_more {
                return Ok(consumed);
            }
        }
    }

    /// Reads the head at the start of `bytes`, which may have begun before, and returns its frame and the start of the payload.
    /// None: the head is not complete, and `bytes` are kept.
    fn begin_frame(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<(Frame, usize)>, Mistake> {
        let expected = Expected {
            deflate: self.deflate,
            in_message: self.partial.as_ref().is_some_and(|partial| partial.message.is_some()),
        };
        let parsed = match &mut self.partial {
            Some(partial) if partial.head_length > 0 => {
                let known = partial.head_length;
                let added = bytes.len().min(head::LONGEST - known);
                partial.head[known..known + added].copy_from_slice(&bytes[..added]);
                let parsed = Head::parse(&partial.head[..known + added], expected)?;
                partial.head_length = if parsed.is_some() { 0 } else { known + added };
                match parsed {
                    Some((head, size)) => (head, size - known),
                    None => return Ok(None),
                }
            }
            _ => match Head::parse(bytes, expected)? {
                Some(parsed) => parsed,
                None => {
                    let partial = self.partial.get_or_insert_default();
                    partial.head[..bytes.len()].copy_from_slice(bytes);
                    partial.head_length = bytes.len();
                    return Ok(None);
                }
            },
        };
        let (head, start) = parsed;
        if !head.opcode.is_control() {
            self.admit(head, limits)?;
        }
        let missing = usize::try_from(head.length).map_err(|_| Mistake::TooLong)?;
        let frame = Frame { opcode: head.opcode, last: head.last, compressed: head.compressed, mask: head.mask, missing };
        Ok(Some((frame, start)))
    }

    /// Checks the head of a data frame against the limits.
    fn admit(&mut self, head: Head, limits: &Limits) -> Result<(), Mistake> {
        let (compressed, known) = match self.partial.as_deref_mut() {
            Some(Partial { message: Some(message), payload, .. }) => {
                message.frames += 1;
                if message.frames > limits.frames_of_message.saturating_add(payload.len() / BYTES_OF_FRAME) {
                    return Err(Mistake::TooManyFrames);
                }
                (message.compressed, payload.len())
            }
            _ => (head.compressed, 0),
        };
        let most = limits.payload(compressed).saturating_sub(known);
        if head.length > most as u64 {
            return Err(Mistake::TooLong);
        }
        Ok(())
    }

    /// Keeps the first bytes of the payload of a frame whose other bytes have not arrived.
    fn keep(&mut self, mut frame: Frame, payload: &[u8], limits: &Limits) -> Result<(), Mistake> {
        let partial = self.partial.get_or_insert_default();
        if frame.opcode.is_control() {
            partial.control.extend_from_slice(payload);
        } else {
            partial.append(&frame, payload, limits)?;
        }
        frame.mask = mask::after(frame.mask, payload.len());
        frame.missing -= payload.len();
        partial.frame = Some(frame);
        Ok(())
    }

    /// Passes on the control frame that ends with `payload`. Returns whether the caller wants more.
    fn finish_control(
        &mut self,
        frame: &Frame,
        payload: &[u8],
        taken: &mut dyn FnMut(Message<'_>) -> bool,
    ) -> Result<bool, Mistake> {
        let mut kept = Vec::new();
        if let Some(partial) = &mut self.partial {
            kept = mem::take(&mut partial.control);
            if partial.message.is_none() {
                self.partial = None;
            }
        }
        let payload = if kept.is_empty() {
            payload
        } else {
            kept.extend_from_slice(payload);
            &kept
        };
        Ok(match frame.opcode {
            Opcode::Ping => taken(Message::Ping(payload)),
            Opcode::Pong => taken(Message::Pong(payload)),
            _ => {
                let (code, reason) = status::parse(payload)?;
                self.closed = true;
                self.partial = None;
                taken(Message::Close { code, reason })
            }
        })
    }

    /// Joins the data frame that ends with `payload` to its message, and passes on the message if the frame is its last one.
    /// Returns whether the caller wants more.
    fn finish_data(
        &mut self,
        frame: &Frame,
        payload: &[u8],
        limits: &Limits,
        inflate: &mut Inflater,
        taken: &mut dyn FnMut(Message<'_>) -> bool,
    ) -> Result<bool, Mistake> {
        let is_whole = self.partial.as_ref().is_none_or(|partial| partial.message.is_none());
        if frame.last && is_whole {
            // The reader may hold memory for the head.
            self.partial = None;
            return pass_on(frame.opcode == Opcode::Text, frame.compressed, payload, limits, inflate, taken);
        }
        let partial = self.partial.get_or_insert_default();
        let message = partial.append(frame, payload, limits)?;
        if !frame.last {
            return Ok(true);
        }
        let payload = mem::take(&mut partial.payload);
        self.partial = None;
        pass_on(message.text, message.compressed, &payload, limits, inflate, taken)
    }
}

impl Partial {
    /// Appends the next bytes of `frame` to its message, which may begin with them.
    fn append(&mut self, frame: &Frame, bytes: &[u8], limits: &Limits) -> Result<Begun, Mistake> {
        let begun = Begun { text: frame.opcode == Opcode::Text, compressed: frame.compressed, frames: 1 };
        let message = *self.message.get_or_insert(begun);
        let needed = self.payload.len() + bytes.len();
        if needed > self.payload.capacity() {
            // Twice as much as has arrived at most, and never more than the message can have.
            let most = if frame.last { self.payload.len() + frame.missing } else { limits.payload(message.compressed) };
            let capacity = needed.max((2 * self.payload.capacity()).min(most));
            self.payload.reserve_exact(capacity - self.payload.len());
        }
        self.payload.extend_from_slice(bytes);
        if message.text && !message.compressed {
            self.check()?;
        }
        Ok(message)
    }

    /// Fails at the first byte that cannot belong to UTF-8, whatever comes after it.
    fn check(&mut self) -> Result<(), Mistake> {
        match std::str::from_utf8(&self.payload[self.checked..]) {
            Ok(_) => self.checked = self.payload.len(),
            Err(error) if error.error_len().is_none() => self.checked += error.valid_up_to(),
            Err(_) => return Err(Mistake::NotUtf8),
        }
        Ok(())
    }
}

/// Passes on a message. Returns whether the caller wants more.
fn pass_on(
    text: bool,
    compressed: bool,
    payload: &[u8],
    limits: &Limits,
    inflate: &mut Inflater,
    taken: &mut dyn FnMut(Message<'_>) -> bool,
) -> Result<bool, Mistake> {
    let content = if compressed { inflate.inflate(payload, limits.message)? } else { payload };
    if !text {
        return Ok(taken(Message::Binary(content)));
    }
    let text = std::str::from_utf8(content).map_err(|_| Mistake::NotUtf8)?;
    Ok(taken(Message::Text(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_reader_is_small() {
        assert_eq!(size_of::<Reader>(), 16);
        assert_eq!(Reader::new(true).held(), 0);
    }
}
