//! Properties of all variables that a web server can send. The result is compared with a plain reading of them.

use crate::fastcgi_transcript::{Head, head};
use crate::records::{Pair, pair, pairs};
use oribi_proto::fcgi::{Limits, Refusal};

/// Checks the variables in `data`. The first byte chooses the limits, and whether the rest has encoded pairs or one pair on
/// each line.
pub fn check(data: &[u8]) {
    let [choice, rest @ ..] = data else { return };
    let bytes = match choice % 2 {
        0 => rest.to_vec(),
        _ => {
            let lines = rest.split(|&byte| byte == b'\n').map(|line| {
                let equals = line.iter().position(|&byte| byte == b'=').unwrap_or(line.len());
                pair(&line[..equals], line.get(equals + 1..).unwrap_or_default())
            });
            lines.collect::<Vec<_>>().concat()
        }
    };
    let small = usize::from(*choice);
    let limits = match choice {
        0..192 => Limits::default(),
        192.. => Limits {
            params_bytes: small,
            pairs: small % 16,
            target_bytes: small % 24,
            strict_target: small % 2 == 0,
            content_bytes: u64::from(choice % 32),
            ..Limits::default()
        },
    };
    match head(&mut bytes.clone(), &limits) {
        Ok(head) => {
            let (pairs, whole) = pairs(&bytes);
            assert!(whole);
            compare(&head, &pairs, &limits);
        }
        Err(refusal) => check_refusal(refusal, &bytes, &limits),
    }
}

fn compare(head: &Head, pairs: &[Pair], limits: &Limits) {
    assert!(pairs.len() <= limits.pairs && head.target.len() <= limits.target_bytes);
    let is_field = |pair: &&Pair| pair.0.starts_with(b"HTTP_");
    let mut variables = Vec::<Pair>::new();
    for (name, value) in pairs.iter().filter(|pair| !is_field(pair) && pair.0 != b"Authorization") {
        match variables.iter_mut().find(|variable| variable.0 == *name) {
            Some(variable) => variable.1.clone_from(value),
            None => variables.push((name.clone(), value.clone())),
        }
    }
    assert_eq!(head.variables, variables);
    let value = |name: &str| {
        let found = variables.iter().find(|variable| variable.0 == name.as_bytes());
        found.map(|variable| &variable.1[..]).filter(|value| !value.is_empty())
    };

    let mut fields = pairs.iter().filter(is_field).filter_map(|(name, value)| field(&name[5..], value)).collect::<Vec<_>>();
    // If there are several, the last Host counts.
    if let Some(last) = fields.iter().rposition(|field| field.0 == b"host") {
        let mut number = 0..;
        fields.retain(|field| number.next() == Some(last) || field.0 != b"host");
    }
    let forwarded = pairs.iter().rfind(|pair| pair.0 == b"Authorization");
    if let Some((name, value)) = forwarded.filter(|_| fields.iter().all(|field| field.0 != b"authorization")) {
        fields.extend(field(name, value));
    }
    fields.extend(value("CONTENT_TYPE").map(|value| (b"content-type".to_vec(), trim(value))));
    assert_eq!(head.fields, fields);
    for (name, value) in &head.fields {
        assert!(!matches!(&name[..], b"proxy" | b"content-length" | b""));
        assert!(value.iter().all(|byte| *byte == b'\t' || !byte.is_ascii_control()));
    }

    assert_eq!(head.method, value("REQUEST_METHOD").unwrap_or(b"GET"));
    assert_eq!(head.version, if value("SERVER_PROTOCOL") == Some(b"HTTP/1.0") { "HTTP/1.0" } else { "HTTP/1.1" });
    assert_eq!(head.outline.bodiless, head.method == b"HEAD");
    let length = value("CONTENT_LENGTH").map(|digits| String::from_utf8(digits.to_vec()).expect("digits"));
    assert_eq!(head.outline.content_length, length.map(|digits| digits.parse().expect("a number")));
    assert!(head.outline.content_length.is_none_or(|length| length <= limits.content_bytes));

    assert!(head.target.iter().all(|byte| may_stand_in_target(*byte, limits)));
    match value("REQUEST_URI") {
        Some(target) => assert_eq!(head.target, target),
        None => {
            let path = [value("SCRIPT_NAME"), value("PATH_INFO")].into_iter().flatten().collect::<Vec<_>>().concat();
            let path = if path.starts_with(b"/") { path } else { [b"/", &path[..]].concat() };
            assert_eq!(decode(&head.path), path);
            assert_eq!(head.query.is_some(), value("QUERY_STRING").is_some());
            assert_eq!(decode(&head.query.clone().unwrap_or_default()), decode(value("QUERY_STRING").unwrap_or_default()));
        }
    }
}

fn may_stand_in_target(byte: u8, limits: &Limits) -> bool {
    (byte.is_ascii_graphic() && byte != b'#') || (!byte.is_ascii() && !limits.strict_target)
}

/// The field of a variable, if it is accepted.
fn field(name: &[u8], value: &[u8]) -> Option<Pair> {
    let name = name.iter().map(|byte| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() }).collect::<Vec<_>>();
    let token = name.iter().all(|byte| byte.is_ascii_graphic() && !b"\"(),/:;<=>?@[\\]{}".contains(byte));
    let taken = token && !matches!(&name[..], b"" | b"proxy" | b"content-type" | b"content-length");
    taken.then(|| (name, trim(value)))
}

fn trim(value: &[u8]) -> Vec<u8> {
    let outside = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = value.iter().position(|byte| !outside(byte)).unwrap_or(value.len());
    let end = value.iter().rposition(|byte| !outside(byte)).map_or(start, |last| last + 1);
    value[start..end].to_vec()
}

fn decode(mut text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::new();
    while let [first, rest @ ..] = text {
        text = rest;
        let digits = rest.first_chunk::<2>().filter(|digits| *first == b'%' && digits.iter().all(u8::is_ascii_hexdigit));
        match digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()) {
            Some(byte) => {
                decoded.push(byte);
                text = &rest[2..];
            }
            None => decoded.push(*first),
        }
    }
    decoded
}

/// Checks that the pairs in `bytes` really have the fault that the refusal names.
fn check_refusal(refusal: Refusal, bytes: &[u8], limits: &Limits) {
    let (all, whole) = pairs(bytes);
    let last = |name: &str| {
        assert!(whole);
        all.iter().rfind(|pair| pair.0 == name.as_bytes()).map(|pair| &pair.1[..]).unwrap_or_default()
    };
    match (refusal.status(), refusal.reason()) {
        (431, "the variables of the request exceed the limit") => assert!(bytes.len() > limits.params_bytes),
        (431, "too many variables") => assert!(all.len() > limits.pairs),
        (400, "the variables end within a name or value") => assert!(!whole),
        (400, "control byte in a field value") => {
            assert!(all.iter().any(|pair| pair.1.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t')));
        }
        (400, "invalid Host") => assert!(all.iter().any(|pair| pair.0.eq_ignore_ascii_case(b"HTTP_HOST"))),
        (400, "the method is not a token") | (501, "unknown method") => assert_ne!(last("REQUEST_METHOD"), b""),
        (501, "no tunnels here") => assert_eq!(last("REQUEST_METHOD"), b"CONNECT"),
        (414, _) => {
            let parts = ["REQUEST_URI", "SCRIPT_NAME", "PATH_INFO", "QUERY_STRING"].map(|name| last(name).len());
            assert!(3 * parts.iter().sum::<usize>() + 2 > limits.target_bytes);
        }
        (400, "invalid CONTENT_LENGTH") | (413, _) => assert_ne!(last("CONTENT_LENGTH"), b""),
        (400, _) => assert_ne!(last("REQUEST_URI"), b"", "{refusal:?}"),
        _ => panic!("{refusal:?}"),
    }
}
