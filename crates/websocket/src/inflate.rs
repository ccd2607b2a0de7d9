//! Inflation of messages (RFC 7692, section 7.2.2).

use crate::fault::Mistake;
use flate2::{Decompress, FlushDecompress, Status};

/// The end of a flush, which senders leave out, and an empty last block. A message that was cut off does not end with it.
const TAIL: &[u8] = &[0x00, 0x00, 0xff, 0xff, 0x01, 0x00, 0x00, 0xff, 0xff];

/// The first allocation for a message, in bytes.
const FIRST_ROOM: usize = 4096;

/// Memory of this size is kept for the next message, in bytes; larger one is given back.
const KEPT_ROOM: usize = 256 * 1024;

/// The most streams in a message. A sender may end one and begin another (RFC 7692, section 7.2.3.4), but has no reason to do
/// so often, and each costs as much as many bytes.
const MOST_STREAMS: usize = 256;

/// Inflates messages. All connections of a thread share it, because no message refers to an earlier one. It allocates its
/// window when the first compressed message arrives.
#[derive(Default)]
pub struct Inflater {
    library: Option<Box<Decompress>>,
    output: Vec<u8>,
}

impl Inflater {
    /// An inflater that holds no memory yet.
    pub const fn new() -> Self {
        Self { library: None, output: Vec::new() }
    }

    /// The bytes of the buffer for inflated messages.
    pub fn held(&self) -> usize {
        self.output.capacity()
    }

    /// Inflates `message` to at most `limit` bytes.
    pub(crate) fn inflate(&mut self, message: &[u8], limit: usize) -> Result<&[u8], Mistake> {
        if self.output.capacity() > KEPT_ROOM {
            self.output = Vec::new();
        }
        self.output.clear();
        let library = self.library.get_or_insert_with(|| Box::new(Decompress::new(false)));
        library.reset(false);
        let mut streams = 1;
        let mut rest = message;
        loop {
            let ended = run(library, &mut rest, &mut self.output, limit)?;
            match (ended, rest.is_empty()) {
                // The sender has ended its stream where others flush it.
                (true, true) => return Ok(&self.output),
                (false, _) => break,
                (true, false) => {}
            }
            streams += 1;
            if streams > MOST_STREAMS {
                return Err(Mistake::NotDeflate);
            }
            library.reset(false);
        }
        let mut tail = TAIL;
        let ended = run(library, &mut tail, &mut self.output, limit)?;
        if ended && tail.is_empty() { Ok(&self.output) } else { Err(Mistake::NotDeflate) }
    }
}

/// Inflates `input` to its end, or to that of its stream. Returns whether the stream has ended.
fn run(library: &mut Decompress, input: &mut &[u8], output: &mut Vec<u8>, limit: usize) -> Result<bool, Mistake> {
    loop {
        grow(output, limit);
        let before = library.total_in();
        let status = library.decompress_vec(input, output, FlushDecompress::None).map_err(|_| Mistake::NotDeflate)?;
        let used = (library.total_in() - before) as usize;
        *input = &input[used..];
        if output.len() > limit {
            return Err(Mistake::TooLong);
        }
        let has_room = output.len() < output.capacity();
        if status == Status::StreamEnd {
            return Ok(true);
        }
        // The library may keep bytes back as long as it fills all the room.
        if input.is_empty() && has_room {
            return Ok(false);
        }
        if used == 0 && has_room {
            return Err(Mistake::NotDeflate);
        }
    }
}

/// Gives `output` room, and at most one byte more than `limit`, by which a message is too long.
fn grow(output: &mut Vec<u8>, limit: usize) {
    if output.len() == output.capacity() {
        let capacity = (2 * output.capacity()).max(FIRST_ROOM).min(limit.saturating_add(1));
        output.reserve_exact(capacity.saturating_sub(output.len()).max(1));
    }
}
