//! Reads and answers the same request repeatedly, so that a counter of instructions can measure the cost of one turn:
//!
//! ```sh
//! cargo build --release --package oribi-proto --example parse_cost
//! for turns in 1000 11000; do
//!     valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/parse_cost read $turns
//! done
//! ```
//!
//! The difference of the two counts divided by 10000 is the cost of one turn of `read` (a head of 230 bytes with 6
//! fields), `write` (a response with 1 field and 13 bytes of content, head and end) or `both`.
use oribi_message::{HeadLayout, ResponseHead};
use oribi_proto::h1::{Event, Finish, Limits, Machine, Preset};
use std::hint::black_box;

const REQUEST: &[u8] = b"GET /hello?name=world HTTP/1.1\r\n\
    Host: localhost:5000\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\n\
    Accept: text/html,application/xhtml+xml\r\n\
    Accept-Language: en\r\n\
    Accept-Encoding: gzip\r\n\
    Cookie: a=1; b=2\r\n\r\n";
const PRESET: Preset<'static> = Preset {
    date: b"Date: Sat, 21 Nov 2026 03:00:00 GMT\r\n",
    server: b"Server: Oribi\r\n",
    policy: b"",
    ok: b"HTTP/1.1 200 OK\r\nDate: Sat, 21 Nov 2026 03:00:00 GMT\r\nServer: Oribi\r\n",
    compressed: b"",
    prepared: None,
    id: None,
    timing: b"",
    until_close: false,
};
const CONTENT: &[u8] = b"Hello, world!";

fn main() {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().unwrap_or_else(|| "both".to_owned());
    let turns = arguments.next().and_then(|turns| turns.parse().ok()).unwrap_or(1000);
    let (reads, writes) = (what != "write", what != "read");
    let limits = Limits::default();
    let mut layout = HeadLayout::default();
    let mut out = Vec::with_capacity(4096);
    let mut answered = Machine::new();
    answered.handle_input(REQUEST, &mut layout, &limits);
    let fields = [(b"Content-Type".as_slice(), b"text/plain".as_slice())];
    for _ in 0..turns {
        let mut machine = if reads { Machine::new() } else { answered.clone() };
        if reads {
            let step = machine.handle_input(black_box(REQUEST), black_box(&mut layout), &limits);
            assert!(matches!(step.event, Event::Head { .. }), "{step:?}");
        }
        if writes {
            out.clear();
            let head = ResponseHead { status: 200, fields: black_box(&fields) };
            let written = machine.write_head(head, Some(CONTENT.len() as u64), true, black_box(&PRESET), &mut out);
            assert_eq!(written, Ok(()));
            let sent = machine.write_content_prefix(CONTENT.len() as u64, &mut out);
            out.extend_from_slice(&CONTENT[..sent as usize]);
            machine.write_content_suffix(&mut out);
            assert_eq!(machine.finish(&mut out), Finish::Reuse);
        }
        black_box(&machine);
    }
    println!("{} bytes read, {} bytes written", REQUEST.len(), out.len());
}
