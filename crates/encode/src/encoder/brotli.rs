//! Brotli, over the crate `brotli`.

use super::recycling::Recycling;
use super::{Failure, Step};
use brotli::enc::encode::{BrotliEncoderDestroyInstance, BrotliEncoderOperation, BrotliEncoderStateStruct};

/// The base-2 logarithm of the window, in bytes. Below 17, the library has no fitting tables for the levels from 5, and takes
/// 32 MiB.
const WINDOW_LOG: i32 = 17;

/// A size that the library chooses its tables for. Without one, it would take 4 MiB for a first piece of 1 MiB.
const SIZE_HINT: usize = 64 * 1024;

pub(super) struct Brotli {
    /// In a box because it has tables of more than 10 KiB.
    state: Box<BrotliEncoderStateStruct<Recycling>>,
    level: u8,
}

impl Brotli {
    pub(super) fn new(level: u8) -> Self {
        Self { state: Box::new(new_state(level, Recycling::default())), level }
    }

    pub(super) fn run(&mut self, input: &[u8], step: Step, output: &mut Vec<u8>) -> Result<(), Failure> {
        let operation = match step {
            Step::Write => BrotliEncoderOperation::BROTLI_OPERATION_PROCESS,
            Step::Flush => BrotliEncoderOperation::BROTLI_OPERATION_FLUSH,
            Step::Finish => BrotliEncoderOperation::BROTLI_OPERATION_FINISH,
        };
        let (mut left, mut position) = (input.len(), 0);
        loop {
            let went = self.state.compress_stream(
                operation,
                &mut left,
                input,
                &mut position,
                // Without room the library keeps its output, which is then copied only once.
                &mut 0,
                &mut [],
                &mut 0,
                &mut None,
                &mut |_, _, _, _| {},
            );
            if !went {
                return Err(Failure::Library("brotli reports an error"));
            }
            let full = self.state.has_more_output();
            while self.state.has_more_output() {
                // 0 asks for all. The slice may be longer than the output, whose size the library returns.
                let mut size = 0;
                let storage = self.state.take_output(&mut size);
                output.extend_from_slice(&storage[..size]);
            }
            // As long as there is output, the library may wait for it with a block of content.
            if left == 0 && !full {
                return Ok(());
            }
        }
    }

    pub(super) fn reset(&mut self) {
        BrotliEncoderDestroyInstance(&mut self.state);
        let memory = std::mem::take(&mut self.state.m8);
        *self.state = new_state(self.level, memory);
    }
}

fn new_state(level: u8, memory: Recycling) -> BrotliEncoderStateStruct<Recycling> {
    let mut state = BrotliEncoderStateStruct::new(memory);
    state.params.quality = level.into();
    state.params.lgwin = WINDOW_LOG;
    state.params.size_hint = SIZE_HINT;
    state
}
