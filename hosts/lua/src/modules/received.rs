//! The bytes that have arrived on a socket of a script and were not read: lines, numbers of bytes, and texts up to a pattern.

/// The most bytes of an emptied buffer whose memory is kept.
const KEPT: usize = 64 << 10;

/// Bytes that have arrived. Each call returns `None` as long as more bytes must arrive.
#[derive(Debug, Default)]
pub struct Received {
    bytes: Vec<u8>,
    /// The number of bytes that were read.
    start: usize,
    /// The number of unread bytes that contain no line end.
    searched: usize,
    /// The pattern that was sought last, and the number of unread bytes at which it does not begin.
    sought: (Vec<u8>, usize),
}

impl Received {
    /// The unread bytes.
    #[must_use]
    pub fn unread(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Lets `receive` write into room for `most` more bytes. It returns the number of bytes that it has written.
    ///
    /// # Errors
    /// Those of `receive`.
    pub fn extend<E>(&mut self, most: usize, receive: impl FnOnce(&mut [u8]) -> Result<usize, E>) -> Result<usize, E> {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        let before = self.bytes.len();
        self.bytes.resize(before + most, 0);
        let received = receive(&mut self.bytes[before..]);
        self.bytes.truncate(before + received.as_ref().map_or(0, |&count| count.min(most)));
        received
    }

    /// Marks bytes as read.
    pub fn skip(&mut self, count: usize) {
        self.start += count;
        self.searched = 0;
        self.sought.1 = self.sought.1.saturating_sub(count);
        if self.start >= self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(KEPT);
            self.start = 0;
        }
    }

    /// Reads a line without its end, and without any CR, as LuaSocket does.
    pub fn line(&mut self) -> Option<Vec<u8>> {
        let unread = self.unread();
        let Some(end) = memchr::memchr(b'\n', &unread[self.searched..]) else {
            self.searched = unread.len();
            return None;
        };
        let end = self.searched + end;
        let line = unread[..end].iter().copied().filter(|&byte| byte != b'\r').collect();
        self.skip(end + 1);
        Some(line)
    }

    /// Reads up to `pattern`, which must not be empty; with `most`, at most so many bytes. Also returns whether the pattern was
    /// met: then it was read, too.
    pub fn up_to(&mut self, pattern: &[u8], inclusive: bool, most: Option<usize>) -> Option<(Vec<u8>, bool)> {
        let found = self.find(pattern);
        let unread = self.unread();
        let Some(most) = most else {
            let at = found?;
            let end = at + pattern.len();
            let text = unread[..if inclusive { end } else { at }].to_vec();
            self.skip(end);
            return Some((text, true));
        };
        match found {
            Some(at) => {
                let end = at + pattern.len();
                let wanted = if inclusive { end } else { at };
                if wanted <= most {
                    let text = unread[..wanted].to_vec();
                    self.skip(end);
                    return Some((text, true));
                }
                let text = unread[..most].to_vec();
                self.skip(most);
                Some((text, false))
            }
            // The last bytes may be the beginning of the pattern.
            None if unread.len() >= most + pattern.len() => {
                let text = unread[..most].to_vec();
                self.skip(most);
                Some((text, false))
            }
            None => None,
        }
    }

    /// The place of a pattern. Bytes that were searched are not searched again, however often more arrive.
    fn find(&mut self, pattern: &[u8]) -> Option<usize> {
        if self.sought.0 != pattern {
            self.sought = (pattern.to_vec(), 0);
        }
        let from = self.sought.1;
        let unread = self.unread();
        let found = memchr::memmem::find(&unread[from..], pattern).map(|at| from + at);
        let first = found.unwrap_or_else(|| from.max((unread.len() + 1).saturating_sub(pattern.len())));
        self.sought.1 = first;
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(received: &mut Received, piece: &[u8]) {
        let written = received.extend(piece.len(), |room| {
            room.copy_from_slice(piece);
            Ok::<_, ()>(piece.len())
        });
        assert_eq!(written, Ok(piece.len()));
    }

    /// Passes `text` in two pieces, split at every byte, to `read`, which is called after each piece until it returns `None`.
    fn split_everywhere(text: &[u8], mut read: impl FnMut(&mut Received) -> Option<Vec<u8>>, expected: &[&[u8]], rest: &[u8]) {
        for at in 0..=text.len() {
            let (mut received, mut found) = (Received::default(), Vec::new());
            for piece in [&text[..at], &text[at..]] {
                put(&mut received, piece);
                while let Some(part) = read(&mut received) {
                    found.push(part);
                }
            }
            assert_eq!(found, expected, "split at {at}");
            assert_eq!(received.unread(), rest, "split at {at}");
        }
    }

    #[test]
    fn lines_are_the_same_however_they_arrive() {
        split_everywhere(
            b"one\r\n\r\ntwo\nth\rree\n\nre\rst",
            Received::line,
            &[b"one", b"", b"two", b"three", b""],
            b"re\rst",
        );
    }

    #[test]
    fn a_pattern_is_found_however_it_arrives() {
        let up_to =
            |inclusive, most| move |received: &mut Received| received.up_to(b"--", inclusive, most).map(|(text, _)| text);
        let text = b"a--bc---d";
        split_everywhere(text, up_to(false, None), &[b"a", b"bc"], b"-d");
        split_everywhere(text, up_to(true, None), &[b"a--", b"bc--"], b"-d");
        // With a number, the pieces may be cut elsewhere, but they are the same text, and the pattern ends in no piece.
        for at in 0..=text.len() {
            let (mut received, mut joined, mut met) = (Received::default(), Vec::new(), 0);
            for piece in [&text[..at], &text[at..]] {
                put(&mut received, piece);
                while let Some((part, whole)) = received.up_to(b"--", false, Some(1)) {
                    assert!(part.len() <= 1, "split at {at}");
                    joined.extend(part);
                    met += u32::from(whole);
                }
            }
            assert_eq!((joined.as_slice(), met, received.unread()), (&b"abc"[..], 2, &b"-d"[..]), "split at {at}");
        }
    }

    #[test]
    fn bytes_are_searched_once() {
        let mut received = Received::default();
        let start = std::time::Instant::now();
        for _ in 0..100_000 {
            put(&mut received, &[b'x'; 100]);
            assert_eq!(received.up_to(b"--", false, None), None);
        }
        assert!(start.elapsed().as_secs() < 20, "the time does not grow with the square of the bytes");
        // Another pattern is sought from the beginning.
        assert_eq!(received.up_to(b"x", true, None), Some((b"x".to_vec(), true)));
        put(&mut received, b"-");
        assert_eq!(received.up_to(b"--", false, None), None);
        put(&mut received, b"-");
        assert_eq!(received.up_to(b"--", false, None).map(|(text, met)| (text.len(), met)), Some((9_999_999, true)));
    }

    #[test]
    fn what_was_read_is_dropped() {
        let mut received = Received::default();
        put(&mut received, &vec![b'x'; 200_000]);
        received.skip(100_000);
        assert_eq!(received.unread().len(), 100_000);
        received.skip(100_000);
        assert!(received.unread().is_empty() && received.bytes.capacity() <= KEPT);
    }
}
