//! Writes a response: the protocol frames its head and its content, and both are appended to the connection's output.

use super::answer::Answer;
use super::body::{Body, Gap};
use super::connection::BufferedSocket;
use super::framing::{End, Frame, Framing, Terms};
use super::output::Pool;
use super::send::{COPIED_BYTES, SendMode};
use oribi_message::ResponseHead;

/// The parts that writing a response may change.
pub(super) struct Response<'e, S> {
    pub(super) line: &'e mut BufferedSocket<S>,
    pub(super) framing: Framing<'e>,
    pub(super) answer: &'e mut Answer,
}

impl<S> Response<'_, S> {
    /// Appends a head to the output.
    #[inline]
    pub(super) fn write_head(
        &mut self,
        head: ResponseHead<'_>,
        terms: &Terms<'_>,
        outputs: &mut Pool,
    ) -> Result<(), &'static str> {
        let output = self.line.output.get_or_insert_with(|| outputs.take());
        let written = self.framing.head(head, terms, output.tail());
        match written {
            Ok(()) => self.answer.status = head.status,
            Err(_) => self.line.trim(outputs),
        }
        written
    }

    /// Appends a whole response with little content to the output, in one segment.
    #[inline(always)]
    pub(super) fn write_small(
        &mut self,
        head: ResponseHead<'_>,
        terms: &Terms<'_>,
        parts: &[&[u8]],
        size: u64,
        outputs: &mut Pool,
    ) -> Result<(SendMode, End), &'static str> {
        let output = self.line.output.get_or_insert_with(|| outputs.take());
        match self.framing.whole(head, terms, parts, size, output.tail()) {
            Ok((sent, end)) => {
                self.answer.status = head.status;
                self.answer.sent = sent;
                Ok((SendMode::Queued, end))
            }
            Err(why) => {
                self.line.trim(outputs);
                Err(why)
            }
        }
    }

    /// Appends a whole response with any content to the output.
    pub(super) fn write(
        &mut self,
        head: ResponseHead<'_>,
        terms: &Terms<'_>,
        body: Body<'_>,
        gaps: &mut Vec<Gap>,
        outputs: &mut Pool,
    ) -> Result<(SendMode, End), &'static str> {
        self.write_head(head, terms, outputs)?;
        let mode = self.add_content(body, body.size(), gaps);
        let output = self.line.output.get_or_insert_default();
        let out = if mode == SendMode::Gathered { output.only_segment() } else { output.tail() };
        Ok((mode, self.framing.end(out)))
    }

    /// Appends `size` bytes of content with their framing, or as many as the response includes. Large content in memory is not
    /// copied: only its framing is appended, and `gaps` lists the positions of the content in it ([`SendMode::Gathered`]).
    #[inline]
    pub(super) fn add_content(&mut self, body: Body<'_>, size: u64, gaps: &mut Vec<Gap>) -> SendMode {
        let Self { line, framing, answer } = self;
        let output = line.output.get_or_insert_default();
        gaps.clear();
        if size > COPIED_BYTES && !line.blocked && body.can_be_gathered() && output.is_one_segment() {
            let mut framed = frame_around(framing, output.only_segment(), size, gaps);
            if framed < size {
                let mut rest = body.rest();
                rest.take(framed, |_| ());
                framed += framing.postpone(size - framed, &mut rest);
            }
            answer.sent += framed;
            return if gaps.is_empty() { SendMode::Queued } else { SendMode::Gathered };
        }
        let (mut left, mut rest) = (size, body.rest());
        while left > 0 {
            let admitted = framing.prefix(left, output.tail());
            if admitted == 0 {
                break;
            }
            answer.sent += admitted;
            left -= admitted;
            rest.take(admitted, |piece| output.push_piece(&piece));
            framing.suffix(output.tail());
        }
        if left > 0 {
            answer.sent += framing.postpone(left, &mut rest);
        }
        SendMode::Queued
    }
}

/// Writes the framing of `size` bytes of content, and adds the positions of the content to `gaps`. Returns the number of bytes
/// of content that the response includes.
#[inline(never)]
fn frame_around(framing: &mut Framing<'_>, out: &mut Vec<u8>, size: u64, gaps: &mut Vec<Gap>) -> u64 {
    let mut left = size;
    while left > 0 {
        let admitted = framing.prefix(left, out);
        if admitted == 0 {
            break;
        }
        gaps.push(Gap { position: out.len(), size: admitted });
        framing.suffix(out);
        left -= admitted;
    }
    size - left
}
