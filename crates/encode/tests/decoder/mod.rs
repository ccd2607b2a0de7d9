//! A decoder for each coding, which takes its input in pieces as a client does.

use brotli_decompressor::DecompressorWriter;
use flate2::{Decompress, FlushDecompress, Status};
use oribi_encode::Coding;
use std::io::Write;
use zstd_safe::{DCtx, InBuffer, OutBuffer};

/// Without a buffer for all that a piece decodes to, the library for brotli keeps the rest until the next piece.
const MOST_AT_ONCE: usize = 1 << 20;

/// A decoder; it panics if its input is invalid.
pub struct Decoder {
    machine: Machine,
    output: Vec<u8>,
    ended: bool,
}

enum Machine {
    Gzip(Decompress),
    Brotli(Box<DecompressorWriter<Vec<u8>>>),
    Zstd(DCtx<'static>),
}

impl Decoder {
    pub fn new(coding: Coding) -> Self {
        let machine = match coding {
            Coding::Gzip => Machine::Gzip(Decompress::new_gzip(15)),
            Coding::Brotli => Machine::Brotli(Box::new(DecompressorWriter::new(Vec::new(), MOST_AT_ONCE))),
            Coding::Zstd => Machine::Zstd(DCtx::create()),
        };
        Self { machine, output: Vec::new(), ended: false }
    }

    /// Decodes a piece.
    pub fn push(&mut self, mut input: &[u8]) {
        match &mut self.machine {
            Machine::Gzip(gzip) => loop {
                assert!(input.is_empty() || !self.ended, "{} bytes after the end", input.len());
                self.output.reserve(4096);
                let before = gzip.total_in();
                let status = gzip.decompress_vec(input, &mut self.output, FlushDecompress::None).expect("the input is valid");
                input = &input[(gzip.total_in() - before) as usize..];
                self.ended |= status == Status::StreamEnd;
                if input.is_empty() && self.output.len() < self.output.capacity() {
                    break;
                }
            },
            Machine::Brotli(brotli) => brotli.write_all(input).expect("the input is valid"),
            // The library takes many calls without input for a mistake.
            Machine::Zstd(_) if input.is_empty() => {}
            Machine::Zstd(zstd) => {
                let mut source = InBuffer::around(input);
                loop {
                    self.output.reserve(4096);
                    let start = self.output.len();
                    let mut target = OutBuffer::around_pos(&mut self.output, start);
                    let hint = zstd.decompress_stream(&mut target, &mut source).expect("the input is valid");
                    self.ended = hint == 0;
                    assert!(!self.ended || source.pos() == input.len(), "bytes after the end");
                    // At the end, another call would begin the next frame.
                    if self.ended || (source.pos() == input.len() && self.output.len() < self.output.capacity()) {
                        break;
                    }
                }
            }
        }
    }

    /// The content so far.
    pub fn content(&self) -> &[u8] {
        if let Machine::Brotli(brotli) = &self.machine { brotli.get_ref() } else { &self.output }
    }

    /// The whole content; panics if the stream is incomplete.
    pub fn finish(mut self) -> Vec<u8> {
        if let Machine::Brotli(brotli) = &mut self.machine {
            brotli.close().expect("the stream is complete");
            self.output = std::mem::take(brotli.get_mut());
        } else {
            assert!(self.ended, "the stream is incomplete");
        }
        self.output
    }
}
