//! Passes the heads that the machine has accepted to httparse. httparse is more lenient than the machine, so it must accept
//! these heads too, and must parse them into the same parts.

use crate::transcript::Item;

/// The most fields that httparse parses, which is the usual limit of the machine.
const FIELDS: usize = 100;

/// Writes the head of `item` as text, and lets httparse parse this text.
pub fn check(item: &Item) {
    let Item::Head(head) = item else { return };
    // httparse rejects characters that are not allowed in URIs, and bytes that are not UTF-8. The machine accepts them, because
    // clients send them.
    if head.target.iter().any(|byte| b"\"<>\\^`{|}".contains(byte) || !byte.is_ascii()) {
        return;
    }
    let mut bytes = [&head.method[..], b" ", &head.target, b" ", head.version.as_bytes(), b"\r\n"].concat();
    for (name, value) in &head.fields {
        bytes.extend([&name[..], b": ", value, b"\r\n"].concat());
    }
    bytes.extend(b"\r\n");
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    assert_eq!(request.parse(&bytes), Ok(httparse::Status::Complete(bytes.len())), "{}", bytes.escape_ascii());
    assert_eq!(request.method.map(str::as_bytes), Some(&head.method[..]));
    assert_eq!(request.path.map(str::as_bytes), Some(&head.target[..]));
    assert_eq!(request.version, Some(u8::from(head.version == "HTTP/1.1")));
    let fields = request.headers.iter().map(|field| (field.name.as_bytes().to_vec(), field.value.to_vec()));
    assert_eq!(fields.collect::<Vec<_>>(), head.fields);
}
