//! Properties of everything that FastCGI can carry, tested with random combinations. The bodies of the fuzz targets check these
//! properties. In these tests the input is nearly valid, while a fuzzer starts from anything.

mod fastcgi_transcript;
#[path = "../../../fuzz/bodies/fcgi_machine.rs"]
mod fcgi_machine;
#[path = "../../../fuzz/bodies/fcgi_params.rs"]
mod fcgi_params;
#[path = "../../../fuzz/bodies/fcgi_response.rs"]
mod fcgi_response;
mod numbers;
mod records;

use fastcgi_transcript::{Item, What};
use numbers::Numbers;
use oribi_proto::fcgi::Limits;
use records::Record;

const ROUNDS: usize = 20_000;

const NAMES: &[&str] = &[
    "HTTP_HOST",
    "HTTP_X_Y",
    "HTTP_x-y",
    "HTTP_COOKIE",
    "HTTP_PROXY",
    "HTTP_CONTENT_LENGTH",
    "HTTP_",
    "HTTP_A B",
    "HTTP",
    "Authorization",
    "HTTP_AUTHORIZATION",
    "CONTENT_TYPE",
    "CONTENT_LENGTH",
    "REQUEST_METHOD",
    "REQUEST_URI",
    "SCRIPT_NAME",
    "PATH_INFO",
    "QUERY_STRING",
    "SERVER_PROTOCOL",
    "SERVER_NAME",
    "DOCUMENT_ROOT",
    "A",
    "B",
    "",
];

const VALUES: &[&str] = &[
    "",
    "a",
    " a\t",
    "GET",
    "HEAD",
    "POST",
    "CONNECT",
    "OPTIONS",
    "*",
    "/",
    "/a?b",
    "/a b%?#",
    "http://a:1/b?c",
    "http://",
    "HTTP/1.0",
    "HTTP/1.1",
    "0",
    "5",
    "99999999999",
    "-1",
    "[::1]:80",
    "\r",
    "\u{e9}",
    "=",
];

#[test]
fn variables_mean_what_a_plain_reading_says() {
    let mut numbers = Numbers(1);
    for _ in 0..ROUNDS {
        let lines = (0..numbers.below(12)).map(|_| {
            let (name, value) = (NAMES[numbers.below(NAMES.len())], VALUES[numbers.below(VALUES.len())]);
            format!("{name}={value}")
        });
        let lines = lines.collect::<Vec<_>>().join("\n");
        let choice = 1 + 2 * numbers.below(128) as u8;
        fcgi_params::check(&[&[choice], lines.as_bytes()].concat());
    }
}

#[test]
fn many_variables_mean_what_a_plain_reading_says() {
    let mut numbers = Numbers(3);
    for _ in 0..ROUNDS / 64 {
        let lines = (0..numbers.below(400)).map(|_| match numbers.below(4) {
            0 => format!("{}={}", NAMES[numbers.below(NAMES.len())], numbers.below(100)),
            // Names of the same length with the same last byte, which a comparison of a few bytes cannot distinguish.
            kind => format!("A{:03}B={}", numbers.below(20 * kind), numbers.below(100)),
        });
        let lines = lines.collect::<Vec<_>>().join("\n");
        fcgi_params::check(&[&[1], lines.as_bytes()].concat());
    }
}

#[test]
fn variables_that_are_damaged_are_refused_or_mean_what_a_plain_reading_says() {
    let mut numbers = Numbers(2);
    for _ in 0..ROUNDS {
        let mut data = vec![2 * numbers.below(128) as u8];
        for _ in 0..numbers.below(6) {
            let (name, value) = (NAMES[numbers.below(NAMES.len())], VALUES[numbers.below(VALUES.len())]);
            data.extend(records::pair(name.as_bytes(), value.as_bytes()));
        }
        for _ in 0..numbers.below(3) {
            let place = numbers.below(data.len());
            data[place] = numbers.below(256) as u8;
        }
        fcgi_params::check(&data);
    }
}

#[test]
fn interleaved_requests_get_what_is_theirs() {
    let mut numbers = Numbers(3);
    for _ in 0..ROUNDS / 10 {
        let mut data = vec![192 + numbers.below(64) as u8];
        data.extend(numbers.bytes(1500));
        fcgi_machine::check(&data);
    }
}

#[test]
fn responses_are_read_as_they_were_meant() {
    let mut numbers = Numbers(4);
    for _ in 0..ROUNDS {
        let mut data = vec![numbers.below(256) as u8, 0];
        // A status that is mostly valid, and fields with valid names.
        data.extend_from_slice(&(200 + numbers.below(402) as u16).to_be_bytes());
        let fields = numbers.below(4);
        data.push(fields as u8);
        for _ in 0..fields {
            let names = ["X", "Content-Length", "Status", "Connection", "Set-Cookie", "content-length", "TE"];
            for text in [names[numbers.below(names.len())], ["", "0", "5", "300", "text"][numbers.below(5)]] {
                data.push(text.len() as u8);
                data.extend_from_slice(text.as_bytes());
            }
        }
        data.extend(numbers.bytes(600));
        fcgi_response::check(&data);
    }
}

#[test]
fn a_thousand_requests_at_once_get_what_is_theirs() {
    const REQUESTS: u16 = 1000;
    let limits = Limits { requests: REQUESTS, ..Limits::default() };
    let mut numbers = Numbers(5);
    let record = |kind: u8, id: u16, content: &[u8]| Record { kind, id, content: content.to_vec(), padding: 3 }.to_bytes();
    let aborted = |id: u16| id.is_multiple_of(7);
    let mut bytes = Vec::new();
    let mut queues = Vec::new();
    for id in 1..=REQUESTS {
        bytes.extend(record(1, id, &[0, 1, 1, 0, 0, 0, 0, 0]));
        let params = records::pair(b"REQUEST_URI", format!("/{id}").as_bytes());
        let (front, back) = params.split_at(5);
        let content = format!("content of {id}");
        let mut queue = vec![record(4, id, front), record(4, id, back), record(4, id, b"")];
        queue.extend(content.as_bytes().chunks(4).map(|piece| record(5, id, piece)));
        queue.push(if aborted(id) { record(2, id, b"") } else { record(5, id, b"") });
        queue.reverse();
        queues.push(queue);
    }
    while !queues.is_empty() {
        let place = numbers.below(queues.len());
        match queues[place].pop() {
            Some(record) => bytes.extend(record),
            None => drop(queues.swap_remove(place)),
        }
    }
    let items = fastcgi_transcript::read(bytes.chunks(1000), &limits, false);
    let mut contents = vec![Vec::new(); usize::from(REQUESTS) + 1];
    let (mut complete, mut gone) = (0, 0);
    for item in items {
        let Item::Of(id, what) = item else { panic!("{item}") };
        match what {
            What::Head(head) => assert_eq!(head.target, format!("/{id}").as_bytes()),
            What::Stdin(piece) => contents[usize::from(id)].extend(piece),
            What::Complete => {
                assert!(!aborted(id));
                assert_eq!(contents[usize::from(id)], format!("content of {id}").as_bytes());
                complete += 1;
            }
            What::Abort => {
                assert!(aborted(id));
                gone += 1;
            }
            _ => {}
        }
    }
    assert_eq!((complete, gone), (REQUESTS - REQUESTS / 7, REQUESTS / 7));
}
