//! The treatment of a request by the cache.

use crate::control::{RequestControl, elements};
use crate::key::{self, Meaning};
use oribi_message::{KnownField, RequestHead};

/// The treatment of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// GET: a stored response may answer it, and its response may be stored.
    Get,
    /// HEAD: a stored response may answer it.
    Head,
    /// The method may change resources: if it succeeds, stored responses for its URI are invalid (RFC 9111, section 4.4).
    Unsafe,
    /// The app answers, and the cache takes no part.
    Bypass,
}

/// The facts about a request that matter to the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The treatment.
    pub class: Class,
    /// Whether the request has credentials in Authorization.
    pub has_authorization: bool,
    /// Whether the request has If-None-Match or If-Modified-Since.
    pub is_conditional: bool,
    /// Its directives; those of Pragma as well, if it has no Cache-Control.
    pub control: RequestControl,
}

/// Whether an option of Connection names no field on which responses depend.
fn names_no_field(option: &[u8]) -> bool {
    [&b"close"[..], b"keep-alive", b"te"].iter().any(|known| option.eq_ignore_ascii_case(known))
}

impl Request {
    /// Reads a request, and writes the key of its URI into `key`. `https`: whether the client uses https. `has_content`: whether
    /// the request has content.
    #[must_use]
    pub fn read(head: &RequestHead<'_>, https: bool, has_content: bool, key: &mut Vec<u8>) -> Self {
        let mut request =
            Self { class: class(head), has_authorization: false, is_conditional: false, control: RequestControl::default() };
        if request.class == Class::Bypass || !key::begin(head, https, key) {
            return Self { class: Class::Bypass, ..request };
        }
        let is_safe = request.class != Class::Unsafe;
        let (mut bypass, mut pragma, mut controls) = (is_safe && has_content, false, false);
        for (known, name, value) in head.fields() {
            match known {
                Some(KnownField::Authorization) => request.has_authorization = true,
                Some(KnownField::IfNoneMatch | KnownField::IfModifiedSince) => request.is_conditional = true,
                Some(KnownField::CacheControl) => {
                    controls = true;
                    request.control.read(value);
                }
                // A proxy drops the fields that Connection names, so the response would not depend on them.
                Some(KnownField::Connection) => bypass |= is_safe && !elements(value).all(names_no_field),
                Some(KnownField::Pragma) => pragma |= value.eq_ignore_ascii_case(b"no-cache"),
                // Parts of responses, other protocols, and conditions that only the app can evaluate.
                Some(
                    KnownField::Range
                    | KnownField::IfRange
                    | KnownField::Upgrade
                    | KnownField::IfMatch
                    | KnownField::IfUnmodifiedSince,
                ) => bypass |= is_safe,
                _ => match key::meaning(known, name) {
                    Meaning::None => {}
                    Meaning::Keyed => key::add(name, value, key),
                    Meaning::Forwarded => key::add_forwarded(value, key),
                    Meaning::Rewriting => bypass |= is_safe,
                },
            }
        }
        request.control.no_cache |= pragma && !controls;
        if bypass {
            request.class = Class::Bypass;
        }
        request
    }
}

fn class(head: &RequestHead<'_>) -> Class {
    match head.method() {
        b"GET" => Class::Get,
        b"HEAD" => Class::Head,
        b"OPTIONS" | b"TRACE" | b"CONNECT" | b"PROPFIND" | b"REPORT" | b"SEARCH" | b"QUERY" => Class::Bypass,
        _ => Class::Unsafe,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_message::{FieldLayout, HeadLayout, Span, TargetForm};

    /// Reads a request of these lines, of which the first one is method and target.
    fn read(https: bool, content: bool, lines: &[&str]) -> (Request, String) {
        let (mut bytes, mut layout) = (Vec::new(), HeadLayout::default());
        let mut append = |part: &str| {
            let start = bytes.len();
            bytes.extend_from_slice(part.as_bytes());
            Span::new(start, bytes.len())
        };
        let (method, target) = lines[0].split_once(' ').expect("method and target");
        (layout.method, layout.target) = (append(method), append(target));
        layout.form = if target.starts_with('/') { TargetForm::Origin } else { TargetForm::Absolute };
        for line in &lines[1..] {
            let (name, value) = line.split_once(": ").expect("a field");
            let known = KnownField::lookup(name.as_bytes());
            layout.fields.push(FieldLayout { name: append(name), value: append(value), known });
        }
        let mut key = b"rest".to_vec();
        let request = Request::read(&RequestHead::new(&bytes, &layout), https, content, &mut key);
        (request, String::from_utf8(key).expect("ASCII"))
    }

    fn class_of(lines: &[&str]) -> Class {
        read(false, false, lines).0.class
    }

    #[test]
    fn the_key_has_the_uri_and_nothing_that_a_client_is_free_to_choose() {
        let key = |lines: &[&str]| read(false, false, lines).1;
        let plain = key(&["GET /a?b", "Host: a.example:80"]);
        assert_eq!(plain, "pa.example:80\0/a?b\0");
        assert_eq!(plain, key(&["HEAD /a?b", "HOST: A.EXAMPLE:80", "Cookie: x", "User-Agent: y", "X-Forwarded-For: 1"]));
        assert_ne!(plain, key(&["GET /a?b", "Host: a.example"]));
        assert_ne!(plain, key(&["GET /a?B", "Host: a.example:80"]));
        assert_eq!(read(true, false, &["GET /a?b", "Host: a.example:80"]).1, "sa.example:80\0/a?b\0");
    }

    #[test]
    fn fields_that_apps_take_for_a_part_of_the_uri_are_in_the_key() {
        let plain = read(false, false, &["GET /", "Host: a"]).1;
        for field in [
            "X-Forwarded-Host: evil",
            "X-Forwarded-Proto: https",
            "x-forwarded-port: 1",
            "X-Forwarded-Prefix: /x",
            "X_Forwarded_Scheme: https",
            "X-Host: evil",
            "Front-End-Https: on",
            "Forwarded: for=1, Host=evil",
            "Forwarded: for=\"a;b\"; proto =https",
        ] {
            let (request, key) = read(false, false, &["GET /", "Host: a", field]);
            assert!(request.class == Class::Get && key != plain, "{field}");
        }
        for field in ["Forwarded: for=1;by=hosts", "X-Forwarded-For: 1", "X-Forwarded: 1", "X-Request-Id: 1"] {
            assert_eq!(read(false, false, &["GET /", "Host: a", field]).1, plain, "{field}");
        }
    }

    #[test]
    fn requests_that_are_not_plain_bypass_the_cache() {
        for field in [
            "Range: bytes=0-1",
            "If-Range: \"a\"",
            "If-Match: \"a\"",
            "If-Unmodified-Since: x",
            "Upgrade: websocket",
            "X-HTTP-Method-Override: POST",
            "X-HTTP-Method: DELETE",
            "x_method_override: DELETE",
            "X-Original-URL: /admin",
            "X-Rewrite-Url: /admin",
        ] {
            assert_eq!(class_of(&["GET /", "Host: a", field]), Class::Bypass, "{field}");
            assert_eq!(class_of(&["POST /", "Host: a", field]), Class::Unsafe, "{field}");
        }
        assert_eq!(class_of(&["GET /"]), Class::Bypass, "no host");
        assert_eq!(class_of(&["GET /", "Host: "]), Class::Bypass);
        assert_eq!(class_of(&["GET /", "Host: a b"]), Class::Bypass);
        assert_eq!(class_of(&["GET /", "Host: a/b"]), Class::Bypass);
        assert_eq!(class_of(&["GET http://a/", "Host: a"]), Class::Bypass);
        assert_eq!(class_of(&["OPTIONS /", "Host: a"]), Class::Bypass);
        assert_eq!(read(false, true, &["GET /", "Host: a"]).0.class, Class::Bypass, "a GET with content");
        assert_eq!(read(false, true, &["PATCH /", "Host: a"]).0.class, Class::Unsafe);
    }

    #[test]
    fn pragma_counts_without_cache_control_only() {
        let no_cache = |fields: &[&str]| {
            let lines: Vec<&str> = ["GET /", "Host: a"].iter().chain(fields).copied().collect();
            read(false, false, &lines).0.control.no_cache
        };
        assert!(no_cache(&["Pragma: no-cache"]) && no_cache(&["Cache-Control: no-cache"]));
        assert!(!no_cache(&["Pragma: no-cache", "Cache-Control: max-age=1"]) && !no_cache(&[]));
    }

    #[test]
    fn a_field_that_a_proxy_would_drop_makes_the_cache_step_aside() {
        let class = |options: &str| class_of(&["GET /", "Host: a", &format!("Connection: {options}")]);
        for options in ["close", "Keep-Alive", "close, te", "keep-alive,,close"] {
            assert_eq!(class(options), Class::Get, "{options}");
        }
        for options in ["Accept-Language", "close, accept-language"] {
            assert_eq!(class(options), Class::Bypass, "{options}");
        }
    }
}
