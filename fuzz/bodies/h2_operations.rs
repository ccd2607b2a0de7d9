//! Properties of the machine for all input of a client and all calls, in any order.

use crate::frames::{self, CONTINUATION, DATA, Frame, GOAWAY, HEADERS, PREFACE, RST_STREAM, SETTINGS, WINDOW_UPDATE};
use oribi_message::{FieldPair, HeadLayout, ResponseHead};
use oribi_proto::h2::{Admission, ErrorCode, Event, Limits, Machine, Preset, Refusal};
use std::collections::{BTreeMap, BTreeSet};

/// Takes numbers from the bytes of the fuzzer. When these are used up, numbers are zero.
struct Source<'a>(&'a [u8]);

impl Source<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }
}

/// A client and a caller of the machine, which check its windows and streams.
struct Client {
    machine: Machine,
    limits: Limits,
    text: Vec<u8>,
    layout: HeadLayout,
    next: u32,
    /// The number of bytes of content that the server may send: on the connection, on new streams, and on each open stream.
    window: i64,
    first_window: i64,
    windows: BTreeMap<u32, i64>,
    /// The number of bytes of content that the client may send: on the connection, and on each stream.
    allowed: i64,
    stream_allowed: BTreeMap<u32, i64>,
    /// Streams that the server has ended, and streams that the caller of the machine knows.
    ended: BTreeSet<u32>,
    known: BTreeSet<u32>,
    over: bool,
}

/// Performs steps that the bytes of `data` choose: in each step, the client sends something, or the caller calls the machine.
pub fn check(data: &[u8]) {
    let mut source = Source(data);
    let limits = Limits {
        streams: 1 + u32::from(source.byte() % 8),
        resets: 200,
        connect_protocol: true,
        content_bytes: 300_000,
        ..Limits::default()
    };
    let mut client = Client {
        machine: Machine::new(&limits),
        limits,
        text: Vec::new(),
        layout: HeadLayout::default(),
        next: 1,
        window: 65_535,
        first_window: 65_535,
        windows: BTreeMap::new(),
        allowed: 65_535,
        stream_allowed: BTreeMap::new(),
        ended: BTreeSet::new(),
        known: BTreeSet::new(),
        over: false,
    };
    client.send(PREFACE);
    client.send(&Frame::new(SETTINGS, 0, 0, &[]).to_bytes());
    while !source.0.is_empty() && !client.over {
        client.step(&mut source);
        assert!(client.machine.active() <= client.limits.streams as usize);
        assert_eq!(client.machine.active(), client.known.len());
    }
    // In every state, all streams can be ended, and then also the connection.
    for id in client.known.clone() {
        let mut out = Vec::new();
        client.machine.finish(id, &mut out);
        client.receive(&out);
        client.known.remove(&id);
    }
    assert_eq!(client.machine.active(), 0);
    let mut out = Vec::new();
    client.machine.retire_at_once(&mut out);
    assert!(client.machine.must_close());
}

impl Client {
    fn pick(&self, source: &mut Source<'_>) -> u32 {
        1 + 2 * (u32::from(source.byte()) % (self.next / 2 + 1))
    }

    fn step(&mut self, source: &mut Source<'_>) {
        let choice = source.byte();
        match choice % 16 {
            0 | 1 => self.open(source),
            2 => {
                let (id, size, flags) = (self.pick(source), usize::from(source.byte()) * 40, source.byte() & 1);
                let allowed = self.stream_allowed.get(&id).copied().unwrap_or(0).min(self.allowed);
                let size = size.min(allowed.max(0) as usize);
                self.allowed -= size as i64;
                *self.stream_allowed.entry(id).or_default() -= size as i64;
                self.send(&Frame::new(DATA, flags, id, &vec![b'x'; size]).to_bytes());
            }
            3 => {
                let id = if choice < 128 { 0 } else { self.pick(source) };
                let by = u32::from(source.byte()) * 300;
                let window = if id == 0 { Some(&mut self.window) } else { self.windows.get_mut(&id) };
                if let Some(window) = window {
                    *window += i64::from(by);
                }
                self.send(&Frame::new(WINDOW_UPDATE, 0, id, &by.to_be_bytes()).to_bytes());
            }
            4 => {
                let window = u32::from(source.byte()) * 1000;
                let change = i64::from(window) - self.first_window;
                self.first_window = i64::from(window);
                self.windows.values_mut().for_each(|window| *window += change);
                let content = [&[0, 4][..], &window.to_be_bytes()].concat();
                self.send(&Frame::new(SETTINGS, 0, 0, &content).to_bytes());
            }
            5 => {
                let id = self.pick(source);
                self.send(&Frame::new(RST_STREAM, 0, id, &8_u32.to_be_bytes()).to_bytes());
            }
            6 => {
                // Anything at all.
                let (kind, flags, id) = (source.byte() % 18, source.byte(), u32::from(source.byte()) % 12);
                if !matches!(kind, DATA | SETTINGS | WINDOW_UPDATE) {
                    let content = (0..source.byte() % 20).map(|_| source.byte()).collect::<Vec<_>>();
                    self.next = if kind == HEADERS && id >= self.next { id + 2 } else { self.next };
                    self.windows.entry(id).or_insert(self.first_window);
                    self.send(&Frame::new(kind, flags, id, &content).to_bytes());
                }
            }
            _ => self.act(choice, source),
        }
    }

    fn open(&mut self, source: &mut Source<'_>) {
        let (id, choice) = (self.next, source.byte());
        self.next += 2;
        self.windows.insert(id, self.first_window);
        self.stream_allowed.insert(id, 65_535);
        let method = [&b"\x82"[..], b"\x83", b"\x02\x04HEAD"][usize::from(choice) % 3];
        let block = [method, b"\x86\x84\x01\x01a"].concat();
        let ends = u8::from(choice & 8 == 0);
        self.send(&Frame::new(HEADERS, 4 | ends, id, &block).to_bytes());
    }

    /// Performs a call of the machine that `choice` selects.
    fn act(&mut self, choice: u8, source: &mut Source<'_>) {
        let id = self.pick(source);
        let mut out = Vec::new();
        let machine = &mut self.machine;
        let mut left = Vec::new();
        match choice % 16 {
            7 => {
                let fields: [FieldPair<'_>; 1] = [(b"X-Y", b"z")];
                let head = ResponseHead { status: [200, 204, 304, 500][usize::from(source.byte() % 4)], fields: &fields };
                let length = Some(u64::from(source.byte()) * 100).filter(|_| choice >= 128);
                let _ = machine.write_head(id, head, length, &Preset::default(), &mut out);
            }
            8..=10 => {
                let size = u64::from(source.byte()) * 200;
                let before = machine.window(id);
                match machine.write_content_prefix(id, size, &mut out) {
                    Admission::Bytes(admitted) => {
                        assert!(admitted > 0 && admitted <= size && admitted <= before && admitted <= 16_384);
                        left = vec![b'c'; admitted as usize];
                    }
                    Admission::Blocked => {
                        assert_eq!(before, 0);
                        machine.set_waiting(id, true);
                    }
                    Admission::Dropped => machine.set_waiting(id, false),
                }
            }
            11 => {
                machine.finish(id, &mut out);
                self.known.remove(&id);
            }
            12 if choice >= 240 => machine.retire(&mut out),
            12 => {
                let _ = machine.write_informational(id, 103, &[(b"Link", b"x")], &mut out);
                let _ = machine.write_trailers(id, &[(b"X", b"y")], &mut out);
            }
            13 => {
                machine.write_refusal(id, Refusal::OVERLOADED, &Preset::default(), &mut out);
            }
            14 => {
                if let Some(id) = machine.next_to_send() {
                    assert!(machine.window(id) > 0);
                    assert!(self.known.contains(&id));
                }
                machine.consume(id, usize::from(source.byte()) * 100, &mut out);
            }
            _ if choice >= 200 => {
                machine.reset(id, ErrorCode::CANCEL, &mut out);
                self.known.remove(&id);
            }
            _ => {}
        }
        out.extend(left);
        self.receive(&out);
    }

    /// Passes bytes of the client to the machine, until it has read all of them.
    fn send(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        loop {
            let step = self.machine.handle_input(rest, &mut self.text, &mut self.layout, &self.limits);
            rest = &rest[step.consumed..];
            match step.event {
                Event::NeedInput => {
                    assert_eq!(rest, b"");
                    return;
                }
                Event::Refuse(_) => {
                    self.over = true;
                    return;
                }
                Event::Answer => {
                    let mut out = Vec::new();
                    self.machine.write_answer(&self.limits, &mut out);
                    assert!((1..=64).contains(&out.len()));
                    self.receive(&out);
                }
                Event::Head { id, .. } | Event::Refused { id, .. } => drop(self.known.insert(id)),
                Event::Reset { id, .. } => assert!(self.known.remove(&id)),
                Event::Content { id, .. } | Event::End { id, .. } => assert!(self.known.contains(&id)),
                Event::Malformed { id, .. } => assert!(!self.known.contains(&id)),
                Event::Room => assert!(self.machine.next_to_send().is_some(), "room for nobody"),
            }
        }
    }

    /// Reads the server's frames as the client, and checks them.
    fn receive(&mut self, out: &[u8]) {
        for frame in frames::decode(out) {
            let Frame { kind, id, ref content, .. } = frame;
            assert!(content.len() <= 16_384);
            if id > 0 {
                assert!(id < self.next, "a stream that the client has not opened");
            }
            match kind {
                DATA => {
                    self.window -= content.len() as i64;
                    let window = self.windows.get_mut(&id).expect("a stream of the client");
                    *window -= content.len() as i64;
                    assert!(content.is_empty() || (*window >= 0 && self.window >= 0), "more than the client allows");
                    assert!(!self.ended.contains(&id), "content behind the end of {id}");
                }
                HEADERS | CONTINUATION => assert!(!self.ended.contains(&id), "fields behind the end of {id}"),
                SETTINGS => {
                    for setting in content.chunks_exact(6).filter(|setting| setting[..2] == [0, 4]) {
                        let window = i64::from(u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]));
                        self.stream_allowed.values_mut().for_each(|allowed| *allowed += window - 65_535);
                    }
                }
                WINDOW_UPDATE => {
                    let by = i64::from(frame.number());
                    assert!(by > 0);
                    if id == 0 {
                        self.allowed += by;
                        assert!(self.allowed <= i64::from(self.limits.connection_window), "more than was used");
                    } else {
                        let allowed = self.stream_allowed.entry(id).or_default();
                        *allowed += by;
                        assert!(*allowed <= i64::from(self.limits.stream_window), "more than was used");
                    }
                }
                RST_STREAM | GOAWAY => {}
                _ => {}
            }
            if frame.ends_stream() || kind == RST_STREAM {
                self.ended.insert(id);
            }
        }
    }
}
