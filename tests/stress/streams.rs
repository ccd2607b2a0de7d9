//! Clients of HTTP/2 that have several requests open at once, for much and for little, and that give some of them up.

use crate::client::{LONGEST_WAIT, Loss, PATIENCE};
use crate::http2_streams::{Done, Outcome, Streams};
use crate::kinds::Visit;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::time::Instant;

/// The number of requests that are open at once, and the number of all requests on a connection. If connections belong to
/// workers, the second number is larger than the number of requests after which a worker is replaced. So many connections end
/// while requests are open.
const OPEN: usize = 8;
const REQUESTS: usize = 120;

/// The content of a POST, which is larger than a frame may be.
const CONTENT: &[u8] = &[b'x'; 20_000];

struct Question {
    method: &'static str,
    target: String,
    content: &'static [u8],
    /// Whether the client cancels the request at once.
    given_up: bool,
}

impl Question {
    fn of_number(number: usize) -> Self {
        let (method, target, content) = match number % 16 {
            2 | 10 => ("POST", format!("/streams/{number}"), CONTENT),
            5 | 13 => ("GET", "/files/small".to_owned(), &[][..]),
            // One of these two is given up.
            7 | 8 => ("GET", "/files/large".to_owned(), &[][..]),
            _ => ("GET", format!("/streams/{number}"), &[][..]),
        };
        Self { method, target, content, given_up: matches!(number % 16, 4 | 8) }
    }
}

pub fn visit(visit: &Visit<'_>) -> Result<(), Loss> {
    // The last moment at which the worker of the connection, if it has one, is known to have lived.
    let mut in_order = Instant::now();
    let lost = |what: String, in_order| Loss::Ended { what, in_order };
    let failed = |doing: &str, error: &io::Error, open: usize, in_order| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Loss::Wrong(format!("{doing}: waited in vain, {open} requests open")),
        _ => lost(format!("{doing}: {error}, {open} requests open"), in_order),
    };
    let mut streams = Streams::connect(visit.next_address()).map_err(|error| failed("connecting", &error, 0, in_order))?;
    streams.socket().set_read_timeout(Some(PATIENCE)).map_err(|error| failed("connecting", &error, 0, in_order))?;
    let mut questions = BTreeMap::new();
    let mut asked = 0;
    loop {
        while streams.open() < OPEN && asked < REQUESTS && visit.goes_on() && !streams.is_leaving() {
            let question = Question::of_number(asked);
            let number = streams.ask(question.method, &question.target, question.content);
            let number = number.map_err(|error| failed("asking", &error, streams.open(), in_order))?;
            asked += 1;
            if question.given_up {
                streams.cancel(number).map_err(|error| failed("giving up", &error, streams.open(), in_order))?;
            } else {
                questions.insert(number, question);
            }
        }
        // The time may be over since the last request was asked for.
        if streams.open() == 0 && !streams.is_leaving() && (asked == REQUESTS || !visit.goes_on()) {
            return Ok(());
        }
        let done = streams.take().map_err(|error| failed("receiving", &error, streams.open(), in_order))?;
        let Some(done) = done else {
            // Between two requests a server may end a connection only after an announcement.
            return if streams.is_leaving() || asked == 0 {
                Ok(())
            } else {
                Err(lost("an end without a word".to_owned(), in_order))
            };
        };
        visit.findings.note_wait(done.wait);
        let question = questions.remove(&done.number).expect("only open requests are done");
        let in_order_at = done.asked;
        judge(visit, &question, done, streams.is_leaving())?;
        in_order = in_order.max(in_order_at);
        if streams.longest_silence() > LONGEST_WAIT {
            return Err(Loss::Wrong(format!(
                "nothing came for a request for {:.1?}, beside others",
                streams.longest_silence()
            )));
        }
    }
}

/// Compares the result of a request with the expected one. `leaves` says whether the server has announced the end of the
/// connection.
fn judge(visit: &Visit<'_>, question: &Question, done: Done, leaves: bool) -> Result<(), Loss> {
    let Question { method, target, content, .. } = question;
    let Done { number, asked, wait, outcome } = done;
    let what = match outcome {
        // No retry is needed: the next connection gets as many requests.
        Outcome::NotTaken if leaves => return Ok(()),
        Outcome::NotTaken => {
            return Err(Loss::Wrong(format!("{method} {target} on stream {number} was not taken by a server that stays")));
        }
        Outcome::Answered { status: 200, content: answer, .. } if answer == visit.expected(method, target, content.len()) => {
            if wait > LONGEST_WAIT {
                return Err(Loss::Wrong(format!("{method} {target}: nothing came for {wait:.1?}")));
            }
            visit.note_answer();
            return Ok(());
        }
        Outcome::Answered { status: 502, .. } => "was answered 502".to_owned(),
        Outcome::Reset(code) => format!("was reset with code {code}"),
        Outcome::Answered { fields, content, .. } => {
            let (length, start) = (content.len(), String::from_utf8_lossy(&content[..content.len().min(60)]));
            let what = format!("was answered {fields:?} with {length} bytes: {start:?}");
            return Err(Loss::Wrong(format!("{method} {target} on stream {number} {what}")));
        }
    };
    // An edge reports in this way that the worker of this request was killed.
    Err(Loss::Ended { what: format!("{method} {target} on stream {number} {what}"), in_order: asked })
}
