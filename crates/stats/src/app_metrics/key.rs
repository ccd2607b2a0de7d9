//! The key of an app metric: its name and labels as one byte sequence, the same in all processes.
//!
//! The first byte is the kind. The name and the labels follow, each text preceded by its size. Labels are sorted, so their
//! order in a call makes no difference.

use std::fmt::Write as _;

/// The most bytes of a name together with the names of its labels.
pub(crate) const NAME_BYTES: usize = 128;
/// The most labels. Each combination of their values is a separate series, so more labels are a mistake.
pub(crate) const MOST_LABELS: usize = 6;
/// The most bytes of the value of a label. Longer values are cut.
pub(crate) const VALUE_BYTES: usize = 60;
/// The most bytes of a key.
pub(super) const KEY_BYTES: usize = 512;

const _: () = assert!(2 + NAME_BYTES + MOST_LABELS * (2 + VALUE_BYTES) <= KEY_BYTES, "every figure has room");

/// The prefix of all names, so that they do not collide with metrics of the server.
const PREFIX: &str = "app_";

/// Suffixes that the metrics formats append to names. A name that itself has such a suffix could be mistaken for a sample of
/// another metric.
const ENDINGS: [&str; 6] = ["_total", "_bucket", "_count", "_sum", "_created", "_info"];

/// The kind of an app metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// A sum of amounts that an app adds.
    Counter = 1,
    /// A distribution of values.
    Histogram = 2,
}

/// The key of an app metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// The key in the first `size` bytes, then zeros.
    pub(super) bytes: [u8; KEY_BYTES],
    pub(super) size: usize,
}

/// The name and the labels of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named<'a> {
    pub(crate) kind: Kind,
    /// The name without the prefix.
    pub(crate) name: &'a str,
    pub(crate) labels: Vec<(&'a str, &'a str)>,
}

/// Returns the exported name, with its prefix.
pub fn exported_name(name: &str) -> String {
    format!("{PREFIX}{name}")
}

impl Key {
    /// Builds the key of an app metric.
    ///
    /// # Errors
    /// The name, the labels or their number is invalid; the message contains the reason.
    pub(super) fn new(kind: Kind, name: &[u8], labels: &[(&[u8], &[u8])]) -> Result<Self, String> {
        let name = bare(kind, name)?;
        if labels.len() > MOST_LABELS {
            return Err(format!("a figure has at most {MOST_LABELS} labels, and there are {}", labels.len()));
        }
        let names = labels.iter().fold(name.len(), |sum, (label, _)| sum.saturating_add(label.len()));
        if names > NAME_BYTES {
            return Err(format!(
                "the name of a figure and those of its labels have at most {NAME_BYTES} bytes together, not {names}"
            ));
        }
        let mut sorted: [(&[u8], &[u8]); MOST_LABELS] = [(b"", b""); MOST_LABELS];
        let sorted = &mut sorted[..labels.len()];
        sorted.copy_from_slice(labels);
        sorted.sort_unstable_by_key(|(label, _)| *label);
        let mut key = Self { bytes: [0; KEY_BYTES], size: 0 };
        key.append(&[kind as u8, name.len() as u8]);
        key.append(name.as_bytes());
        let mut before: &[u8] = b"";
        for &(label, value) in &*sorted {
            check_label(label)?;
            if label == before {
                return Err(format!("the label {} is there twice", quoted(label)));
            }
            before = label;
            key.append(&[label.len() as u8]);
            key.append(label);
            key.append_value(value);
        }
        Ok(key)
    }

    /// Decodes a key; `None` if the bytes are not a valid key.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let Named { kind, name, labels } = parse(bytes)?;
        let labels: Vec<(&[u8], &[u8])> = labels.iter().map(|(label, value)| (label.as_bytes(), value.as_bytes())).collect();
        // The bytes must be exactly those that `new` writes. Decoding has removed the prefix from the name; what is left
        // might look like a name with a prefix, or be invalid.
        Self::new(kind, exported_name(name).as_bytes(), &labels).ok().filter(|key| key.get() == bytes)
    }

    pub(super) fn get(&self) -> &[u8] {
        &self.bytes[..self.size]
    }

    /// The name and the labels.
    pub(super) fn named(&self) -> Option<Named<'_>> {
        parse(self.get())
    }

    /// Returns the FNV-1a hash, which is never zero here.
    pub(super) fn hash(&self) -> u64 {
        let hash = self.get().iter();
        hash.fold(0xcbf2_9ce4_8422_2325, |sum: u64, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)).max(1)
    }

    fn append(&mut self, bytes: &[u8]) {
        let end = self.size + bytes.len();
        if let Some(room) = self.bytes.get_mut(self.size..end) {
            room.copy_from_slice(bytes);
            self.size = end;
        }
    }

    /// Appends the value of a label. Invalid UTF-8 becomes U+FFFD, and so do zero bytes, which Prometheus treats as the end.
    fn append_value(&mut self, value: &[u8]) {
        let at = self.size;
        self.append(&[0]);
        // The value is cut to [`VALUE_BYTES`] anyway, so the rest of it need not be checked.
        for chunk in value[..value.len().min(VALUE_BYTES + 4)].utf8_chunks() {
            let invalid = if chunk.invalid().is_empty() { "" } else { "\u{fffd}" };
            for letter in chunk.valid().chars().chain(invalid.chars()) {
                let letter = if letter == '\0' { '\u{fffd}' } else { letter };
                if self.size - at + letter.len_utf8() > VALUE_BYTES + 1 {
                    return;
                }
                self.append(letter.encode_utf8(&mut [0; 4]).as_bytes());
                self.bytes[at] = (self.size - at - 1) as u8;
            }
        }
    }
}

/// Returns the name without its prefix and suffix.
fn bare(kind: Kind, name: &[u8]) -> Result<&str, String> {
    let text = identifier(name).ok_or_else(|| {
        format!(
            "a figure cannot be called {}: a name has letters of ASCII, digits and _, and does not begin with a digit",
            quoted(name)
        )
    })?;
    let begin = text.strip_prefix(PREFIX).unwrap_or(text);
    let bare = if kind == Kind::Counter { begin.strip_suffix("_total").unwrap_or(begin) } else { begin };
    if let Some(ending) = ENDINGS.iter().find(|ending| bare.ends_with(*ending)) {
        return Err(format!("a figure cannot be called {text}: samples of other figures end in {ending}"));
    }
    if bare.is_empty() { Err(format!("a figure cannot be called {text}: that is no name yet")) } else { Ok(bare) }
}

fn check_label(label: &[u8]) -> Result<(), String> {
    match identifier(label) {
        None => Err(format!(
            "a label cannot be called {}: a name has letters of ASCII, digits and _, and does not begin with a digit",
            quoted(label)
        )),
        Some("le") => Err("a label cannot be called le: that is the one of buckets".to_owned()),
        Some(name) if name.starts_with("__") => Err(format!("a label cannot be called {name}: __ is for Prometheus itself")),
        Some(_) => Ok(()),
    }
}

/// Returns the name as text, if Prometheus allows it. The colon is not allowed here, because it is reserved for Prometheus's
/// rules.
fn identifier(name: &[u8]) -> Option<&str> {
    let fits = name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let begins = name.first().is_some_and(|first| !first.is_ascii_digit());
    str::from_utf8(name).ok().filter(|_| fits && begins)
}

/// Formats an untrusted name for a message.
fn quoted(name: &[u8]) -> String {
    let mut quoted = String::new();
    for letter in String::from_utf8_lossy(&name[..name.len().min(NAME_BYTES)]).escape_debug() {
        // Writing to a String cannot fail.
        let _ = write!(quoted, "{letter}");
    }
    format!("\"{quoted}\"")
}

/// Splits a key into its parts. Does not check the names in it.
fn parse(bytes: &[u8]) -> Option<Named<'_>> {
    let (kind, rest) = bytes.split_first()?;
    let kind = match kind {
        1 => Kind::Counter,
        2 => Kind::Histogram,
        _ => return None,
    };
    let (name, mut rest) = text(rest)?;
    let mut labels = Vec::new();
    while !rest.is_empty() {
        let (label, behind) = text(rest)?;
        let (value, behind) = text(behind)?;
        labels.push((label, value));
        rest = behind;
    }
    Some(Named { kind, name, labels })
}

fn text(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (size, rest) = bytes.split_first()?;
    let (text, rest) = rest.split_at_checked(usize::from(*size))?;
    Some((str::from_utf8(text).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(name: &str, labels: &[(&[u8], &[u8])]) -> Result<Key, String> {
        Key::new(Kind::Counter, name.as_bytes(), labels)
    }

    #[test]
    fn a_figure_is_the_same_whichever_way_it_is_named() {
        let key = counter("orders", &[(b"kind", b"book"), (b"by", b"card")]).expect("a key");
        for name in ["orders_total", "app_orders", "app_orders_total"] {
            assert_eq!(counter(name, &[(b"by", b"card"), (b"kind", b"book")]).as_ref(), Ok(&key), "{name}");
        }
        let named = key.named().expect("it can be read");
        assert_eq!(
            (named.kind, named.name, &named.labels[..]),
            (Kind::Counter, "orders", &[("by", "card"), ("kind", "book")][..])
        );
        assert_eq!(Key::of(key.get()).as_ref(), Some(&key));
        let other = Key::new(Kind::Histogram, b"orders", &[]).expect("a key");
        assert_ne!(other.hash(), key.hash());
        assert_eq!(exported_name(named.name), "app_orders");
    }

    #[test]
    fn what_is_accepted_can_be_read_again() {
        for kind in [Kind::Counter, Kind::Histogram] {
            for name in ["a", "app_a", "app_app_a", "app_app", "app_404", "app_app_404", "_", "app__"] {
                let key = Key::new(kind, name.as_bytes(), &[]).expect(name);
                assert_eq!(Key::of(key.get()).as_ref(), Some(&key), "{name}");
                let named = key.named().expect(name);
                assert_eq!(
                    exported_name(named.name),
                    if name.starts_with("app_") { name.to_owned() } else { format!("app_{name}") }
                );
            }
        }
    }

    #[test]
    fn misuse_is_refused_and_says_why() {
        let why = |kind, name: &[u8], labels: &[(&[u8], &[u8])]| Key::new(kind, name, labels).expect_err("it is misuse");
        for name in [&b""[..], b"7up", b"a-b", b"a:b", b"\xff", "\u{e9}t\u{e9}".as_bytes(), b"a\0"] {
            let why = why(Kind::Counter, name, &[]);
            assert!(why.starts_with("a figure cannot be called \"") && why.ends_with("does not begin with a digit"), "{why}");
        }
        assert_eq!(why(Kind::Counter, b"_total", &[]), "a figure cannot be called _total: that is no name yet");
        assert_eq!(
            why(Kind::Histogram, b"a_total", &[]),
            "a figure cannot be called a_total: samples of other figures end in _total"
        );
        for ending in ENDINGS {
            let name = format!("a{ending}_total");
            assert!(why(Kind::Counter, name.as_bytes(), &[]).ends_with(&format!("end in {ending}")));
        }
        assert!(why(Kind::Counter, b"a", &[(b"le", b"")]).contains("buckets"));
        assert!(why(Kind::Counter, b"a", &[(b"__name__", b"")]).contains("Prometheus"));
        assert!(why(Kind::Counter, b"a", &[(b"b c", b"")]).starts_with("a label cannot be called \"b c\""));
        assert_eq!(why(Kind::Counter, b"a", &[(b"b", b"1"), (b"b", b"2")]), "the label \"b\" is there twice");
        assert!(why(Kind::Counter, &[b'a'; 129], &[]).ends_with("128 bytes together, not 129"));
        let labels: Vec<(&[u8], &[u8])> =
            [&b"a"[..], b"b", b"c", b"d", b"e", b"f", b"g"].map(|label| (label, &b""[..])).to_vec();
        assert_eq!(why(Kind::Counter, b"a", &labels), "a figure has at most 6 labels, and there are 7");
    }

    #[test]
    fn values_are_any_text_and_are_cut_between_letters() {
        let value = |bytes: &[u8]| {
            let key = counter("a", &[(b"b", bytes)]).expect("a key");
            assert_eq!(Key::of(key.get()).as_ref(), Some(&key), "{bytes:?}");
            key.named().map(|named| named.labels[0].1.to_owned()).expect("it can be read")
        };
        assert_eq!(value(b""), "");
        assert_eq!(value("a\"b\\c\nd\u{20ac}".as_bytes()), "a\"b\\c\nd\u{20ac}");
        assert_eq!(value(b"a\xffb\0c"), "a\u{fffd}b\u{fffd}c");
        assert_eq!(value(&[b'x'; 5000]), "x".repeat(60));
        assert_eq!(value("\u{20ac}".repeat(30).as_bytes()), "\u{20ac}".repeat(20));
        assert_eq!(value(format!("x{}", "\u{20ac}".repeat(30)).as_bytes()), format!("x{}", "\u{20ac}".repeat(19)));
        let most: Vec<(&[u8], &[u8])> =
            [&b"a"[..], b"b", b"c", b"d", b"e", b"f"].map(|label| (label, &[b'x'; 99][..])).to_vec();
        let key = counter(&"n".repeat(122), &most).expect("the largest has room");
        assert_eq!(key.named().map(|named| named.labels.len()), Some(6));
    }

    #[test]
    fn what_is_no_key_is_not_taken_for_one() {
        let key = counter("orders", &[(b"kind", b"book")]).expect("a key");
        for at in 0..key.size {
            for bit in [1, 0x20, 0x80] {
                let mut bytes = key.get().to_vec();
                bytes[at] ^= bit;
                if let Some(other) = Key::of(&bytes) {
                    assert!(other.get() == bytes && other.hash() != key.hash(), "byte {at}");
                }
            }
            assert_eq!(Key::of(&key.get()[..at]).filter(|_| at > 0 && at < 8), None);
        }
        assert_eq!((Key::of(&[0xff; 512]), Key::of(&[1; 600]), Key::of(b"")), (None, None, None));
    }
}
