//! Builds a request target if the web server has sent none.

use alloc::vec::Vec;
use oribi_message::Span;

/// Builds REQUEST_URI from the other variables, appends the result to `bytes` and returns the place of the result.
///
/// SCRIPT_NAME and PATH_INFO are decoded (RFC 3875, sections 4.1.5 and 4.1.13), so every byte with a meaning in a path is
/// encoded again. QUERY_STRING is not decoded, so only bytes that no target may contain are encoded.
pub(super) fn append(script_name: Span, path_info: Span, query: Span, bytes: &mut Vec<u8>) -> Span {
    let start = bytes.len();
    let path = [script_name, path_info];
    let first = path.into_iter().find(|part| !part.is_empty());
    if first.is_none_or(|first| first.of(bytes).first() != Some(&b'/')) {
        bytes.push(b'/');
    }
    for part in path {
        append_encoded(part, is_path_byte, bytes);
    }
    if !query.is_empty() {
        bytes.push(b'?');
        append_encoded(query, |byte| byte.is_ascii_graphic() && byte != b'#', bytes);
    }
    Span::new(start, bytes.len())
}

fn append_encoded(part: Span, stands: impl Fn(u8) -> bool, bytes: &mut Vec<u8>) {
    for place in part.start as usize..part.end as usize {
        let byte = bytes[place];
        if stands(byte) {
            bytes.push(byte);
        } else {
            let digit = |value: u8| b"0123456789ABCDEF"[usize::from(value)];
            bytes.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
}

/// Whether `byte` is allowed in a path (RFC 3986, section 3.3): bytes of a segment, and the separator of segments.
const fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'/' | b':' | b'@' | b'-' | b'.' | b'_' | b'~')
        || matches!(byte, b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=')
}

#[cfg(test)]
mod tests {
    use oribi_message::Span;
    use std::vec::Vec;

    fn made(script_name: &str, path_info: &str, query: &str) -> std::string::String {
        let mut bytes = Vec::new();
        let mut add = |text: &str| {
            bytes.extend_from_slice(text.as_bytes());
            Span::new(bytes.len() - text.len(), bytes.len())
        };
        let (script_name, path_info, query) = (add(script_name), add(path_info), add(query));
        let target = super::append(script_name, path_info, query, &mut bytes);
        assert_eq!(target.end as usize, bytes.len());
        std::string::String::from_utf8_lossy(target.of(&bytes)).into_owned()
    }

    #[test]
    fn targets_mean_what_the_variables_said() {
        assert_eq!(made("/app", "/a b/%?#\u{e9}", "x=%20&y"), "/app/a%20b/%25%3F%23%C3%A9?x=%20&y");
        assert_eq!(made("", "/a", ""), "/a");
        assert_eq!(made("/a", "", "q"), "/a?q");
        assert_eq!(made("", "", ""), "/");
        assert_eq!(made("", "", "q"), "/?q");
        assert_eq!(made("a", "b", ""), "/ab");
        assert_eq!(made("", "x", ""), "/x");
        assert_eq!(made("/", "/a;b=1,2", "a b#\u{7f}\"<"), "//a;b=1,2?a%20b%23%7F\"<");
    }
}
