//! The memory and work that a client can make a machine spend: the numbers in the description of `h2`.

use crate::frames::{self, Frame, HEADERS, PREFACE, SETTINGS};
use oribi_message::{HeadLayout, ResponseHead};
use oribi_proto::h2::{Admission, Event, Limits, Machine, Preset, Violation};
use std::cell::Cell;

/// A machine that has read the beginning of a connection, and its output.
struct Fed {
    machine: Machine,
    limits: Limits,
    text: Vec<u8>,
    layout: HeadLayout,
    out: Vec<u8>,
    heads: usize,
}

impl Fed {
    fn new(limits: Limits) -> Self {
        let machine = Machine::new(&limits);
        let mut fed = Self { machine, limits, text: Vec::new(), layout: HeadLayout::default(), out: Vec::new(), heads: 0 };
        fed.send(&[PREFACE, &Frame::new(SETTINGS, 0, 0, &[]).to_bytes()].concat()).expect("a connection");
        fed
    }

    fn send(&mut self, mut bytes: &[u8]) -> Result<(), Violation> {
        loop {
            let step = self.machine.handle_input(bytes, &mut self.text, &mut self.layout, &self.limits);
            bytes = &bytes[step.consumed..];
            match step.event {
                Event::NeedInput => return Ok(()),
                Event::Refuse(violation) => return Err(violation),
                Event::Answer => self.machine.write_answer(&self.limits, &mut self.out),
                Event::Head { .. } => self.heads += 1,
                _ => {}
            }
        }
    }

    /// Sends the frames of one stream after another, until the connection ends. Returns the number of streams before that.
    fn repeat(&mut self, most: usize, frames: impl Fn(u32) -> Vec<Frame>) -> usize {
        for count in 0..most {
            let id = 1 + 2 * count as u32;
            let bytes = frames(id).iter().flat_map(Frame::to_bytes).collect::<Vec<_>>();
            if let Err(violation) = self.send(&bytes) {
                assert_eq!(violation.code().name(), "ENHANCE_YOUR_CALM", "{}", violation.reason());
                assert!(violation.excess().is_some(), "{}", violation.reason());
                return count;
            }
        }
        panic!("{most} are borne");
    }
}

const GET: &[u8] = b"\x82\x86\x84\x01\x01a";

#[test]
fn resets_end_after_as_many_as_may_be_active() {
    let get = |id| Frame::new(HEADERS, 5, id, GET);
    let open = |id| Frame::new(HEADERS, 4, id, GET);
    let reset = |id| Frame::new(frames::RST_STREAM, 0, id, &[0, 0, 0, 8]);
    let update = |id, by: u32| Frame::new(frames::WINDOW_UPDATE, 0, id, &by.to_be_bytes());
    let limits = Limits::default;
    assert_eq!(Fed::new(limits()).repeat(1000, |id| vec![get(id), reset(id)]), 100);
    assert_eq!(Fed::new(limits()).repeat(1000, |id| vec![get(id), update(id, 0)]), 100);
    assert_eq!(Fed::new(limits()).repeat(1000, |id| vec![get(id), update(id, i32::MAX as u32)]), 100);
    assert_eq!(Fed::new(limits()).repeat(1000, |id| vec![get(id), Frame::new(frames::DATA, 0, id, b"x")]), 100);
    assert_eq!(Fed::new(limits()).repeat(1000, |id| vec![get(id), get(id)]), 100);
    assert_eq!(Fed::new(limits()).repeat(1000, |id| vec![open(id), open(id)]), 100);
    assert_eq!(Fed::new(limits()).repeat(1000, |id| vec![get(id), Frame::new(2, 0, id, b"x")]), 100);
    assert_eq!(Fed::new(limits()).repeat(1000, |id| vec![Frame::new(HEADERS, 5, id, b"\x82")]), 100);
    // A hundred streams that are active, and a hundred that are too many.
    let mut fed = Fed::new(limits());
    let borne = (0..1000).take_while(|number| {
        fed.send(&get(1 + 2 * number).to_bytes()).expect("those that are active go on");
        !fed.machine.is_calming()
    });
    assert_eq!(borne.count(), 200);
    assert_eq!((fed.machine.active(), fed.heads), (100, 100));
}

/// Sends requests on streams from `first` on, all of which but the last are given up; the last is answered. `false` if the
/// limit was exceeded.
fn scroll(fed: &mut Fed, first: u32, count: u32) -> bool {
    for id in (first..first + 2 * count).step_by(2) {
        fed.send(&Frame::new(HEADERS, 5, id, GET).to_bytes()).expect("a request");
    }
    for id in (first..first + 2 * (count - 1)).step_by(2) {
        fed.send(&Frame::new(frames::RST_STREAM, 0, id, &[0, 0, 0, 8]).to_bytes()).expect("one is active");
    }
    if fed.machine.is_calming() {
        return false;
    }
    let (id, head) = (first + 2 * (count - 1), ResponseHead { status: 200, fields: &[] });
    fed.machine.write_head(id, head, Some(0), &Preset::default(), &mut fed.out).expect("a valid head");
    let _ = fed.machine.finish(id, &mut fed.out);
    true
}

#[test]
fn responses_and_time_restore_what_resets_use() {
    // A gallery that is scrolled: three of four requests are given up.
    let mut fed = Fed::new(Limits::default());
    assert!((0..1000).all(|round| scroll(&mut fed, 1 + 8 * round, 4)), "people may do that");
    assert_eq!(fed.heads, 4000);
    // Nine of ten requests given up are too many, unless time passes between them.
    let mut fed = Fed::new(Limits::default());
    let borne = (0..1000).take_while(|round| scroll(&mut fed, 1 + 20 * round, 10)).count();
    assert!((15..=25).contains(&borne), "{borne}");
    let mut fed = Fed::new(Limits::default());
    for round in 0..1000 {
        fed.machine.pass_time(u64::from(round) * 200_000_000, &fed.limits);
        assert!(scroll(&mut fed, 1 + 20 * round, 10), "it has time");
    }
    // Time adds nothing beyond the full allowance.
    let mut fed = Fed::new(Limits::default());
    let get_and_reset = |id| {
        [Frame::new(HEADERS, 5, id, GET).to_bytes(), Frame::new(frames::RST_STREAM, 0, id, &[0, 0, 0, 8]).to_bytes()].concat()
    };
    for (time, borne) in [(1, 100), (31_000_000, 1), (30_000_000_000, 100)] {
        fed.machine.pass_time(time, &fed.limits);
        for _ in 0..borne {
            let id = 1 + 2 * fed.heads as u32;
            fed.send(&get_and_reset(id)).expect("as many are allowed");
        }
    }
    let id = 1 + 2 * fed.heads as u32;
    assert!(fed.send(&get_and_reset(id)).is_err());
}

#[test]
fn window_updates_may_come_long_after_their_content() {
    let updates = [1, 0].map(|id| Frame::new(frames::WINDOW_UPDATE, 0, id, &1_u32.to_be_bytes()).to_bytes()).concat();
    let mut fed = Fed::new(Limits::default());
    fed.send(&Frame::new(HEADERS, 5, 1, GET).to_bytes()).expect("a request");
    let head = ResponseHead { status: 200, fields: &[] };
    fed.machine.write_head(1, head, None, &Preset::default(), &mut fed.out).expect("a valid head");
    // A client that reads slowly updates both windows for each frame.
    let sent = (0..100_000).take_while(|_| fed.machine.write_content_prefix(1, 1, &mut fed.out) == Admission::Bytes(1)).count();
    assert_eq!(sent, 65_535, "the window is full");
    for _ in 0..sent {
        fed.send(&updates).expect("they belong to content");
    }
    // Others are counted.
    let before = (0..100_000).take_while(|_| fed.send(&updates).is_ok()).count();
    assert_eq!(before, fed.limits.nuisances as usize / 2);
}

#[test]
fn window_updates_may_come_for_each_page_of_content() {
    let updates = [1, 0].map(|id| Frame::new(frames::WINDOW_UPDATE, 0, id, &4096_u32.to_be_bytes()).to_bytes()).concat();
    let mut fed = Fed::new(Limits::default());
    fed.send(&Frame::new(HEADERS, 5, 1, GET).to_bytes()).expect("a request");
    let head = ResponseHead { status: 200, fields: &[] };
    fed.machine.write_head(1, head, None, &Preset::default(), &mut fed.out).expect("a valid head");
    // Clients written in Go update both windows after every 4 KiB that they have read.
    for count in 0..10_000 {
        fed.out.clear();
        assert_eq!(fed.machine.write_content_prefix(1, 16_384, &mut fed.out), Admission::Bytes(16_384), "{count}");
        for _ in 0..4 {
            fed.send(&updates).expect("they belong to content");
        }
    }
}

#[test]
fn what_is_active_is_served_behind_too_many_resets() {
    let mut fed = Fed::new(Limits::default());
    fed.send(&Frame::new(HEADERS, 5, 1, GET).to_bytes()).expect("a request");
    for id in (3..3 + 2 * 101).step_by(2) {
        let reset = Frame::new(frames::RST_STREAM, 0, id, &[0, 0, 0, 8]).to_bytes();
        fed.send(&[Frame::new(HEADERS, 5, id, GET).to_bytes(), reset].concat()).expect("one is active");
    }
    assert!(fed.machine.is_calming() && !fed.machine.must_close());
    let goaway = Frame::new(frames::GOAWAY, 0, 0, &[0, 0, 0, 203, 0, 0, 0, 11]);
    assert_eq!(frames::decode(&fed.out).iter().filter(|frame| **frame == goaway).count(), 1);
    // Further requests are not served, and end the connection when they are too many.
    let heads = fed.heads;
    let id = Cell::new(203);
    let further = |_| {
        id.set(id.get() + 2);
        vec![Frame::new(HEADERS, 5, id.get(), GET)]
    };
    let head = ResponseHead { status: 200, fields: &[] };
    let mut served = fed.machine.clone();
    served.write_head(1, head, Some(0), &Preset::default(), &mut Vec::new()).expect("it is active");
    let _ = served.finish(1, &mut Vec::new());
    assert!(served.must_close());
    let count = fed.repeat(20_000, further);
    assert!((9_000..=10_000).contains(&count) && fed.heads == heads, "{count}");
}

#[test]
fn frames_that_bring_nothing_end_after_ten_thousand() {
    let frames: [(u8, u8, &[u8]); 8] = [
        (frames::PING, 0, b"12345678"),
        (frames::PING, 1, b"12345678"),
        (SETTINGS, 0, b"\x00\x04\x00\x00\x00\x00"),
        (SETTINGS, 1, b""),
        (frames::GOAWAY, 0, b"\0\0\0\0\0\0\0\0"),
        (frames::PRIORITY_UPDATE, 0, b"\x00\x00\x00\x01u=1"),
        (frames::WINDOW_UPDATE, 0, b"\x00\x00\x00\x01"),
        (99, 0, b"x"),
    ];
    for (kind, flags, content) in frames {
        let mut fed = Fed::new(Limits::default());
        let count = fed.repeat(20_000, |_| vec![Frame::new(kind, flags, 0, content)]);
        // The client's first SETTINGS also count.
        assert_eq!(count, 9_999, "type {kind}");
        assert!(fed.out.len() <= 17 * 10_000 + 100, "{} bytes were said", fed.out.len());
    }
    for content in [&b""[..], b"x", b"\x1exxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"] {
        let mut fed = Fed::new(Limits::default());
        fed.send(&Frame::new(HEADERS, 4, 1, GET).to_bytes()).expect("a request");
        let flags = if content.len() > 1 { 8 } else { 0 };
        let count = fed.repeat(20_000, |_| vec![Frame::new(frames::DATA, flags, 1, content)]);
        assert!((9_900..=10_020).contains(&count), "{count} with {} bytes", content.len());
    }
}

#[test]
fn a_priority_that_comes_in_parts_counts_once() {
    let mut fed = Fed::new(Limits { nuisances: 5, ..Limits::default() });
    let priority = Frame::new(2, 0, 1, &[0, 0, 0, 0, 15]).to_bytes();
    let count = (0..10).take_while(|_| {
        // The caller passes the bytes that were not consumed once more, together with the rest.
        fed.send(&priority[..10]).is_ok() && fed.send(&priority).is_ok()
    });
    // The client's first SETTINGS also count.
    assert_eq!(count.count(), 4);
}

#[test]
fn an_answer_that_is_not_fetched_stops_the_reading() {
    let mut fed = Fed::new(Limits::default());
    let pings = Frame::new(frames::PING, 0, 0, b"12345678").to_bytes().repeat(100);
    let step = fed.machine.handle_input(&pings, &mut fed.text, &mut fed.layout, &fed.limits);
    assert_eq!((step.consumed, step.event), (17, Event::Answer));
    for _ in 0..10 {
        let step = fed.machine.handle_input(&pings[17..], &mut fed.text, &mut fed.layout, &fed.limits);
        assert_eq!((step.consumed, step.event), (0, Event::Answer));
    }
    let before = fed.out.len();
    fed.machine.write_answer(&fed.limits, &mut fed.out);
    assert_eq!(fed.out.len() - before, 17);
}

#[test]
fn a_block_in_tiny_frames_ends_soon() {
    let mut fed = Fed::new(Limits::default());
    fed.send(&Frame::new(HEADERS, 1, 1, GET).to_bytes()).expect("the beginning of a request");
    assert_eq!(fed.repeat(1000, |_| vec![Frame::new(frames::CONTINUATION, 0, 1, b"\x82")]), 9);
}

#[test]
fn a_small_block_that_means_much_fills_no_memory() {
    let mut fed = Fed::new(Limits::default());
    // An entry of 4 kB in the table, and its index a thousand times: 4 MB.
    let fill = [GET, &frames::literal(0x40, b"x", &[b'y'; 4000])].concat();
    fed.send(&Frame::new(HEADERS, 5, 1, &fill).to_bytes()).expect("a request");
    let bomb = [GET, &[0xbe; 1000]].concat();
    assert!(fed.send(&Frame::new(HEADERS, 5, 3, &bomb).to_bytes()).is_err());
    assert!(fed.text.capacity() <= 128 << 10, "{}", fed.text.capacity());
    // Within four times the allowed size it is a request that is too large, and the connection continues.
    let mut fed = Fed::new(Limits::default());
    fed.send(&Frame::new(HEADERS, 5, 1, &fill).to_bytes()).expect("a request");
    let large = [GET, &[0xbe; 20]].concat();
    fed.send(&Frame::new(HEADERS, 5, 3, &large).to_bytes()).expect("a request that is too large");
    fed.send(&Frame::new(HEADERS, 5, 5, GET).to_bytes()).expect("a request");
    assert_eq!(fed.heads, 2);
}

#[test]
fn a_block_that_never_ends_is_collected_up_to_a_bound() {
    let mut fed = Fed::new(Limits::default());
    fed.send(&Frame::new(HEADERS, 1, 1, GET).to_bytes()).expect("the beginning of a request");
    // Four frames of 16 KiB are more than twice 32 KiB.
    assert_eq!(fed.repeat(10, |_| vec![Frame::new(frames::CONTINUATION, 0, 1, &[b'x'; 16_384])]), 3);
}

#[test]
fn content_beyond_a_window_is_refused() {
    let open = |id| Frame::new(HEADERS, 4, id, b"\x83\x86\x84\x01\x01a").to_bytes();
    let content = |id| Frame::new(frames::DATA, 0, id, &[b'x'; 16_384]).to_bytes();
    let mut fed = Fed::new(Limits { stream_window: 65_535, ..Limits::default() });
    fed.send(&[open(1), content(1).repeat(3)].concat()).expect("content within the window");
    assert_eq!(fed.machine.active(), 1);
    // The fourth frame is one byte too long; the stream ends, the connection continues.
    fed.send(&[content(1), open(3), content(3)].concat()).expect("a stream error");
    assert_eq!((fed.machine.active(), fed.heads), (1, 2));
    let reset = Frame::new(frames::RST_STREAM, 0, 1, &[0, 0, 0, 3]);
    assert!(frames::decode(&fed.out).contains(&reset));
    // The window of the connection counts all streams.
    let mut fed = Fed::new(Limits { connection_window: 65_535, ..Limits::default() });
    fed.send(&[open(1), open(3), content(1).repeat(2), content(3)].concat()).expect("content within the window");
    let error = fed.send(&content(3)).expect_err("more than the window");
    assert_eq!(error.code().name(), "FLOW_CONTROL_ERROR");
    // As many bytes as were consumed may be sent again.
    let mut fed = Fed::new(Limits { connection_window: 65_535, ..Limits::default() });
    fed.send(&[open(1), content(1).repeat(2)].concat()).expect("content within the window");
    fed.machine.consume(1, 40_000, &mut fed.out);
    assert!(frames::decode(&fed.out).iter().any(|frame| frame.kind == frames::WINDOW_UPDATE && frame.number() == 32_768));
    fed.send(&content(1).repeat(3)).expect("content within the window that was opened again");
}

#[test]
fn streams_whose_content_is_held_leave_others_their_window() {
    let open = |id| Frame::new(HEADERS, 4, id, b"\x83\x86\x84\x01\x01a").to_bytes();
    let content = |id| Frame::new(frames::DATA, 0, id, &[b'x'; 16_384]).to_bytes();
    // Three streams fill their windows of 256 KiB, and nobody consumes their content.
    let mut fed = Fed::new(Limits::default());
    for id in [1, 3, 5] {
        fed.send(&[open(id), content(id).repeat(16)].concat()).expect("content within the windows");
    }
    // A fourth one goes on, because its content is consumed.
    fed.send(&open(7)).expect("a request");
    fed.out.clear();
    for count in 0..1000 {
        fed.send(&content(7)).unwrap_or_else(|violation| panic!("{}, after {count} frames", violation.reason()));
        fed.machine.consume(7, 16_384, &mut fed.out);
    }
    let is_update = |frame: &&Frame| (frame.kind, frame.id) == (frames::WINDOW_UPDATE, 0);
    let updates = |fed: &Fed| frames::decode(&fed.out).iter().filter(is_update).count();
    assert!(updates(&fed) <= 1000 / 8, "{}", updates(&fed));
    // Without streams that hold content, there is one update for each half of the window.
    let mut fed = Fed::new(Limits::default());
    fed.send(&open(1)).expect("a request");
    fed.out.clear();
    for _ in 0..1024 {
        fed.send(&content(1)).expect("the window is opened again");
        fed.machine.consume(1, 16_384, &mut fed.out);
    }
    assert_eq!(updates(&fed), 1024 / 32);
}
