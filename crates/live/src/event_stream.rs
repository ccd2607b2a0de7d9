//! Messages as events of an event stream (WHATWG HTML, section 9.2: server-sent events).

/// A line that clients ignore, which shows whether a connection still exists.
pub const COMMENT: &[u8] = b":\n\n";

/// Appends a message as the data of one event.
pub fn write_data(message: &[u8], output: &mut Vec<u8>) {
    for line in lines(message) {
        output.extend_from_slice(b"data: ");
        output.extend_from_slice(line);
        output.push(b'\n');
    }
    output.push(b'\n');
}

/// Appends lines of an event, and the empty line that ends it. Empty lines in between would end it earlier, so they are left out.
pub fn write_event(event: &[u8], output: &mut Vec<u8>) {
    for line in lines(event).filter(|line| !line.is_empty()) {
        output.extend_from_slice(line);
        output.push(b'\n');
    }
    output.push(b'\n');
}

/// The lines of a text, which end with CR, LF, or CR LF.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(end) = text.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
            rest = None;
            return Some(text);
        };
        let after = end + if text[end..].starts_with(b"\r\n") { 2 } else { 1 };
        rest = Some(&text[after..]);
        Some(&text[..end])
    })
}

#[cfg(test)]
mod tests {
    use super::{write_data, write_event};

    #[test]
    fn each_line_of_a_message_is_data() {
        for (message, event) in [
            (&b""[..], &b"data: \n\n"[..]),
            (b"one", b"data: one\n\n"),
            (b"one\ntwo\r\nthree\rfour", b"data: one\ndata: two\ndata: three\ndata: four\n\n"),
            (b"one\n", b"data: one\ndata: \n\n"),
            (b"a\n\nevent: forged", b"data: a\ndata: \ndata: event: forged\n\n"),
        ] {
            let mut output = Vec::new();
            write_data(message, &mut output);
            assert_eq!(output, event, "{}", String::from_utf8_lossy(message));
        }
    }

    #[test]
    fn an_event_is_one_event() {
        let mut output = Vec::new();
        write_event(b"event: news\nid: 7\r\n\r\ndata: hello\n\n", &mut output);
        assert_eq!(output, b"event: news\nid: 7\ndata: hello\n\n");
    }
}
