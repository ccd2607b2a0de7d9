//! Properties of all bytes with which an app can frame its content.

use oribi_proto::h1::FramedContent;

/// Checks that the content, or the error, is the same however the bytes are cut, and that content that is framed again is read
/// as the same.
pub fn check(data: &[u8]) {
    let whole = read([data]);
    assert_eq!(read(data.chunks(1)), whole, "byte by byte");
    let place = data.first().map_or(0, |&byte| usize::from(byte) % data.len());
    let (front, back) = data.split_at(place);
    assert_eq!(read([front, back]), whole, "cut at {place}");
    assert_eq!(read([front, b"", back]), whole, "with nothing in between");
    let Some((content, may_end)) = whole else { return };
    assert!(content.len() <= data.len());
    assert!(may_end || !data.is_empty());
    let mut framed = Vec::new();
    for piece in content.chunks(place + 1) {
        framed.extend(format!("{:x}\r\n", piece.len()).into_bytes());
        framed.extend_from_slice(piece);
        framed.extend_from_slice(b"\r\n");
    }
    framed.extend_from_slice(b"0\r\n\r\n");
    assert_eq!(read([&framed[..]]), Some((content, true)), "framed again");
}

/// Returns the content of the chunks, and whether the content may end after the last piece; `None` if the framing is broken.
fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Option<(Vec<u8>, bool)> {
    let (mut framed, mut content) = (FramedContent::new(), Vec::new());
    for piece in pieces {
        framed.read(piece, |bytes| content.extend_from_slice(bytes)).ok()?;
    }
    Some((content, framed.may_end()))
}
