use super::super::{Environment, FIXED, PathInfo};
use super::FEW;
use crate::{Content, Endpoint, Request};
use oribi_message::{FieldLayout, HeadLayout, KnownField, RequestHead, Span};
use std::collections::BTreeMap;

/// A request with given fields.
struct Asked {
    text: String,
    layout: HeadLayout,
}

impl Asked {
    fn with<N: AsRef<str>, V: AsRef<str>>(fields: impl IntoIterator<Item = (N, V)>) -> Self {
        let (mut text, mut layout) = ("GET/".to_owned(), HeadLayout::default());
        (layout.method, layout.path) = (Span::new(0, 3), Span::new(3, 4));
        let add = |text: &mut String, part: &str| {
            text.push_str(part);
            Span::new(text.len() - part.len(), text.len())
        };
        for (name, value) in fields {
            let known = KnownField::lookup(name.as_ref().as_bytes());
            let (name, value) = (add(&mut text, name.as_ref()), add(&mut text, value.as_ref()));
            layout.fields.push(FieldLayout { name, value, known });
        }
        Self { text, layout }
    }

    fn request(&self) -> Request<'_> {
        Request {
            head: RequestHead::new(self.text.as_bytes(), &self.layout),
            content: Content::None,
            trailers: None,
            remote: Endpoint { address: b"192.0.2.1", port: b"4711" },
            server: Endpoint { address: b"localhost", port: b"5000" },
            forwarded_port: false,
            chosen_name: false,
            https: false,
            underscores: false,
            gateway: None,
        }
    }
}

fn variables(environment: &mut Environment, request: &Request<'_>) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    environment.describe(request, PathInfo::Decoded, |_, name, value| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(all.insert(text(name), text(value)), None, "a variable came twice");
    });
    all
}

/// The most fields that the settings allow.
const MOST: usize = 65536;

#[test]
fn no_number_of_fields_reaches_other_variables() {
    // When the numbers of fields had 16 bits, they wrapped here to the indices of the fixed variables.
    let mut fields: Vec<_> = (0..MOST).map(|number| (format!("x-{number}"), number.to_string())).collect();
    for name in ["accept", "x-last", "accept", "cookie", "x-0", "cookie"] {
        fields.push((name.to_owned(), "evil".to_owned()));
    }
    let all = variables(&mut Environment::new(), &Asked::with(fields).request());
    assert_eq!(all.len(), FIXED.len() + MOST + 3);
    assert_eq!(all["REMOTE_ADDR"], "192.0.2.1");
    assert_eq!((all["HTTP_ACCEPT"].as_str(), all["HTTP_COOKIE"].as_str()), ("evil, evil", "evil; evil"));
    assert_eq!((all["HTTP_X_0"].as_str(), all["HTTP_X_65535"].as_str()), ("0, evil", "65535"));
    assert_eq!(all.values().filter(|value| *value == "evil").count(), 1, "HTTP_X_LAST");
}

#[test]
fn many_unknown_names_are_not_compared_in_pairs() {
    let mut environment = Environment::new();
    let fields: Vec<_> = (0..MOST).map(|number| (format!("x-{:x}", number * 0x9e37 % MOST), "")).collect();
    environment.describe(&Asked::with(fields).request(), PathInfo::Decoded, |_, _, _| {});
    // Each comparison of a sort looks at two names, and there are about n * log n comparisons; in pairs there would be n * n.
    let looks = environment.fields.comparisons.get();
    assert!(looks < MOST * 16 * 4, "{looks}");
    // A few names are compared in pairs.
    environment.fields.comparisons.set(0);
    let fields: Vec<_> = (0..FEW).map(|number| (format!("x-{number}"), "")).collect();
    environment.describe(&Asked::with(fields).request(), PathInfo::Decoded, |_, _, _| {});
    assert!(environment.fields.comparisons.get() <= FEW * FEW);
}

#[test]
fn a_field_that_stands_many_times_is_rendered_once() {
    for name in ["x-a", "cookie", "accept"] {
        let mut environment = Environment::new();
        let asked = Asked::with((0..MOST).map(|number| (name, if number == 0 { "first" } else { "y" })));
        let all = variables(&mut environment, &asked.request());
        assert_eq!(all.len(), FIXED.len() + 1);
        let (_, value) = all.iter().find(|(name, _)| name.starts_with("HTTP_")).expect("it is there");
        assert_eq!(value.len(), "first".len() + (MOST - 1) * 3);
        // A name may have been rendered for each field, the value only once.
        assert!(environment.rendered.len() <= MOST * ("HTTP_X_A".len() + 3) + 100, "{}", environment.rendered.len());
    }
}

#[test]
fn few_names_and_many_are_united_alike() {
    for others in [0, FEW, 3 * FEW] {
        let mut fields = vec![("X-A".to_owned(), "1"), ("x-b".to_owned(), "2"), ("x-a".to_owned(), "3")];
        fields.extend((0..others).map(|number| (format!("y-{number}"), "y")));
        fields.extend([("x-A".to_owned(), "4"), ("x-b".to_owned(), "5")]);
        let all = variables(&mut Environment::new(), &Asked::with(fields).request());
        assert_eq!((all["HTTP_X_A"].as_str(), all["HTTP_X_B"].as_str()), ("1, 3, 4", "2, 5"));
        assert_eq!(all.len(), FIXED.len() + 2 + others);
    }
}

#[test]
fn underscores_pass_for_no_other_field() {
    let fields = [
        ("X_Forwarded_For", "evil"),
        ("remote_user", "evil"),
        ("Remote-User", "good"),
        ("content_length", "evil"),
        ("Transfer_Encoding", "evil"),
        ("PROXY_", "good"),
        ("api_key", "good"),
        ("API_key", "better"),
    ];
    for others in [0, 3 * FEW] {
        let many = (0..others).map(|number| (format!("y-{number}"), "y"));
        let asked = Asked::with(fields.map(|(name, value)| (name.to_owned(), value)).into_iter().chain(many));
        let mut request = asked.request();
        let mut environment = Environment::new();
        let all = variables(&mut environment, &request);
        assert_eq!(all.len(), FIXED.len() + 1 + others, "all but one are dropped: {all:?}");
        assert_eq!(all["HTTP_REMOTE_USER"], "good");
        request.underscores = true;
        let all = variables(&mut environment, &request);
        assert_eq!(all["HTTP_REMOTE_USER"], "good");
        assert_eq!(all["HTTP_API_KEY"], "good, better");
        assert_eq!(all["HTTP_PROXY_"], "good");
        assert_eq!(all.values().filter(|value| value.contains("evil")).count(), 0, "{all:?}");
        assert_eq!(all.len(), FIXED.len() + 3 + others);
    }
}

#[test]
fn a_forwarded_port_follows_one_colon() {
    for (host, forwarded, expected) in [
        ("a.example", true, "a.example:5000"),
        ("a.example:", true, "a.example:5000"),
        ("[2001:db8::1]:", true, "[2001:db8::1]:5000"),
        ("a.example:", false, "a.example:"),
    ] {
        let asked = Asked::with([("host", host)]);
        let request = Request { forwarded_port: forwarded, ..asked.request() };
        assert_eq!(variables(&mut Environment::new(), &request)["HTTP_HOST"], expected, "{host}");
    }
}
