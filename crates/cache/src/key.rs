//! The key of a stored response: the URI, and the fields by which apps learn another one.
//!
//! A client must not be able to store a response that others get for another request. So everything that usual apps and
//! frameworks take for a part of the URI is in the key, and a request with a field that changes its path or its method is not
//! cached.

use oribi_message::{KnownField, RequestHead, TargetForm, is_same_variable};

/// The byte between the parts of a key. No part contains it.
pub(crate) const END: u8 = 0;

/// Fields by which apps learn scheme, host, port and prefix; with those that begin with `x-forwarded-`.
const OF_URI: &[&[u8]] = &[
    b"front-end-https",
    b"x-host",
    b"x-original-host",
    b"x-scheme",
    b"x-script-name",
    b"x-url-scheme",
    b"x-traversal-path",
    b"request-base",
];

/// Fields that change the path or the method for some apps.
const REWRITING: &[&[u8]] = &[
    b"x-http-method",
    b"x-http-method-override",
    b"x-method-override",
    b"x-original-uri",
    b"x-original-url",
    b"x-rewrite-url",
    b"x-accel-redirect",
    b"x-sendfile-type",
    b"x-accel-mapping",
];

const FORWARDED: &[u8] = b"x-forwarded-";

/// The meaning of a field for the key.
pub(crate) enum Meaning {
    /// It is not in the key.
    None,
    /// Its name and value are in the key.
    Keyed,
    /// The parts of it that name a host or a scheme are in the key.
    Forwarded,
    /// The request is not cached.
    Rewriting,
}

/// Returns the meaning of a field of a request.
#[inline]
pub(crate) fn meaning(known: Option<KnownField>, name: &[u8]) -> Meaning {
    match known {
        Some(KnownField::XForwardedHost | KnownField::XForwardedPort | KnownField::XForwardedProto) => Meaning::Keyed,
        Some(KnownField::Forwarded) => Meaning::Forwarded,
        Some(KnownField::XHttpMethodOverride) => Meaning::Rewriting,
        Some(_) => Meaning::None,
        None if matches!(name.first(), Some(b'x' | b'X' | b'f' | b'F' | b'r' | b'R')) => meaning_of_unknown(name),
        None => Meaning::None,
    }
}

fn meaning_of_unknown(name: &[u8]) -> Meaning {
    let is = |wanted: &[u8]| is_same_variable(name, wanted);
    let begins = name
        .split_at_checked(FORWARDED.len())
        .is_some_and(|(begin, rest)| !rest.is_empty() && is_same_variable(begin, FORWARDED));
    if REWRITING.iter().any(|wanted| is(wanted)) {
        Meaning::Rewriting
    } else if (begins && !is(b"x-forwarded-for")) || OF_URI.iter().any(|wanted| is(wanted)) {
        Meaning::Keyed
    } else {
        Meaning::None
    }
}

/// Begins a key with scheme, host and target. Returns `false` if the request has none.
#[inline]
pub(crate) fn begin(head: &RequestHead<'_>, https: bool, key: &mut Vec<u8>) -> bool {
    key.clear();
    let host = head.field(KnownField::Host).unwrap_or_default();
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(byte);
    let target = head.target();
    let is_plain = head.form() == TargetForm::Origin && !host.is_empty() && host.iter().all(plain) && !target.contains(&END);
    if is_plain {
        key.push(if https { b's' } else { b'p' });
        let start = key.len();
        key.extend_from_slice(host);
        key[start..].make_ascii_lowercase();
        key.push(END);
        key.extend_from_slice(target);
        key.push(END);
    }
    is_plain
}

/// Adds a field to a key.
pub(crate) fn add(name: &[u8], value: &[u8], key: &mut Vec<u8>) {
    let start = key.len();
    key.extend_from_slice(name);
    key[start..].make_ascii_lowercase();
    key.push(b':');
    key.extend_from_slice(value);
    key.push(END);
}

/// Adds the parameters of Forwarded that name a host or a scheme to a key. Each comma and semicolon ends a parameter, also in a
/// quoted string: so the key has at least the parameters that an app sees.
pub(crate) fn add_forwarded(value: &[u8], key: &mut Vec<u8>) {
    for parameter in value.split(|byte| b",;".contains(byte)) {
        let name = parameter.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
        if name.eq_ignore_ascii_case(b"host") || name.eq_ignore_ascii_case(b"proto") {
            add(b"forwarded", parameter.trim_ascii(), key);
        }
    }
}

/// Returns the key of another URI of the same site: `location` is a path, or a URL with the scheme and the host of `key`. `None`
/// if it is of another site, or relative to the path.
#[must_use]
pub fn same_site(key: &[u8], location: &[u8]) -> Option<Vec<u8>> {
    let mut parts = key.splitn(3, |byte| *byte == END);
    let (site, rest) = (parts.next()?, parts.nth(1)?);
    let (scheme, host) = site.split_first()?;
    let path = match location {
        [b'/', b'/', rest @ ..] => after_host(rest, host)?,
        [b'/', ..] => location,
        _ => {
            let prefix: &[u8] = if *scheme == b's' { b"https://" } else { b"http://" };
            let has = location.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
            after_host(location.get(prefix.len()..).filter(|_| has)?, host)?
        }
    };
    let path = path.split(|byte| *byte == b'#').next().unwrap_or_default();
    let path = if path.is_empty() { b"/" } else { path };
    let is_plain = path[0] == b'/' && !path.contains(&END);
    is_plain.then(|| [site, &[END], path, &[END], rest].concat())
}

fn after_host<'l>(location: &'l [u8], host: &[u8]) -> Option<&'l [u8]> {
    let same = location.get(..host.len()).is_some_and(|start| start.eq_ignore_ascii_case(host));
    let rest = location.get(host.len()..).filter(|_| same)?;
    matches!(rest, [] | [b'/' | b'#', ..]).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_of_the_same_site_or_of_none() {
        let key = b"sa.example:8443\0/form?x\0x-forwarded-host:b\0";
        let other = |location: &str| same_site(key, location.as_bytes()).map(|key| String::from_utf8(key).expect("ASCII"));
        let expected = |path: &str| Some(format!("sa.example:8443\0{path}\0x-forwarded-host:b\0"));
        assert_eq!(other("/a?b#c"), expected("/a?b"));
        assert_eq!(other("HTTPS://A.example:8443/a"), expected("/a"));
        assert_eq!(other("https://a.example:8443"), expected("/"));
        assert_eq!(other("//a.example:8443/a"), expected("/a"));
        for location in
            ["http://a.example:8443/a", "https://a.example/a", "https://a.example:8443.evil/a", "a", "?x", "", "//b/"]
        {
            assert_eq!(other(location), None, "{location}");
        }
        assert_eq!(same_site(b"", b"/"), None);
    }
}
