//! Encoders of content, which take it in pieces.

mod brotli;
mod gzip;
mod recycling;
mod zstandard;

use crate::{Coding, levels};
use std::fmt;

/// An encoder of content. It takes the content in pieces and appends its output to a buffer of the caller. It can be used for
/// any number of responses, one after another: see [`Encoder::reset`].
///
/// An encoder takes its memory during its first streams and keeps it. However large the content is, it has no more than this
/// (`tests/memory.rs`, and a test beside the code of zstd):
///
/// | coding | window | at levels up to the default one | at any level |
/// |---|---|---|---|
/// | gzip | 32 KiB | 0.37 MiB | 0.37 MiB |
/// | br | 128 KiB | 2.8 MiB | 4.3 MiB |
/// | zstd | 128 KiB | 1.2 MiB | 1.2 MiB |
///
/// Not all of it is ever touched: with HTML of 1 MiB, `examples/encode_cost.rs` finds 0.35, 2.3 and 0.65 MiB in the memory of
/// the process at the default levels.
pub struct Encoder {
    coding: Coding,
    machine: Machine,
    state: State,
}

enum Machine {
    Gzip(gzip::Gzip),
    Brotli(brotli::Brotli),
    Zstandard(zstandard::Zstandard),
    /// The library could not make an encoder.
    Missing,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Finished,
    Failed(Failure),
}

/// The reason for which an encoder has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    Library(&'static str),
    Finished,
}

/// An error: an encoder cannot go on. Its output is incomplete, so that the response must be cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodeError {
    coding: Coding,
    failure: Failure,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.coding.name();
        match self.failure {
            Failure::Library(reason) => write!(formatter, "cannot encode content as {name}: {reason}"),
            Failure::Finished => write!(formatter, "cannot encode content as {name}: the stream has ended"),
        }
    }
}

impl std::error::Error for EncodeError {}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Write,
    Flush,
    Finish,
}

impl Encoder {
    /// An encoder of this coding. A level outside of [`levels()`] counts as the nearest one in it.
    #[must_use]
    pub fn new(coding: Coding, level: u8) -> Self {
        let level = level.clamp(*levels(coding).start(), *levels(coding).end());
        let machine = match coding {
            Coding::Gzip => Ok(Machine::Gzip(gzip::Gzip::new(level))),
            Coding::Brotli => Ok(Machine::Brotli(brotli::Brotli::new(level))),
            Coding::Zstd => zstandard::Zstandard::new(level).map(Machine::Zstandard),
        };
        match machine {
            Ok(machine) => Self { coding, machine, state: State::Open },
            Err(failure) => Self { coding, machine: Machine::Missing, state: State::Failed(failure) },
        }
    }

    /// The coding.
    #[must_use]
    pub const fn coding(&self) -> Coding {
        self.coding
    }

    /// Takes a piece of the content, and appends output if there is some: an encoder may keep 128 KiB of content until the next
    /// call of [`Encoder::flush`] or [`Encoder::finish`].
    ///
    /// # Errors
    /// The library fails, for lack of memory, or the stream has ended. All further calls fail as well, until
    /// [`Encoder::reset`].
    pub fn write(&mut self, content: &[u8], output: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.run(content, Step::Write, output)
    }

    /// Appends output until the client can decode all content so far. Each call costs some bytes, and makes the output larger.
    ///
    /// # Errors
    /// Those of [`Encoder::write`].
    pub fn flush(&mut self, output: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.run(&[], Step::Flush, output)
    }

    /// Ends the stream and appends the last output.
    ///
    /// # Errors
    /// Those of [`Encoder::write`].
    pub fn finish(&mut self, output: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.run(&[], Step::Finish, output)?;
        self.state = State::Finished;
        Ok(())
    }

    /// Begins a new stream, whatever became of the last one. The encoder keeps its memory, and its level.
    pub fn reset(&mut self) {
        let done = match &mut self.machine {
            Machine::Gzip(gzip) => {
                gzip.reset();
                Ok(())
            }
            Machine::Brotli(brotli) => {
                brotli.reset();
                Ok(())
            }
            Machine::Zstandard(zstandard) => zstandard.reset(),
            Machine::Missing => return,
        };
        self.state = done.map_or_else(State::Failed, |()| State::Open);
    }

    fn run(&mut self, content: &[u8], step: Step, output: &mut Vec<u8>) -> Result<(), EncodeError> {
        let done = match (self.state, &mut self.machine) {
            (State::Failed(failure), _) => Err(failure),
            (State::Finished, _) => Err(Failure::Finished),
            (State::Open, Machine::Gzip(gzip)) => gzip.run(content, step, output),
            (State::Open, Machine::Brotli(brotli)) => brotli.run(content, step, output),
            (State::Open, Machine::Zstandard(zstandard)) => zstandard.run(content, step, output),
            (State::Open, Machine::Missing) => Err(Failure::Library("there is no encoder")),
        };
        done.map_err(|failure| {
            if failure != Failure::Finished {
                self.state = State::Failed(failure);
            }
            EncodeError { coding: self.coding, failure }
        })
    }
}

impl fmt::Debug for Encoder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Encoder").field("coding", &self.coding).finish_non_exhaustive()
    }
}

/// The least room that a library gets for its output, in bytes.
const LEAST_ROOM: usize = 64;

/// Makes room for the output of so many bytes of content: mostly a quarter of it, and at least [`LEAST_ROOM`].
fn make_room(output: &mut Vec<u8>, content: usize) {
    if output.capacity() - output.len() < LEAST_ROOM {
        output.reserve(LEAST_ROOM.max(content / 4));
    }
}
