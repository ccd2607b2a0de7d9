//! Encoders of content. An edge has a limited number of them, because each has up to some MiB of memory.

use super::body::Body;
use oribi_encode::{Coding, EncodeError, Encoder, default_level};
use oribi_host::Piece;
use std::io;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::time::Duration;

/// The most responses that are encoded piece by piece at the same time. Others are not encoded.
const MOST_STREAMS: usize = 128;

/// The number of bytes of a file that are read at once.
const FILE_BYTES: u64 = 64 << 10;

/// The bytes of whole responses that are encoded between two looks at the clock: others wait meanwhile.
const BYTES_AT_ONCE: u64 = 1 << 20;

/// The encoders of an engine.
#[derive(Debug, Default)]
pub(super) struct Encoders {
    /// Encoders between two responses, at most one of each coding.
    spare: Vec<Encoder>,
    /// Each stream has a clone, so that they are counted wherever they end.
    streams: Rc<()>,
    /// The time by the clock when content was encoded last, and the bytes that were encoded at that time.
    latest: (Duration, u64),
}

/// The content of a response that is encoded piece by piece.
#[derive(Debug)]
pub(super) struct EncodedStream {
    encoder: Encoder,
    /// The number of bytes that the app still has to write, if it has announced their number.
    pub(super) left: Option<u64>,
    _counted: Rc<()>,
}

impl Encoders {
    /// Whether content may be encoded at this time, after all that was encoded at the same time.
    pub(super) fn may_encode(&mut self, now: Duration, bytes: u64) -> bool {
        let (time, spent) = self.latest;
        let spent = if time == now { spent } else { 0 };
        if spent >= BYTES_AT_ONCE {
            return false;
        }
        self.latest = (now, spent + bytes);
        true
    }

    /// Returns an encoder for a whole response.
    fn take(&mut self, coding: Coding) -> Encoder {
        let kept = self.spare.iter().position(|encoder| encoder.coding() == coding);
        kept.map_or_else(|| Encoder::new(coding, default_level(coding)), |kept| self.spare.swap_remove(kept))
    }

    /// Keeps an encoder for the next response.
    fn keep(&mut self, mut encoder: Encoder) {
        if self.spare.iter().all(|kept| kept.coding() != encoder.coding()) {
            encoder.reset();
            self.spare.push(encoder);
        }
    }

    /// Appends the encoded content of a whole response to `encoded`.
    ///
    /// # Errors
    /// A file cannot be read, or the encoder fails.
    pub(super) fn encode(&mut self, coding: Coding, body: Body<'_>, encoded: &mut Vec<u8>) -> io::Result<()> {
        let mut encoder = self.take(coding);
        let done =
            write(&mut encoder, body, body.size(), encoded).and_then(|()| encoder.finish(encoded).map_err(io::Error::other));
        self.keep(encoder);
        done
    }

    /// Begins a response in pieces, whose app has announced `size` bytes. `None` if there are too many already.
    pub(super) fn begin(&mut self, coding: Coding, size: Option<u64>) -> Option<Box<EncodedStream>> {
        if Rc::strong_count(&self.streams) > MOST_STREAMS {
            return None;
        }
        Some(Box::new(EncodedStream { encoder: self.take(coding), left: size, _counted: self.streams.clone() }))
    }

    /// Ends a response in pieces, and appends the last bytes to `encoded`.
    ///
    /// # Errors
    /// The encoder fails.
    pub(super) fn end(&mut self, stream: Box<EncodedStream>, encoded: &mut Vec<u8>) -> Result<(), EncodeError> {
        let EncodedStream { mut encoder, .. } = *stream;
        let done = encoder.finish(encoded);
        self.keep(encoder);
        done
    }
}

impl EncodedStream {
    /// Encodes a piece, as far as it belongs to the announced content. The client can decode it at once, unless the size was
    /// announced: then the client waits for all of the content anyhow.
    ///
    /// # Errors
    /// A file cannot be read, or the encoder fails.
    pub(super) fn write(&mut self, body: Body<'_>, encoded: &mut Vec<u8>) -> io::Result<()> {
        let size = self.left.map_or_else(|| body.size(), |left| left.min(body.size()));
        write(&mut self.encoder, body, size, encoded)?;
        match &mut self.left {
            Some(left) => *left -= size,
            None if size > 0 => self.encoder.flush(encoded).map_err(io::Error::other)?,
            None => {}
        }
        Ok(())
    }
}

/// Writes the first `size` bytes of `body`.
fn write(encoder: &mut Encoder, body: Body<'_>, size: u64, encoded: &mut Vec<u8>) -> io::Result<()> {
    let mut done = Ok(());
    body.rest().take(size, |piece| {
        if done.is_ok() {
            done = write_piece(encoder, piece, encoded);
        }
    });
    done
}

fn write_piece(encoder: &mut Encoder, piece: Piece<'_>, encoded: &mut Vec<u8>) -> io::Result<()> {
    match piece {
        Piece::Bytes(bytes) => encoder.write(bytes, encoded).map_err(io::Error::other),
        Piece::File { file, offset, size } => {
            let mut block = vec![0; size.min(FILE_BYTES) as usize];
            let mut position = 0;
            while position < size {
                let count = (size - position).min(FILE_BYTES) as usize;
                file.read_exact_at(&mut block[..count], offset + position)?;
                encoder.write(&block[..count], encoded).map_err(io::Error::other)?;
                position += count as u64;
            }
            Ok(())
        }
    }
}
