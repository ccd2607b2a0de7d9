//! Properties of all streams of encoders.

use crate::decoder::Decoder;
use oribi_encode::{Coding, Encoder, levels};

/// Runs encoders, and decodes their output. `data` consists of orders: a byte, whose lower two bits say how the order is read,
/// and whose other bits are a number. 0: writes so many of the following bytes; 1: writes the last 4 KiB so many times; 2:
/// flushes; 3: ends the stream if the number is even, abandons it if it is odd, and begins another one, with a coding and a
/// level by the number. Returns the number of streams that were decoded to their end.
pub fn check(mut data: &[u8]) -> usize {
    let (mut coding, mut encoder) = (Coding::Gzip, Encoder::new(Coding::Gzip, 1));
    let (mut decoder, mut sent, mut ended) = (Decoder::new(coding), Vec::new(), 0);
    let mut output = Vec::new();
    while let Some((order, rest)) = data.split_first() {
        data = rest;
        let number = usize::from(order >> 2);
        output.clear();
        match order & 3 {
            0 => {
                let (piece, rest) = data.split_at(number.min(data.len()));
                data = rest;
                encoder.write(piece, &mut output).expect("the stream is open");
                sent.extend_from_slice(piece);
            }
            1 => {
                let piece = sent[sent.len().saturating_sub(4096)..].to_vec();
                for _ in 0..number {
                    encoder.write(&piece, &mut output).expect("the stream is open");
                    sent.extend_from_slice(&piece);
                }
            }
            2 => {
                encoder.flush(&mut output).expect("the stream is open");
                decoder.push(&output);
                assert!(decoder.content() == sent, "the client lacks content after a flush");
                continue;
            }
            _ => {
                if number % 2 == 0 {
                    encoder.finish(&mut output).expect("the stream is open");
                    decoder.push(&output);
                    assert!(decoder.finish() == sent, "the content differs");
                    ended += 1;
                }
                let next = Coding::ALL[number / 2 % 3];
                let level = levels(next).start() + (number / 6) as u8;
                // Streams that follow one another in the same encoder are those of the same coding.
                if next == coding {
                    encoder.reset();
                } else {
                    (coding, encoder) = (next, Encoder::new(next, level));
                }
                (decoder, sent) = (Decoder::new(coding), Vec::new());
                continue;
            }
        }
        decoder.push(&output);
        // The library for brotli decodes no more at once.
        if sent.len() > 512 * 1024 {
            break;
        }
    }
    ended
}
