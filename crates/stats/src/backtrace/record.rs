//! The memory in which a worker answers questions. The first line contains the way to ask the worker and the number of lines
//! written; the records of threads follow. The threads of a worker write at the same time, and the process may die or be
//! suspended while they write. So a thread reserves lines by a compare-and-swap, fills them, and writes the number of the
//! question last. A thread may be suspended for so long that its lines belong to the answer to the next question when it
//! continues. Then it corrupts that answer, and the checksum reveals it.

use oribi_io::process::SharedLine;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

/// The number of lines of a worker: 128 KiB, of which the kernel allocates only the used pages.
pub const LINES: usize = 2048;
const LINE_BYTES: usize = size_of::<SharedLine>();

/// The most frames reported for a thread, from the innermost on: a page does not show more, and endless recursion would give
/// any number.
const MOST_FRAMES: usize = 100;
/// The most bytes of a frame: room for a path and a long name.
const FRAME_BYTES: usize = 300;
/// The most bytes of the description of a request.
const ABOUT_BYTES: usize = 200;
const CUT: &[u8] = b"...";

/// The indexes of words in the first line: the question that is being answered and the number of lines used; the question and
/// the number of threads that answer it; an [`AskPolicy`].
const USED: usize = 0;
const EXPECTED: usize = 1;
const WAY: usize = 2;
/// The indexes of words in the first line of a record: the question and the number of bytes after this line; the checksum of
/// these; the thread.
const SIZE: usize = 0;
const SUM: usize = 1;
const THREAD: usize = 2;
/// The offset in bytes of the 64-bit words in a line.
const WORDS_AT: usize = 32;

/// The times at which a worker may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum AskPolicy {
    /// Not yet, because the worker does not handle questions so far.
    NotYet = 0,
    /// The worker may be asked at any time.
    Anytime = 1,
    /// The worker may be asked while its first thread runs. In a system call, the signal would disturb the app.
    WhileRunning = 2,
    /// Never, because the worker's language reports nothing.
    Mute = 3,
}

/// The worker's view of its area.
#[derive(Clone, Copy, Debug)]
pub struct Area(pub(crate) &'static [SharedLine]);

const fn pair(question: u32, number: u32) -> u64 {
    (question as u64) << 32 | number as u64
}

const fn question_in(word: u64) -> u32 {
    (word >> 32) as u32
}

impl Area {
    /// Publishes how the worker may be asked.
    pub(crate) fn announce(&self, policy: AskPolicy) {
        if let Some(first) = self.0.first() {
            first.words[WAY].store(policy as u64, Release);
        }
    }

    pub(super) fn expect(&self, question: u32, threads: u32) {
        if let Some(first) = self.0.first() {
            first.words[EXPECTED].store(pair(question, threads), Release);
        }
    }

    pub(super) fn answer(&self, question: u32, thread: u32, about: &[u8], frames: Option<&[&[u8]]>, more: usize) {
        self.write(question, thread, &encode(about, frames, more));
    }

    /// As `answer`, for a thread that runs no app. Allocates no memory.
    pub(super) fn answer_without_app(&self, question: u32, thread: u32) {
        self.write(question, thread, &NOTHING);
    }

    fn write(&self, question: u32, thread: u32, text: &[u8]) {
        let lines = 1 + text.len().div_ceil(LINE_BYTES);
        let Some([head, body @ ..]) = self.reserve(question, lines).and_then(|from| self.0.get(from..from + lines)) else {
            return;
        };
        head.words[SIZE].store(0, Relaxed);
        for (line, bytes) in body.iter().zip(text.chunks(LINE_BYTES)) {
            write_line(line, bytes);
        }
        head.words[THREAD].store(thread.into(), Relaxed);
        head.words[SUM].store(checksum(question, u64::from(thread), text), Relaxed);
        head.words[SIZE].store(pair(question, text.len() as u32), Release);
    }

    /// Reserves lines for an answer, and returns the index of the first line. `None` if the area is full, or if a later
    /// question was asked meanwhile.
    fn reserve(&self, question: u32, lines: usize) -> Option<usize> {
        let word = &self.0.first()?.words[USED];
        let mut before = word.load(Acquire);
        loop {
            let used = match question.wrapping_sub(question_in(before)).cast_signed() {
                0 => before as u32,
                1.. => 1,
                _ => return None,
            };
            let after = used.checked_add(lines as u32).filter(|after| *after as usize <= self.0.len())?;
            match word.compare_exchange(before, pair(question, after), SeqCst, Acquire) {
                Ok(_) => return Some(used as usize),
                Err(present) => before = present,
            }
        }
    }
}

fn write_line(line: &SharedLine, bytes: &[u8]) {
    let mut whole = [0; LINE_BYTES];
    whole.iter_mut().zip(bytes).for_each(|(target, byte)| *target = *byte);
    let (in_halves, in_words) = whole.split_at(WORDS_AT);
    for (half, bytes) in line.halves.iter().zip(in_halves.as_chunks().0) {
        half.store(u32::from_ne_bytes(*bytes), Relaxed);
    }
    for (word, bytes) in line.words.iter().zip(in_words.as_chunks().0) {
        word.store(u64::from_ne_bytes(*bytes), Relaxed);
    }
}

fn append(text: &mut Vec<u8>, bytes: &[u8], most: usize) {
    let kept = if bytes.len() > most { &bytes[..most - CUT.len()] } else { bytes };
    let cut: &[u8] = if bytes.len() > most { CUT } else { b"" };
    text.extend_from_slice(&((kept.len() + cut.len()) as u16).to_ne_bytes());
    text.extend_from_slice(kept);
    text.extend_from_slice(cut);
}

/// Encodes an answer: a mark whether an app runs, the number of omitted frames, the request, and the frames. Each text is
/// preceded by its size.
fn encode(about: &[u8], frames: Option<&[&[u8]]>, more: usize) -> Vec<u8> {
    let kept = frames.map(|frames| &frames[..frames.len().min(MOST_FRAMES)]).unwrap_or_default();
    let more = more + frames.map_or(0, <[_]>::len) - kept.len();
    let mut text = u32::from(frames.is_some()).to_ne_bytes().to_vec();
    text.extend_from_slice(&u32::try_from(more).unwrap_or(u32::MAX).to_ne_bytes());
    append(&mut text, about, ABOUT_BYTES);
    kept.iter().for_each(|frame| append(&mut text, frame, FRAME_BYTES));
    text
}

/// The result of [`encode`] for a thread that runs no app.
const NOTHING: [u8; 10] = [0; 10];

/// Returns the FNV-1a hash of a record. It detects torn records, not forged ones.
fn checksum(question: u32, thread: u64, text: &[u8]) -> u64 {
    let bytes = question.to_ne_bytes().into_iter().chain(thread.to_ne_bytes()).chain(text.iter().copied());
    bytes.fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// The answer of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadBacktrace {
    /// The kernel's id of the thread.
    pub thread: u32,
    /// Whether the thread runs an app.
    pub runs: bool,
    /// A description of the request that the thread answers.
    pub about: Vec<u8>,
    /// The frames, the innermost first.
    pub frames: Vec<Vec<u8>>,
    /// The number of omitted frames.
    pub more: u32,
}

/// The answers of a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BacktraceAnswer {
    /// The number of threads that will answer; `None` if not known yet.
    pub expected: Option<u32>,
    /// The threads that have answered, in the order of their answers.
    pub threads: Vec<ThreadBacktrace>,
}

impl BacktraceAnswer {
    /// Whether all expected threads have answered.
    pub fn is_whole(&self) -> bool {
        self.expected.is_some_and(|expected| self.threads.len() >= expected as usize)
    }

    /// Decodes the answers to `question` in a copy of a worker's area, which is not trusted.
    pub fn read(bytes: &[u8], question: u32) -> Self {
        let lines: &[[u8; LINE_BYTES]] = bytes.as_chunks().0;
        let Some((first, _)) = lines.split_first() else { return Self::default() };
        let (used, expected) = (word(first, USED), word(first, EXPECTED));
        let expected = (question_in(expected) == question).then_some(expected as u32);
        let mut answer = Self { expected, threads: Vec::new() };
        let end = if question_in(used) == question { (used as u32 as usize).min(lines.len()) } else { 0 };
        let mut next = 1;
        while let Some((head, size)) = lines[..end].get(next).map(|head| (head, word(head, SIZE))) {
            let size = if question_in(size) == question { size as u32 as usize } else { break };
            let (from, thread) = ((next + 1) * LINE_BYTES, word(head, THREAD));
            let Some(text) = bytes[..end * LINE_BYTES].get(from..).and_then(|rest| rest.get(..size)) else { break };
            if word(head, SUM) == checksum(question, thread, text)
                && let Some(record) = decode(thread as u32, text)
            {
                answer.threads.push(record);
            }
            next += 1 + size.div_ceil(LINE_BYTES);
        }
        answer
    }
}

impl AskPolicy {
    /// Decodes the policy in a copy of the first line of an area.
    pub fn read(bytes: &[u8]) -> Self {
        let first: Option<&[u8; LINE_BYTES]> = bytes.first_chunk();
        match first.map_or(0, |first| word(first, WAY)) {
            1 => Self::Anytime,
            2 => Self::WhileRunning,
            3 => Self::Mute,
            _ => Self::NotYet,
        }
    }
}

fn word(line: &[u8; LINE_BYTES], index: usize) -> u64 {
    line[WORDS_AT + index * 8..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

fn decode(thread: u32, text: &[u8]) -> Option<ThreadBacktrace> {
    let (runs, rest) = text.split_first_chunk()?;
    let (more, mut rest) = rest.split_first_chunk()?;
    let mut next = || -> Option<Vec<u8>> {
        let (size, behind) = rest.split_first_chunk()?;
        let (bytes, behind) = behind.split_at_checked(u16::from_ne_bytes(*size).into())?;
        rest = behind;
        Some(bytes.to_vec())
    };
    let about = next()?;
    let frames: Vec<Vec<u8>> = std::iter::from_fn(next).take(MOST_FRAMES).collect();
    let runs = u32::from_ne_bytes(*runs) != 0;
    Some(ThreadBacktrace { thread, runs, about, frames, more: u32::from_ne_bytes(*more) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(lines: usize) -> Area {
        Area(Vec::leak((0..lines).map(|_| SharedLine::default()).collect()))
    }

    fn bytes(area: &Area) -> Vec<u8> {
        let of = |line: &SharedLine| {
            let halves = line.halves.iter().flat_map(|half| half.load(Relaxed).to_ne_bytes());
            halves.chain(line.words.iter().flat_map(|word| word.load(Relaxed).to_ne_bytes())).collect::<Vec<u8>>()
        };
        area.0.iter().flat_map(of).collect()
    }

    #[test]
    fn what_threads_tell_is_read_by_those_who_have_asked() {
        let area = area(64);
        assert_eq!(
            (AskPolicy::read(&bytes(&area)), BacktraceAnswer::read(&bytes(&area), 7)),
            (AskPolicy::NotYet, BacktraceAnswer::default())
        );
        area.announce(AskPolicy::WhileRunning);
        area.expect(7, 2);
        area.answer(7, 11, b"GET /a", Some(&[b"a.pl:1 in main::f", &[b'x'; 400]]), 3);
        let answer = BacktraceAnswer::read(&bytes(&area), 7);
        assert!(!answer.is_whole() && AskPolicy::read(&bytes(&area)) == AskPolicy::WhileRunning);
        let ThreadBacktrace { thread, runs, about, frames, more } = &answer.threads[0];
        assert_eq!((*thread, *runs, &about[..], frames.len(), *more), (11, true, &b"GET /a"[..], 2, 3));
        assert_eq!((&frames[0][..], frames[1].len(), &frames[1][296..]), (&b"a.pl:1 in main::f"[..], 300, &b"x..."[..]));
        area.answer_without_app(7, 12);
        assert_eq!(encode(b"", None, 0), NOTHING);
        let answer = BacktraceAnswer::read(&bytes(&area), 7);
        assert!(answer.is_whole() && !answer.threads[1].runs && answer.threads[1].thread == 12);
        assert_eq!(BacktraceAnswer::read(&bytes(&area), 8), BacktraceAnswer::default(), "nobody has answered this one");
        area.expect(8, 0);
        assert!(BacktraceAnswer::read(&bytes(&area), 8).is_whole());
        assert!(!BacktraceAnswer::read(&bytes(&area), 7).is_whole());
    }

    #[test]
    fn an_answer_that_comes_too_late_spoils_nothing() {
        let area = area(64);
        area.answer(8, 1, b"new", Some(&[b"here"]), 0);
        area.answer(7, 2, b"old", Some(&[b"there"]), 0);
        assert_eq!(BacktraceAnswer::read(&bytes(&area), 7), BacktraceAnswer::default());
        assert_eq!(BacktraceAnswer::read(&bytes(&area), 8).threads.len(), 1);
        area.answer(0x8000_0007, 3, b"newer", Some(&[]), 0);
        assert_eq!(BacktraceAnswer::read(&bytes(&area), 0x8000_0007).threads.len(), 1);
    }

    #[test]
    fn more_frames_than_are_told_are_counted_and_what_has_no_room_is_left_out() {
        let (wide, narrow) = (area(2048), area(8));
        let frames = vec![&b"f"[..]; 250];
        wide.answer(1, 1, b"", Some(&frames), 5);
        let answer = BacktraceAnswer::read(&bytes(&wide), 1);
        assert_eq!((answer.threads[0].frames.len(), answer.threads[0].more), (100, 155));
        narrow.answer(1, 1, b"", Some(&frames), 0);
        narrow.answer(1, 2, b"", Some(&frames), 0);
        narrow.answer(1, 3, b"", Some(&[b"short"]), 0);
        assert_eq!(
            BacktraceAnswer::read(&bytes(&narrow), 1).threads.iter().map(|answer| answer.thread).collect::<Vec<_>>(),
            [1]
        );
    }

    #[test]
    fn what_is_torn_or_incomplete_is_not_shown() {
        let area = area(64);
        area.answer(3, 1, b"one", Some(&[b"frame"]), 0);
        area.answer(3, 2, b"two", Some(&[b"frame"]), 0);
        let whole = bytes(&area);
        for byte in 3 * 64..5 * 64 {
            let mut torn = whole.clone();
            torn[byte] ^= 0x41;
            let answer = BacktraceAnswer::read(&torn, 3).threads;
            assert!(
                answer.iter().all(|record| BacktraceAnswer::read(&whole, 3).threads.contains(record)),
                "byte {byte}: {answer:?}"
            );
        }
        for size in 0..whole.len() {
            assert!(BacktraceAnswer::read(&whole[..size], 3).threads.len() <= 2);
        }
        let nonsense = vec![0xff; 64 * 64];
        assert_eq!(BacktraceAnswer::read(&nonsense, u32::MAX).threads, Vec::new());
    }
}
