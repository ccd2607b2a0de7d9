//! The client's side of HTTP/2, written and read without the server's own code.

use oribi_io::Client;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;

pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The setting with the initial window of each stream.
pub const INITIAL_WINDOW: u16 = 4;

/// Encodes one frame.
pub fn frame(kind: u8, flags: u8, id: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = (content.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&id.to_be_bytes());
    bytes.extend_from_slice(content);
    bytes
}

/// A block of fields, each a literal outside of tables (RFC 7541, section 6.2.2).
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.push(0);
        for text in [name, value] {
            assert!(text.len() < 127, "longer lengths are not needed here");
            bytes.push(text.len() as u8);
            bytes.extend_from_slice(text.as_bytes());
        }
    }
    bytes
}

/// The first bytes of a client.
pub fn opening(settings: &[(u16, u32)]) -> Vec<u8> {
    let content: Vec<u8> =
        settings.iter().flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()[..]].concat()).collect();
    [PREFACE, &frame(SETTINGS, 0, 0, &content)].concat()
}

/// A request without content.
pub fn asks(id: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, id, &head("GET", path, &[]))
}

/// The head of a request whose content follows.
pub fn offers(id: u32, path: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, id, &head("POST", path, fields))
}

/// The block of a request's head.
pub fn head(method: &str, path: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let pseudo = [(":method", method), (":scheme", "http"), (":path", path), (":authority", "a")];
    block(&[&pseudo[..], fields].concat())
}

pub fn window_update(id: u32, size: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, id, &size.to_be_bytes())
}

/// A frame of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub id: u32,
    pub content: Vec<u8>,
}

impl Frame {
    /// The error code of RST_STREAM and GOAWAY.
    pub fn code(&self) -> u32 {
        let place = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.content[place..place + 4].try_into().expect("a code"))
    }
}

/// Reads the frames of a connection.
#[derive(Default)]
pub struct Frames {
    bytes: Vec<u8>,
    pub all: Vec<Frame>,
}

impl Frames {
    /// Takes what the client has received.
    pub fn read(&mut self, client: &Client) -> &mut Self {
        self.bytes.extend(client.received());
        while let Some(header) = self.bytes.first_chunk::<9>() {
            let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
            let Some(content) = self.bytes.get(9..9 + length) else { break };
            let id = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
            self.all.push(Frame { kind: header[3], flags: header[4], id, content: content.to_vec() });
            self.bytes.drain(..9 + length);
        }
        self
    }

    /// The content of a stream so far, and whether its response has ended.
    pub fn content(&self, id: u32) -> (String, bool) {
        let of_stream = || self.all.iter().filter(|frame| frame.id == id);
        let content = of_stream().filter(|frame| frame.kind == DATA).flat_map(|frame| frame.content.clone()).collect();
        let ended = of_stream().any(|frame| matches!(frame.kind, DATA | HEADERS) && frame.flags & END_STREAM != 0);
        (String::from_utf8(content).expect("text"), ended)
    }

    /// The first byte of the block at the start of a response: 0x88 is status 200, 0x8d is 404 (RFC 7541, appendix A).
    pub fn status(&self, id: u32) -> Option<u8> {
        let head = self.all.iter().find(|frame| frame.id == id && frame.kind == HEADERS)?;
        // Before the first field, the server announces that it uses no table.
        head.content.iter().copied().find(|&byte| byte != 0x20)
    }

    pub fn of(&self, kind: u8) -> Vec<&Frame> {
        self.all.iter().filter(|frame| frame.kind == kind).collect()
    }
}
