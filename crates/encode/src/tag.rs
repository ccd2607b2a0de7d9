//! Entity tags of encoded responses.

use oribi_message::list::trim;

/// The start and the end of a tag that this crate has made weak.
const START: &[u8] = b"W/\"";
const END: &[u8] = b"~z\"";

/// Whether a client has this tag, a member of If-None-Match, from an encoded response.
pub(crate) fn is_made(tag: &[u8]) -> bool {
    tag.starts_with(START) && tag.ends_with(END)
}

/// Appends the weak tag for a strong one. Returns whether there is one: the value must be a strong tag.
pub(crate) fn weaken(value: &[u8], weak: &mut Vec<u8>) -> bool {
    let Some(opaque) = trim(value).strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")) else { return false };
    for part in [START, opaque, END] {
        weak.extend_from_slice(part);
    }
    true
}

/// Returns the value of If-None-Match in which each tag of an encoded response is the app's own again, for apps that compare tags
/// byte by byte. `None` if there is no such tag.
#[must_use]
pub fn restore_tags(value: &[u8]) -> Option<Vec<u8>> {
    let mut restored = None;
    let mut copied = 0;
    let mut position = 0;
    while let Some(start) = find(&value[position..], START).map(|found| position + found) {
        let opaque = start + START.len();
        let Some(end) = value[opaque..].iter().position(|byte| *byte == b'"').map(|found| opaque + found + 1) else { break };
        if value[opaque..end].ends_with(END) {
            let restored: &mut Vec<u8> = restored.get_or_insert_with(Vec::new);
            restored.extend_from_slice(&value[copied..start]);
            restored.push(b'"');
            restored.extend_from_slice(&value[opaque..end - END.len()]);
            restored.push(b'"');
            copied = end;
        }
        position = end;
    }
    if let Some(restored) = &mut restored {
        restored.extend_from_slice(&value[copied..]);
    }
    restored
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_app_gets_its_own_tag_back() {
        for tag in ["\"1\"", "\"\"", "\"a,b\"", "\"~z\""] {
            let mut weak = Vec::new();
            assert!(weaken(tag.as_bytes(), &mut weak) && is_made(&weak), "{tag}");
            assert_eq!(restore_tags(&weak).as_deref(), Some(tag.as_bytes()), "{tag}");
            let list = [b"\"x\", ", &weak[..], b",W/\"y\" , ", &weak].concat();
            let expected = format!("\"x\", {tag},W/\"y\" , {tag}");
            assert_eq!(restore_tags(&list).as_deref(), Some(expected.as_bytes()));
        }
        for other in ["", "*", "W/", "W/\"", "W/\"a", "W/\"a\"", "\"a~z\"", "W/\"~z", "W/\"a~z b\""] {
            assert_eq!(restore_tags(other.as_bytes()), None, "{other}");
        }
        for wrong in ["", "\"", "1", "W/\"1\"", "'1'"] {
            assert!(!weaken(wrong.as_bytes(), &mut Vec::new()), "{wrong}");
        }
    }
}
