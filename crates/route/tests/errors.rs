//! The errors of rules: all are reported, each with its place and a remedy.

use oribi_route::{MOST_EXPRESSIONS, MOST_PATTERN_BYTES, MOST_PATTERNS, MOST_RULES, NamedPattern, Rule, RuleError, Table};

fn errors(rules: &[Rule]) -> Vec<RuleError> {
    match Table::compile(rules) {
        Ok(_) => panic!("the rules are valid"),
        Err(errors) => errors,
    }
}

fn path(pattern: &str) -> Rule {
    Rule { path: vec![pattern.to_owned()], ..Rule::default() }
}

#[test]
fn every_error_is_reported_with_its_place() {
    let pair = |name: &str, value: &str| NamedPattern { name: name.to_owned(), value: Some(value.to_owned()) };
    let rules = [
        Rule { host: vec!["a".into(), "a:80".into()], path: vec!["a".into(), "/b".into(), "!".into()], ..Rule::default() },
        Rule::default(),
        Rule {
            method: vec![String::new()],
            field: vec![pair("a b", "c"), pair("d", "~(")],
            query: vec![pair("", "e")],
            source: vec!["10.0.0.0/33".into()],
            destination: vec!["unix".into(), "10.0.0.1:0".into()],
            scheme: vec!["ftp".into()],
            ..Rule::default()
        },
    ];
    let places: Vec<_> = errors(&rules).into_iter().map(|error| (error.rule, error.list, error.pattern)).collect();
    assert_eq!(
        places,
        [
            (0, "host", 1),
            (0, "path", 0),
            (0, "path", 2),
            (2, "method", 0),
            (2, "field", 0),
            (2, "field", 1),
            (2, "query", 0),
            (2, "source", 0),
            (2, "destination", 1),
            (2, "scheme", 0)
        ]
    );
}

#[test]
fn a_message_is_one_line_with_the_reason() {
    for (pattern, expected) in [
        ("a", "route 1, path pattern 1: bad path; expected a pattern that begins with `/`, `*`, `~` or `!`"),
        ("", "route 1, path pattern 1: empty pattern; write a pattern, or remove it"),
        ("!", "route 1, path pattern 1: empty pattern; write a pattern, or remove it"),
        ("!!/a", "route 1, path pattern 1: a pattern may have only one `!` at its beginning"),
        ("~", "route 1, path pattern 1: empty expression; write the expression behind the `~`"),
        ("~(", "route 1, path pattern 1: bad regular expression: unclosed group"),
        ("!~a\n[", "route 1, path pattern 1: bad regular expression: unclosed character class"),
        (
            "~(a{1000}){1000}",
            "route 1, path pattern 1: regular expression too large: its compiled form may have 65536 bytes; use smaller \
             repetitions",
        ),
        ("/%61", "route 1, path pattern 1: bad path; paths are compared without escapes, so write the decoded text"),
        ("//a", "route 1, path pattern 1: bad path; paths are compared in their normal form, without `//`, `/.` and `/..`"),
        ("/a/../b", "route 1, path pattern 1: bad path; paths are compared in their normal form, without `//`, `/.` and `/..`"),
    ] {
        let errors = errors(&[path(pattern)]);
        assert_eq!(errors.len(), 1, "{pattern}");
        assert_eq!(errors[0].to_string(), expected);
    }
}

#[test]
fn no_message_quotes_the_value_of_a_field_or_of_the_query() {
    for value in ["~hunter2(", "!!hunter2", "~hunter2{9999}{9999}", "~[hunter2-\\d", "~hunter2\\"] {
        let named = || vec![NamedPattern { name: "token".into(), value: Some(value.into()) }];
        for error in errors(&[Rule { field: named(), query: named(), ..Rule::default() }]) {
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}

#[test]
fn each_bound_is_a_limit_and_one_more_is_an_error() {
    assert!(Table::compile(&vec![Rule::default(); MOST_RULES]).is_ok());
    let too_many = errors(&vec![Rule::default(); MOST_RULES + 1]);
    assert_eq!(
        (too_many.len(), too_many[0].to_string().as_str()),
        (1, "route 4097: too many routes; at most 4096 are possible")
    );

    let long = |bytes: usize| path(&format!("/{}", "a".repeat(bytes - 1)));
    assert!(Table::compile(&[long(MOST_PATTERN_BYTES)]).is_ok());
    assert_eq!(errors(&[long(MOST_PATTERN_BYTES + 1)]).len(), 1);

    let many = |count: usize| Rule { path: (0..count).map(|number| format!("/{number}")).collect(), ..Rule::default() };
    assert!(Table::compile(&[many(MOST_PATTERNS)]).is_ok());
    let errors_of_many = errors(&[many(MOST_PATTERNS), many(2), path("x")]);
    assert_eq!(errors_of_many.len(), 1, "the bound ends the list");
    assert_eq!((errors_of_many[0].rule, errors_of_many[0].pattern), (1, 0));

    let expressions = |count: usize| Rule { path: vec!["~a".to_owned(); count], ..Rule::default() };
    assert!(Table::compile(&[expressions(MOST_EXPRESSIONS)]).is_ok());
    assert_eq!(errors(&[expressions(MOST_EXPRESSIONS + 1)]).len(), 1);
}
