//! Reads and answers the same HTTP/2 request repeatedly, so that a counter of instructions can measure the cost of one turn:
//!
//! ```sh
//! cargo build --release --package oribi-proto --example http2_cost
//! for turns in 1000 11000; do
//!     valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/http2_cost read $turns
//! done
//! ```
//!
//! The difference of the two counts divided by 10000 is the cost of one turn of `read` (a GET of a browser with 17 fields,
//! nearly all of them by their index, as browsers send them from their second request on), `coded` (the same request with path
//! and Cookie in Huffman code), `curl` (4 pseudo-fields and 2 fields), `write` (a GET without fields, and a response with 1
//! field and 13 bytes of content, with Date and Server) or `both` (`read` with that response).
use oribi_message::{HeadLayout, ResponseHead};
use oribi_proto::h2::{Admission, Event, Finish, Limits, Machine, Preset};
use std::hint::black_box;

const FIELDS: &[(&str, &str)] = &[
    (":method", "GET"),
    (":authority", "www.example.org"),
    (":scheme", "https"),
    (":path", "/hello?name=world"),
    ("sec-ch-ua", "\"Chromium\";v=\"130\", \"Not?A_Brand\";v=\"99\""),
    ("sec-ch-ua-mobile", "?0"),
    ("sec-ch-ua-platform", "\"Linux\""),
    ("upgrade-insecure-requests", "1"),
    ("user-agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36"),
    ("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"),
    ("sec-fetch-site", "none"),
    ("sec-fetch-mode", "navigate"),
    ("sec-fetch-user", "?1"),
    ("sec-fetch-dest", "document"),
    ("accept-encoding", "gzip, deflate, br, zstd"),
    ("accept-language", "en-GB,en;q=0.9"),
    ("cookie", "session=0123456789abcdef0123456789abcdef"),
];
const CONTENT: &[u8] = b"Hello, world!";

/// Path and Cookie as literals in Huffman code.
const CODED: [&[u8]; 2] = [
    b"\x04\x8d\x62\x72\xd1\x41\xff\xca\x87\x49\x60\xf0\x7b\x28\x93",
    b"\x0f\x11\x9c\x41\x50\x83\x1e\xa8\x00\x11\x32\xd3\x6e\x3a\xf3\xe3\x8c\x92\x16\x50\x04\x4c\xb4\xdb\x8e\xbc\xf8\xe3\x24\x85\x97",
];

/// A machine and the buffers of its caller.
struct Server {
    machine: Machine,
    limits: Limits,
    text: Vec<u8>,
    layout: HeadLayout,
    out: Vec<u8>,
    next: u32,
}

impl Server {
    /// Reads all of `input` and returns the stream of a request in it.
    fn read(&mut self, mut input: &[u8]) -> u32 {
        let mut stream = 0;
        loop {
            let step = self.machine.handle_input(input, &mut self.text, &mut self.layout, &self.limits);
            match step.event {
                Event::NeedInput => return stream,
                Event::Head { id, .. } => stream = id,
                Event::Answer => self.machine.write_answer(&self.limits, &mut self.out),
                event => panic!("{event:?}"),
            }
            input = &input[step.consumed..];
        }
    }

    /// Writes the id of the next stream into `frame`, which contains a request, and reads it. Returns that id.
    fn request(&mut self, frame: &mut [u8]) -> u32 {
        frame[5..9].copy_from_slice(&self.next.to_be_bytes());
        self.next += 2;
        self.read(black_box(frame))
    }

    fn respond(&mut self, id: u32) {
        self.out.clear();
        let fields = [(b"Content-Type".as_slice(), b"text/plain".as_slice())];
        let preset =
            Preset { date: b"Date: Sat, 21 Nov 2026 03:00:00 GMT\r\n", server: b"Server: Oribi\r\n", ..Preset::default() };
        let head = ResponseHead { status: 200, fields: black_box(&fields) };
        let size = CONTENT.len() as u64;
        assert_eq!(self.machine.write_head(id, head, Some(size), black_box(&preset), &mut self.out), Ok(()));
        assert_eq!(self.machine.write_content_prefix(id, size, &mut self.out), Admission::Bytes(size));
        self.out.extend_from_slice(CONTENT);
        assert_eq!(self.machine.finish(id, &mut self.out), Finish::Complete);
        // A window update for the connection, as clients send it for each response.
        self.read(&[&b"\0\0\x04\x08\0\0\0\0\0"[..], &(size as u32).to_be_bytes()].concat());
    }
}

fn frame(block: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (block.len() as u32).to_be_bytes();
    [&[a, b, c, 1, 5, 0, 0, 0, 0][..], block].concat()
}

/// A field as a literal that is put into the table.
fn literal(name: &str, value: &str) -> Vec<u8> {
    [&[0x40, name.len() as u8][..], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().unwrap_or_else(|| "both".to_owned());
    let turns = arguments.next().and_then(|turns| turns.parse().ok()).unwrap_or(1000);
    let limits = Limits::default();
    let (text, out) = (Vec::with_capacity(4096), Vec::with_capacity(4096));
    let mut server = Server { machine: Machine::new(&limits), limits, text, layout: HeadLayout::default(), out, next: 1 };
    server.read(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    // The first request fills the table.
    let first = FIELDS.iter().flat_map(|(name, value)| literal(name, value)).collect::<Vec<_>>();
    let id = server.request(&mut frame(&first));
    server.respond(id);
    let count = FIELDS.len() as u8;
    // Index 62 is the last field. Method and scheme come from the static table.
    let index = |place: u8| match place {
        0 => 0x82,
        2 => 0x87,
        place => 0x80 | (61 + count - place),
    };
    let indexed = (0..count).map(index).collect::<Vec<_>>();
    let coded = [0, 1, 2].map(index).into_iter().chain(CODED[0].iter().copied());
    let coded = coded.chain((4..count - 1).map(index)).chain(CODED[1].iter().copied());
    let curl = [&[0x82, 0x87][..], &[index(3), index(1), index(8), index(9)]].concat();
    let block = match &*what {
        "coded" => coded.collect(),
        "curl" => curl,
        "write" => vec![0x82, 0x87, index(3), index(1)],
        _ => indexed,
    };
    let mut request = frame(&block);
    for _ in 0..turns {
        let id = server.request(&mut request);
        if matches!(&*what, "write" | "both") {
            server.respond(id);
        } else {
            server.machine.reset(id, oribi_proto::h2::ErrorCode::NO_ERROR, &mut server.out);
            server.out.clear();
        }
        black_box((&server.machine, &server.layout));
    }
    println!("{} bytes read, {} fields, {} bytes written", request.len(), server.layout.fields.len(), server.out.len());
}
