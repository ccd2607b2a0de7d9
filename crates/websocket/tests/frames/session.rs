//! A reader that keeps its messages.

use oribi_websocket::{Fault, Inflater, Limits, Message, Reader};

/// A message that outlives its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    Text(String),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(u16, String),
}

impl From<Message<'_>> for Received {
    fn from(message: Message<'_>) -> Self {
        match message {
            Message::Text(text) => Self::Text(text.to_owned()),
            Message::Binary(bytes) => Self::Binary(bytes.to_vec()),
            Message::Ping(bytes) => Self::Ping(bytes.to_vec()),
            Message::Pong(bytes) => Self::Pong(bytes.to_vec()),
            Message::Close { code, reason } => Self::Close(code, reason.to_owned()),
        }
    }
}

pub fn text(text: &str) -> Received {
    Received::Text(text.to_owned())
}

pub struct Session {
    pub reader: Reader,
    pub limits: Limits,
    pub inflater: Inflater,
    pub received: Vec<Received>,
    pub fault: Option<Fault>,
}

impl Session {
    pub fn new(deflate: bool, limits: Limits) -> Self {
        Self { reader: Reader::new(deflate), limits, inflater: Inflater::new(), received: Vec::new(), fault: None }
    }

    /// Goes on with another reader, which has the state of this one.
    pub fn hand_over(&mut self, deflate: bool) {
        let Some(snapshot) = self.reader.snapshot() else { return };
        let restored = Reader::restored(deflate, &snapshot).expect("a reader has had this state");
        assert_eq!(restored.snapshot(), Some(snapshot));
        assert_eq!(restored.is_between_messages(), self.reader.is_between_messages());
        self.reader = restored;
    }

    /// Reads `bytes`, and again after each message if `stopping`.
    pub fn push(&mut self, bytes: &[u8], stopping: bool) {
        let mut bytes = bytes.to_vec();
        let mut rest = &mut bytes[..];
        loop {
            let (known, length) = (self.received.len(), rest.len());
            let received = &mut self.received;
            let consumed = self.reader.read(rest, &self.limits, &mut self.inflater, &mut |message| {
                received.push(message.into());
                !stopping
            });
            match consumed {
                Ok(consumed) => {
                    assert!(stopping || consumed == length, "{consumed} of {length}");
                    assert!(!stopping || consumed == length || self.received.len() == known + 1);
                    rest = &mut rest[consumed..];
                    if rest.is_empty() {
                        break;
                    }
                }
                Err(fault) => {
                    self.fault = Some(fault);
                    break;
                }
            }
        }
    }
}

/// The messages of `bytes`, and the mistake, after each way of cutting the bytes has given the same.
pub fn read(bytes: &[u8], deflate: bool, limits: Limits) -> (Vec<Received>, Option<Fault>) {
    let mut whole = Session::new(deflate, limits);
    whole.push(bytes, false);
    let same = |pieces: &mut dyn Iterator<Item = &[u8]>, stopping: bool, how: &str| {
        let mut session = Session::new(deflate, limits);
        for piece in pieces {
            session.push(piece, stopping);
        }
        assert_eq!(session.received, whole.received, "{how}");
        assert_eq!(session.fault, whole.fault, "{how}");
        assert_eq!(session.reader.is_between_messages(), whole.reader.is_between_messages(), "{how}");
    };
    same(&mut [bytes].into_iter(), true, "message by message");
    same(&mut bytes.chunks(1), false, "byte by byte");
    same(&mut bytes.chunks(3), true, "three bytes by three, message by message");
    if bytes.len() < 5000 {
        for split in 0..=bytes.len() {
            let (first, second) = bytes.split_at(split);
            same(&mut [first, second].into_iter(), false, &format!("split at {split}"));
            let mut session = Session::new(deflate, limits);
            session.push(first, false);
            session.hand_over(deflate);
            session.push(second, false);
            assert_eq!((&session.received, session.fault), (&whole.received, whole.fault), "handed over at {split}");
        }
    }
    (whole.received, whole.fault)
}

/// A frame with any head: `first` is its first byte.
pub fn raw(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    oribi_websocket::client_frame(oribi_websocket::Kind::Binary, payload, [0x37, 0xfa, 0x21, 0x3d], &mut bytes);
    bytes[0] = first;
    bytes
}
