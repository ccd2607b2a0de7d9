//! Messages to an exporter, each with the records of a moment.

use crate::record::{LONGEST, Record};

/// The largest message in bytes. The kernel accepts a message of this size as a whole, and an exporter reads all messages into
/// one buffer.
pub const LARGEST_MESSAGE: usize = 16 << 10;

/// The length in bytes of the number at the front of a message: the number of records that were lost before the message.
const LOST: usize = 4;

/// Records that are sent together, in a buffer that is reused.
#[derive(Debug)]
pub struct Outbox {
    bytes: Vec<u8>,
    records: u32,
    /// The number of records that could not be sent and that no message has reported yet.
    lost: u32,
}

impl Default for Outbox {
    fn default() -> Self {
        Self { bytes: vec![0; LOST], records: 0, lost: 0 }
    }
}

impl Outbox {
    /// Whether there are no records.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Adds a record. If there may be no room for another record after that, sends all records by `send`, as [`Outbox::flush`]
    /// does.
    pub fn add(&mut self, record: &Record<'_>, send: impl FnOnce(&[u8]) -> bool) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 2]);
        record.append(&mut self.bytes);
        let length = (self.bytes.len() - start - 2) as u16;
        self.bytes[start..start + 2].copy_from_slice(&length.to_le_bytes());
        self.records += 1;
        if self.bytes.len() + 2 + LONGEST > LARGEST_MESSAGE {
            self.flush(send);
        }
    }

    /// Passes all records to `send` as one message. If `send` returns `false`, these records are lost, and the next message has
    /// their number.
    pub fn flush(&mut self, send: impl FnOnce(&[u8]) -> bool) {
        if self.is_empty() {
            return;
        }
        self.bytes[..LOST].copy_from_slice(&self.lost.to_le_bytes());
        self.lost = if send(&self.bytes) { 0 } else { self.lost.saturating_add(self.records) };
        self.bytes.truncate(LOST);
        self.records = 0;
    }
}

/// The content of a message.
#[derive(Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The number of records that its sender has lost.
    pub lost: u32,
    /// The records that can be read, as bytes.
    pub records: Vec<&'a [u8]>,
    /// Whether a part of the message cannot be read.
    pub is_broken: bool,
}

impl<'a> Message<'a> {
    /// Reads a message, which may have any bytes.
    #[must_use]
    pub fn read(bytes: &'a [u8]) -> Self {
        let mut message = Self { lost: 0, records: Vec::new(), is_broken: true };
        let Some((lost, mut rest)) = bytes.split_first_chunk() else { return message };
        message.lost = u32::from_le_bytes(*lost);
        while let Some((length, more)) = rest.split_first_chunk() {
            let Some((record, more)) = more.split_at_checked(usize::from(u16::from_le_bytes(*length))) else { return message };
            if Record::read(record).is_none() {
                return message;
            }
            message.records.push(record);
            rest = more;
        }
        message.is_broken = !rest.is_empty();
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::{example, written};

    #[test]
    fn records_of_a_moment_are_one_message_and_those_that_are_lost_are_counted() {
        let mut outbox = Outbox::default();
        outbox.flush(|_| panic!("there is nothing to send"));
        let record = example();
        let never = |_: &[u8]| panic!("there is room");
        outbox.add(&record, never);
        outbox.add(&record, never);
        outbox.flush(|_| false);
        outbox.add(&record, never);
        outbox.flush(|_| false);
        outbox.add(&record, never);
        let mut sent = Vec::new();
        outbox.flush(|bytes| {
            sent = bytes.to_vec();
            true
        });
        let bytes = written(&record);
        assert_eq!(Message::read(&sent), Message { lost: 3, records: vec![&bytes], is_broken: false });
        outbox.add(&record, never);
        outbox.flush(|bytes| {
            assert_eq!(Message::read(bytes).lost, 0, "that was told");
            true
        });
    }

    #[test]
    fn no_message_is_too_large() {
        let path = [b'x'; 2000];
        let record = Record { path: &path, ..example() };
        let (mut outbox, mut sizes, mut count) = (Outbox::default(), Vec::new(), 0);
        for _ in 0..1000 {
            outbox.add(&record, |bytes| {
                sizes.push(bytes.len());
                count += Message::read(bytes).records.len();
                true
            });
        }
        outbox.flush(|bytes| {
            count += Message::read(bytes).records.len();
            true
        });
        assert!(sizes.iter().all(|size| (LARGEST_MESSAGE / 2..=LARGEST_MESSAGE).contains(size)), "{sizes:?}");
        assert_eq!(count, 1000);
    }

    #[test]
    fn of_a_broken_message_is_taken_what_can_be_read() {
        let mut outbox = Outbox::default();
        let record = example();
        let mut whole = Vec::new();
        (0..3).for_each(|_| outbox.add(&record, |_| false));
        outbox.flush(|bytes| {
            whole = bytes.to_vec();
            true
        });
        let each = (whole.len() - LOST) / 3;
        for cut in 0..whole.len() {
            let message = Message::read(&whole[..cut]);
            assert_eq!(message.records.len(), cut.saturating_sub(LOST) / each, "{cut}");
            assert_eq!(message.is_broken, cut < LOST || !(cut - LOST).is_multiple_of(each), "{cut}");
        }
        for place in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[place] ^= 0xff;
            assert!(Message::read(&bytes).records.len() <= 3);
        }
    }
}
