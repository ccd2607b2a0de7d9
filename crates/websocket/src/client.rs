//! Frames of a client, for tests and for generators of load.

use crate::mask;
use crate::writer::{Kind, frame};

/// Appends a frame with `payload`, which is a whole message, to `output`, masked by `mask`.
pub fn client_frame(kind: Kind, payload: &[u8], mask: [u8; 4], output: &mut Vec<u8>) {
    let mut head = [0; 10];
    let length = frame(kind, payload.len(), false, &mut head);
    head[1] |= 0x80;
    output.extend_from_slice(&head[..length]);
    output.extend_from_slice(&mask);
    let begin = output.len();
    output.extend_from_slice(payload);
    mask::apply(&mut output[begin..], mask);
}
