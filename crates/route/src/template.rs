//! Texts with variables of a request: targets of redirects, and of requests that are rewritten.

use crate::captures::PathExpressions;
use crate::escape::{push_encoded, push_path, push_path_in_query, push_value};
use crate::normal::{normalize, split};
use crate::request::{RequestView, Scheme};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;
use memchr::memchr;

/// The longest result, in bytes.
pub const MOST_TEMPLATE_BYTES: usize = 64 << 10;

/// A text with variables. A variable is `$NAME` or `${NAME}`:
///
/// | variable | stands for |
/// |---|---|
/// | `$scheme` | `http` or `https` |
/// | `$host` | the name in Host, without its port |
/// | `$method` | the method |
/// | `$remote_addr` | the address of the client |
/// | `$request_uri` | path and query as they were sent |
/// | `$uri` | the path in its normal form |
/// | `$args` | the query as it was sent |
/// | `$arg_NAME` | the first value of a parameter of the query |
/// | `$header_NAME` | the first value of a field; `_` in the name stands for `-`, too |
/// | `$cookie_NAME` | the value of a cookie |
/// | `$1`, `$name` | a group of the regular expression of the path condition |
/// | `$dollar` | `$` |
///
/// A value has the escapes that it needs in a target, behind a `?` also those that keep it one value; the text between variables
/// stays as it is. A variable without a value is
/// empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Vec<u8>),
    Scheme,
    Host,
    Method,
    RemoteAddress,
    RequestUri,
    Uri,
    Query,
    Argument(Vec<u8>),
    Field(Vec<u8>),
    Cookie(Vec<u8>),
    Group(String),
}

/// The values of variables.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    /// The request.
    pub request: RequestView<'a>,
    /// Path and query as the client has sent them; those of `request` may be rewritten.
    pub request_uri: &'a [u8],
    /// The path in its normal form.
    pub path: &'a [u8],
    /// The name in Host, without port; `None` if the request has none or an unusable one.
    pub host: Option<&'a [u8]>,
    /// The expressions of the path condition that the request has met.
    pub expressions: &'a PathExpressions,
}

/// The reason why a template has no result for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoResult {
    /// The request has no usable host.
    Host,
    /// The result would have more than [`MOST_TEMPLATE_BYTES`].
    TooLong,
}

impl Template {
    /// Parses a template. `groups` are those of the path condition ([`PathExpressions::groups`]).
    ///
    /// # Errors
    /// The name of the first variable that does not exist.
    pub fn parse(text: &str, groups: &[String]) -> Result<Self, String> {
        Self::read(text, groups, &mut |name| Err(name.to_owned()))
    }

    /// The same for a text in which a variable that does not exist stands for itself, as in `/?a=$b`.
    #[must_use]
    pub fn parse_lenient(text: &str, groups: &[String]) -> Self {
        Self::read(text, groups, &mut |_| Ok(())).unwrap_or_else(|_| Self(Vec::new()))
    }

    fn read(text: &str, groups: &[String], unknown: &mut dyn FnMut(&str) -> Result<(), String>) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut plain = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            plain.extend_from_slice(before.as_bytes());
            let (name, behind) = name(after);
            rest = behind;
            if name == "dollar" {
                plain.push(b'$');
                continue;
            }
            let Some(part) = Part::named(name, groups) else {
                unknown(name)?;
                plain.push(b'$');
                rest = after;
                continue;
            };
            if !plain.is_empty() {
                parts.push(Part::Text(core::mem::take(&mut plain)));
            }
            parts.push(part);
        }
        plain.extend_from_slice(rest.as_bytes());
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self(parts))
    }

    /// Appends the text for a request.
    ///
    /// # Errors
    /// The reason why there is none; `to` then has a part of it.
    pub fn write(&self, values: &Values<'_>, to: &mut Vec<u8>) -> Result<(), NoResult> {
        let start = to.len();
        let captures =
            if self.0.iter().any(|part| matches!(part, Part::Group(_))) { values.expressions.find(values.path) } else { None };
        let push_part_of_path = |path: &[u8], to: &mut Vec<u8>| {
            if memchr(b'?', &to[start..]).is_some() { push_path_in_query(path, to) } else { push_path(path, to) }
        };
        for part in &self.0 {
            let request = &values.request;
            match part {
                Part::Text(text) => to.extend_from_slice(text),
                Part::Scheme => to.extend_from_slice(if request.scheme == Scheme::Https { b"https" } else { b"http" }),
                Part::Host => to.extend_from_slice(values.host.ok_or(NoResult::Host)?),
                Part::Method => push_value(request.method, to),
                Part::RemoteAddress => {
                    let mut text = String::new();
                    if let Some(address) = request.source {
                        // Writing to a string does not fail.
                        let _ = write!(text, "{address}");
                    }
                    push_encoded(text.as_bytes(), to);
                }
                Part::RequestUri => push_encoded(values.request_uri, to),
                Part::Uri => push_part_of_path(values.path, to),
                Part::Query => push_encoded(query(request.target), to),
                Part::Argument(name) => push_value(&argument(query(request.target), name), to),
                Part::Field(name) => {
                    let mut value = Vec::new();
                    request.fields.any_similar(name, |found| {
                        value.extend_from_slice(found);
                        true
                    });
                    push_value(&value, to);
                }
                Part::Cookie(name) => {
                    let mut value = Vec::new();
                    request.fields.any_similar(b"cookie", |line| {
                        let found = cookie(line, name);
                        value.extend_from_slice(found.unwrap_or_default());
                        found.is_some()
                    });
                    push_value(&value, to);
                }
                Part::Group(name) => {
                    let group = captures.as_ref().and_then(|captures| match name.parse() {
                        Ok(number) => captures.get(number),
                        Err(_) => captures.name(name),
                    });
                    push_part_of_path(group.map_or(&[], |group| group.as_bytes()), to);
                }
            }
            if to.len() - start > MOST_TEMPLATE_BYTES {
                return Err(NoResult::TooLong);
            }
        }
        Ok(())
    }

    /// Writes the target of a rewritten request: path and query. The path is in its normal form, with the escapes that it needs.
    /// The query is that of the template if it writes a `?`, and otherwise that of the request. The normal form of the path
    /// replaces `normal`.
    ///
    /// # Errors
    /// The reason why there is none.
    pub fn rewrite(&self, values: &Values<'_>, normal: &mut Vec<u8>) -> Result<Vec<u8>, NoResult> {
        let mut written = Vec::from(b"/");
        self.write(values, &mut written)?;
        let end = memchr(b'?', &written).unwrap_or(written.len());
        normalize(&written[..end], normal);
        let mut target = Vec::with_capacity(written.len());
        push_path(normal, &mut target);
        let own = written.get(end + 1..).unwrap_or_else(|| query(values.request.target));
        // `&$args` for a request without a query.
        let own = own.strip_suffix(b"&").unwrap_or(own);
        if !own.is_empty() {
            target.push(b'?');
            push_encoded(own, &mut target);
        }
        if target.len() > MOST_TEMPLATE_BYTES { Err(NoResult::TooLong) } else { Ok(target) }
    }
}

impl Part {
    fn named(name: &str, groups: &[String]) -> Option<Self> {
        let with =
            |prefix: &str| name.strip_prefix(prefix).filter(|rest| !rest.is_empty()).map(|rest| rest.as_bytes().to_vec());
        Some(match name {
            "scheme" => Self::Scheme,
            "host" => Self::Host,
            "method" => Self::Method,
            "remote_addr" => Self::RemoteAddress,
            "request_uri" => Self::RequestUri,
            "uri" => Self::Uri,
            "args" => Self::Query,
            _ if groups.iter().any(|group| group == name) => Self::Group(name.to_owned()),
            _ => {
                let argument = with("arg_").map(Self::Argument);
                argument.or_else(|| with("header_").map(Self::Field)).or_else(|| with("cookie_").map(Self::Cookie))?
            }
        })
    }
}

/// The name of a variable behind its `$`, and the rest. The name is empty if there is none.
fn name(text: &str) -> (&str, &str) {
    if let Some((name, rest)) = text.strip_prefix('{').and_then(|inside| inside.split_once('}')) {
        return (name, rest);
    }
    let is_number = text.starts_with(|letter: char| letter.is_ascii_digit());
    let fits = |letter: char| if is_number { letter.is_ascii_digit() } else { letter.is_ascii_alphanumeric() || letter == '_' };
    text.split_at(text.find(|letter| !fits(letter)).unwrap_or(text.len()))
}

/// The query of a target, empty if there is none.
fn query(target: &[u8]) -> &[u8] {
    let target = split(target).1.unwrap_or_default();
    memchr(b'?', target).map_or(&[], |end| &target[end + 1..])
}

/// The decoded value of the first parameter with a name.
fn argument(query: &[u8], name: &[u8]) -> Vec<u8> {
    let mut pairs = crate::query::Pairs::default();
    let mut value = Vec::new();
    pairs.any(query, name, |found| {
        value.extend_from_slice(found);
        true
    });
    value
}

/// The value of a cookie in a line of the field.
fn cookie<'l>(line: &'l [u8], name: &[u8]) -> Option<&'l [u8]> {
    line.split(|byte| *byte == b';').find_map(|pair| pair.trim_ascii().strip_prefix(name)?.strip_prefix(b"="))
}

/// Says which variables there are.
#[must_use]
pub fn unknown_variable(name: &str) -> String {
    if name.starts_with(|letter: char| letter.is_ascii_digit()) {
        return format!("no regular expression of the path condition has the group {name}");
    }
    let known = "$uri, $request_uri, $args, $arg_NAME, $host, $scheme, $method, $remote_addr, $header_NAME, $cookie_NAME, $dollar \
         and the groups of a regular expression of the path condition";
    format!("unknown variable; there are {known}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::FieldLines;
    use alloc::string::ToString;

    const FIELDS: &[(&[u8], &[u8])] =
        &[(b"X-Tenant", b"a/../b"), (b"Cookie", b"x=1; id=7%"), (b"cookie", b"id=8"), (b"X-Evil", b"a b\"\xff")];

    fn request(target: &str) -> RequestView<'_> {
        RequestView {
            method: b"GET",
            scheme: Scheme::Https,
            host: Some(b"example.com:80"),
            target: target.as_bytes(),
            source: Some([192, 0, 2, 1].into()),
            destination: None,
            fields: FieldLines::Pairs(FIELDS),
        }
    }

    fn with_values<T>(target: &str, patterns: &[&str], act: impl FnOnce(&[String], &Values<'_>) -> T) -> T {
        let patterns: Vec<String> = patterns.iter().map(ToString::to_string).collect();
        let expressions = PathExpressions::of(&patterns);
        let mut path = Vec::new();
        let request = request(target);
        let sent = split(request.target).1.unwrap_or_default();
        let end = memchr(b'?', sent).unwrap_or(sent.len());
        normalize(if end == 0 { b"/" } else { &sent[..end] }, &mut path);
        let values = Values { request, request_uri: sent, path: &path, host: Some(b"example.com"), expressions: &expressions };
        act(&expressions.groups(), &values)
    }

    fn written(text: &str, target: &str) -> String {
        with_values(target, &["~^/(?P<kind>[a-z]+)/(.*)$"], |groups, values| {
            let mut result = Vec::new();
            Template::parse_lenient(text, groups).write(values, &mut result).expect("it has a host and is short");
            String::from_utf8(result).expect("it is ASCII")
        })
    }

    fn rewritten(text: &str, target: &str) -> (String, String) {
        with_values(target, &["~^/(?P<kind>[a-z]+)/(.*)$"], |groups, values| {
            let mut normal = Vec::new();
            let target = Template::parse(text, groups).expect("it is valid").rewrite(values, &mut normal).expect("it is short");
            (String::from_utf8(target).expect("it is ASCII"), String::from_utf8_lossy(&normal).into_owned())
        })
    }

    #[test]
    fn each_variable_has_its_value() {
        for (text, expected) in [
            ("$scheme://$host$request_uri", "https://example.com/a/b%20c?d=e%2F&f&g=%0d"),
            ("${uri}x", "/a/b%20cx"),
            ("?$args", "?d=e%2F&f&g=%0d"),
            ("$arg_d-$arg_f-$arg_g-$arg_none-", "e%2F--%0D--"),
            ("$method $remote_addr", "GET 192.0.2.1"),
            ("$header_x_tenant ${header_X-Tenant}", "a%2F..%2Fb a%2F..%2Fb"),
            ("${header_x-tenant}${cookie_id}", "a%2F..%2Fb7%25"),
            ("$header_x_evil", "a%20b%22%FF"),
            ("$1-$2-$kind-$0-$3", "a-b%20c-a-/a/b%20c-$3"),
            ("$dollar$ $$uri $unknown ${unknown} ${uri", "$$ $/a/b%20c $unknown ${unknown} ${uri"),
        ] {
            assert_eq!(written(text, "/a/b%20c?d=e%2F&f&g=%0d"), expected, "{text}");
        }
        assert_eq!(written("$uri$args$1", "http://h"), "/");
    }

    #[test]
    fn a_rewritten_path_is_in_its_normal_form() {
        for (text, target, expected, path) in [
            ("/new$uri", "/a/b?c=d", "/new/a/b?c=d", "/new/a/b"),
            ("/new", "/a", "/new", "/new"),
            ("new", "/a", "/new", "/new"),
            ("/new?x=1", "/a?c=d", "/new?x=1", "/new"),
            ("/new?", "/a?c=d", "/new", "/new"),
            ("/new?x=1&$args", "/a?c=d", "/new?x=1&c=d", "/new"),
            ("/new?x=1&$args", "/a", "/new?x=1", "/new"),
            ("/new?id=$2&u=$uri", "/u/7%26b=1+2;q", "/new?id=7%26b%3D1%2B2%3Bq&u=/u/7%26b%3D1%2B2%3Bq", "/new"),
            ("/$2?k=$1", "/a/b/c?c=d", "/b/c?k=a", "/b/c"),
            ("/${request_uri}", "/a%2fb/../c?d", "/a/c?d", "/a/c"),
            ("/o%6Fo", "/", "/ooo", "/ooo"),
            ("/x/../$header_x_tenant", "/", "/b", "/b"),
            ("/$arg_x", "/?x=../../etc/%00%0d%0a%3f%23", "/etc/%00%0D%0A%3F%23?x=../../etc/%00%0d%0a%3f%23", "/etc/\0\r\n?#"),
            ("$uri", "/%2e%2e/%252e%252e/%2525", "/%252e%252e/%2525", "/%2e%2e/%25"),
            ("/\u{e9} a", "/", "/%C3%A9%20a", "/\u{e9} a"),
            ("//evil.example", "/", "/evil.example", "/evil.example"),
        ] {
            assert_eq!(rewritten(text, target), (expected.to_owned(), path.to_owned()), "{text} of {target}");
        }
    }

    #[test]
    fn an_unknown_variable_is_an_error() {
        let parse = |text: &str| Template::parse(text, &["0".to_owned(), "id".to_owned()]).map(|_| ());
        for text in ["/$uri/${host}x$arg_a${header_a-b}$id$0$dollar", "/"] {
            assert_eq!(parse(text), Ok(()), "{text}");
        }
        for (text, name) in [("/$urix", "urix"), ("/$1", "1"), ("/$", ""), ("/${uri", ""), ("/$arg_", "arg_"), ("/${}", "")] {
            assert_eq!(parse(text), Err(name.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_result_has_a_bound_and_needs_a_host() {
        let target = format!("/{}", "%20".repeat(5000));
        with_values(&target, &[], |groups, values| {
            let long = Template::parse(&"$uri".repeat(1000), groups).expect("it is valid");
            assert_eq!(long.rewrite(values, &mut Vec::new()), Err(NoResult::TooLong));
            let host = Template::parse("/$host", groups).expect("it is valid");
            let values = Values { host: None, ..*values };
            assert_eq!(host.rewrite(&values, &mut Vec::new()), Err(NoResult::Host));
        });
    }
}
