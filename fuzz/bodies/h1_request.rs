//! Properties of all bytes that a client can send.

use crate::transcript::{Item, read};
use oribi_proto::h1::Limits;

/// Checks input of a client. The first byte of `data` chooses the limits. The second chooses how the input, which is the rest
/// of `data`, is cut into pieces. The result must be the same for all pieces; [`read`] checks the other properties. Returns the
/// events.
pub fn check(data: &[u8]) -> Vec<Item> {
    let [limits, cuts, input @ ..] = data else { return Vec::new() };
    let limits = limits_of(*limits);
    let whole = read([input], &limits);
    assert_eq!(read(input.chunks(1), &limits), whole, "byte by byte");
    assert_eq!(read(pieces(input, *cuts), &limits), whole, "in pieces");
    whole
}

/// The usual limits, or limits so small that a short input reaches each.
fn limits_of(choice: u8) -> Limits {
    let small = usize::from(choice);
    match choice {
        0..128 => Limits::default(),
        128.. => Limits {
            head_bytes: small,
            fields: small % 8,
            target_bytes: small % 64,
            strict_target: small % 2 == 0,
            content_bytes: u64::from(choice % 16),
            chunk_line_bytes: small % 24,
            chunk_extra_bytes: small % 40,
            trailer_bytes: small % 48,
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
