//! A client of HTTP/2 with several requests at once, which says itself how much it takes.

use crate::http2::{DATA, END_HEADERS, END_STREAM, Frame, HEADERS, PREFACE, SETTINGS, WINDOW, frame, literal, receive_frames};
use crate::wire::way_to;
use oribi_test_support::layer::Layer;
use std::net::SocketAddr;

pub struct Client {
    layer: Box<dyn Layer>,
    received: Vec<u8>,
    pub frames: Vec<Frame>,
}

impl Client {
    /// Connects, and sends a request for each target on the stream with this id. Without `has_room`, the server has no room for
    /// content until [`Client::make_room`].
    pub fn open(address: SocketAddr, requests: &[(u32, String)], has_room: bool) -> Self {
        let (mut layer, encrypts) = way_to(address, true).expect("the server listens");
        let no_room = [&4_u16.to_be_bytes()[..], &[0; 4]].concat();
        let mut bytes = [PREFACE, &frame(SETTINGS, 0, 0, if has_room { &[] } else { &no_room })].concat();
        for (id, target) in requests {
            let mut block = Vec::new();
            let scheme = if encrypts { "https" } else { "http" };
            for (name, value) in [(":method", "GET"), (":scheme", scheme), (":path", target), (":authority", "test")] {
                literal(&mut block, name, value);
            }
            bytes.extend(frame(HEADERS, END_HEADERS | END_STREAM, *id, &block));
        }
        layer.write_all(&bytes).and_then(|()| layer.flush()).expect("the server listens");
        Self { layer, received: Vec::new(), frames: Vec::new() }
    }

    /// Receives frames until `are_there` is true for the frames so far.
    pub fn receive_until(&mut self, are_there: impl Fn(&[Frame]) -> bool) {
        while !are_there(&self.frames) {
            let frames = receive_frames(&mut *self.layer, &mut self.received).expect("the server goes on");
            self.frames.extend(frames.expect("the server keeps the connection"));
        }
    }

    /// Receives frames until `count` responses are complete.
    pub fn receive_whole(&mut self, count: usize) {
        let is_end = |frame: &&Frame| matches!(frame.kind, DATA | HEADERS) && frame.flags & END_STREAM != 0;
        self.receive_until(|frames| frames.iter().filter(is_end).count() == count);
    }

    /// Makes room for content on the connection and on these streams.
    pub fn make_room(&mut self, streams: impl IntoIterator<Item = u32>) {
        let ids = std::iter::once(0).chain(streams);
        let bytes: Vec<u8> = ids.flat_map(|id| frame(WINDOW, 0, id, &(1_u32 << 30).to_be_bytes())).collect();
        self.layer.write_all(&bytes).and_then(|()| self.layer.flush()).expect("the server listens");
    }

    pub fn content(&self, id: u32) -> Vec<u8> {
        let of_stream = self.frames.iter().filter(|frame| frame.kind == DATA && frame.number == id);
        of_stream.flat_map(|frame| frame.payload.iter().copied()).collect()
    }
}
