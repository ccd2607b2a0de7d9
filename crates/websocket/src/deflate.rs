//! Compression of messages (RFC 7692, section 7.2.1).

use flate2::{Compress, Compression, FlushCompress, Status};

/// The end of a flush, which the sender leaves out.
const TAIL: &[u8] = &[0x00, 0x00, 0xff, 0xff];

/// Messages below this size are sent as they are, in bytes: compression saves little and costs both sides about as much as a
/// kilobyte does.
const WORTH: usize = 256;

/// The smallest and the largest window of the library, in bits.
const WINDOWS: std::ops::RangeInclusive<u8> = 9..=15;

/// Memory of this size is kept for the next message, in bytes; larger one is given back.
const KEPT_ROOM: usize = 256 * 1024;

/// Compresses messages. All connections of a thread share it, because no message refers to an earlier one. It allocates the
/// memory of a window when a message first needs it, about 300 KiB at most.
pub struct Deflater {
    level: u8,
    /// One for each size of window.
    libraries: [Option<Box<Compress>>; 7],
    output: Vec<u8>,
}

impl Deflater {
    /// A compressor of `level`, from 1 (fast) to 9 (small); others become the nearest one.
    pub const fn new(level: u8) -> Self {
        let level = match level {
            0 => 1,
            1..=9 => level,
            _ => 9,
        };
        Self { level, libraries: [const { None }; 7], output: Vec::new() }
    }

    /// Whether a message of `size` bytes is worth compressing.
    pub const fn worth(size: usize) -> bool {
        size >= WORTH
    }

    /// Compresses `message` for a client that has a window of `window_bits` ([`Deflate::window_bits`](crate::Deflate)), and
    /// returns the payload of its frame. None: it would not be shorter, so the message is to be sent as it is.
    pub fn compress(&mut self, message: &[u8], window_bits: u8) -> Option<&[u8]> {
        let bits = window_bits.clamp(*WINDOWS.start(), *WINDOWS.end());
        // No distance is longer than the message, so that the common window does for a short one.
        let bits = if message.len() <= 1 << bits { *WINDOWS.end() } else { bits };
        let level = Compression::new(self.level.into());
        let library = self.libraries[usize::from(bits - WINDOWS.start())]
            .get_or_insert_with(|| Box::new(Compress::new_with_window_bits(level, false, bits)));
        if self.output.capacity() > KEPT_ROOM {
            self.output = Vec::new();
        }
        self.output.clear();
        // Room for random bytes, which become longer, so that the library never has to be made anew.
        self.output.reserve(message.len() + message.len() / 8 + 64);
        let flushed = library.compress_vec(message, &mut self.output, FlushCompress::Sync);
        let length = self.output.len();
        let is_whole = matches!(flushed, Ok(Status::Ok)) && library.total_in() == message.len() as u64;
        let ended = library.compress_vec(&[], &mut self.output, FlushCompress::Finish);
        if matches!(ended, Ok(Status::StreamEnd)) {
            library.reset();
        } else {
            // The library forgets an open stream only if it is made anew.
            self.libraries[usize::from(bits - WINDOWS.start())] = None;
        }
        let payload = self.output[..length].strip_suffix(TAIL)?;
        (is_whole && payload.len() < message.len()).then_some(payload)
    }
}
