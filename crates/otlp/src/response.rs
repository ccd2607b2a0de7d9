//! Parses responses of a collector.

use oribi_http_client::printable;
use oribi_protobuf::{Fields, Value};

/// The part of an accepted message that the collector has refused.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Partial {
    pub(crate) spans: u64,
    /// The reason for the refusal; if nothing was refused, a warning or nothing.
    pub(crate) why: String,
}

/// Parses an `ExportTraceServiceResponse`. Bytes that are no such message mean that nothing was refused.
pub(crate) fn partial_success(body: &[u8]) -> Partial {
    let mut partial = Partial::default();
    for (field, value) in Fields(body) {
        let (1, Value::Bytes(inner)) = (field, value) else { continue };
        for inner in Fields(inner) {
            match inner {
                (1, Value::Number(spans)) => partial.spans = u64::try_from(spans.cast_signed()).unwrap_or(0),
                (2, Value::Bytes(why)) => partial.why = printable(&String::from_utf8_lossy(why)),
                _ => {}
            }
        }
    }
    partial
}

/// Returns the reason for a refusal: the text of a `google.rpc.Status` or, if there is none, the body itself.
pub(crate) fn reason(body: &[u8]) -> String {
    let of_status = Fields(body).find_map(|(field, value)| match value {
        Value::Bytes(text) if field == 2 => str::from_utf8(text).ok(),
        _ => None,
    });
    let is_text = !body.iter().any(|byte| matches!(byte, 0..=8 | 14..=31));
    let plain = str::from_utf8(body).ok().filter(|_| is_text);
    printable(of_status.or(plain).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_protobuf::{bytes, message, number};

    #[test]
    fn a_collector_says_what_it_has_refused() {
        let mut body = Vec::new();
        message(&mut body, 1, |out| {
            number(out, 1, 3);
            bytes(out, 2, b"too\nold");
        });
        assert_eq!(partial_success(&body), Partial { spans: 3, why: "too old".to_owned() });
        for cut in 0..body.len() {
            let _ = partial_success(&body[..cut]);
        }
        let mut negative = Vec::new();
        message(&mut negative, 1, |out| number(out, 1, u64::MAX));
        for nothing in [&b""[..], &negative, b"<html>", &[0x0a, 0]] {
            assert_eq!(partial_success(nothing), Partial::default(), "{nothing:?}");
        }
    }

    #[test]
    fn and_why() {
        let mut status = Vec::new();
        number(&mut status, 1, 3);
        bytes(&mut status, 2, b"bad spans");
        for (body, why) in [(&status[..], "bad spans"), (b"Not Found\n", "Not Found"), (b"", ""), (b"\x08\xff\xff\x01", "")] {
            assert_eq!(reason(body), why, "{body:?}");
        }
    }
}
