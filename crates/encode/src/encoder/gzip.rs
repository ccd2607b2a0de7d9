//! Gzip, over flate2 with zlib-rs.

use super::{Failure, LEAST_ROOM, Step, make_room};
use flate2::{Compress, Compression, FlushCompress, Status};

/// The largest window that the format has: 32 KiB.
const WINDOW_BITS: u8 = 15;

pub(super) struct Gzip {
    library: Compress,
    level: u8,
    /// Whether the library has encoded a part of a stream.
    begun: bool,
}

impl Gzip {
    pub(super) fn new(level: u8) -> Self {
        let library = Compress::new_gzip(Compression::new(level.into()), WINDOW_BITS);
        Self { library, level, begun: false }
    }

    pub(super) fn run(&mut self, mut input: &[u8], step: Step, output: &mut Vec<u8>) -> Result<(), Failure> {
        let flush = match step {
            Step::Write => FlushCompress::None,
            Step::Flush => FlushCompress::Sync,
            Step::Finish => FlushCompress::Finish,
        };
        self.begun = true;
        loop {
            make_room(output, input.len());
            let before = self.library.total_in();
            let status =
                self.library.compress_vec(input, output, flush).map_err(|_| Failure::Library("zlib-rs reports an error"))?;
            input = &input[(self.library.total_in() - before) as usize..];
            let has_room = output.len() < output.capacity();
            match step {
                Step::Finish if status == Status::StreamEnd => {
                    self.begun = false;
                    return Ok(());
                }
                Step::Finish => {}
                // The library has more to say as long as it fills all the room.
                Step::Write | Step::Flush if input.is_empty() && has_room => return Ok(()),
                Step::Write | Step::Flush => {}
            }
        }
    }

    pub(super) fn reset(&mut self) {
        // At level 1, zlib-rs 0.6 does not forget the open block of a stream that was not finished, which spoils the next one.
        if self.begun {
            *self = Self::new(self.level);
        } else {
            self.library.reset();
        }
    }
}

// A call with less room could repeat the marker of a flush.
const _: () = assert!(LEAST_ROOM > 6);
