//! The target of a redirect.

use oribi_message::RequestHead;
use oribi_worker::lane::host_of;

/// Returns the value of Location: `to`, in which the request replaces the variables. `None` if the request has no usable host.
pub(super) fn location(to: &str, path: &[u8], head: &RequestHead<'_>, https: bool) -> Option<Vec<u8>> {
    let mut location = Vec::with_capacity(to.len());
    let mut rest = to;
    while let Some(position) = rest.find('$') {
        location.extend_from_slice(&rest.as_bytes()[..position]);
        rest = &rest[position..];
        if let Some(behind) = rest.strip_prefix("$scheme") {
            location.extend_from_slice(if https { b"https" } else { b"http" });
            rest = behind;
        } else if let Some(behind) = rest.strip_prefix("$host") {
            location.extend_from_slice(host_of(head.host()?)?);
            rest = behind;
        } else if let Some(behind) = rest.strip_prefix("$request_uri") {
            head.path_and_query().iter().for_each(|byte| escape(*byte, false, &mut location));
            rest = behind;
        } else if let Some(behind) = rest.strip_prefix("$uri") {
            push_path(path, &mut location);
            rest = behind;
        } else {
            location.push(b'$');
            rest = &rest[1..];
        }
    }
    location.extend_from_slice(rest.as_bytes());
    // A path must not become the name of another host.
    while location.starts_with(b"//") {
        location.remove(0);
    }
    Some(location)
}

/// Appends a decoded path as it stands in a target.
pub(super) fn push_path(path: &[u8], to: &mut Vec<u8>) {
    path.iter().for_each(|byte| escape(*byte, true, to));
}

/// Appends a byte of a path. `decoded`: whether the path is decoded, so that delimiters need an escape, too.
fn escape(byte: u8, decoded: bool, to: &mut Vec<u8>) {
    let is_plain = byte.is_ascii_graphic() && !b"\"#<>\\^`{|}".contains(&byte) && !(decoded && b"%?".contains(&byte));
    if is_plain {
        to.push(byte);
    } else {
        const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
        to.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}
