//! A message, in each form in which connections get it. A form is made when the first connection needs it.

use oribi_live::{Kind, event_stream};
use oribi_websocket::{Deflater, Kind as FrameKind, frame};

/// A message to one or many connections.
pub(super) struct Message<'m> {
    kind: Kind,
    payload: &'m [u8],
    /// The head of its frame.
    head: Option<([u8; 10], usize)>,
    /// Its frame for clients with a window of so many bits; empty if it is not worth compressing.
    compressed: Vec<(u8, Vec<u8>)>,
    event: Option<Vec<u8>>,
}

impl<'m> Message<'m> {
    /// A text that is no UTF-8 becomes a message of bytes, because no frame of text may have it.
    pub(super) fn new(kind: Kind, payload: &'m [u8]) -> Self {
        let is_text = kind != Kind::Text || str::from_utf8(payload).is_ok();
        let kind = if is_text { kind } else { Kind::Binary };
        Self { kind, payload, head: None, compressed: Vec::new(), event: None }
    }

    /// Its frame for a WebSocket, in two parts; `None` if a WebSocket does not get it. `window`: the bits of the client's window, if
    /// messages are compressed.
    pub(super) fn frames(&mut self, window: Option<u8>, deflater: &mut Deflater) -> Option<[&[u8]; 2]> {
        let kind = match self.kind {
            Kind::Text => FrameKind::Text,
            Kind::Binary => FrameKind::Binary,
            Kind::Event => return None,
        };
        if let Some(window) = window
            && Deflater::worth(self.payload.len())
        {
            let known = self.compressed.iter().position(|(bits, _)| *bits == window);
            let index = known.unwrap_or_else(|| {
                self.compressed.push((window, compress(kind, self.payload, window, deflater)));
                self.compressed.len() - 1
            });
            if !self.compressed[index].1.is_empty() {
                return Some([&self.compressed[index].1, &[]]);
            }
        }
        let (head, length) = self.head.get_or_insert_with(|| {
            let mut head = [0; 10];
            let length = frame(kind, self.payload.len(), false, &mut head);
            (head, length)
        });
        Some([&head[..*length], self.payload])
    }

    /// Its bytes for an event stream; `None` if an event stream does not get it.
    pub(super) fn event(&mut self) -> Option<&[u8]> {
        let write: fn(&[u8], &mut Vec<u8>) = match self.kind {
            Kind::Text => event_stream::write_data,
            Kind::Event => event_stream::write_event,
            Kind::Binary => return None,
        };
        let payload = self.payload;
        let event = self.event.get_or_insert_with(|| {
            let mut event = Vec::with_capacity(payload.len() + 16);
            write(payload, &mut event);
            event
        });
        Some(event)
    }
}

fn compress(kind: FrameKind, payload: &[u8], window: u8, deflater: &mut Deflater) -> Vec<u8> {
    let Some(compressed) = deflater.compress(payload, window) else { return Vec::new() };
    let mut head = [0; 10];
    let length = frame(kind, compressed.len(), true, &mut head);
    [&head[..length], compressed].concat()
}

#[cfg(test)]
mod tests {
    use super::Message;
    use oribi_live::Kind;
    use oribi_websocket::Deflater;

    #[test]
    fn each_kind_of_connection_gets_the_kinds_of_messages_that_it_can() {
        let mut deflater = Deflater::new(3);
        let mut frames = |message: &mut Message<'_>, window| message.frames(window, &mut deflater).map(|parts| parts.concat());
        let mut text = Message::new(Kind::Text, b"hi");
        assert_eq!(frames(&mut text, None).as_deref(), Some(&b"\x81\x02hi"[..]));
        assert_eq!(frames(&mut text, Some(15)).as_deref(), Some(&b"\x81\x02hi"[..]), "too short to be compressed");
        assert_eq!(text.event(), Some(&b"data: hi\n\n"[..]));
        let mut bytes = Message::new(Kind::Binary, b"\xff");
        assert_eq!(frames(&mut bytes, None).as_deref(), Some(&b"\x82\x01\xff"[..]));
        assert_eq!(bytes.event(), None);
        let mut event = Message::new(Kind::Event, b"id: 1\ndata: x");
        assert_eq!(frames(&mut event, None), None);
        assert_eq!(event.event(), Some(&b"id: 1\ndata: x\n\n"[..]));
        assert_eq!(frames(&mut Message::new(Kind::Text, b"\xff"), None).as_deref(), Some(&b"\x82\x01\xff"[..]), "no text");
        let long = vec![b'a'; 5000];
        let mut long = Message::new(Kind::Text, &long);
        let (plain, small) = (frames(&mut long, None).expect("a frame"), frames(&mut long, Some(15)).expect("a frame"));
        assert!((plain[0], small[0]) == (0x81, 0xC1) && small.len() < 100 && plain.len() == 5004, "{} bytes", small.len());
        assert_eq!(frames(&mut long, Some(15)), Some(small), "made once");
    }
}
