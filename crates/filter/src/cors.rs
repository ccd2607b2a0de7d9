//! Cross-origin resource sharing: the fields by which a browser lets pages of other origins read responses (Fetch standard).

use oribi_message::{FieldPair, KnownField, RequestHead};

/// The methods that pages of other origins may use, if no others are given.
const METHODS: &[&str] = &["GET", "HEAD", "POST"];

/// The origins that may read responses.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Origins {
    Any,
    Some(Vec<Origin>),
}

/// An origin, or all origins below a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Origin {
    /// The whole origin, or the part before the label that may vary: `https://`.
    start: Box<str>,
    /// The part behind that label, with its dot: `.example.com`; `None` for a whole origin.
    end: Option<Box<str>>,
}

impl Origin {
    fn is(&self, origin: &[u8]) -> bool {
        let Some(end) = &self.end else { return origin.eq_ignore_ascii_case(self.start.as_bytes()) };
        let starts = origin.get(..self.start.len()).is_some_and(|start| start.eq_ignore_ascii_case(self.start.as_bytes()));
        let labels = origin.len().checked_sub(end.len()).filter(|length| *length > self.start.len());
        let Some((labels, rest)) = labels.filter(|_| starts).map(|length| origin.split_at(length)) else { return false };
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._".contains(byte);
        labels[self.start.len()..].iter().all(plain) && rest.eq_ignore_ascii_case(end.as_bytes())
    }
}

/// The rule for requests of other origins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cors {
    origins: Origins,
    methods: Box<str>,
    fields: Option<Box<str>>,
    exposed: Box<str>,
    max_age: Box<str>,
    credentials: bool,
}

/// The parts of a rule that are optional.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CorsOptions {
    /// The methods; empty: GET, HEAD and POST.
    pub methods: Vec<String>,
    /// The request fields that pages may set; `*`: all that they ask for.
    pub fields: Vec<String>,
    /// The response fields that pages may read beside those that are always readable.
    pub exposed: Vec<String>,
    /// The time for which a browser may keep the answer to a preflight request, in seconds.
    pub max_age: Option<u64>,
    /// Whether requests may carry cookies.
    pub credentials: bool,
}

/// The answer to a preflight request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preflight {
    /// It is none: the app answers.
    No,
    /// The origin may send the request.
    Allowed,
    /// It may not.
    Refused,
}

impl Cors {
    /// Creates the rule for these origins: `https://example.com`, `https://*.example.com`, or only `*`.
    ///
    /// # Errors
    /// The index of the origin that is invalid, and the reason.
    pub fn new(origins: &[&str], options: &CorsOptions) -> Result<Self, (usize, &'static str)> {
        let any = origins.iter().position(|origin| *origin == "*");
        let origins = match any {
            Some(index) if origins.len() > 1 => return Err((index, "`*` stands alone")),
            // The Fetch standard forbids it: every page could read the answers that are meant for a user.
            Some(index) if options.credentials => return Err((index, "with credentials = true, each origin is named")),
            Some(_) => Origins::Any,
            None => {
                let parsed = |(index, origin): (usize, &&str)| parse(origin).map_err(|why| (index, why));
                Origins::Some(origins.iter().enumerate().map(parsed).collect::<Result<_, _>>()?)
            }
        };
        let list = |items: &[String]| items.join(", ").into_boxed_str();
        // With cookies, browsers take `*` for a name there.
        if options.credentials && [&options.methods, &options.exposed].into_iter().flatten().any(|item| item == "*") {
            return Err((0, "with credentials = true, each method and each field of `expose` is named"));
        }
        let methods = if options.methods.is_empty() { METHODS.join(", ").into() } else { list(&options.methods) };
        let all = options.fields.iter().any(|field| field == "*");
        Ok(Self {
            origins,
            methods,
            fields: (!all).then(|| list(&options.fields)),
            exposed: list(&options.exposed),
            max_age: options.max_age.map(|seconds| seconds.to_string()).unwrap_or_default().into(),
            credentials: options.credentials,
        })
    }

    /// Returns the origin of a request, if pages of that origin may read the response.
    #[must_use]
    pub fn allowed<'a>(&self, head: &RequestHead<'a>) -> Option<&'a [u8]> {
        let origin = only(head, KnownField::Origin)?;
        match &self.origins {
            Origins::Any => Some(origin),
            Origins::Some(origins) => origins.iter().any(|allowed| allowed.is(origin)).then_some(origin),
        }
    }

    /// Decides whether a request asks for permission, and whether it gets it.
    #[must_use]
    pub fn preflight(&self, head: &RequestHead<'_>) -> Preflight {
        if head.method() != b"OPTIONS" || head.field(KnownField::AccessControlRequestMethod).is_none() {
            return Preflight::No;
        }
        match self.allowed(head) {
            Some(_) => Preflight::Allowed,
            None if only(head, KnownField::Origin).is_none() => Preflight::No,
            None => Preflight::Refused,
        }
    }

    /// Returns the names of the fields that a preflight request asks for.
    #[must_use]
    pub fn wanted<'a>(head: &RequestHead<'a>) -> Option<&'a [u8]> {
        only(head, KnownField::AccessControlRequestHeaders)
    }

    /// Returns the fields of the answer to an allowed preflight request that asks for the fields `wanted`. [`Cors::respond`]
    /// adds those of every response.
    pub fn permit<'a>(&'a self, wanted: Option<&'a [u8]>) -> impl Iterator<Item = FieldPair<'a>> {
        let permitted = self.fields.as_ref().map_or(wanted, |fields| Some(fields.as_bytes()));
        let fields: [(&[u8], Option<&[u8]>); 3] = [
            (b"Access-Control-Allow-Methods", Some(self.methods.as_bytes())),
            (b"Access-Control-Allow-Headers", permitted),
            (b"Access-Control-Max-Age", Some(self.max_age.as_bytes())),
        ];
        let present =
            |(name, value): (&'a [u8], Option<&'a [u8]>)| value.filter(|value| !value.is_empty()).map(|value| (name, value));
        fields.into_iter().filter_map(present)
    }

    /// Whether the rule replaces a field of the app.
    #[must_use]
    pub fn drops(&self, name: &[u8]) -> bool {
        let own: [&[u8]; 3] =
            [b"Access-Control-Allow-Origin", b"Access-Control-Allow-Credentials", b"Access-Control-Expose-Headers"];
        own.iter().any(|own| own.eq_ignore_ascii_case(name))
    }

    /// Appends the fields of every response to a request from `origin`, an allowed one.
    pub fn respond<'a>(&'a self, origin: Option<&'a [u8]>, fields: &mut Vec<FieldPair<'a>>) {
        if self.origins == Origins::Any {
            fields.push((b"Access-Control-Allow-Origin", b"*"));
        } else {
            // A shared cache must not give the answer for one origin to another.
            fields.push((b"Vary", b"Origin"));
            let Some(origin) = origin else { return };
            fields.push((b"Access-Control-Allow-Origin", origin));
            if self.credentials {
                fields.push((b"Access-Control-Allow-Credentials", b"true"));
            }
        }
        if !self.exposed.is_empty() {
            fields.push((b"Access-Control-Expose-Headers", self.exposed.as_bytes()));
        }
    }
}

/// Returns the value of a field that a request has once.
fn only<'a>(head: &RequestHead<'a>, wanted: KnownField) -> Option<&'a [u8]> {
    let mut values = head.fields().filter(|(known, ..)| *known == Some(wanted)).map(|(_, _, value)| value);
    values.next().filter(|_| values.next().is_none())
}

fn parse(origin: &str) -> Result<Origin, &'static str> {
    const EXPECTED: &str = "expected an origin such as https://example.com or https://*.example.com, without a path";
    let (scheme, host) = origin.split_once("://").ok_or(EXPECTED)?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    let below = host.strip_prefix("*.");
    let fixed = below.unwrap_or(host);
    let is_scheme = !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    if !is_scheme || fixed.is_empty() || !fixed.bytes().all(plain) {
        return Err(EXPECTED);
    }
    if scheme.eq_ignore_ascii_case("https") && fixed.ends_with(":443")
        || scheme.eq_ignore_ascii_case("http") && fixed.ends_with(":80")
    {
        return Err("browsers leave out the port that is the default of the scheme");
    }
    Ok(match below {
        Some(domain) => Origin { start: format!("{scheme}://").into(), end: Some(format!(".{domain}").into()) },
        None => Origin { start: origin.into(), end: None },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cors(origins: &[&str], options: &CorsOptions) -> Result<Cors, (usize, &'static str)> {
        Cors::new(origins, options)
    }

    #[test]
    fn a_pattern_fits_no_origin_beyond_its_domain() {
        let pattern = parse("https://*.example.com").expect("valid");
        for origin in ["https://a.example.com", "https://a.b.example.com", "HTTPS://A.EXAMPLE.COM"] {
            assert!(pattern.is(origin.as_bytes()), "{origin}");
        }
        for origin in [
            "https://example.com",
            "https://.example.com",
            "http://a.example.com",
            "https://a.example.com:8443",
            "https://a.example.com.evil.org",
            "https://evil.org/.example.com",
            "https://evil.org#.example.com",
            "https://user@a.example.com",
            "https://*",
            "null",
            "",
        ] {
            assert!(!pattern.is(origin.as_bytes()), "{origin}");
        }
        let whole = parse("https://example.com:8443").expect("valid");
        assert!(whole.is(b"https://example.com:8443") && !whole.is(b"https://example.com"));
    }

    #[test]
    fn origins_are_checked() {
        let none = CorsOptions::default();
        let credentials = CorsOptions { credentials: true, ..CorsOptions::default() };
        assert!(cors(&["*"], &none).is_ok() && cors(&["https://a.org", "http://localhost:3000"], &credentials).is_ok());
        assert_eq!(cors(&["*"], &credentials).expect_err("every page").0, 0);
        assert_eq!(cors(&["https://a.org", "*"], &none).expect_err("not alone").0, 1);
        for wrong in
            ["example.com", "https://", "https://a.org/", "https://a.org/x", "https://a.*.org", "https://*", "://a", "null"]
        {
            assert_eq!(cors(&["https://a.org", wrong], &none).expect_err(wrong).0, 1, "{wrong}");
        }
    }
}
