//! Reading responses: bytes in, verdicts out. Every response is compared with the expected one, to the byte.

use crate::tally::Fault;

/// Longer heads do not count as heads.
const LONGEST_HEAD: usize = 64 << 10;

/// The properties required of every response.
#[derive(Debug)]
pub struct Expected {
    content: Vec<u8>,
    known: Vec<u8>,
    known_head: Head,
}

/// The content of a head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Head {
    status: u16,
    length: u64,
    closes: bool,
}

/// The state of one connection within its responses.
#[derive(Debug, Default)]
pub struct Reader {
    /// The beginning of a head whose end has not arrived.
    partial: Vec<u8>,
    content: Option<Content>,
}

#[derive(Clone, Copy, Debug)]
struct Content {
    left: u64,
    head: Head,
    fault: Option<Fault>,
}

/// The result of reading received bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// All bytes were read, and the response needs more.
    More,
    /// A response ends after `used` of the bytes. It may have a fault, but the connection stays usable.
    Whole { used: usize, fault: Option<Fault>, closes: bool },
    /// The bytes are not a response, so the beginning of the next one is unknown.
    Broken(&'static str),
}

/// Returns content of `length` bytes, as the servers of the study send it: the byte at position i is `a` + i mod 26.
pub fn pattern(length: usize) -> Vec<u8> {
    (b'a'..=b'z').cycle().take(length).collect()
}

impl Expected {
    /// Responses with status 200 and that content.
    pub fn new(content: Vec<u8>) -> Self {
        Self { content, known: Vec::new(), known_head: Head::default() }
    }

    /// Returns the head if it is the same as the last one, and its length. For a second, until their Date changes, most heads
    /// are the same to the byte, so a comparison replaces parsing.
    #[inline]
    fn known_head(&self, input: &[u8]) -> Option<(Head, usize)> {
        (!self.known.is_empty() && input.starts_with(&self.known)).then_some((self.known_head, self.known.len()))
    }

    fn fault_of(&self, head: Head) -> Option<Fault> {
        if head.status != 200 {
            Some(Fault::Status)
        } else if head.length != self.content.len() as u64 {
            Some(Fault::Mismatch)
        } else {
            None
        }
    }
}

impl Reader {
    /// Whether no part of an incomplete response has arrived.
    pub fn is_between(&self) -> bool {
        self.partial.is_empty() && self.content.is_none()
    }

    /// Takes bytes up to the end of the next response.
    pub fn read(&mut self, expected: &mut Expected, input: &[u8]) -> Step {
        let (mut content, begin) = match self.content.take() {
            Some(content) => (content, 0),
            None => match self.head(expected, input) {
                Ok(Some((head, used))) => (Content { left: head.length, head, fault: expected.fault_of(head) }, used),
                Ok(None) => return Step::More,
                Err(why) => return Step::Broken(why),
            },
        };
        let come = &input[begin..];
        let come = &come[..come.len().min(usize::try_from(content.left).unwrap_or(usize::MAX))];
        if content.fault.is_none() {
            let position = (content.head.length - content.left) as usize;
            if &expected.content[position..position + come.len()] != come {
                content.fault = Some(Fault::Mismatch);
            }
        }
        content.left -= come.len() as u64;
        if content.left > 0 {
            self.content = Some(content);
            return Step::More;
        }
        Step::Whole { used: begin + come.len(), fault: content.fault, closes: content.head.closes }
    }

    /// Returns the next head, and the number of bytes of `input` that belong to it; `None` if the head is not complete yet.
    fn head(&mut self, expected: &mut Expected, input: &[u8]) -> Result<Option<(Head, usize)>, &'static str> {
        if self.partial.is_empty() {
            if let Some(known) = expected.known_head(input) {
                return Ok(Some(known));
            }
            let Some(length) = length_of_head(input) else {
                self.partial.extend_from_slice(input);
                return if input.len() > LONGEST_HEAD { Err("a head without end") } else { Ok(None) };
            };
            let head = parse(&input[..length])?;
            expected.known.clear();
            expected.known.extend_from_slice(&input[..length]);
            expected.known_head = head;
            return Ok(Some((head, length)));
        }
        let before = self.partial.len();
        self.partial.extend_from_slice(&input[..input.len().min(LONGEST_HEAD)]);
        let Some(length) = length_of_head(&self.partial) else {
            return if self.partial.len() > LONGEST_HEAD { Err("a head without end") } else { Ok(None) };
        };
        let head = parse(&self.partial[..length])?;
        self.partial = Vec::new();
        Ok(Some((head, length - before)))
    }
}

/// Returns the length of the head at the beginning of a response, and the length of the content; `None` if the head is not
/// complete.
///
/// # Errors
/// The bytes are not a response.
pub fn head_and_content(response: &[u8]) -> Result<Option<(usize, usize)>, &'static str> {
    let Some(head) = length_of_head(response) else { return Ok(None) };
    Ok(Some((head, parse(&response[..head])?.length as usize)))
}

fn length_of_head(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|position| position + 4)
}

/// Parses a head as the servers of the study send it: that of a final response with a Content-Length.
fn parse(bytes: &[u8]) -> Result<Head, &'static str> {
    let text = std::str::from_utf8(bytes).map_err(|_| "a head with bytes beyond ASCII")?;
    let mut lines = text.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let rest = first.strip_prefix("HTTP/1.").ok_or("no HTTP/1 response")?;
    let (minor, status) = rest.split_at_checked(2).ok_or("no status line")?;
    let status: u16 = status.get(..3).and_then(|digits| digits.parse().ok()).ok_or("no status")?;
    if !(200..600).contains(&status) {
        return Err("not a final status");
    }
    let mut closes = minor == "0 ";
    let mut length = if status == 204 || status == 304 { Some(0) } else { None };
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or("a line of the head without a colon")?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("Content-Length") {
            length = Some(value.parse().map_err(|_| "a length that is no number")?);
        } else if name.eq_ignore_ascii_case("Connection") {
            closes = value.eq_ignore_ascii_case("close") || (closes && !value.eq_ignore_ascii_case("keep-alive"));
        } else if name.eq_ignore_ascii_case("Transfer-Encoding") {
            return Err("a transfer coding, where a Content-Length is understood");
        }
    }
    Ok(Head { status, length: length.ok_or("no Content-Length")?, closes })
}

#[cfg(test)]
mod tests {
    use super::{Expected, Fault, Reader, Step, pattern};

    fn response(first: &str, fields: &str, content: &[u8]) -> Vec<u8> {
        [format!("{first}\r\nContent-Length: {}\r\n{fields}\r\n", content.len()).as_bytes(), content].concat()
    }

    /// Reads two equal responses as a whole, and one that is cut in two at every place; the verdicts must be the same.
    fn verdict(bytes: &[u8], content: usize) -> (Option<Fault>, bool) {
        let mut expected = Expected::new(pattern(content));
        let mut reader = Reader::default();
        let twice = [bytes, bytes].concat();
        let first = reader.read(&mut expected, &twice);
        let Step::Whole { used, fault, closes } = first else { panic!("{first:?}") };
        assert_eq!(used, bytes.len());
        assert_eq!(reader.read(&mut expected, &twice[used..]), Step::Whole { used, fault, closes });
        for split in 0..bytes.len() {
            let mut expected = Expected::new(pattern(content));
            let mut reader = Reader::default();
            assert!(reader.is_between());
            if split > 0 {
                assert_eq!(reader.read(&mut expected, &bytes[..split]), Step::More, "{split}");
                assert!(!reader.is_between());
            }
            let rest = Step::Whole { used: bytes.len() - split, fault, closes };
            assert_eq!(reader.read(&mut expected, &bytes[split..]), rest, "{split}");
            assert!(reader.is_between());
        }
        (fault, closes)
    }

    #[test]
    fn what_is_right_is_right_at_every_split() {
        assert_eq!(verdict(&response("HTTP/1.1 200 OK", "", &pattern(60)), 60), (None, false));
        assert_eq!(verdict(&response("HTTP/1.1 200 OK", "", b""), 0), (None, false));
        assert_eq!(verdict(&response("HTTP/1.1 200 OK", "connection: Close\r\n", &pattern(5)), 5), (None, true));
        assert_eq!(verdict(&response("HTTP/1.0 200 OK", "", &pattern(5)), 5), (None, true));
        assert_eq!(verdict(&response("HTTP/1.0 200 OK", "Connection: keep-alive\r\n", &pattern(5)), 5), (None, false));
    }

    #[test]
    fn what_is_wrong_is_found_at_every_split() {
        assert_eq!(verdict(&response("HTTP/1.1 500 Oops", "", b"oops"), 60), (Some(Fault::Status), false));
        assert_eq!(verdict(&response("HTTP/1.1 200 OK", "", &pattern(59)), 60), (Some(Fault::Mismatch), false));
        assert_eq!(verdict(&response("HTTP/1.1 200 OK", "", &pattern(61)), 60), (Some(Fault::Mismatch), false));
        let mut content = pattern(60);
        content[59] = b'?';
        assert_eq!(verdict(&response("HTTP/1.1 200 OK", "", &content), 60), (Some(Fault::Mismatch), false));
    }

    #[test]
    fn what_is_no_response_is_refused() {
        let wrong = [
            "SSH-2.0-nonsense\r\n\r\n",
            "HTTP/1.1 OK\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: ten\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nnothing\r\n\r\n",
        ];
        for bytes in wrong {
            let step = Reader::default().read(&mut Expected::new(Vec::new()), bytes.as_bytes());
            assert!(matches!(step, Step::Broken(_)), "{bytes:?}: {step:?}");
        }
        let endless = [b'x'; 100 << 10];
        assert!(matches!(Reader::default().read(&mut Expected::new(Vec::new()), &endless), Step::Broken(_)));
    }
}
