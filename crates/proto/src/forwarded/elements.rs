//! Reads lists from the right.

use crate::h1::grammar::{self, trim};

/// The members of a list in a field such as X-Forwarded-For, the last one first, including empty ones: they may mean a
/// client that was unknown to a proxy.
pub fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.rsplit(|byte| *byte == b',').map(trim)
}

/// The statement of one proxy in Forwarded (RFC 7239, section 4), as far as it matters here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Element<'a> {
    /// `for`: the client of the proxy.
    pub client: Option<&'a [u8]>,
    /// `proto`: the scheme of the request that the proxy received.
    pub scheme: Option<&'a [u8]>,
    /// `host`: the Host of that request.
    pub host: Option<&'a [u8]>,
    /// The name `host` as it was sent.
    pub host_name: &'a [u8],
}

/// The elements of a Forwarded field, the last one first. An invalid element is `None`, and the last one that is returned,
/// because the meaning of the text to its left is unknown.
pub fn elements(value: &[u8]) -> impl Iterator<Item = Option<Element<'_>>> {
    let mut rest = Some(value);
    core::iter::from_fn(move || {
        let all = rest?;
        let start = start_of_last(all);
        let element = start.and_then(|start| element(&all[start..]));
        // All text before the comma in front of this element.
        rest = if element.is_some() { start.and_then(|start| all.get(..start.checked_sub(1)?)) } else { None };
        Some(element)
    })
}

/// The start of the last element: after the last comma that is not within quotes. `None` if the quotes are not balanced, or if
/// a backslash may escape one of them, so that the quoted parts cannot be found from the right.
fn start_of_last(list: &[u8]) -> Option<usize> {
    let mut quoted = false;
    for (place, byte) in list.iter().enumerate().rev() {
        match byte {
            b'"' => quoted = !quoted,
            b'\\' => return None,
            b',' if !quoted => return Some(place + 1),
            _ => {}
        }
    }
    (!quoted).then_some(0)
}

/// Reads an element: `for="[2001:db8::1]:4711";proto=https;host=example.org`. No parameter may occur twice (RFC 7239, section
/// 4).
fn element(text: &[u8]) -> Option<Element<'_>> {
    let mut found = Element::default();
    let mut rest = trim(text);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        if let [b';', behind @ ..] = rest {
            rest = trim(behind);
            continue;
        }
        let (name, value, behind) = pair(rest)?;
        let place = match name {
            _ if name.eq_ignore_ascii_case(b"for") => &mut found.client,
            _ if name.eq_ignore_ascii_case(b"proto") => &mut found.scheme,
            _ if name.eq_ignore_ascii_case(b"host") => {
                found.host_name = name;
                &mut found.host
            }
            _ => &mut None,
        };
        if place.replace(value).is_some() {
            return None;
        }
        rest = trim(behind);
        if !matches!(rest, [] | [b';', ..]) {
            return None;
        }
    }
    Some(found)
}

/// Reads a name, its value without quotes, and the rest. A value that should be quoted but has no byte of a list or of white
/// space is accepted: many proxies write `for=192.0.2.1:80`.
fn pair(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let equals = text.iter().position(|byte| !grammar::is(*byte, grammar::TOKEN)).filter(|place| *place > 0)?;
    let (name, rest) = (&text[..equals], text[equals..].strip_prefix(b"=")?);
    if let Some(inside) = rest.strip_prefix(b"\"") {
        let end = inside.iter().position(|byte| *byte == b'"')?;
        return Some((name, &inside[..end], &inside[end + 1..]));
    }
    let end = rest.iter().position(|byte| matches!(byte, b';' | b'"' | b' ' | b'\t')).unwrap_or(rest.len());
    (end > 0).then(|| (name, &rest[..end], &rest[end..]))
}

#[cfg(test)]
mod tests {
    use super::{Element, elements, members};
    use std::string::String;
    use std::vec::Vec;

    /// Each element as `for|proto|host`, `-` for one that is not understood.
    fn told(value: &str) -> Vec<String> {
        let text = |part: Option<&[u8]>| part.map_or(String::new(), |part| String::from_utf8_lossy(part).into_owned());
        let show = |element: Option<Element<'_>>| match element {
            Some(Element { client, scheme, host, .. }) => [text(client), text(scheme), text(host)].join("|"),
            None => String::from("-"),
        };
        elements(value.as_bytes()).map(show).collect()
    }

    #[test]
    fn lists_are_read_from_the_right() {
        let all = |text: &'static str| members(text.as_bytes()).collect::<Vec<_>>();
        assert_eq!(all("a, b\t ,c"), [&b"c"[..], b"b", b"a"]);
        assert_eq!(all("a,,"), [&b""[..], b"", b"a"]);
        assert_eq!(all(""), [b""]);
    }

    #[test]
    fn elements_are_understood() {
        for (value, expected) in [
            ("for=192.0.2.1", &["192.0.2.1||"][..]),
            ("For=\"[2001:db8::1]:4711\";PROTO=https; host=\"a.de:8443\"", &["[2001:db8::1]:4711|https|a.de:8443"]),
            ("for=192.0.2.1:80, for=unknown;by=_x", &["unknown||", "192.0.2.1:80||"]),
            ("for=\"_a, b\" ,proto=http", &["|http|", "_a, b||"]),
            (";;for=_a;;", &["_a||"]),
            ("secret=1;host=\"\"", &["||"]),
        ] {
            assert_eq!(told(value), expected, "{value}");
        }
    }

    #[test]
    fn what_is_not_understood_ends_the_list_and_hides_nothing_right_of_it() {
        for (value, expected) in [
            ("", &["-"][..]),
            ("for=a,", &["-"]),
            ("for=evil, , for=b", &["b||", "-"]),
            ("for=evil, for, for=b", &["b||", "-"]),
            ("for=evil, for=, for=b", &["b||", "-"]),
            ("for=evil, =a, for=b", &["b||", "-"]),
            ("for=evil, for=a;for=c, for=b", &["b||", "-"]),
            ("for=evil, for=a b, for=b", &["b||", "-"]),
            ("for=evil, for=\"a\"b, for=b", &["b||", "-"]),
            ("for=\", for=b", &["b||", "-"]),
            ("for=\"a\\\", for=b", &["b||", "-"]),
            ("for=evil, for=\", for=\"[::1]\"", &["[::1]||", "-"]),
            ("for=evil, for=a\";by=\"b", &["-"]),
        ] {
            assert_eq!(told(value), expected, "{value}");
        }
    }
}
