//! Streams of encoders, read by the decoders that clients have.

mod decoder;
mod numbers;

use decoder::Decoder;
use numbers::Numbers;
use oribi_encode::{Coding, Encoder, default_level, levels};
use std::io::Write;
use std::process::{Command, Stdio};

fn all_levels() -> impl Iterator<Item = (Coding, u8)> {
    Coding::ALL.into_iter().flat_map(|coding| levels(coding).map(move |level| (coding, level)))
}

/// Decodes a whole stream.
fn decode(coding: Coding, input: &[u8]) -> Vec<u8> {
    let mut decoder = Decoder::new(coding);
    decoder.push(input);
    decoder.finish()
}

#[test]
fn content_of_any_length_at_any_level_is_decoded_again() {
    let mut numbers = Numbers(1);
    for (coding, level) in all_levels() {
        let mut encoder = Encoder::new(coding, level);
        for length in [0, 1, 2, 17, 1000, 65_535, 65_536, 65_537, 131_073, 700_000] {
            let (content, mut output) = (numbers.content(length), Vec::new());
            encoder.write(&content, &mut output).expect("it is open");
            encoder.finish(&mut output).expect("it is open");
            assert!(decode(coding, &output) == content, "{coding:?} {level}: {length} bytes");
            encoder.reset();
        }
    }
}

#[test]
fn a_split_at_any_byte_changes_no_content() {
    let content = Numbers(2).content(300);
    for coding in Coding::ALL {
        let mut encoder = Encoder::new(coding, default_level(coding));
        for split in 0..=content.len() {
            let mut output = Vec::new();
            let (first, second) = content.split_at(split);
            encoder.write(first, &mut output).expect("it is open");
            encoder.write(second, &mut output).expect("it is open");
            encoder.finish(&mut output).expect("it is open");
            assert!(decode(coding, &output) == content, "{coding:?}: split at {split}");
            encoder.reset();
        }
        let mut output = Vec::new();
        for byte in content.chunks(1) {
            encoder.write(byte, &mut output).expect("it is open");
        }
        encoder.finish(&mut output).expect("it is open");
        let mut decoder = Decoder::new(coding);
        output.chunks(1).for_each(|byte| decoder.push(byte));
        assert!(decoder.finish() == content, "{coding:?}: byte by byte");
    }
}

#[test]
fn after_a_flush_the_client_has_everything() {
    let mut numbers = Numbers(3);
    for (coding, level) in all_levels() {
        let mut encoder = Encoder::new(coding, level);
        let (mut decoder, mut sent) = (Decoder::new(coding), Vec::new());
        for length in [0, 1, 1, 2, 100, 0, 70_000, 3, 200_000, 0, 1] {
            let (piece, mut output) = (numbers.content(length), Vec::new());
            encoder.write(&piece, &mut output).expect("it is open");
            encoder.flush(&mut output).expect("it is open");
            sent.extend_from_slice(&piece);
            decoder.push(&output);
            assert!(decoder.content() == sent, "{coding:?} {level}: a piece of {length} bytes");
        }
        let mut output = Vec::new();
        encoder.finish(&mut output).expect("it is open");
        decoder.push(&output);
        assert!(decoder.finish() == sent, "{coding:?} {level}");
    }
}

#[test]
fn any_pieces_with_any_flushes_are_decoded_again() {
    let mut numbers = Numbers(4);
    for round in 0..200 {
        let coding = Coding::ALL[numbers.below(3)];
        let levels = levels(coding);
        let level = levels.clone().nth(numbers.below(levels.count())).expect("a level");
        let mut encoder = Encoder::new(coding, level);
        // The first streams are abandoned.
        for stream in 0..3 {
            let (mut sent, mut output) = (Vec::new(), b"before".to_vec());
            for _ in 0..numbers.below(12) {
                let length = [1, 10, 1000, 40_000][numbers.below(4)];
                let piece = numbers.content(length);
                encoder.write(&piece, &mut output).expect("it is open");
                sent.extend_from_slice(&piece);
                if numbers.below(3) == 0 {
                    encoder.flush(&mut output).expect("it is open");
                }
            }
            if stream == 2 || numbers.below(2) == 0 {
                encoder.finish(&mut output).expect("it is open");
                let output = output.strip_prefix(b"before").expect("output is appended");
                assert!(decode(coding, output) == sent, "round {round}, {coding:?} {level}");
            }
            encoder.reset();
        }
    }
}

#[test]
fn a_stream_that_has_ended_takes_nothing_more_until_it_is_reset() {
    for coding in Coding::ALL {
        let (mut encoder, mut output) = (Encoder::new(coding, default_level(coding)), Vec::new());
        encoder.finish(&mut output).expect("it is open");
        let end = output.len();
        let name = coding.name();
        for _ in 0..2 {
            let error = encoder.write(b"x", &mut output).expect_err("the stream has ended");
            assert_eq!(error.to_string(), format!("cannot encode content as {name}: the stream has ended"));
            assert_eq!(encoder.flush(&mut output), Err(error));
            assert_eq!(encoder.finish(&mut output), Err(error));
        }
        assert_eq!(output.len(), end);
        assert_eq!(decode(coding, &output), b"");
        encoder.reset();
        assert_eq!(encoder.coding(), coding);
        output.clear();
        encoder.write(b"again", &mut output).expect("it is open");
        encoder.finish(&mut output).expect("it is open");
        assert_eq!(decode(coding, &output), b"again");
    }
}

#[test]
fn streams_of_one_encoder_do_not_depend_on_those_before() {
    let mut numbers = Numbers(5);
    let (secret, content) = (numbers.content(150_000), numbers.content(20_000));
    for (coding, level) in all_levels() {
        let encode = |encoder: &mut Encoder| {
            let mut output = Vec::new();
            encoder.write(&content, &mut output).expect("it is open");
            encoder.finish(&mut output).expect("it is open");
            output
        };
        let expected = encode(&mut Encoder::new(coding, level));
        let mut encoder = Encoder::new(coding, level);
        encoder.write(&secret, &mut Vec::new()).expect("it is open");
        encoder.reset();
        assert!(encode(&mut encoder) == expected, "{coding:?} {level}");
    }
}

#[test]
fn a_level_outside_counts_as_the_nearest_one() {
    let content = Numbers(6).content(5000);
    let encode = |coding, level| {
        let (mut encoder, mut output) = (Encoder::new(coding, level), Vec::new());
        encoder.write(&content, &mut output).expect("it is open");
        encoder.finish(&mut output).expect("it is open");
        output
    };
    for coding in Coding::ALL {
        assert!(encode(coding, 0) == encode(coding, *levels(coding).start()), "{coding:?}");
        assert!(encode(coding, 255) == encode(coding, *levels(coding).end()), "{coding:?}");
    }
}

/// The output of a decoding program for `input`; `None` if the program is not installed.
fn decoded_by(program: &str, input: &[u8]) -> Option<Vec<u8>> {
    let command = Command::new(program).arg("-dc").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = match command {
        Ok(child) => child,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => panic!("{program}: {error}"),
    };
    let (mut stdin, input) = (child.stdin.take().expect("a pipe"), input.to_vec());
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("the program ends");
    writer.join().expect("the thread ends").expect("the program reads its input");
    assert!(output.status.success(), "{program}: {}", output.status);
    Some(output.stdout)
}

#[test]
fn the_programs_of_each_coding_decode_it() {
    let mut numbers = Numbers(7);
    let mut decoded = Vec::new();
    for (coding, level) in all_levels() {
        let (mut encoder, mut output, mut content) = (Encoder::new(coding, level), Vec::new(), Vec::new());
        for length in [10, 5000, 0, 300_000] {
            let piece = numbers.content(length);
            encoder.write(&piece, &mut output).expect("it is open");
            encoder.flush(&mut output).expect("it is open");
            content.extend_from_slice(&piece);
        }
        encoder.finish(&mut output).expect("it is open");
        let program = match coding {
            Coding::Gzip => "gzip",
            Coding::Brotli => "brotli",
            Coding::Zstd => "zstd",
        };
        if let Some(found) = decoded_by(program, &output) {
            assert!(found == content, "{program} {level}");
            decoded.push(program);
        }
    }
    // Every system has gzip; the tests above have decoders for the others.
    assert!(decoded.contains(&"gzip"), "{decoded:?}");
}
