//! Properties of all bytes that a client of WebSocket can send.

use oribi_websocket::{Fault, Inflater, Limits, Message, Reader};

/// The bookkeeping of a message that has not arrived as a whole, in bytes.
const PARTIAL: usize = 160;

/// A message that outlives its bytes.
#[derive(Debug, PartialEq)]
enum Received {
    Text(String),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(u16, String),
}

/// Checks input of a client. The first byte of `data` chooses the limits and whether compression was agreed upon. The second
/// chooses how the input, which is the rest of `data`, is cut into pieces. The messages and the mistake must be the same for
/// all pieces, and memory must be bounded by the bytes that have arrived and by the limits. Returns the number of messages.
pub fn check(data: &[u8]) -> usize {
    let [choice, cuts, input @ ..] = data else { return 0 };
    let deflate = choice & 1 == 1;
    let limits = match choice >> 1 {
        0..64 => Limits { message: 100_000, ..Limits::default() },
        small => Limits { message: usize::from(small - 64), frames_of_message: usize::from(small % 8) },
    };
    let whole = read([input], deflate, &limits, false);
    restore(input, deflate, &limits);
    assert_eq!(read([input], deflate, &limits, true), whole, "message by message");
    assert_eq!(read(input.chunks(1), deflate, &limits, false), whole, "byte by byte");
    assert_eq!(read(input.chunks(1 + usize::from(cuts / 2)), deflate, &limits, cuts & 1 == 1), whole, "in pieces");
    whole.0.len()
}

/// Takes `input` for the state of a reader of another process. Whatever reader has it goes on without a panic.
fn restore(input: &[u8], deflate: bool, limits: &Limits) {
    let Some(mut reader) = Reader::restored(deflate, input) else { return };
    let snapshot = reader.snapshot().expect("it has not ended");
    assert_eq!(Reader::restored(deflate, &snapshot).expect("it is one").snapshot(), Some(snapshot));
    for piece in input.chunks(7) {
        if reader.read(&mut piece.to_vec(), limits, &mut Inflater::new(), &mut |_| true).is_err() {
            return;
        }
    }
}

/// Reads `pieces`; if `stopping`, again after each message. Returns the messages, and the mistake that has ended them.
fn read<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    deflate: bool,
    limits: &Limits,
    stopping: bool,
) -> (Vec<Received>, Option<Fault>) {
    let (mut reader, mut inflater) = (Reader::new(deflate), Inflater::new());
    let (mut received, mut arrived) = (Vec::new(), 0);
    for piece in pieces {
        arrived += piece.len();
        let mut piece = piece.to_vec();
        let mut rest = &mut piece[..];
        while !rest.is_empty() {
            let known = received.len();
            let consumed = reader.read(rest, limits, &mut inflater, &mut |message| {
                received.push(own(message, limits));
                !stopping
            });
            assert!(inflater.held() <= (limits.message + 1).max(4096), "the inflater holds {}", inflater.held());
            let consumed = match consumed {
                Ok(consumed) => consumed,
                Err(fault) => {
                    assert!(matches!(fault.code, 1002 | 1007 | 1008 | 1009) && fault.reason.len() <= 123);
                    assert_eq!(reader.read(rest, limits, &mut inflater, &mut |_| panic!("a message")), Err(fault));
                    assert_eq!(reader.held(), 0);
                    return (received, Some(fault));
                }
            };
            assert!(consumed > 0 && (consumed == rest.len() || stopping && received.len() == known + 1));
            let held = reader.held();
            assert_eq!(held == 0, reader.is_between_messages());
            assert!(held <= PARTIAL + 2 * arrived && held <= PARTIAL + 250 + limits.message + limits.message / 64 + 128);
            rest = &mut rest[consumed..];
        }
    }
    (received, None)
}

fn own(message: Message<'_>, limits: &Limits) -> Received {
    match message {
        Message::Text(text) => {
            assert!(text.len() <= limits.message);
            Received::Text(text.to_owned())
        }
        Message::Binary(bytes) => {
            assert!(bytes.len() <= limits.message);
            Received::Binary(bytes.to_vec())
        }
        Message::Ping(bytes) | Message::Pong(bytes) if bytes.len() > 125 => panic!("{} bytes", bytes.len()),
        Message::Ping(bytes) => Received::Ping(bytes.to_vec()),
        Message::Pong(bytes) => Received::Pong(bytes.to_vec()),
        Message::Close { code, reason } => Received::Close(code, reason.to_owned()),
    }
}
