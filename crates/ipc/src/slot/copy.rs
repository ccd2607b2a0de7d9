//! Copies short bytes, such as an address or the name of a field, without a function call.

/// Copies bytes to a destination of the same size.
#[inline(always)]
pub(super) fn copy_short(bytes: &[u8], destination: &mut [u8]) {
    const SHORT: usize = 16;
    if bytes.len() > SHORT {
        return destination.copy_from_slice(bytes);
    }
    let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) else {
        return copy_very_short(bytes, destination);
    };
    // The two copies overlap if there are fewer than sixteen bytes.
    let from_end = destination.len() - 8;
    destination[..8].copy_from_slice(first);
    destination[from_end..].copy_from_slice(last);
}

#[inline(always)]
fn copy_very_short(bytes: &[u8], destination: &mut [u8]) {
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let from_end = destination.len() - 4;
        destination[..4].copy_from_slice(first);
        destination[from_end..].copy_from_slice(last);
    } else {
        for (destination, byte) in destination.iter_mut().zip(bytes) {
            *destination = *byte;
        }
    }
}
