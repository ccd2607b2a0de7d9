//! The part of the binary format of Protocol Buffers that metrics and spans need
//! (<https://protobuf.dev/programming-guides/encoding/>).
#![forbid(unsafe_code)]

/// Appends a number, seven bits a byte, the lowest first.
pub fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Maps a signed number to an unsigned number so that numbers near zero stay short (`sint32` and `sint64`).
#[must_use]
pub const fn signed(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

/// Appends a field that is a number of variable length.
pub fn number(out: &mut Vec<u8>, field: u32, number: u64) {
    varint(out, u64::from(field) << 3);
    varint(out, number);
}

/// Appends a field that is a floating-point number.
pub fn double(out: &mut Vec<u8>, field: u32, number: f64) {
    fixed64(out, field, number.to_bits());
}

/// Appends a field of eight bytes.
pub fn fixed64(out: &mut Vec<u8>, field: u32, number: u64) {
    varint(out, (u64::from(field) << 3) | 1);
    out.extend_from_slice(&number.to_le_bytes());
}

/// Appends a field of four bytes.
pub fn fixed32(out: &mut Vec<u8>, field: u32, number: u32) {
    varint(out, (u64::from(field) << 3) | 5);
    out.extend_from_slice(&number.to_le_bytes());
}

/// Appends a field that is a text, a message, or numbers in a row.
pub fn bytes(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    varint(out, (u64::from(field) << 3) | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a field that is a message. `write` appends the content of the message; its length is inserted in front of it
/// afterwards.
pub fn message(out: &mut Vec<u8>, field: u32, write: impl FnOnce(&mut Vec<u8>)) {
    varint(out, (u64::from(field) << 3) | 2);
    let start = out.len();
    write(out);
    let mut length = Vec::with_capacity(5);
    varint(&mut length, (out.len() - start) as u64);
    out.splice(start..start, length);
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number of variable length.
    Number(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// Four bytes.
    Fixed32(u32),
    /// A text, a message, or numbers in a row.
    Bytes(&'a [u8]),
}

/// The fields of a message, with their numbers. The iteration ends at bytes that are not a field.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.take(4)?.try_into().ok()?)),
            _ => return None,
        };
        Some((key >> 3, value))
    }
}

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for place in 0..10 {
            let byte = self.take(1)?[0];
            number |= u64::from(byte & 0x7f).checked_shl(7 * place)?;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_the_format_says() {
        let written = |number| {
            let mut out = Vec::new();
            varint(&mut out, number);
            out
        };
        // The examples of the format's description.
        assert_eq!(written(150), [0x96, 0x01]);
        assert_eq!([0, -1, 1, -2, 0x7fff_ffff].map(signed), [0, 1, 2, 3, 0xffff_fffe]);
        assert_eq!((written(0), written(127), written(128)), (vec![0], vec![127], vec![0x80, 1]));
        assert_eq!(written(u64::MAX), [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
    }

    #[test]
    fn what_is_written_is_read() {
        let mut out = Vec::new();
        number(&mut out, 1, u64::MAX);
        fixed64(&mut out, 2, 7);
        fixed32(&mut out, 3, 8);
        double(&mut out, 16, 1.5);
        bytes(&mut out, 1000, b"abc");
        message(&mut out, 5, |out| bytes(out, 1, &[b'x'; 300]));
        let fields: Vec<_> = Fields(&out).collect();
        let inner = &out[out.len() - 303..];
        let expected = [
            (1, Value::Number(u64::MAX)),
            (2, Value::Fixed64(7)),
            (3, Value::Fixed32(8)),
            (16, Value::Fixed64(1.5_f64.to_bits())),
            (1000, Value::Bytes(b"abc")),
            (5, Value::Bytes(inner)),
        ];
        assert_eq!(fields, expected);
        assert_eq!(Fields(inner).next(), Some((1, Value::Bytes(&[b'x'; 300]))));
        for cut in 0..out.len() {
            assert!(Fields(&out[..cut]).eq(expected.iter().copied().take(Fields(&out[..cut]).count())), "{cut}");
        }
    }

    #[test]
    fn what_is_no_message_ends() {
        for wrong in [&[0xff; 11][..], &[0x0a, 5, 1], &[0x0b], &[0x09, 1], &[0x0d, 1], &[8]] {
            assert_eq!(Fields(wrong).next(), None, "{wrong:?}");
        }
    }
}
