//! Zstandard, over the library of its authors.

use super::{Failure, Step, make_room};
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ResetDirective};

/// The base-2 logarithm of the window, in bytes. Twice the window would make HTML of 256 KiB half a percent smaller, and an
/// encoder half larger.
const WINDOW_LOG: u32 = 17;
/// The base-2 logarithms of the numbers of entries in the tables that find repetitions.
const HASH_LOG: u32 = 15;
const CHAIN_LOG: u32 = 15;

pub(super) struct Zstandard(CCtx<'static>);

impl Zstandard {
    pub(super) fn new(level: u8) -> Result<Self, Failure> {
        let mut context = CCtx::try_create().ok_or(Failure::Library("zstd has got no memory"))?;
        for parameter in [
            CParameter::CompressionLevel(level.into()),
            CParameter::WindowLog(WINDOW_LOG),
            CParameter::HashLog(HASH_LOG),
            CParameter::ChainLog(CHAIN_LOG),
        ] {
            context.set_parameter(parameter).map_err(failure)?;
        }
        Ok(Self(context))
    }

    pub(super) fn run(&mut self, input: &[u8], step: Step, output: &mut Vec<u8>) -> Result<(), Failure> {
        let mut source = InBuffer::around(input);
        while source.pos() < input.len() {
            make_room(output, input.len() - source.pos());
            let start = output.len();
            self.0.compress_stream(&mut OutBuffer::around_pos(output, start), &mut source).map_err(failure)?;
        }
        if step == Step::Write {
            return Ok(());
        }
        loop {
            make_room(output, 0);
            let start = output.len();
            let mut target = OutBuffer::around_pos(output, start);
            let left = if step == Step::Flush { self.0.flush_stream(&mut target) } else { self.0.end_stream(&mut target) };
            if left.map_err(failure)? == 0 {
                return Ok(());
            }
        }
    }

    pub(super) fn reset(&mut self) -> Result<(), Failure> {
        self.0.reset(ResetDirective::SessionOnly).map_err(failure).map(drop)
    }
}

fn failure(code: usize) -> Failure {
    Failure::Library(zstd_safe::get_error_name(code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Coding, levels};

    #[test]
    fn the_memory_of_an_encoder_is_bounded_and_does_not_grow_with_its_streams() {
        for level in levels(Coding::Zstd) {
            let mut encoder = Zstandard::new(level).expect("there is memory");
            let mut sizes = Vec::new();
            for length in [1 << 20, 100, 1 << 22] {
                let mut output = Vec::new();
                encoder.run(&vec![7; length], Step::Write, &mut output).expect("it is open");
                encoder.run(&[], Step::Finish, &mut output).expect("it is open");
                encoder.reset().expect("it can be reset");
                sizes.push(encoder.0.sizeof());
            }
            assert!(sizes.iter().all(|size| *size == sizes[0] && *size <= 1280 * 1024), "level {level}: {sizes:?}");
        }
    }
}
