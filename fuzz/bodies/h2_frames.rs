//! Properties of all bytes that a client can send over HTTP/2.

use crate::frames::PREFACE;
use crate::http2_transcript::{Item, Manner, read};
use oribi_proto::h2::Limits;

/// Checks input of a client. The first byte of `data` chooses the limits and how requests are treated. The second chooses how
/// the input, which is the rest of `data`, is cut into pieces. The result must be the same for all pieces; [`read`] checks the
/// other properties. If the first byte is 64 or more, the preface and SETTINGS precede the input. Returns the events.
pub fn check(data: &[u8]) -> Vec<Item> {
    let [choice, cuts, input @ ..] = data else { return Vec::new() };
    let limits = limits_of(*choice);
    let manner = [Manner::Answer, Manner::Hold, Manner::Early][usize::from(*choice) % 3];
    let begun = [PREFACE, b"\0\0\0\x04\0\0\0\0\0", input].concat();
    let input = if *choice >= 64 { &begun } else { input };
    let whole = read([input], &limits, manner);
    assert_eq!(read(input.chunks(1), &limits, manner), whole, "byte by byte");
    assert_eq!(read(pieces(input, *cuts), &limits, manner), whole, "in pieces");
    whole
}

/// The usual limits, or limits so small that a short input reaches each.
fn limits_of(choice: u8) -> Limits {
    let small = usize::from(choice);
    match choice {
        0..128 => Limits::default(),
        128.. => Limits {
            streams: u32::from(choice % 4),
            head_bytes: 64 + small,
            fields: small % 8,
            target_bytes: small % 32,
            strict_target: small % 2 == 0,
            content_bytes: u64::from(choice % 16),
            stream_window: 0,
            connection_window: 0,
            field_frames: choice % 5,
            resets: u16::from(choice % 6),
            nuisances: u32::from(choice % 32),
            restoring_nanoseconds: u64::MAX,
            connect_protocol: small % 2 == 1,
        },
    }
}

/// Cuts `input` at places that depend only on `cuts`.
fn pieces(mut input: &[u8], cuts: u8) -> impl Iterator<Item = &[u8]> {
    let mut state = u32::from(cuts) + 1;
    core::iter::from_fn(move || {
        if input.is_empty() {
            return None;
        }
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let size = 1 + (state >> 24) as usize % (1 + usize::from(cuts) / 4);
        let (piece, rest) = input.split_at(size.min(input.len()));
        input = rest;
        Some(piece)
    })
}
