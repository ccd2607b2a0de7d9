//! Copies short bytes, such as an address or the name of a field, without a function call.

/// Copies bytes to a destination of the same size.
#[inline(always)]
pub(super) fn copy_short(bytes: &[u8], target: &mut [u8]) {
    const SHORT: usize = 16;
    if bytes.len() > SHORT {
        return target.copy_from_slice(bytes);
    }
    let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) else {
        return copy_very_short(bytes, target);
    };
    // The two copies overlap if there are fewer than sixteen bytes.
    let from_end = target.len() - 8;
    target[..8].copy_from_slice(first);
    target[from_end..].copy_from_slice(last);
}

#[inline(always)]
fn copy_very_short(bytes: &[u8], target: &mut [u8]) {
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let from_end = target.len() - 4;
        target[..4].copy_from_slice(first);
        target[from_end..].copy_from_slice(last);
    } else {
        for (target, byte) in target.iter_mut().zip(bytes) {
            *target = *byte;
        }
    }
}
