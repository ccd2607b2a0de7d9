//! A request as CGI-style variables, the form that PSGI, Rack and similar interfaces use.
//!
//! The layout is the same for all languages: first the fixed variables in a fixed order, then content type and length, then
//! the fields as `HTTP_…`. Every name that can be interned has a number (a *key*), so that a host makes its language's key
//! objects once instead of once per request.
//!
//! `fields` limits the effects of field names, which clients choose. The variables of a web server in front follow the fixed
//! variables (see `gateway`).
//!
//! No step is repeated for each pair of fields, so the work grows linearly with the size of the head, apart from sorting.

mod fields;
mod gateway;

pub use gateway::{Rest, Split};

use crate::Request;
use fields::Fields;
use oribi_message::{KnownField, Span, TargetForm};

/// A number for a variable's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(pub u32);

/// The variables that every request has, in their order; the key of each is its index here.
pub const FIXED: [&str; 10] = [
    "REQUEST_METHOD",
    "SCRIPT_NAME",
    "PATH_INFO",
    "REQUEST_URI",
    "QUERY_STRING",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "REMOTE_ADDR",
    "REMOTE_PORT",
];
/// The values of these variables.
type Fixed<'a> = [&'a [u8]; FIXED.len()];

const CONTENT_TYPE: u32 = FIXED.len() as u32;
const CONTENT_LENGTH: u32 = CONTENT_TYPE + 1;
const HTTPS: u32 = CONTENT_LENGTH + 1;
const FIELDS: u32 = HTTPS + 1;

/// The interned names, in the order of their keys.
static NAMES: [&str; Key::count() as usize] = {
    let mut names = ["CONTENT_TYPE"; Key::count() as usize];
    let mut place = 0;
    while place < FIXED.len() {
        names[place] = FIXED[place];
        place += 1;
    }
    names[CONTENT_LENGTH as usize] = "CONTENT_LENGTH";
    names[HTTPS as usize] = "HTTPS";
    let mut field = 0;
    while field < KnownField::ALL.len() {
        names[FIELDS as usize + field] = KnownField::ALL[field].cgi_name();
        field += 1;
    }
    names
};

impl Key {
    /// A name that is not interned.
    pub const OTHER: Self = Self(u32::MAX);

    /// The number of interned names.
    #[must_use]
    pub const fn count() -> u32 {
        FIELDS + KnownField::ALL.len() as u32
    }

    /// The name of a key; `None` for [`Key::OTHER`].
    #[inline]
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        NAMES.get(self.0 as usize).copied()
    }

    const fn of(field: KnownField) -> Self {
        Self(FIELDS + field as u32)
    }
}

/// The meaning of PATH_INFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathInfo {
    /// The path with its percent escapes decoded, for PSGI.
    Decoded,
    /// The path as sent, for Rack.
    AsSent,
    /// SCRIPT_NAME and PATH_INFO as a web server in front has split the path, which is CGI's own meaning; variables of any
    /// spelling are passed on. Without a web server the same as [`PathInfo::Decoded`].
    AsGiven,
}

/// The variables of one request. Reused for the next request, to keep its memory.
#[derive(Debug)]
pub struct Environment {
    /// The variables after the fixed ones.
    entries: Vec<Entry>,
    /// Fixed variables, by index, whose values differ from those of head and connection. If an index is here twice, the last
    /// value counts.
    replaced: Vec<(usize, Text)>,
    /// Names and values that the request does not contain in the form that the variables need.
    rendered: Vec<u8>,
    fields: Fields,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: Key,
    /// The name in `rendered`, if it is not interned.
    name: Span,
    value: Text,
}

#[derive(Clone, Copy, Debug)]
enum Text {
    /// The value of a field. A head has at most 1 GiB ([`Span`]), so its fields can be counted in 32 bits.
    Field(u32),
    Rendered(Span),
    /// The value of a variable of the gateway, by the variable's index. If the key is [`Key::OTHER`], the name is that of the
    /// same variable.
    Variable(u32),
    /// No value: this variable has become a part of another one, or was dropped.
    Nothing,
}

/// The index of a variable after the fixed ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct VariableIndex(u32);

impl VariableIndex {
    #[inline]
    const fn index(self) -> usize {
        self.0 as usize
    }
}

impl Default for Environment {
    fn default() -> Self {
        Self::new()
    }
}

impl Environment {
    /// Makes an empty environment.
    #[must_use]
    pub const fn new() -> Self {
        Self { entries: Vec::new(), replaced: Vec::new(), rendered: Vec::new(), fields: Fields::new() }
    }

    /// Lays out the variables of `request` and gives each to `sink`: key, name and value. The memory stays valid until the next
    /// call.
    #[inline]
    pub fn describe<'a>(
        &'a mut self,
        request: &Request<'a>,
        path_info: PathInfo,
        mut sink: impl FnMut(Key, &'a [u8], &'a [u8]),
    ) {
        let described = self.describe_in_two(request, path_info);
        let mut fixed: Fixed<'a> = [b""; FIXED.len()];
        described.fixed(|place, value| fixed[place] = value);
        for (place, value) in fixed.into_iter().enumerate() {
            sink(Key(place as u32), FIXED[place].as_bytes(), value);
        }
        described.others().for_each(|(key, name, value)| sink(key, name, value));
    }

    /// Like [`Environment::describe`], but returns the fixed variables and all others separately, for a host that keeps the
    /// names of the [fixed](FIXED) variables.
    #[inline]
    pub fn describe_in_two<'a, 'r>(&'a mut self, request: &'r Request<'a>, path_info: PathInfo) -> Described<'a, 'r> {
        self.lay_out(request, path_info);
        Described { environment: self, request }
    }

    /// The bytes of a value; `None` if there is none.
    #[inline]
    fn value<'a>(&'a self, text: Text, request: &Request<'a>) -> Option<&'a [u8]> {
        match text {
            Text::Field(number) => Some(request.head.field_value(number as usize)),
            Text::Rendered(span) => Some(span.of(&self.rendered)),
            Text::Variable(number) => Some(given(request, number).1),
            Text::Nothing => None,
        }
    }

    fn lay_out(&mut self, request: &Request<'_>, path_info: PathInfo) {
        self.entries.clear();
        self.replaced.clear();
        self.rendered.clear();
        let head = &request.head;
        self.lay_out_path(head.path(), head.path_and_query(), head.form(), path_info);
        if request.https && request.web_server().is_none() {
            // CGI programs have always got "on"; a web server in front sends the variable itself.
            let on = self.render(b"on");
            self.push(Key(HTTPS), on);
        }
        if let Some(gateway) = &request.gateway {
            self.lay_out_gateway(request, gateway, path_info);
        }
        self.lay_out_content(request);
        self.lay_out_fields(request);
    }

    /// Adds an interned variable and returns its place.
    #[inline]
    fn push(&mut self, key: Key, value: Text) -> VariableIndex {
        let place = self.next_place();
        self.entries.push(Entry { key, name: Span::default(), value });
        place
    }

    /// The place of the next variable. 32 bits are enough: each variable comes from a line of a head of at most 1 GiB, or from
    /// a pair in parameters of the same size.
    #[inline]
    fn next_place(&self) -> VariableIndex {
        VariableIndex(self.entries.len() as u32)
    }

    fn render(&mut self, text: &[u8]) -> Text {
        let start = self.rendered.len();
        self.rendered.extend_from_slice(text);
        Text::Rendered(Span::new(start, self.rendered.len()))
    }

    fn lay_out_path(&mut self, path: &[u8], uri: &[u8], form: TargetForm, path_info: PathInfo) {
        const PATH_INFO: usize = 2;
        const REQUEST_URI: usize = 3;
        if path.is_empty() && form == TargetForm::Absolute {
            // "http://host" means the same as "http://host/" (RFC 9110, section 4.2.3).
            self.rendered.extend_from_slice(b"/");
            self.replaced.push((PATH_INFO, Text::Rendered(Span::new(0, 1))));
            self.rendered.extend_from_slice(uri);
            self.replaced.push((REQUEST_URI, Text::Rendered(Span::new(0, 1 + uri.len()))));
        } else if matches!(form, TargetForm::Asterisk | TargetForm::Authority) {
            // This is not a path: PATH_INFO must be empty or begin with a slash.
            self.replaced.push((PATH_INFO, Text::Rendered(Span::default())));
        } else if path_info != PathInfo::AsSent && path.contains(&b'%') {
            let start = self.rendered.len();
            decode_percent(path, &mut self.rendered);
            self.replaced.push((PATH_INFO, Text::Rendered(Span::new(start, self.rendered.len()))));
        }
    }

    fn lay_out_content(&mut self, request: &Request<'_>) {
        if let Some(size) = request.content.size() {
            let start = self.rendered.len();
            render_decimal(size, &mut self.rendered);
            let value = Text::Rendered(Span::new(start, self.rendered.len()));
            self.push(Key(CONTENT_LENGTH), value);
        }
    }
}

/// The variables of a request that has been laid out.
#[derive(Clone, Copy, Debug)]
pub struct Described<'a, 'r> {
    environment: &'a Environment,
    request: &'r Request<'a>,
}

impl<'a, 'r> Described<'a, 'r> {
    /// Passes the indices and values of the [fixed](FIXED) variables to `set`, some of them twice: the later value counts.
    #[inline]
    pub fn fixed(&self, mut set: impl FnMut(usize, &'a [u8])) {
        let Self { environment, request } = *self;
        let head = &request.head;
        let uri = if head.form() == TargetForm::Authority { head.target() } else { head.path_and_query() };
        let server = request.named_server();
        let fixed: Fixed<'a> = [
            head.method(),
            b"",
            head.path(),
            uri,
            head.query(),
            server.address,
            server.port,
            head.version().as_str().as_bytes(),
            request.remote_address(),
            request.remote.port,
        ];
        for (place, value) in fixed.into_iter().enumerate() {
            set(place, value);
        }
        for &(place, text) in &environment.replaced {
            set(place, environment.value(text, request).unwrap_or_default());
        }
    }

    /// All other variables: key, name and value.
    #[inline]
    pub fn others(&self) -> impl Iterator<Item = (Key, &'a [u8], &'a [u8])> + use<'a, 'r> {
        let Self { environment, request } = *self;
        environment.entries.iter().filter_map(move |entry| {
            let value = environment.value(entry.value, request)?;
            let name = match (entry.key.name(), entry.value) {
                (Some(name), _) => name.as_bytes(),
                (None, Text::Variable(number)) => given(request, number).0,
                (None, _) => entry.name.of(&environment.rendered),
            };
            Some((entry.key, name, value))
        })
    }
}

/// Name and value of a variable of the gateway.
fn given<'a>(request: &Request<'a>, number: u32) -> (&'a [u8], &'a [u8]) {
    request.gateway.as_ref().map_or((b"", b""), |gateway| gateway.variable(number as usize))
}

/// Decodes percent escapes once and appends the result to `out`. A broken escape is kept as it is; `%00` becomes a NUL, which
/// the app may refuse.
pub fn decode_percent(path: &[u8], out: &mut Vec<u8>) {
    let mut rest = path;
    while let Some(at) = memchr::memchr(b'%', rest) {
        out.extend_from_slice(&rest[..at]);
        let digit = |offset: usize| rest.get(at + offset).and_then(|&byte| char::from(byte).to_digit(16));
        if let (Some(high), Some(low)) = (digit(1), digit(2)) {
            out.push((high * 16 + low) as u8);
            rest = &rest[at + 3..];
        } else {
            out.push(b'%');
            rest = &rest[at + 1..];
        }
    }
    out.extend_from_slice(rest);
}

fn render_decimal(mut number: u64, out: &mut Vec<u8>) {
    let start = out.len();
    loop {
        out.push(b'0' + (number % 10) as u8);
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out[start..].reverse();
}

#[cfg(test)]
mod tests {
    use super::{Environment, FIXED, Key, PathInfo};
    use crate::{Content, Endpoint, Request};
    use oribi_message::{FieldLayout, HeadLayout, KnownField, RequestHead, Span, TargetForm};
    use std::collections::BTreeMap;

    /// The variables of a request with this path and these fields.
    fn variables(path: &str, query: Option<&str>, fields: &[(&str, &str)], content: Content<'_>) -> BTreeMap<String, String> {
        let mut text = String::new();
        let mut add = |part: &str| {
            text.push_str(part);
            Span::new(text.len() - part.len(), text.len())
        };
        let mut layout = HeadLayout { method: add("GET"), path: add(path), ..HeadLayout::default() };
        if let Some(query) = query {
            add("?");
            layout.query = Some(add(query));
        }
        for (name, value) in fields {
            let known = KnownField::lookup(name.as_bytes());
            layout.fields.push(FieldLayout { name: add(name), value: add(value), known });
        }
        if path.starts_with("http") {
            layout.form = TargetForm::Absolute;
            layout.authority = Some(Span::new(10, 14));
            layout.path = Span::new(14, 3 + path.len());
        }
        let request = Request {
            head: RequestHead::new(text.as_bytes(), &layout),
            content,
            trailers: None,
            remote: Endpoint { address: b"127.0.0.1", port: b"4711" },
            server: Endpoint { address: b"localhost", port: b"5000" },
            forwarded_port: false,
            chosen_name: false,
            https: false,
            underscores: false,
            gateway: None,
        };
        let mut environment = Environment::new();
        let mut all = BTreeMap::new();
        let mut order = Vec::new();
        for _ in 0..2 {
            all.clear();
            order.clear();
            environment.describe(&request, PathInfo::Decoded, |key, name, value| {
                assert!(key == Key::OTHER || key.name().map(str::as_bytes) == Some(name));
                order.push(String::from_utf8_lossy(name).into_owned());
                let again = all.insert(order[order.len() - 1].clone(), String::from_utf8_lossy(value).into_owned());
                assert_eq!(again, None, "a variable came twice");
            });
        }
        assert_eq!(order[..FIXED.len()], FIXED);
        all
    }

    #[test]
    fn paths_are_decoded_once_and_targets_are_not() {
        let all = variables("/a%20b%2525%zz%", Some("q=%20"), &[], Content::None);
        assert_eq!(all["PATH_INFO"], "/a b%25%zz%");
        assert_eq!(all["REQUEST_URI"], "/a%20b%2525%zz%?q=%20");
        assert_eq!(all["QUERY_STRING"], "q=%20");
        assert_eq!(all["SCRIPT_NAME"], "");
        assert_eq!(all["SERVER_PROTOCOL"], "HTTP/1.1");
        assert_eq!((all["REMOTE_ADDR"].as_str(), all["REMOTE_PORT"].as_str()), ("127.0.0.1", "4711"));
        assert!(!all.contains_key("CONTENT_LENGTH"));
    }

    #[test]
    fn repeated_fields_are_joined_in_order() {
        let fields = [("X-A", "1"), ("Cookie", "a=1"), ("Accept", "x"), ("x-a", "2"), ("COOKIE", "b=2"), ("accept", "y")];
        let all = variables("/", None, &[&fields[..], &[("X-a", "3")]].concat(), Content::None);
        assert_eq!(all["HTTP_X_A"], "1, 2, 3");
        assert_eq!(all["HTTP_COOKIE"], "a=1; b=2");
        assert_eq!(all["HTTP_ACCEPT"], "x, y");
    }

    #[test]
    fn content_has_names_of_its_own() {
        let fields = [("content-type", "text/plain"), ("Content-Length", "3"), ("Transfer-Encoding", "chunked")];
        let all = variables("/", None, &fields, Content::Memory(b"abc"));
        assert_eq!((all["CONTENT_TYPE"].as_str(), all["CONTENT_LENGTH"].as_str()), ("text/plain", "3"));
        assert!(!all.keys().any(|name| name.starts_with("HTTP_CONTENT") || name == "HTTP_TRANSFER_ENCODING"));
    }

    #[test]
    fn names_that_would_shadow_others_are_dropped() {
        let fields = [("X_Forwarded_For", "evil"), ("Proxy", "evil"), ("Content_Length", "9"), ("X-Forwarded-For", "good")];
        let all = variables("/", None, &fields, Content::None);
        assert_eq!(all["HTTP_X_FORWARDED_FOR"], "good");
        assert_eq!(all.values().filter(|value| *value == "evil").count(), 0);
        assert!(!all.contains_key("HTTP_CONTENT_LENGTH"));
    }

    #[test]
    fn the_authority_of_an_absolute_target_is_the_host() {
        let all = variables("http://a.de/x", None, &[("Host", "b.de")], Content::None);
        assert_eq!((all["HTTP_HOST"].as_str(), all["PATH_INFO"].as_str()), ("a.de", "/x"));
        let all = variables("http://a.de/x", None, &[], Content::None);
        assert_eq!(all["HTTP_HOST"], "a.de");
        let all = variables("http://a.de", Some("q"), &[], Content::None);
        assert_eq!((all["PATH_INFO"].as_str(), all["REQUEST_URI"].as_str()), ("/", "/?q"));
    }
}
