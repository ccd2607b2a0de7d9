//! The rules of the crate's documentation, one by one.

use oribi_message::{FieldLayout, HeadLayout, KnownField, RequestHead, Span};
use oribi_route::{Destination, FieldLines, NamedPattern, RequestView, Rule, Scheme, Scratch, Table};

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn named(name: &str, value: Option<&str>) -> NamedPattern {
    NamedPattern { name: name.to_owned(), value: value.map(str::to_owned) }
}

fn hosts(patterns: &[&str]) -> Rule {
    Rule { host: texts(patterns), ..Rule::default() }
}

fn paths(patterns: &[&str]) -> Rule {
    Rule { path: texts(patterns), ..Rule::default() }
}

const GET: RequestView<'static> = RequestView {
    method: b"GET",
    scheme: Scheme::Http,
    host: Some(b"example.com"),
    target: b"/",
    source: None,
    destination: None,
    fields: FieldLines::Pairs(&[]),
};

fn table(rules: &[Rule]) -> Table {
    Table::compile(rules).unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn choose(rules: &[Rule], request: &RequestView<'_>) -> Option<usize> {
    table(rules).choose(request, &mut Scratch::default()).rule
}

#[test]
fn path_and_host_decide_most_rules_alone() {
    let of_path = |path: &str| Rule { path: vec![path.to_owned()], ..Rule::default() };
    let of_host = |host: &str| Rule { host: vec![host.to_owned()], ..Rule::default() };
    let decide = |rules: &[Rule], target: &[u8]| table(rules).decide(target, || Some(b"example.com"), &mut Scratch::default());
    let rules =
        [of_host("other.example"), of_path("/a"), of_path("/b/*"), Rule { method: vec!["GET".to_owned()], ..of_path("/c") }];
    for (target, expected) in [
        (&b"/a"[..], Some(1)),
        (b"/a?b", Some(1)),
        (b"/b/c", Some(2)),
        (b"/c", None),
        (b"/d", None),
        (b"/%61", None),
        (b"/b/../a", None),
        (b"http://example.com/a", None),
        (b"*", None),
    ] {
        assert_eq!(decide(&rules, target), expected, "{}", target.escape_ascii());
    }
    // The first rules that are possible by path and by host are in different words of the index.
    let mut many: Vec<Rule> = (0..64).map(|_| of_path("/a")).collect();
    many.iter_mut().for_each(|rule| rule.host.push("other.example".to_owned()));
    many.extend([of_host("example.com"), of_path("/a")]);
    assert_eq!(choose(&many, &RequestView { target: b"/a", ..GET }), Some(64));
    assert!(decide(&many, b"/a").is_none_or(|rule| rule == 64));
    assert_eq!(decide(&many, b"/x"), Some(64));
}

#[track_caller]
fn assert_matches(rule: &Rule, request: &RequestView<'_>, expected: bool) {
    assert_eq!(choose(std::slice::from_ref(rule), request).is_some(), expected, "{rule:?} {request:?}");
}

#[test]
fn a_rule_without_conditions_matches_every_request() {
    for target in ["/", "*", "h:443", "", "http://h", "/%zz"] {
        for host in [None, Some(&b""[..]), Some(b"h")] {
            assert_matches(&Rule::default(), &RequestView { host, target: target.as_bytes(), ..GET }, true);
        }
    }
    assert_eq!(choose(&[], &GET), None);
    assert!(table(&[]).is_empty() && table(&[Rule::default()]).len() == 1);
}

#[test]
fn the_first_rule_that_matches_is_chosen() {
    let rules = [paths(&["/a"]), hosts(&["other.com"]), paths(&["/a", "/b"]), paths(&["/*"]), Rule::default()];
    for (target, expected) in [("/a", 0), ("/b", 2), ("/c", 3), ("/", 3), ("*", 4)] {
        assert_eq!(choose(&rules, &RequestView { target: target.as_bytes(), ..GET }), Some(expected), "{target}");
    }
    let other = RequestView { host: Some(b"other.com"), ..GET };
    assert_eq!(choose(&rules, &RequestView { target: b"/b", ..other }), Some(1));
}

#[test]
fn a_rule_beyond_the_first_words_of_a_row_is_found_in_order() {
    let mut rules: Vec<Rule> = (0..300).map(|number| paths(&[&format!("/{number}")])).collect();
    rules[200].method = texts(&["POST"]);
    rules.push(paths(&["/200"]));
    rules.push(paths(&["/20*"]));
    for (method, target, expected) in [
        (&b"POST"[..], &b"/200"[..], Some(200)),
        (b"GET", b"/200", Some(300)),
        (b"GET", b"/2001", Some(301)),
        (b"GET", b"/299", Some(299)),
        (b"GET", b"/300", None),
    ] {
        assert_eq!(choose(&rules, &RequestView { method, target, ..GET }), expected);
    }
}

#[test]
fn a_positive_pattern_must_match_and_no_negative_one_may() {
    let rule = paths(&["/a/*", "!/a/b/*", "!/a/c"]);
    let only_negative = paths(&["!/a/*"]);
    for (target, with_positive, without) in
        [("/a/", true, false), ("/a/b", true, false), ("/a/b/", false, false), ("/a/c", false, false), ("/x", false, true)]
    {
        let request = RequestView { target: target.as_bytes(), ..GET };
        assert_matches(&rule, &request, with_positive);
        assert_matches(&only_negative, &request, without);
    }
}

#[test]
fn all_lists_must_match() {
    let rule = Rule {
        host: texts(&["example.com"]),
        path: texts(&["/a"]),
        method: texts(&["GET"]),
        field: vec![named("x-a", None)],
        query: vec![named("q", Some("1"))],
        source: texts(&["10.0.0.0/8"]),
        destination: texts(&["*:80"]),
        scheme: texts(&["https"]),
    };
    let request = RequestView {
        target: b"/a?q=1",
        scheme: Scheme::Https,
        source: Some([10, 1, 2, 3].into()),
        destination: Some(Destination::Internet { address: None, port: 80 }),
        fields: FieldLines::Pairs(&[(b"X-A", b"")]),
        ..GET
    };
    assert_matches(&rule, &request, true);
    assert_matches(&rule, &RequestView { host: Some(b"example.org"), ..request }, false);
    assert_matches(&rule, &RequestView { target: b"/b?q=1", ..request }, false);
    assert_matches(&rule, &RequestView { method: b"get", ..request }, false);
    assert_matches(&rule, &RequestView { fields: FieldLines::Pairs(&[]), ..request }, false);
    assert_matches(&rule, &RequestView { target: b"/a?q=2", ..request }, false);
    assert_matches(&rule, &RequestView { source: Some([11, 1, 2, 3].into()), ..request }, false);
    assert_matches(&rule, &RequestView { source: None, ..request }, false);
    assert_matches(&rule, &RequestView { destination: Some(Destination::Unix(b"/a.sock")), ..request }, false);
    assert_matches(&rule, &RequestView { destination: None, ..request }, false);
    assert_matches(&rule, &RequestView { scheme: Scheme::Http, ..request }, false);
}

#[test]
fn only_tables_with_destinations_need_them() {
    let rule = |pattern: &str| Rule { destination: texts(&[pattern]), ..Rule::default() };
    for (rule, destination, address) in [
        (Rule::default(), false, false),
        (rule("*:80"), true, false),
        (rule("!unix"), true, false),
        (rule("!10.0.0.1"), true, true),
        (rule("10.0.0.1:80"), true, true),
    ] {
        let table = table(&[Rule::default(), rule.clone()]);
        assert_eq!((table.needs_destination(), table.needs_address()), (destination, address), "{rule:?}");
    }
    let at = |destination| RequestView { destination, ..GET };
    let rules = [rule("!*:80-89"), rule("unix"), Rule::default()];
    for (destination, expected) in [
        (Some(Destination::Unix(b"/a.sock")), 0),
        (Some(Destination::Internet { address: None, port: 80 }), 2),
        (Some(Destination::Internet { address: None, port: 90 }), 0),
        (None, 0),
    ] {
        assert_eq!(choose(&rules, &at(destination)), Some(expected), "{destination:?}");
    }
}

#[test]
fn a_host_is_compared_without_case_port_and_last_dot() {
    for (pattern, host, expected) in [
        ("example.com", "example.com", true),
        ("Example.COM.", "eXAMPLE.com", true),
        ("example.com", "example.com:8080", true),
        ("example.com", "example.com.:8080", true),
        ("example.com", "www.example.com", false),
        ("example.com", "example.co", false),
        ("example.com", "example.com:x", false),
        ("a-name-of-more-than-sixteen.bytes", "A-NAME-of-more-than-sixteen.BYTES:1", true),
        ("a-name-of-more-than-sixteen.bytes", "a-name-of-more-than-Sixteen-bytes", false),
        ("*.example.com", "a.example.com", true),
        ("*.example.com", "A.B.Example.com:1", true),
        ("*.example.com", "example.com", false),
        ("*.example.com", ".example.com", false),
        ("*.example.com", "aexample.com", false),
        ("127.0.0.1", "127.0.0.1:80", true),
        ("[::1]", "[::1]:80", true),
        ("[::1]", "[0:0:0::1]", true),
        ("[2001:DB8::a]", "[2001:db8::A]", true),
        ("[::1]", "[::2]", false),
        ("[::1]", "::1", false),
        ("*", "", true),
    ] {
        let request = RequestView { host: Some(host.as_bytes()), ..GET };
        assert_matches(&hosts(&[pattern]), &request, expected);
        assert_matches(&hosts(&[&format!("!{pattern}")]), &request, !expected);
    }
    assert_matches(&hosts(&["*"]), &RequestView { host: None, ..GET }, true);
    assert_matches(&hosts(&["a"]), &RequestView { host: None, ..GET }, false);
    assert_matches(&hosts(&["!a"]), &RequestView { host: None, ..GET }, true);
}

#[test]
fn an_exact_host_does_not_hide_a_wildcard_of_an_earlier_rule() {
    let rules = [hosts(&["*.a.b", "!x.a.b"]), hosts(&["c.a.b", "x.a.b"]), hosts(&["*.b"])];
    for (host, expected) in [("c.a.b", Some(0)), ("x.a.b", Some(1)), ("d.b", Some(2)), ("a.b", Some(2)), ("b", None)] {
        assert_eq!(choose(&rules, &RequestView { host: Some(host.as_bytes()), ..GET }), expected, "{host}");
    }
}

#[test]
fn path_patterns_are_those_of_unit() {
    for (pattern, path, expected) in [
        ("/a/b", "/a/b", true),
        ("/a/b", "/a/B", false),
        ("/a/b", "/a/b/", false),
        ("/a/*", "/a/", true),
        ("/a/*", "/a/b/c", true),
        ("/a/*", "/a", false),
        ("/a/*", "/ab", false),
        ("/a*", "/a", true),
        ("/a*", "/ab/c", true),
        ("*", "/", true),
        ("*.php", "/a/b.php", true),
        ("*.php", "/a/b.php/c", false),
        ("/a/*/b", "/a/x/y/b", true),
        ("/a/*/b", "/a/b", false),
        ("*/admin/*", "/x/admin/y", true),
        ("~admin", "/x/admins", true),
        ("~^/users/[0-9]+$", "/users/17", true),
        ("~^/users/[0-9]+$", "/users/17/", false),
        ("~(?i)^/ADMIN", "/admin", true),
        ("/100%", "/100%25", true),
        ("/a?b", "/a%3Fb", true),
        ("/a?b", "/a?b", false),
    ] {
        let request = RequestView { target: path.as_bytes(), ..GET };
        assert_matches(&paths(&[pattern]), &request, expected);
        assert_matches(&paths(&[&format!("!{pattern}")]), &request, !expected);
    }
}

#[test]
fn no_spelling_of_a_path_gets_around_a_rule() {
    let rules = [paths(&["/admin/*", "/admin", "~^/.*secret.*x$"]), Rule::default()];
    for target in [
        "/admin/",
        "/%61dmin/",
        "/%61%64%6D%69%6e/x",
        "//admin/",
        "/./admin/",
        "/x/../admin/",
        "/x/%2e%2E/admin/",
        "/x%2f..%2fadmin%2fy",
        "/admin%2Fx",
        "/admin/../admin",
        "/../../admin/%2e",
        "/a/b/../../admin/?q",
        "http://example.com/admin/",
        "HTTP://example.com//x/..//admin",
        "/secret%0ax",
        "/%ff/secret/%ff/x",
    ] {
        assert_eq!(choose(&rules, &RequestView { target: target.as_bytes(), ..GET }), Some(0), "{target}");
    }
    for target in ["/admin/..", "/adminx", "/%2561dmin/", "/x/admin/", "/?/admin/", "*", "admin:80"] {
        assert_eq!(choose(&rules, &RequestView { target: target.as_bytes(), ..GET }), Some(1), "{target}");
    }
}

#[test]
fn paths_that_begin_with_a_dot_are_found_and_segments_of_dots_are_not_taken_for_them() {
    let rules = [paths(&["/.well-known/*"]), paths(&["/.a"]), paths(&["/..*"]), paths(&["/a/.*"]), Rule::default()];
    for (target, rule, path) in [
        ("/.well-known/x", 0, "/.well-known/x"),
        ("/.well-known//x", 0, "/.well-known/x"),
        ("/.a", 1, "/.a"),
        ("/.", 4, "/"),
        ("/..", 4, "/"),
        ("/../.a", 1, "/.a"),
        ("/./.a", 1, "/.a"),
        ("/...", 2, "/..."),
        ("/a/.", 4, "/a/"),
        ("/a/./", 4, "/a/"),
        ("/a/..", 4, "/"),
        ("/a/.b", 3, "/a/.b"),
        ("/a/./.b", 3, "/a/.b"),
    ] {
        let mut scratch = Scratch::default();
        let request = RequestView { target: target.as_bytes(), ..GET };
        let table = table(&rules);
        let choice = table.choose(&request, &mut scratch);
        assert_eq!((choice.rule, choice.path), (Some(rule), Some(path.as_bytes())), "{target}");
    }
}

#[test]
fn the_authority_of_an_absolute_target_replaces_the_host() {
    let rules = [hosts(&["a"]), hosts(&["example.com"])];
    for (target, expected) in [("http://a/", 0), ("https://A:80?q", 0), ("/", 1), ("http://example.com/x", 1)] {
        assert_eq!(choose(&rules, &RequestView { target: target.as_bytes(), ..GET }), Some(expected), "{target}");
    }
}

#[test]
fn a_target_without_a_path_matches_no_path_pattern() {
    for target in ["*", "h:443", "", "a/b"] {
        let request = RequestView { target: target.as_bytes(), ..GET };
        for pattern in ["*", "/*", "~^"] {
            assert_matches(&paths(&[pattern]), &request, false);
            assert_matches(&paths(&[&format!("!{pattern}")]), &request, true);
        }
        assert_eq!(table(&[]).choose(&request, &mut Scratch::default()).path, None);
    }
}

#[test]
fn one_field_line_that_matches_is_enough() {
    let lines: &[(&[u8], &[u8])] = &[(b"Accept", b"a"), (b"X-Version", b"2"), (b"accept", b"b")];
    let request = RequestView { fields: FieldLines::Pairs(lines), ..GET };
    for (name, value, expected) in [
        ("ACCEPT", None, true),
        ("x-other", None, false),
        ("accept", Some("b"), true),
        ("accept", Some("B"), false),
        ("accept", Some("c"), false),
        ("accept", Some("!b"), false),
        ("accept", Some("!c"), true),
        ("accept", Some("!*"), false),
        ("x-other", Some("!*"), true),
        ("x-version", Some("~^[0-9]$"), true),
        ("x-version", Some("*3"), false),
    ] {
        assert_matches(&Rule { field: vec![named(name, value)], ..Rule::default() }, &request, expected);
    }
}

#[test]
fn the_conditions_of_all_names_must_hold() {
    let lines: &[(&[u8], &[u8])] = &[(b"Accept", b"a"), (b"X-Version", b"2")];
    let request = RequestView { fields: FieldLines::Pairs(lines), target: b"/?a=1&b=2", ..GET };
    for (conditions, expected) in [
        (&[("x-version", Some("2")), ("accept", Some("a"))][..], true),
        (&[("x-version", Some("2")), ("accept", Some("b"))], false),
        (&[("x-other", None), ("x-version", Some("2"))], false),
        (&[("x-version", Some("1")), ("accept", Some("a")), ("X-VERSION", Some("2"))], true),
        (&[("x-version", Some("2")), ("accept", Some("!a"))], false),
    ] {
        let field = conditions.iter().map(|(name, value)| named(name, *value)).collect();
        assert_matches(&Rule { field, ..Rule::default() }, &request, expected);
    }
    for (conditions, expected) in
        [(&[("a", "1"), ("b", "2")][..], true), (&[("a", "1"), ("b", "3")], false), (&[("a", "1"), ("A", "1")], false)]
    {
        let query = conditions.iter().map(|(name, value)| named(name, Some(value))).collect();
        assert_matches(&Rule { query, ..Rule::default() }, &request, expected);
    }
}

#[test]
fn the_fields_of_a_request_head_are_found_by_number_and_by_name() {
    let bytes = b"GET /a Host example.com X-A 1";
    let field = |name: (usize, usize), value: (usize, usize)| {
        let name = Span::new(name.0, name.1);
        FieldLayout { name, value: Span::new(value.0, value.1), known: KnownField::lookup(name.of(bytes)) }
    };
    let mut layout = HeadLayout { method: Span::new(0, 3), target: Span::new(4, 6), ..HeadLayout::default() };
    layout.fields = vec![field((7, 11), (12, 23)), field((24, 27), (28, 29))];
    let request = RequestView::of_head(RequestHead::new(bytes, &layout), Scheme::Https, None);
    let all = Rule {
        host: texts(&["example.com"]),
        path: texts(&["/a"]),
        method: texts(&["GET"]),
        scheme: texts(&["!http"]),
        ..Rule::default()
    };
    assert_matches(&all, &request, true);
    for (name, value, expected) in
        [("host", "e*", true), ("HOST", "f*", false), ("x-a", "1", true), ("x-a", "2", false), ("x-b", "*", false)]
    {
        assert_matches(&Rule { field: vec![named(name, Some(value))], ..all.clone() }, &request, expected);
    }
}

#[test]
fn a_query_is_decoded_and_one_pair_that_matches_is_enough() {
    let request = RequestView { target: b"/?a=1&a=2&b+c=d%20e&%66=%zz&g&&h=i=j", ..GET };
    for (name, value, expected) in [
        ("a", Some("2"), true),
        ("a", Some("3"), false),
        ("A", None, false),
        ("a", Some("!1"), false),
        ("b c", Some("d e"), true),
        ("f", Some("%zz"), true),
        ("g", None, true),
        ("g", Some("*"), true),
        ("g", Some("a"), false),
        ("h", Some("i=j"), true),
        ("x", None, false),
        ("x", Some("!*"), true),
    ] {
        assert_matches(&Rule { query: vec![named(name, value)], ..Rule::default() }, &request, expected);
    }
}

#[test]
fn a_query_is_read_anew_for_each_request() {
    let table = table(&[Rule { query: vec![named("a", Some("1"))], ..Rule::default() }]);
    let mut scratch = Scratch::default();
    for (target, expected) in [("/?a=1", Some(0)), ("/?a=2", None), ("/?a=1&b", Some(0)), ("/", None), ("//?a=1", Some(0))] {
        let request = RequestView { target: target.as_bytes(), ..GET };
        assert_eq!(table.choose(&request, &mut scratch).rule, expected, "{target}");
    }
}

#[test]
fn a_method_may_be_a_wildcard_or_an_expression() {
    let rule = Rule { method: texts(&["P*", "~^GET$", "!PUT"]), ..Rule::default() };
    for (method, expected) in [("POST", true), ("PUT", false), ("GET", true), ("GETS", false), ("DELETE", false)] {
        assert_matches(&rule, &RequestView { method: method.as_bytes(), ..GET }, expected);
    }
}
