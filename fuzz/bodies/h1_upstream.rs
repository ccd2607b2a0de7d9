//! Properties of all bytes that an upstream can send.

use crate::upstream_transcript::{Asked, Item, read};
use oribi_proto::h1::Limits;

/// Checks input of an upstream. The first byte of `data` chooses the request and the limits. The second chooses how the input,
/// which is the rest of `data`, is cut into pieces. The result must be the same for all pieces; [`read`] checks the other
/// properties.
pub fn check(data: &[u8]) {
    let [choice, cuts, input @ ..] = data else { return };
    let method = match choice & 3 {
        0 => Some("HEAD"),
        1 if choice & 4 > 0 => None,
        _ => Some("GET"),
    };
    let asked = Asked { method, upgrades: choice & 8 > 0, unfinished: choice & 16 > 0 };
    let limits = limits_of(*choice);
    let whole = read(asked, [input], &limits);
    assert_eq!(read(asked, input.chunks(1), &limits), whole, "byte by byte");
    assert_eq!(read(asked, input.chunks(1 + usize::from(*cuts) / 4), &limits), whole, "in pieces");
    let place = usize::from(*cuts).min(input.len());
    assert_eq!(read(asked, [&input[..place], &input[place..]], &limits), whole, "cut once");
    // A response has one end, and nothing but a fault comes after it.
    let end = whole.iter().position(|item| matches!(item, Item::End { .. }));
    assert!(end.is_none_or(|end| whole[end + 1..].iter().all(|item| matches!(item, Item::Fault(_)))), "{whole:?}");
}

/// The usual limits, or limits so small that a short input reaches each.
fn limits_of(choice: u8) -> Limits {
    let small = usize::from(choice);
    match choice {
        0..128 => Limits { content_bytes: u64::MAX, ..Limits::default() },
        128.. => Limits {
            head_bytes: small,
            fields: small % 8,
            content_bytes: u64::from(choice % 16),
            chunk_line_bytes: small % 24,
            chunk_extra_bytes: small % 40,
            trailer_bytes: small % 48,
            ..Limits::default()
        },
    }
}
