//! Reads responses like a strict client, without the code under test.

/// A response, or an interim one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    /// From the status line to the empty line.
    pub head: String,
    pub body: Vec<u8>,
    /// Whether the client knows where the content ends before the connection ends.
    pub framed: bool,
}

impl Response {
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.split("\r\n").filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub fn closes(&self) -> bool {
        self.field("Connection") == Some("close")
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("these tests send text")
    }
}

/// All responses to requests that were not HEAD. Panics if the last one is incomplete.
#[track_caller]
pub fn read_all(mut bytes: &[u8]) -> Vec<Response> {
    let mut responses = Vec::new();
    while !bytes.is_empty() {
        let (response, length) = read_one(bytes, false).expect("a whole response");
        responses.push(response);
        bytes = &bytes[length..];
    }
    responses
}

/// The only response to a request that was not HEAD.
#[track_caller]
pub fn read_only(bytes: &[u8]) -> Response {
    let mut all = read_all(bytes);
    assert_eq!(all.len(), 1, "{}", String::from_utf8_lossy(bytes));
    all.remove(0)
}

/// The only response to a HEAD request.
#[track_caller]
pub fn read_head(bytes: &[u8]) -> Response {
    let (response, length) = read_one(bytes, true).expect("a whole head");
    assert_eq!(length, bytes.len(), "content behind the response to HEAD");
    response
}

/// The first response and its length; `None` if it is incomplete.
#[track_caller]
pub fn read_one(bytes: &[u8], to_head: bool) -> Option<(Response, usize)> {
    let head_length = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = String::from_utf8(bytes[..head_length].to_vec()).expect("these tests send text fields");
    let status_line = head.split("\r\n").next().unwrap_or_default();
    assert!(status_line.starts_with("HTTP/1.1 "), "{status_line}");
    let status = status_line[9..12].parse().expect("a status code");
    let mut response = Response { status, head, body: Vec::new(), framed: true };
    for line in response.head.trim_end().split("\r\n").skip(1) {
        let (name, _) = line.split_once(": ").expect("a field line");
        assert!(!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'), "{line}");
    }
    let rest = &bytes[head_length..];
    let length = response.field("Content-Length").map(|value| value.parse::<usize>().expect("a number"));
    let chunked = response.field("Transfer-Encoding").map(|value| assert_eq!(value, "chunked")).is_some();
    assert!(!(length.is_some() && chunked), "both framings: {}", response.head);
    let size = if to_head || matches!(status, 100..=199 | 204 | 304) {
        0
    } else if let Some(length) = length {
        response.body = rest.get(..length)?.to_vec();
        length
    } else if chunked {
        let (body, size) = read_chunks(rest)?;
        response.body = body;
        size
    } else {
        response.framed = false;
        response.body = rest.to_vec();
        rest.len()
    };
    Some((response, head_length + size))
}

fn read_chunks(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let mut body = Vec::new();
    let mut place = 0;
    loop {
        let line = bytes[place..].windows(2).position(|window| window == b"\r\n")?;
        let digits = std::str::from_utf8(&bytes[place..place + line]).expect("text");
        assert!(digits.bytes().all(|byte| byte.is_ascii_hexdigit()), "{digits}");
        let size = usize::from_str_radix(digits, 16).expect("a chunk size");
        place += line + 2;
        let data = bytes.get(place..place + size)?;
        let end = bytes.get(place + size..place + size + 2)?;
        assert_eq!(end, b"\r\n", "behind chunk data");
        body.extend_from_slice(data);
        place += size + 2;
        if size == 0 {
            return Some((body, place));
        }
    }
}
