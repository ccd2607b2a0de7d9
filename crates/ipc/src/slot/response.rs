//! Writes the head of a response, or its trailers, in a worker, and reads them in an edge.
//!
//! | part | holds |
//! |---|---|
//! | numbers | status, kind of content, number of fields, size of the content |
//! | lines | for each field: the lengths of its name and its value |
//! | text | names and values, one after the other |

use super::Malformed;
use super::copy::copy_short;
use oribi_message::{FieldMemory, FieldPair, PreparedFields, ResponseHead};

/// The size of the numbers in bytes: four for status and kind, four for the number of fields, eight for the size of the
/// content.
const NUMBERS: usize = 16;

/// The size of a line in bytes: the lengths of the name and the value of a field, each in four bytes.
const LINE: usize = 8;

/// The state of the content when the head of a response is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Exactly this many bytes follow, and then the end.
    Whole {
        /// The number of bytes.
        size: u64,
    },
    /// Content of unknown size follows, piece by piece.
    Started,
    /// No content: the head is that of an informational response.
    Interim,
    /// Complete: the fields are trailers, and there is no status.
    Trailers,
}

/// Appends the head of a final response to `bytes`.
pub fn encode_head(head: &ResponseHead<'_>, content: Content, bytes: &mut Vec<u8>) {
    encode(head.status, head.fields, content, bytes);
}

/// The number of bytes of the head of a final response.
#[inline]
#[must_use]
pub fn head_size(head: &ResponseHead<'_>) -> usize {
    NUMBERS + head.fields.iter().map(|(name, value)| LINE + name.len() + value.len()).sum::<usize>()
}

/// Writes the head of a whole response, and `parts` as its content, into `room`. `size` is the size of the content; `room` must
/// have as many bytes as the head ([`head_size`]) and the content.
#[inline]
pub fn write_whole(head: &ResponseHead<'_>, parts: &[&[u8]], size: u64, room: &mut [u8]) {
    let (numbers, room) = room.split_at_mut(NUMBERS);
    numbers.copy_from_slice(&numbers_of(head.status, Content::Whole { size }, head.fields.len()));
    let (lines, mut room) = room.split_at_mut(head.fields.len() * LINE);
    let mut put = |bytes: &[u8]| {
        let (destination, rest) = std::mem::take(&mut room).split_at_mut(bytes.len());
        copy_short(bytes, destination);
        room = rest;
    };
    for (destination, pair) in lines.as_chunks_mut::<LINE>().0.iter_mut().zip(head.fields) {
        *destination = line(*pair);
        put(pair.0);
        put(pair.1);
    }
    parts.iter().for_each(|part| put(part));
}

/// Appends the head of an informational response to `bytes`.
pub fn encode_interim(status: u16, fields: &[FieldPair<'_>], bytes: &mut Vec<u8>) {
    encode(status, fields, Content::Interim, bytes);
}

/// Appends trailers to `bytes`.
pub fn encode_trailers(fields: &[FieldPair<'_>], bytes: &mut Vec<u8>) {
    encode(0, fields, Content::Trailers, bytes);
}

/// Appends the head of a response with status 200 and prepared fields to `bytes`.
pub fn encode_prepared(fields: &PreparedFields, content: Content, bytes: &mut Vec<u8>) {
    begin(200, content, fields.pairs().len(), bytes);
    for pair in fields.pairs() {
        put_line(pair, bytes);
    }
    for (name, value) in fields.pairs() {
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(value);
    }
}

fn encode(status: u16, fields: &[FieldPair<'_>], content: Content, bytes: &mut Vec<u8>) {
    begin(status, content, fields.len(), bytes);
    for pair in fields {
        put_line(*pair, bytes);
    }
    for (name, value) in fields {
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(value);
    }
}

fn begin(status: u16, content: Content, fields: usize, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&numbers_of(status, content, fields));
}

#[inline]
fn numbers_of(status: u16, content: Content, fields: usize) -> [u8; NUMBERS] {
    let (kind, size) = match content {
        Content::Started => (0, 0),
        Content::Whole { size } => (1, size),
        Content::Interim => (2, 0),
        Content::Trailers => (3, 0),
    };
    let numbers = u128::from(u32::from(status) | kind << 16) | (fields as u128) << 32 | u128::from(size) << 64;
    numbers.to_le_bytes()
}

fn put_line(pair: FieldPair<'_>, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&line(pair));
}

#[inline]
fn line((name, value): FieldPair<'_>) -> [u8; LINE] {
    // Lengths that exceed these numbers would also exceed the memory of a pool.
    (name.len() as u64 | (value.len() as u64) << 32).to_le_bytes()
}

/// The head of a response as received, with unchecked status and fields.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The status and the fields, unchecked.
    pub head: ResponseHead<'a>,
    /// The content that follows.
    pub content: Content,
}

/// Reads heads, and reuses the memory for their fields.
#[derive(Debug, Default)]
pub struct Heads {
    fields: FieldMemory,
}

impl Heads {
    /// Reads the head in `bytes`, which contain nothing else, and passes it to `then`.
    ///
    /// # Errors
    /// The bytes are not the head of a response.
    pub fn read<T>(&mut self, bytes: &[u8], then: impl FnOnce(Head<'_>) -> T) -> Result<T, Malformed> {
        let mut fields = self.fields.take();
        let outcome = read(bytes, &mut fields)
            .map(|(status, content)| then(Head { head: ResponseHead { status, fields: &fields }, content }));
        self.fields.keep(fields);
        outcome
    }
}

fn read<'a>(bytes: &'a [u8], fields: &mut Vec<FieldPair<'a>>) -> Result<(u16, Content), Malformed> {
    let (numbers, rest) = bytes.split_first_chunk::<NUMBERS>().ok_or(Malformed)?;
    let numbers = u128::from_le_bytes(*numbers);
    let (status, kind) = (numbers as u16, numbers as u32 >> 16);
    let (count, size) = ((numbers >> 32) as u32 as usize, (numbers >> 64) as u64);
    let (lines, mut text) = rest.split_at_checked(count.checked_mul(LINE).ok_or(Malformed)?).ok_or(Malformed)?;
    // The engine decides whether a response may have this status and these fields.
    let content = match kind {
        0 if size == 0 => Content::Started,
        1 => Content::Whole { size },
        2 if size == 0 => Content::Interim,
        3 if size == 0 && status == 0 => Content::Trailers,
        _ => return Err(Malformed),
    };
    // The message contains that many lines, so its size limits the memory that is reserved.
    fields.reserve(count);
    for line in lines.as_chunks::<LINE>().0 {
        let lengths = u64::from_le_bytes(*line);
        let (name, rest) = text.split_at_checked(lengths as u32 as usize).ok_or(Malformed)?;
        let (value, rest) = rest.split_at_checked((lengths >> 32) as usize).ok_or(Malformed)?;
        fields.push((name, value));
        text = rest;
    }
    if text.is_empty() { Ok((status, content)) } else { Err(Malformed) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::numbers::Numbers;

    type Owned = (u16, Vec<(Vec<u8>, Vec<u8>)>, Content);

    fn read_owned(heads: &mut Heads, bytes: &[u8]) -> Result<Owned, Malformed> {
        heads.read(bytes, |Head { head, content }| {
            let fields = head.fields.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
            (head.status, fields, content)
        })
    }

    fn random_head(numbers: &mut Numbers) -> Owned {
        let count = numbers.below(20);
        let fields = (0..count).map(|_| (numbers.text(30), numbers.text(60))).collect();
        let content = match numbers.below(4) {
            0 => Content::Started,
            1 => Content::Whole { size: numbers.next() >> numbers.below(64) },
            2 => Content::Interim,
            _ => return (0, fields, Content::Trailers),
        };
        (numbers.next() as u16, fields, content)
    }

    fn encoded((status, fields, content): &Owned) -> Vec<u8> {
        let pairs: Vec<FieldPair<'_>> = fields.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        let mut bytes = Vec::new();
        match content {
            Content::Interim => encode_interim(*status, &pairs, &mut bytes),
            Content::Trailers => encode_trailers(&pairs, &mut bytes),
            content => encode_head(&ResponseHead { status: *status, fields: &pairs }, *content, &mut bytes),
        }
        bytes
    }

    #[test]
    fn heads_are_read_as_they_were_written() {
        let (mut numbers, mut heads) = (Numbers::new(), Heads::default());
        for _ in 0..2000 {
            let head = random_head(&mut numbers);
            assert_eq!(read_owned(&mut heads, &encoded(&head)), Ok(head));
        }
    }

    #[test]
    fn prepared_fields_are_read_as_fields() {
        let pairs: [FieldPair<'_>; 3] = [(b"Content-Type", b"text/plain"), (b"X", b""), (b"ETag", b"\"a: b\"")];
        let prepared = PreparedFields::new(&pairs).expect("they are valid");
        let mut bytes = Vec::new();
        encode_prepared(&prepared, Content::Whole { size: 5 }, &mut bytes);
        let fields = pairs.map(|(name, value)| (name.to_vec(), value.to_vec())).to_vec();
        assert_eq!(read_owned(&mut Heads::default(), &bytes), Ok((200, fields, Content::Whole { size: 5 })));
    }

    #[test]
    fn whole_responses_are_written_in_place_as_otherwise() {
        let mut numbers = Numbers::new();
        for _ in 0..500 {
            let (status, fields, _) = random_head(&mut numbers);
            let pairs: Vec<FieldPair<'_>> = fields.iter().map(|(name, value)| (&name[..], &value[..])).collect();
            let head = ResponseHead { status, fields: &pairs };
            let parts = [numbers.text(40), numbers.text(40)];
            let size = (parts[0].len() + parts[1].len()) as u64;
            let mut bytes = Vec::new();
            encode_head(&head, Content::Whole { size }, &mut bytes);
            assert_eq!(head_size(&head), bytes.len());
            bytes.extend(parts.concat());
            let mut room = vec![0xAA; bytes.len()];
            write_whole(&head, &[&parts[0], &parts[1]], size, &mut room);
            assert_eq!(room, bytes);
        }
    }

    #[test]
    fn a_head_that_was_cut_or_prolonged_is_none() {
        let mut numbers = Numbers::new();
        let mut heads = Heads::default();
        for _ in 0..50 {
            let mut bytes = encoded(&random_head(&mut numbers));
            for length in 0..bytes.len() {
                assert_eq!(read_owned(&mut heads, &bytes[..length]), Err(Malformed), "{length} of {bytes:?}");
            }
            bytes.push(0);
            assert_eq!(read_owned(&mut heads, &bytes), Err(Malformed));
        }
    }

    #[test]
    fn a_head_with_any_bit_changed_is_read_or_refused() {
        let (mut numbers, mut heads, mut refused) = (Numbers::new(), Heads::default(), 0);
        for _ in 0..30 {
            let head = random_head(&mut numbers);
            let mut bytes = encoded(&head);
            for bit in 0..bytes.len() * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                match read_owned(&mut heads, &bytes) {
                    Ok(other) => assert!(other != head, "bit {bit} means nothing"),
                    Err(Malformed) => refused += 1,
                }
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
        assert!(refused > 1000, "{refused}");
    }
}
