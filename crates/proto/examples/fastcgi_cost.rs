//! Reads and answers the same FastCGI request repeatedly, so that a counter of instructions can measure the cost of one turn:
//!
//! ```sh
//! cargo build --release --package oribi-proto --example fastcgi_cost
//! for turns in 1000 11000; do
//!     valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/fastcgi_cost read $turns
//! done
//! ```
//!
//! The difference of the two counts divided by 10000 is the cost of one turn of `read` (reads the records of a GET of nginx
//! with 26 variables, 6 of which are fields, collects the variables and lays them out), `lay_out` (only lays them out), `write`
//! (writes a response with 1 field and 13 bytes of content, head and end) or `both` (`read` and `write`).
use oribi_message::{HeadLayout, ResponseHead, Role};
use oribi_proto::fcgi::{Event, Finish, Limits, Machine, Preset, ResponseWriter, params};
use std::hint::black_box;

const VARIABLES: &[(&str, &str)] = &[
    ("QUERY_STRING", "name=world"),
    ("REQUEST_METHOD", "GET"),
    ("CONTENT_TYPE", ""),
    ("CONTENT_LENGTH", ""),
    ("SCRIPT_NAME", "/hello"),
    ("REQUEST_URI", "/hello?name=world"),
    ("DOCUMENT_URI", "/hello"),
    ("DOCUMENT_ROOT", "/srv/www"),
    ("SERVER_PROTOCOL", "HTTP/1.1"),
    ("REQUEST_SCHEME", "http"),
    ("GATEWAY_INTERFACE", "CGI/1.1"),
    ("SERVER_SOFTWARE", "nginx/1.22.1"),
    ("REMOTE_ADDR", "127.0.0.1"),
    ("REMOTE_PORT", "36256"),
    ("REMOTE_USER", ""),
    ("SERVER_ADDR", "127.0.0.1"),
    ("SERVER_PORT", "8080"),
    ("SERVER_NAME", "www.example.org"),
    ("REDIRECT_STATUS", "200"),
    ("HTTP_HOST", "www.example.org"),
    ("SCRIPT_FILENAME", "/srv/www/hello"),
    ("HTTP_USER_AGENT", "Mozilla/5.0 (X11; Linux x86_64)"),
    ("HTTP_ACCEPT", "text/html,application/xhtml+xml"),
    ("HTTP_ACCEPT_LANGUAGE", "en"),
    ("HTTP_ACCEPT_ENCODING", "gzip"),
    ("HTTP_COOKIE", "a=1; b=2"),
];
const CONTENT: &[u8] = b"Hello, world!";

fn main() {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().unwrap_or_else(|| "both".to_owned());
    let turns = arguments.next().and_then(|turns| turns.parse().ok()).unwrap_or(1000);
    let (pairs, request) = request();
    let limits = Limits::default();
    let (mut machine, mut layout, mut variables) = (Machine::new(), HeadLayout::default(), Vec::new());
    let (mut collected, mut out) = (Vec::with_capacity(4096), Vec::with_capacity(4096));
    let fields = [(b"Content-Type".as_slice(), b"text/plain".as_slice())];
    for _ in 0..turns {
        if what == "lay_out" {
            collected.clear();
            collected.extend_from_slice(black_box(&pairs));
            params::lay_out(&mut collected, &mut layout, &mut variables, &limits).expect("a request");
        }
        let mut writer = ResponseWriter::new(1, Role::Responder);
        if matches!(&*what, "read" | "both") {
            collected.clear();
            let mut input = black_box(&request[..]);
            loop {
                let step = machine.handle_input(input, &limits);
                match step.event {
                    Event::NeedInput => break,
                    Event::Begin { id, role, .. } => writer = ResponseWriter::new(id, role),
                    Event::Params { range, .. } => collected.extend_from_slice(&input[range]),
                    Event::ParamsEnd { .. } => {
                        params::lay_out(&mut collected, &mut layout, &mut variables, &limits).expect("a request");
                    }
                    Event::StdinEnd { complete, .. } => assert!(complete),
                    event => panic!("{event:?}"),
                }
                input = &input[step.consumed..];
            }
            machine.finished(writer.id());
        }
        if matches!(&*what, "write" | "both") {
            out.clear();
            let head = ResponseHead { status: 200, fields: black_box(&fields) };
            assert_eq!(writer.write_head(head, &Preset::default(), Some(CONTENT.len() as u64), &mut out), Ok(()));
            let admitted = writer.write_content_prefix(CONTENT.len() as u64, &mut out);
            out.extend_from_slice(&CONTENT[..admitted as usize]);
            writer.write_content_suffix(&mut out);
            assert_eq!(writer.finish(0, &mut out), Finish::Complete);
        }
        black_box((&machine, &writer, &layout, &variables));
    }
    println!("{} variables, {} bytes read, {} bytes written", VARIABLES.len(), request.len(), out.len());
}

/// The pairs, and the request that contains them.
fn request() -> (Vec<u8>, Vec<u8>) {
    let pairs = VARIABLES.iter().flat_map(|(name, value)| {
        let lengths = [name.len() as u8, value.len() as u8];
        [&lengths[..], name.as_bytes(), value.as_bytes()].concat()
    });
    let pairs = pairs.collect::<Vec<_>>();
    let [high, low] = (pairs.len() as u16).to_be_bytes();
    let padding = pairs.len().wrapping_neg() % 8;
    let begin = b"\x01\x01\x00\x01\x00\x08\x00\x00\x00\x01\x01\x00\x00\x00\x00\x00";
    let ends = b"\x01\x04\x00\x01\x00\x00\x00\x00\x01\x05\x00\x01\x00\x00\x00\x00";
    let header = [1, 4, 0, 1, high, low, padding as u8, 0];
    let request = [&begin[..], &header, &pairs, &[0; 8][..padding], ends].concat();
    (pairs, request)
}
