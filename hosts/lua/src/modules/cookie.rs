//! Cookies (RFC 6265): parses the field of a browser, and formats the field that sets one.

use std::time::{Duration, UNIX_EPOCH};

/// The cookies of a Cookie field, in order. A part without `=` is not a cookie; quotes around a value are removed.
pub fn parse(field: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    field.split(|&byte| byte == b';').filter_map(|pair| {
        let at = memchr::memchr(b'=', pair)?;
        let (name, value) = (pair[..at].trim_ascii(), pair[at + 1..].trim_ascii());
        let bare = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value);
        (!name.is_empty()).then_some((name, bare))
    })
}

/// The attributes of a cookie for the browser.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The paths for which it is sent; `None` means the directory of the page that sets it.
    pub path: Option<String>,
    /// The domain, with its subdomains, to which it is sent; `None` means only the host that sets it.
    pub domain: Option<String>,
    /// Seconds for which the browser keeps it; 0 or less deletes it; `None` keeps it until the browser ends.
    pub max_age: Option<i64>,
    /// The time of its end, in seconds since 1970.
    pub expires: Option<u64>,
    /// Whether it is sent only over encrypted connections.
    pub secure: bool,
    /// Whether it is hidden from the scripts of pages.
    pub http_only: bool,
    /// Whether to send it with requests that other sites cause.
    pub same_site: Option<SameSite>,
    /// Whether it is kept separately for each embedding site.
    pub partitioned: bool,
}

/// The requests of other sites with which a cookie is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SameSite {
    /// With none.
    Strict,
    /// With requests for a link to the site.
    Lax,
    /// With all; such a cookie must be [secure](Attributes::secure).
    None,
}

/// The value of a Set-Cookie field.
///
/// # Errors
/// The name, the value or an attribute contains characters by which it could add another attribute or field.
pub fn set(name: &str, value: &[u8], attributes: &Attributes) -> Result<String, String> {
    // RFC 9110, section 5.6.2: a token.
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(token) {
        return Err(format!("`{}` cannot be the name of a cookie", name.escape_debug()));
    }
    // RFC 6265, section 4.1.1: cookie-octet.
    let octet = |&byte: &u8| byte.is_ascii_graphic() && !b"\",;\\".contains(&byte);
    let Some(value) = std::str::from_utf8(value).ok().filter(|value| value.as_bytes().iter().all(octet)) else {
        return Err(format!("the value of the cookie {name} must be encoded, for instance by luafcgid.urlencode"));
    };
    let mut text = format!("{name}={value}");
    for (attribute, value) in [("Path", &attributes.path), ("Domain", &attributes.domain)] {
        let Some(value) = value else { continue };
        if value.is_empty() || !value.bytes().all(|byte| (0x20..0x7f).contains(&byte) && byte != b';') {
            return Err(format!("`{}` cannot be the {attribute} of a cookie", value.escape_debug()));
        }
        text.push_str(&format!("; {attribute}={value}"));
    }
    if let Some(seconds) = attributes.max_age {
        text.push_str(&format!("; Max-Age={seconds}"));
    }
    if let Some(seconds) = attributes.expires {
        // The last second for which an HTTP date has room: the end of the year 9999.
        let time = UNIX_EPOCH + Duration::from_secs(seconds.min(253_402_300_799));
        text.push_str(&format!("; Expires={}", httpdate::fmt_http_date(time)));
    }
    if attributes.same_site == Some(SameSite::None) && !attributes.secure {
        return Err(format!("the cookie {name} is SameSite=None and not Secure: browsers refuse it"));
    }
    for (on, words) in [
        (attributes.secure, "; Secure"),
        (attributes.http_only, "; HttpOnly"),
        (attributes.same_site == Some(SameSite::Strict), "; SameSite=Strict"),
        (attributes.same_site == Some(SameSite::Lax), "; SameSite=Lax"),
        (attributes.same_site == Some(SameSite::None), "; SameSite=None"),
        (attributes.partitioned, "; Partitioned"),
    ] {
        if on {
            text.push_str(words);
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_read() {
        let read = |field: &str| -> Vec<(String, String)> {
            let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
            parse(field.as_bytes()).map(|(name, value)| (shown(name), shown(value))).collect()
        };
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        for (field, expected) in [
            ("", vec![]),
            ("a=1", vec![pair("a", "1")]),
            ("a=1; b=2;c=3 ;", vec![pair("a", "1"), pair("b", "2"), pair("c", "3")]),
            ("a=1; a=2", vec![pair("a", "1"), pair("a", "2")]),
            ("a=b=c", vec![pair("a", "b=c")]),
            ("a=\"x y\"; b=\"", vec![pair("a", "x y"), pair("b", "\\\"")]),
            ("lonely; =x; a=", vec![pair("a", "")]),
        ] {
            assert_eq!(read(field), expected, "{field}");
        }
    }

    #[test]
    fn cookies_are_written() {
        assert_eq!(set("a", b"1", &Attributes::default()).as_deref(), Ok("a=1"));
        let all = Attributes {
            path: Some("/".to_owned()),
            domain: Some("example.org".to_owned()),
            max_age: Some(-1),
            expires: Some(784_111_777),
            secure: true,
            http_only: true,
            same_site: Some(SameSite::None),
            partitioned: true,
        };
        let expected = "a=; Path=/; Domain=example.org; Max-Age=-1; Expires=Sun, 06 Nov 1994 08:49:37 GMT; Secure; HttpOnly; \
                        SameSite=None; Partitioned";
        assert_eq!(set("a", b"", &all).as_deref(), Ok(expected));
        let late = Attributes { expires: Some(u64::MAX), ..Attributes::default() };
        assert_eq!(set("a", b"1", &late).as_deref(), Ok("a=1; Expires=Fri, 31 Dec 9999 23:59:59 GMT"));
    }

    #[test]
    fn nothing_is_smuggled_in() {
        let none = Attributes::default();
        for (name, value) in [("", "1"), ("a b", "1"), ("a=", "1"), ("a\r\n", "1")] {
            assert!(set(name, value.as_bytes(), &none).is_err(), "{name}");
        }
        for value in ["a;b", "a b", "a\r\nSet-Cookie: x=y", "\"a\"", "a,b", "a\\b", "\u{e9}", "\0"] {
            assert!(set("a", value.as_bytes(), &none).is_err(), "{value}");
        }
        for path in ["", "/; Domain=evil", "/\r\n", "/\u{e9}"] {
            let with_path = Attributes { path: Some(path.to_owned()), ..Attributes::default() };
            let with_domain = Attributes { domain: Some(path.to_owned()), ..Attributes::default() };
            assert!(set("a", b"1", &with_path).is_err() && set("a", b"1", &with_domain).is_err(), "{path}");
        }
        let refused = Attributes { same_site: Some(SameSite::None), ..Attributes::default() };
        assert!(set("a", b"1", &refused).is_err());
    }
}
