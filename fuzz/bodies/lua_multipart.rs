//! Properties of all uploads that a client can send to a Lua script.

use oribi_lua::modules::multipart::{HEAD_BYTES, PARTS, parse};

/// Checks a form. The first line of `data` is the Content-Type, and the rest is the content. Returns whether the form could be
/// parsed.
pub fn check(data: &[u8]) -> bool {
    let end = data.iter().position(|&byte| byte == b'\n').unwrap_or(data.len());
    let (content_type, content) = (&data[..end], data.get(end + 1..).unwrap_or_default());
    let Ok(parts) = parse(content, content_type) else { return false };
    assert!(parts.len() <= PARTS);
    let mut behind = content.as_ptr() as usize;
    for part in &parts {
        // Parts are slices of the content, in order and without overlap. The slice of an empty part may point elsewhere.
        if !part.content.is_empty() {
            let start = part.content.as_ptr() as usize;
            assert!(start >= behind && start + part.content.len() <= content.as_ptr() as usize + content.len());
            behind = start + part.content.len();
        }
        let head: usize = part.fields.iter().map(|(name, value)| name.len() + value.len()).sum();
        assert!(head <= HEAD_BYTES);
        assert!(part.field("content-disposition").is_some());
    }
    // The parts, written again with a boundary that does not occur in them, are read as the same.
    let boundary = "oribi-fuzz-boundary";
    if content.windows(boundary.len()).any(|window| window == boundary.as_bytes()) {
        return true;
    }
    let mut written = Vec::new();
    for part in &parts {
        written.extend_from_slice(format!("--{boundary}\r\nContent-Disposition: form-data; name=x\r\n\r\n").as_bytes());
        written.extend_from_slice(part.content);
        written.extend_from_slice(b"\r\n");
    }
    written.extend_from_slice(format!("--{boundary}--").as_bytes());
    let again = parse(&written, format!("multipart/form-data; boundary={boundary}").as_bytes()).expect("it was written right");
    assert!(again.iter().map(|part| part.content).eq(parts.iter().map(|part| part.content)));
    true
}
