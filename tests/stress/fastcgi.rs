//! A web server that keeps its FastCGI connection (FastCGI 1.0).

use crate::client::{Connection, Loss};
use crate::kinds::Visit;

const BEGIN_REQUEST: u8 = 1;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;

const CONTENT: &[u8] = &[b'x'; 5000];

pub fn visit(visit: &Visit<'_>) -> Result<(), Loss> {
    let mut connection = Connection::open(visit.peer.fastcgi, visit.findings)?;
    let mut answers = 0;
    while visit.goes_on() {
        match ask(visit, &mut connection) {
            Ok(()) => visit.note_answer(),
            // A worker that retires can only close a kept connection, because FastCGI has no way to announce that. Web servers
            // then repeat the request on a new connection.
            Err(Loss::Ended { .. }) if answers > 0 => return Ok(()),
            Err(loss) => return Err(loss),
        }
        answers += 1;
        connection.is_in_order();
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    Ok(())
}

fn ask(visit: &Visit<'_>, connection: &mut Connection<'_>) -> Result<(), Loss> {
    let length = CONTENT.len().to_string();
    let variables = [
        ("REQUEST_METHOD", "POST"),
        ("REQUEST_URI", "/web"),
        ("SCRIPT_NAME", ""),
        ("PATH_INFO", "/web"),
        ("QUERY_STRING", ""),
        ("CONTENT_LENGTH", length.as_str()),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("SERVER_NAME", "front.example"),
        ("SERVER_PORT", "80"),
        ("REMOTE_ADDR", "192.0.2.1"),
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("HTTP_HOST", "front.example"),
    ];
    let mut pairs = Vec::new();
    for (name, value) in variables {
        pairs.extend([byte(name.len()), byte(value.len())]);
        pairs.extend_from_slice(name.as_bytes());
        pairs.extend_from_slice(value.as_bytes());
    }
    // A responder whose connection is kept.
    let begin = record(BEGIN_REQUEST, &[0, 1, 1, 0, 0, 0, 0, 0]);
    connection
        .send(&[begin, record(PARAMS, &pairs), record(PARAMS, b""), record(STDIN, CONTENT), record(STDIN, b"")].concat())?;

    let mut output = Vec::new();
    loop {
        let head = connection.take(8)?;
        let content = connection.take(usize::from(head[4]) << 8 | usize::from(head[5]))?;
        connection.take(usize::from(head[6]))?;
        match head[1] {
            STDOUT => output.extend(content),
            END_REQUEST => break,
            other => return Err(Loss::Wrong(format!("a record of type {other}"))),
        }
    }
    let expected = visit.peer.app.answer("POST", "/web", CONTENT.len());
    let text = String::from_utf8_lossy(&output);
    match text.split_once("\r\n\r\n") {
        Some((_, content)) if content.as_bytes() == expected => Ok(()),
        // So an edge answers for a worker that was killed.
        Some((head, _)) if head.starts_with("Status: 502 ") => {
            Err(connection.ended(&format!("POST /web was answered {text:?}")))
        }
        _ => Err(Loss::Wrong(format!("POST /web was answered {text:?}"))),
    }
}

fn byte(length: usize) -> u8 {
    u8::try_from(length).expect("the names and values above are short")
}

/// A record of request 1.
fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).expect("the content above is short").to_be_bytes();
    [&[1, kind, 0, 1, length[0], length[1], 0, 0], content].concat()
}
