//! The state of a reader as bytes, so that a reader in another process goes on in the middle of a message or a frame.
//!
//! All connections share the windows of compression, and a compressed message is inflated when all of it is there. So the bytes have
//! no window. Numbers are big-endian.

use super::{Begun, Frame, Partial, Reader};
use crate::head::{CONTROL_PAYLOAD, Expected, Head, LONGEST, Opcode};

/// The bits of the first byte.
const MESSAGE: u8 = 1;
const TEXT: u8 = 2;
const COMPRESSED: u8 = 4;
const FRAME: u8 = 8;
const LAST: u8 = 16;
const COMPRESSED_FRAME: u8 = 32;

/// The most bytes of a frame.
const LARGEST: usize = isize::MAX as usize;

impl Reader {
    /// The parts of messages and frames that have arrived, as bytes for [`Reader::restored`]; empty between messages. `None`: the
    /// reader has failed, or has read a close frame, so that nothing is left to read.
    pub fn snapshot(&self) -> Option<Vec<u8>> {
        if self.closed || self.failed.is_some() {
            return None;
        }
        let Some(partial) = &self.partial else { return Some(Vec::new()) };
        let Partial { message, frame, head, head_length, payload, control, .. } = &**partial;
        let mut flags = 0;
        let mut mark = |is_set: bool, bit: u8| flags |= if is_set { bit } else { 0 };
        mark(message.is_some(), MESSAGE);
        mark(message.is_some_and(|message| message.text), TEXT);
        mark(message.is_some_and(|message| message.compressed), COMPRESSED);
        mark(frame.is_some(), FRAME);
        mark(frame.is_some_and(|frame| frame.last), LAST);
        mark(frame.is_some_and(|frame| frame.compressed), COMPRESSED_FRAME);
        let mut bytes = Vec::with_capacity(64 + payload.len());
        bytes.push(flags);
        if let Some(message) = message {
            bytes.extend_from_slice(&u32::try_from(message.frames).ok()?.to_be_bytes());
        }
        if let Some(Frame { opcode, mask, missing, .. }) = frame {
            bytes.push(opcode.number());
            bytes.extend_from_slice(mask);
            bytes.extend_from_slice(&(*missing as u64).to_be_bytes());
        }
        bytes.push(*head_length as u8);
        bytes.extend_from_slice(&head[..*head_length]);
        bytes.push(control.len() as u8);
        bytes.extend_from_slice(control);
        bytes.extend_from_slice(payload);
        Some(bytes)
    }

    /// The reader with this [`Reader::snapshot`]. `deflate`: permessage-deflate was agreed upon. `None`: no reader has that state.
    pub fn restored(deflate: bool, snapshot: &[u8]) -> Option<Self> {
        let mut reader = Self::new(deflate);
        let Some((&flags, rest)) = snapshot.split_first() else { return Some(reader) };
        let mut rest = rest;
        let has = |bit: u8| flags & bit != 0;
        let mut partial = Partial::default();
        if has(MESSAGE) {
            let frames = u32::from_be_bytes(take(&mut rest)?) as usize;
            partial.message = Some(Begun { text: has(TEXT), compressed: has(COMPRESSED), frames });
        }
        if has(FRAME) {
            let [opcode] = take(&mut rest)?;
            let mask = take(&mut rest)?;
            let missing = usize::try_from(u64::from_be_bytes(take(&mut rest)?)).ok()?;
            let opcode = Opcode::of(opcode).ok()?;
            partial.frame = Some(Frame { opcode, last: has(LAST), compressed: has(COMPRESSED_FRAME), mask, missing });
        }
        let [head_length] = take(&mut rest)?;
        let (head, after) = rest.split_at_checked(usize::from(head_length))?;
        partial.head.get_mut(..head.len())?.copy_from_slice(head);
        partial.head_length = head.len();
        let (&control, after) = after.split_first()?;
        let (control, payload) = after.split_at_checked(usize::from(control))?;
        partial.control = control.to_vec();
        partial.payload = payload.to_vec();
        if !partial.is_possible(deflate) {
            return None;
        }
        if partial.message.is_some_and(|message| message.text && !message.compressed) {
            partial.check().ok()?;
        }
        reader.partial = Some(Box::new(partial));
        Some(reader)
    }
}

impl Partial {
    /// Whether bytes of a client can lead to this state.
    fn is_possible(&self, deflate: bool) -> bool {
        let Self { message, frame, head, head_length, payload, control, .. } = self;
        let message_is_possible = match message {
            Some(Begun { compressed, frames, .. }) => *frames > 0 && (deflate || !compressed),
            None => payload.is_empty(),
        };
        let frame_is_possible = match frame {
            Some(Frame { opcode, last, compressed, missing, .. }) if opcode.is_control() => {
                *last && !compressed && (1..=CONTROL_PAYLOAD - control.len().min(CONTROL_PAYLOAD)).contains(missing)
            }
            // The first bytes of its payload belong to the message.
            Some(Frame { missing, compressed, .. }) => {
                message.is_some() && control.is_empty() && (1..=LARGEST).contains(missing) && (deflate || !compressed)
            }
            None => control.is_empty(),
        };
        let expected = Expected { deflate, in_message: message.is_some() };
        let head_is_possible = match head_length {
            0 => message.is_some() || frame.is_some(),
            1..LONGEST => frame.is_none() && Head::parse(&head[..*head_length], expected) == Ok(None),
            _ => false,
        };
        message_is_possible && frame_is_possible && head_is_possible
    }
}

fn take<const SIZE: usize>(bytes: &mut &[u8]) -> Option<[u8; SIZE]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}
