//! Field blocks of HTTP/2 in the form of HPACK (RFC 7541). Only what the tests need: literals without an index in requests and,
//! in responses, what our server writes. The server uses neither the dynamic table nor Huffman codes.

/// Appends a field as a literal without an index.
pub fn literal(block: &mut Vec<u8>, name: &str, value: &str) {
    block.push(0);
    for text in [name, value] {
        match u8::try_from(text.len()) {
            Ok(length @ 0..127) => block.push(length),
            _ => {
                let rest = text.len() - 127;
                assert!(rest < 1 << 14, "a field of tests is short");
                block.extend([127, 0x80 | (rest & 127) as u8, (rest >> 7) as u8]);
            }
        }
        block.extend_from_slice(text.as_bytes());
    }
}

/// The names in the static table that responses have (RFC 7541, appendix A).
const NAMES: [(usize, &str); 28] = [
    (18, "accept-ranges"),
    (20, "access-control-allow-origin"),
    (21, "age"),
    (22, "allow"),
    (24, "cache-control"),
    (25, "content-disposition"),
    (26, "content-encoding"),
    (27, "content-language"),
    (28, "content-length"),
    (29, "content-location"),
    (30, "content-range"),
    (31, "content-type"),
    (33, "date"),
    (34, "etag"),
    (36, "expires"),
    (44, "last-modified"),
    (45, "link"),
    (46, "location"),
    (48, "proxy-authenticate"),
    (53, "retry-after"),
    (54, "server"),
    (55, "set-cookie"),
    (56, "strict-transport-security"),
    (57, "transfer-encoding"),
    (59, "vary"),
    (60, "via"),
    (61, "www-authenticate"),
    (8, ":status"),
];

/// The statuses that have an index of their own.
const STATUSES: [&str; 7] = ["200", "204", "206", "304", "400", "404", "500"];

pub fn decoded(mut block: &[u8]) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    while let Some(first) = block.first().copied() {
        if first & 0xe0 == 0x20 {
            // The size of the dynamic table.
            integer(&mut block, 5);
        } else if first & 0x80 != 0 {
            let index = integer(&mut block, 7);
            let status = index.checked_sub(8).and_then(|index| STATUSES.get(index)).expect("only statuses are indexed");
            fields.push((":status".to_owned(), (*status).to_owned()));
        } else {
            let index = integer(&mut block, 4);
            let named = NAMES.iter().find(|(known, _)| *known == index).map(|(_, name)| (*name).to_owned());
            let name = if index == 0 { text(&mut block) } else { named.expect("responses have this field") };
            fields.push((name, text(&mut block)));
        }
    }
    fields
}

/// An integer in the last `bits` of the first byte and, if need be, after it (RFC 7541, section 5.1).
fn integer(block: &mut &[u8], bits: u32) -> usize {
    let most = (1 << bits) - 1;
    let (mut value, mut shift) = (usize::from(block[0]) & most, 0);
    *block = &block[1..];
    while value >= most {
        let byte = block[0];
        *block = &block[1..];
        value += usize::from(byte & 127) << shift;
        shift += 7;
        if byte & 128 == 0 {
            break;
        }
    }
    value
}

fn text(block: &mut &[u8]) -> String {
    assert!(block[0] & 0x80 == 0, "our server writes no Huffman codes");
    let length = integer(block, 7);
    let (text, rest) = block.split_at(length);
    *block = rest;
    String::from_utf8_lossy(text).into_owned()
}
