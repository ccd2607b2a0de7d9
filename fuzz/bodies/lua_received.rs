//! Properties of all bytes that another server can send to a Lua script.

use oribi_lua::modules::received::Received;

fn put(received: &mut Received, piece: &[u8]) {
    let written = received.extend(piece.len(), |room| {
        room.copy_from_slice(piece);
        Ok::<_, ()>(piece.len())
    });
    assert_eq!(written, Ok(piece.len()));
}

/// Calls `read` on `bytes` that arrive in pieces of `size`, after each piece until it returns nothing. Returns the results and
/// the bytes that were not read.
fn read_all<R>(bytes: &[u8], size: usize, mut read: impl FnMut(&mut Received) -> Option<R>) -> (Vec<R>, Vec<u8>) {
    let (mut received, mut results) = (Received::default(), Vec::new());
    for piece in bytes.chunks(size) {
        put(&mut received, piece);
        while let Some(result) = read(&mut received) {
            results.push(result);
        }
    }
    (results, received.unread().to_vec())
}

/// Checks bytes. The first byte of `data` is the size of the pieces in which they arrive, the next line is the pattern, and the
/// rest are the bytes. Returns whether the pattern occurs in them.
pub fn check(data: &[u8]) -> bool {
    let Some((&size, data)) = data.split_first() else { return false };
    let size = usize::from(size % 16) + 1;
    let end = data.iter().position(|&byte| byte == b'\n').unwrap_or(data.len());
    let (pattern, bytes) = (&data[..end], data.get(end + 1..).unwrap_or_default());
    let whole = bytes.len().max(1);

    let lines = read_all(bytes, size, Received::line);
    assert_eq!(lines, read_all(bytes, whole, Received::line));
    assert_eq!(lines.0.len(), bytes.iter().filter(|&&byte| byte == b'\n').count());
    if pattern.is_empty() {
        return false;
    }

    let inclusive = read_all(bytes, size, |received| received.up_to(pattern, true, None).map(|(text, _)| text));
    assert_eq!([inclusive.0.concat(), inclusive.1].concat(), bytes, "nothing is lost");
    let texts = read_all(bytes, size, |received| received.up_to(pattern, false, None).map(|(text, _)| text));
    assert_eq!(texts, read_all(bytes, whole, |received| received.up_to(pattern, false, None).map(|(text, _)| text)));
    assert!(texts.0.iter().all(|text| !text.windows(pattern.len()).any(|window| window == pattern)));

    let (parts, _) = read_all(bytes, size, |received| received.up_to(pattern, false, Some(size)));
    assert!(parts.iter().all(|(text, _)| text.len() <= size));
    let met = parts.iter().filter(|(_, met)| *met).count();
    assert_eq!(met, texts.0.len(), "the pattern is met as often as without a limit");
    let joined: Vec<u8> =
        parts.split_inclusive(|(_, met)| *met).take(met).flatten().flat_map(|(text, _)| text.clone()).collect();
    assert_eq!(joined, texts.0.concat());
    met > 0
}
