//! Texts in HTML.

/// Escapes the characters that have a meaning in HTML, for text between tags or within the quotes of an attribute. Keeps all
/// other bytes.
pub(super) fn escape(text: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(text.len() + text.len() / 8);
    for &byte in text {
        match byte {
            b'&' => escaped.extend_from_slice(b"&amp;"),
            b'<' => escaped.extend_from_slice(b"&lt;"),
            b'>' => escaped.extend_from_slice(b"&gt;"),
            b'"' => escaped.extend_from_slice(b"&quot;"),
            b'\'' => escaped.extend_from_slice(b"&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}
