//! Copies short bytes, such as an address or the name of a field, without a function call.

/// Copies bytes to a destination of the same size.
#[inline(always)]
pub(super) fn copy_short(bytes: &[u8], place: &mut [u8]) {
    const SHORT: usize = 16;
    if bytes.len() > SHORT {
        return place.copy_from_slice(bytes);
    }
    let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) else {
        return copy_very_short(bytes, place);
    };
    // The two copies overlap if there are fewer than sixteen bytes.
    let from_end = place.len() - 8;
    place[..8].copy_from_slice(first);
    place[from_end..].copy_from_slice(last);
}

#[inline(always)]
fn copy_very_short(bytes: &[u8], place: &mut [u8]) {
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let from_end = place.len() - 4;
        place[..4].copy_from_slice(first);
        place[from_end..].copy_from_slice(last);
    } else {
        for (place, byte) in place.iter_mut().zip(bytes) {
            *place = *byte;
        }
    }
}
