//! Responses, read to the byte.

/// A whole response.
#[derive(Clone, Debug)]
pub struct Response {
    pub status: u16,
    /// The lines of its head.
    head: Vec<String>,
    /// Its content, without the framing of chunks.
    pub content: Vec<u8>,
}

impl Response {
    /// The value of a field, if it is there.
    pub fn field(&self, name: &str) -> Option<&str> {
        field(&self.head, name)
    }

    /// Whether the server closes the connection after it.
    pub fn ends(&self) -> bool {
        self.field("Connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    /// The process whose app has answered.
    pub fn worker(&self) -> u32 {
        let worker = self.field("X-Worker").unwrap_or_else(|| panic!("no app has answered: {self:?}"));
        worker.parse().expect("it is a number")
    }
}

fn field<'a>(head: &'a [String], name: &str) -> Option<&'a str> {
    let mut fields = head.iter().filter_map(|line| line.split_once(": "));
    fields.find_map(|(found, value)| found.eq_ignore_ascii_case(name).then_some(value))
}

/// Removes the first response from `bytes` and returns it; `None` if it is not complete yet. `bodiless` means that it answers a
/// HEAD request.
///
/// # Errors
/// The bytes are not a response.
pub fn take(bytes: &mut Vec<u8>, bodiless: bool) -> Result<Option<Response>, String> {
    let Some(end) = find(bytes, b"\r\n\r\n") else { return Ok(None) };
    let text = std::str::from_utf8(&bytes[..end]).map_err(|_| format!("a head beyond ASCII: {:?}", &bytes[..end]))?;
    let mut lines = text.split("\r\n").map(str::to_owned);
    let first = lines.next().unwrap_or_default();
    let head: Vec<String> = lines.collect();
    let status = first.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    let status: u16 = status.ok_or_else(|| format!("this is no response: {:?}", String::from_utf8_lossy(bytes)))?;
    let begin = end + 4;
    let (content, used) = if bodiless || status < 200 || status == 204 || status == 304 {
        (Vec::new(), begin)
    } else if let Some(length) = field(&head, "Content-Length") {
        let length: usize = length.parse().map_err(|_| format!("a length that is no number: {head:?}"))?;
        if bytes.len() < begin + length {
            return Ok(None);
        }
        (bytes[begin..begin + length].to_vec(), begin + length)
    } else if field(&head, "Transfer-Encoding") == Some("chunked") {
        match chunks(&bytes[begin..])? {
            Some((content, used)) => (content, begin + used),
            None => return Ok(None),
        }
    } else {
        return Err(format!("the length of the content is not told: {head:?}"));
    };
    bytes.drain(..used);
    Ok(Some(Response { status, head, content }))
}

/// Returns the content of all chunks, and the number of bytes that the chunks take; `None` if the last chunk is not there yet.
fn chunks(bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>, String> {
    let (mut content, mut at) = (Vec::new(), 0);
    loop {
        let Some(line) = find(&bytes[at..], b"\r\n") else { return Ok(None) };
        let size = std::str::from_utf8(&bytes[at..at + line]).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
        let size = size.ok_or_else(|| format!("no size of a chunk: {:?}", String::from_utf8_lossy(&bytes[at..at + line])))?;
        let begin = at + line + 2;
        if bytes.len() < begin + size + 2 {
            return Ok(None);
        }
        if &bytes[begin + size..begin + size + 2] != b"\r\n" {
            return Err(format!("a chunk of {size} bytes does not end where it should"));
        }
        content.extend_from_slice(&bytes[begin..begin + size]);
        at = begin + size + 2;
        if size == 0 {
            return Ok(Some((content, at)));
        }
    }
}

fn find(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    bytes.windows(mark.len()).position(|window| window == mark)
}

/// Content as the apps make it: the byte at position i is the letter i + `number` of the alphabet.
pub fn letters(number: u64, length: usize) -> Vec<u8> {
    (b'a'..=b'z').cycle().skip((number % 26) as usize).take(length).collect()
}
