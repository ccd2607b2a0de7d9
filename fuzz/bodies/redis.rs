//! Properties of all bytes that a Redis can send, and of all messages of its channels.

use oribi_live::Command;
use oribi_relay::message::Received;
use oribi_relay::resp::{Malformed, Reader, Value};

/// The bytes of a line, and of the beginning of a text, that a reader may hold besides those of parts.
const PARTIAL: usize = 4 << 10;

/// Checks input of Redis. The first byte of `data` chooses how the rest is cut into pieces. The values and the mistake must be
/// the same for all pieces, and memory must be bounded by the bytes that have arrived. Returns the number of values.
pub fn check(data: &[u8]) -> usize {
    let [cuts, input @ ..] = data else { return 0 };
    let whole = read([input]);
    assert_eq!(read(input.chunks(1)), whole, "byte by byte");
    assert_eq!(read(input.chunks(1 + usize::from(*cuts))), whole, "in pieces");
    for value in &whole.0 {
        if let Value::Push(parts) = value
            && let [_, _, channel, message] = &parts[..]
        {
            check_message(channel, message);
        }
    }
    check_message(b"chat", input);
    whole.0.len()
}

/// Commands for edges can be read again.
fn check_message(channel: &[u8], message: &[u8]) {
    if let Received::Command(command) = Received::read(channel, message, &[1; 16]) {
        let mut bytes = Vec::new();
        command.write(&mut bytes);
        assert_eq!(Command::read(&bytes), Ok(Some((command, &b""[..]))));
        assert!(oribi_live::are_for_all(&bytes));
    }
}

fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Value>, bool) {
    let (mut reader, mut values, mut arrived) = (Reader::default(), Vec::new(), 0);
    for mut piece in pieces {
        arrived += piece.len();
        loop {
            match reader.read(&mut piece) {
                Ok(Some(value)) => values.push(value),
                Ok(None) => break,
                Err(Malformed) => {
                    assert_eq!(reader.read(&mut &b"+OK\r\n"[..]), Err(Malformed), "all that follows is no better");
                    return (values, true);
                }
            }
        }
        assert!(piece.is_empty() && reader.held() <= arrived + PARTIAL);
    }
    (values, false)
}
