//! The examples of RFC 7541, appendix C, and further properties of all blocks.

use super::*;
use alloc::vec::Vec;
use std::string::String;
use std::vec;

const LARGE: Bounds = Bounds { kept: 1 << 20, read: 1 << 20 };

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits = hexadecimal.chars().filter(char::is_ascii_hexdigit).collect::<String>();
    (0..digits.len()).step_by(2).map(|place| u8::from_str_radix(&digits[place..place + 2], 16).expect("digits")).collect()
}

type Pair = (Vec<u8>, Vec<u8>);

fn decode(decoder: &mut Decoder, block: &[u8], bounds: Bounds) -> Result<(Vec<Pair>, bool), Fault> {
    let (mut out, mut fields) = (PROLOGUE.to_vec(), Vec::new());
    let all = decoder.decode(block, bounds, &mut out, |out, field| {
        let (mut name, value) = (field.name.of(out).to_vec(), field.value.of(out).to_vec());
        if name.is_empty() && (field.value.end as usize) <= PROLOGUE.len() {
            // A pseudo-field of the static table, whose name the decoder does not return.
            name = match field.kind {
                Kind::Method => b":method".to_vec(),
                Kind::Path => b":path".to_vec(),
                Kind::Scheme => b":scheme".to_vec(),
                _ => name,
            };
        }
        assert_eq!(field.kind, Kind::of(&name, &value), "{}: {}", name.escape_ascii(), value.escape_ascii());
        fields.push((name, value));
    })?;
    assert!(out.starts_with(PROLOGUE));
    Ok((fields, all))
}

/// Decodes one block after the other, and compares the fields and the size of the table.
fn check(most: usize, blocks: &[(&str, &[&str], usize)]) {
    let mut decoder = Decoder::new();
    if most < 4096 {
        // The examples have a smaller table from the start.
        let mut resize = Vec::new();
        integer::encode(most, 5, 0x20, &mut resize);
        assert_eq!(decode(&mut decoder, &resize, LARGE), Ok((vec![], true)));
    }
    for (block, fields, size) in blocks {
        let (found, _) = decode(&mut decoder, &bytes(block), LARGE).expect("a valid block");
        let lines = found.iter().map(|(name, value)| [name, &b": "[..], value].concat()).collect::<Vec<_>>();
        assert!(lines.iter().eq(fields.iter().map(|line| line.as_bytes())), "{lines:?}");
        assert_eq!(decoder.table().size(), *size);
    }
}

#[test]
fn representations() {
    // C.2.
    check(4096, &[("400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572", &["custom-key: custom-header"], 55)]);
    check(4096, &[("040c 2f73 616d 706c 652f 7061 7468", &[":path: /sample/path"], 0)]);
    check(4096, &[("1008 7061 7373 776f 7264 0673 6563 7265 74", &["password: secret"], 0)]);
    check(4096, &[("82", &[":method: GET"], 0)]);
}

const FIRST: &[&str] = &[":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"];
const SECOND: &[&str] =
    &[":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com", "cache-control: no-cache"];
const THIRD: &[&str] =
    &[":method: GET", ":scheme: https", ":path: /index.html", ":authority: www.example.com", "custom-key: custom-value"];

#[test]
fn requests() {
    // C.3, and C.4 with Huffman codes.
    check(
        4096,
        &[
            ("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", FIRST, 57),
            ("8286 84be 5808 6e6f 2d63 6163 6865", SECOND, 110),
            ("8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65", THIRD, 164),
        ],
    );
    check(
        4096,
        &[
            ("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", FIRST, 57),
            ("8286 84be 5886 a8eb 1064 9cbf", SECOND, 110),
            ("8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf", THIRD, 164),
        ],
    );
}

const FOUND: &[&str] =
    &[":status: 302", "cache-control: private", "date: Mon, 21 Oct 2013 20:13:21 GMT", "location: https://www.example.com"];
const AGAIN: &[&str] =
    &[":status: 307", "cache-control: private", "date: Mon, 21 Oct 2013 20:13:21 GMT", "location: https://www.example.com"];
const OKAY: &[&str] = &[
    ":status: 200",
    "cache-control: private",
    "date: Mon, 21 Oct 2013 20:13:22 GMT",
    "location: https://www.example.com",
    "content-encoding: gzip",
    "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
];

#[test]
fn responses_and_a_small_table() {
    // C.5, and C.6 with Huffman codes.
    check(
        256,
        &[
            (
                "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120
                 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
                FOUND,
                222,
            ),
            ("4803 3330 37c1 c0bf", AGAIN, 222),
            (
                "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738
                 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33
                 3630 303b 2076 6572 7369 6f6e 3d31",
                OKAY,
                215,
            ),
        ],
    );
    check(
        256,
        &[
            (
                "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718
                 63c7 8f0b 97c8 e9ae 82ae 43d3",
                FOUND,
                222,
            ),
            ("4883 640e ffc1 c0bf", AGAIN, 222),
            (
                "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7
                 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
                OKAY,
                215,
            ),
        ],
    );
}

#[test]
fn broken_blocks_are_refused() {
    for bad in [
        "80",                  // index 0
        "be",                  // an index beyond both tables
        "c0",                  // the same
        "ff80 8080 8000",      // an index that is too long
        "ff",                  // cut within an index
        "40",                  // cut before a name
        "4003 6162",           // cut within a name
        "4001 61",             // cut before a value
        "4001 6102 62",        // cut within a value
        "0f2f 0161",           // the name of an index beyond both tables
        "0001 6181 00",        // Huffman code that is not padded with ones
        "0001 6184 ffff ffff", // the end of a string within a string
        "8220",                // the size changes after a field
        "2020 20",             // the size changes three times
        "3fe2 1f",             // a size above 4096
        "3fff ffff ffff 7f",   // a size that is too long
        "3f",                  // cut within a size
    ] {
        assert_eq!(decode(&mut Decoder::new(), &bytes(bad), LARGE), Err(Fault::Invalid), "{bad}");
    }
    for good in ["", "20", "2020", "203f e11f 82", "8282", "0000 00"] {
        assert!(decode(&mut Decoder::new(), &bytes(good), LARGE).is_ok(), "{good}");
    }
}

#[test]
fn a_list_that_is_too_large_leaves_the_table_in_order() {
    let mut decoder = Decoder::new();
    // a: b and c: d, each put into the table.
    let block = bytes("4001 6101 6240 0163 0164");
    let bounds = Bounds { kept: 40, read: 68 };
    assert_eq!(decode(&mut decoder, &block, bounds), Ok((vec![(b"a".to_vec(), b"b".to_vec())], false)));
    let both = vec![(b"c".to_vec(), b"d".to_vec()), (b"a".to_vec(), b"b".to_vec())];
    assert_eq!(decode(&mut decoder, &bytes("bebf"), LARGE), Ok((both, true)));
    assert_eq!(decode(&mut decoder, &block, Bounds { kept: 40, read: 67 }), Err(Fault::Large));
}

#[test]
fn a_small_block_that_means_much_costs_little() {
    // One entry with 4,000 bytes, and its index again and again.
    let mut block = vec![0x40, 0x01, b'a', 0x7f, 0xa1, 0x1e];
    block.resize(block.len() + 4000, b'x');
    let mut decoder = Decoder::new();
    assert!(decode(&mut decoder, &block, LARGE).is_ok());
    let bomb = vec![0xbe; 16_384];
    let (mut out, mut given) = (PROLOGUE.to_vec(), 0);
    let bounds = Bounds { kept: 32 << 10, read: 128 << 10 };
    let result = decoder.decode(&bomb, bounds, &mut out, |_, _| given += 1);
    assert_eq!(result, Err(Fault::Large));
    assert!(out.capacity() <= 80 << 10 && given == 8, "{} {given}", out.capacity());
}

#[test]
fn kinds_are_kept_with_entries_and_judged_anew_for_other_values() {
    let mut decoder = Decoder::new();
    // A name with a value that it must not have, then the same name with another value.
    let block = bytes("4001 6101 0a be 7e01 62");
    let (fields, _) = decode(&mut decoder, &block, LARGE).expect("a valid block");
    assert_eq!(fields.len(), 3);
    assert_eq!(fields[2], (b"a".to_vec(), b"b".to_vec()));
}

#[test]
fn what_is_encoded_is_decoded() {
    let values: [&[u8]; 4] = [b"", b"v", &[b'x'; 127], &[b'y'; 5000]];
    let names: [&[u8]; 6] = [b"Content-Type", b"X-Y", b"Set-Cookie", b"ETag", b"www-authenticate", &[b'N'; 200]];
    let (mut block, mut wanted) = (vec![encoder::NO_TABLE], Vec::new());
    for status in [200, 201, 204, 206, 299, 304, 400, 404, 500, 599] {
        let digits = crate::h1::response::digits(status);
        encoder::status(status, digits, &mut block);
        wanted.push((b":status".to_vec(), digits.to_vec()));
    }
    for (name, value) in names.iter().flat_map(|name| values.map(|value| (name, value))) {
        encoder::field(name, crate::h1::names::find(name), value, &mut block);
        wanted.push((name.to_ascii_lowercase(), value.to_vec()));
    }
    for length in [0, 9, 10, u64::MAX] {
        encoder::content_length(length, &mut block);
        wanted.push((b"content-length".to_vec(), std::format!("{length}").into_bytes()));
    }
    assert_eq!(decode(&mut Decoder::new(), &block, LARGE), Ok((wanted, true)));
}

#[test]
fn huffman_codes_of_any_text_are_decoded() {
    let text = (0..=255).collect::<Vec<u8>>();
    let coded = huffman::tests::encode(&text);
    let mut block = vec![0x00, 0x01, b'a'];
    integer::encode(coded.len(), 7, 0x80, &mut block);
    block.extend(coded);
    assert_eq!(decode(&mut Decoder::new(), &block, LARGE), Ok((vec![(b"a".to_vec(), text)], true)));
}

#[test]
fn fields_whose_values_stand_in_the_output_count_like_others() {
    // `:method: GET` counts 42.
    let get = (b":method".to_vec(), b"GET".to_vec());
    let decode = |kept| decode(&mut Decoder::new(), &bytes("8282"), Bounds { kept, read: 84 });
    assert_eq!(decode(84), Ok((vec![get.clone(), get.clone()], true)));
    assert_eq!(decode(83), Ok((vec![get], false)));
    assert_eq!(decode(41), Ok((vec![], false)));
    let more = Bounds { kept: 10, read: 83 };
    assert_eq!(Decoder::new().decode(&bytes("8282"), more, &mut PROLOGUE.to_vec(), |_, _| ()), Err(Fault::Large));
}
