//! Patterns and their meanings, and faulty patterns.

use super::{AccessItem as Item, AccessPart as Part, AccessPattern, Instant, Radix, Statuses, TimeForm, Unit};

fn parts(text: &str) -> Vec<Part> {
    let pattern = AccessPattern::parse(text).expect(text);
    assert_eq!(pattern.as_str(), text);
    pattern.parts
}

fn text(text: &str) -> Part {
    Part::Text(text.as_bytes().to_vec())
}

fn item(item: Item) -> Part {
    Part::Item(item, None)
}

#[test]
fn directives_of_apache() {
    let found = parts("%h \"%r\"%%%>s\t".trim_end());
    assert_eq!(found, [item(Item::Client), text(" \""), item(Item::RequestLine), text("\"%"), item(Item::Status)]);
    assert_eq!(parts("%l\\t\\\"\\\\\\x"), [text("-"), text("\t\"\\\\x")]);
    assert_eq!(parts("%<s%{X-A}i"), [item(Item::Status), item(Item::RequestField(b"x-a".to_vec()))]);
    let but = |others, listed: &[u16]| Some(Statuses { others, listed: listed.to_vec() });
    assert_eq!(parts("%400,501T"), [Part::Item(Item::Duration(Unit::Seconds), but(false, &[400, 501]))]);
    assert_eq!(parts("%!200{ms}T"), [Part::Item(Item::Duration(Unit::Milliseconds), but(true, &[200]))]);
    assert_eq!(
        parts("%{queue}T%{send:ms}T"),
        [item(Item::Part("queue", Unit::Microseconds)), item(Item::Part("send", Unit::Milliseconds))]
    );
    assert_eq!(parts("%{end:usec_frac}t"), [item(Item::Time(Instant::End, TimeForm::Fraction(Unit::Microseconds)))]);
    let calendar = TimeForm::Calendar("%d.%m.%%:%H".to_owned());
    assert_eq!(parts("%{%d.%m.%%:%H}t"), [item(Item::Time(Instant::Begin, calendar))]);
}

#[test]
fn fields_of_responses_have_numbers() {
    let pattern = AccessPattern::parse("%{X-A}o%{B}o%500{x-a}o").expect("it is right");
    assert_eq!(pattern.response_fields, [b"x-a".to_vec(), b"b".to_vec()]);
    let numbers = pattern.parts.iter().filter_map(|part| match part {
        Part::Item(Item::ResponseField(number), _) => Some(*number),
        _ => None,
    });
    assert_eq!(numbers.collect::<Vec<_>>(), [0, 1, 0]);
}

#[test]
fn names_of_uwsgi() {
    assert_eq!(parts("[%(addr)] %(user)"), [text("["), item(Item::Client), text("] "), item(Item::User)]);
    assert_eq!(parts("%(var.HTTP_X_REQUEST_ID)"), [item(Item::RequestField(b"x-request-id".to_vec()))]);
}

#[test]
fn variables_of_apps_have_the_same_names_in_both() {
    for (name, meant) in [
        ("HTTP_X_A", Item::RequestField(b"x-a".to_vec())),
        ("CONTENT_TYPE", Item::RequestField(b"content-type".to_vec())),
        ("REMOTE_ADDR", Item::Client),
        ("REMOTE_PORT", Item::ClientPort),
        ("REMOTE_USER", Item::User),
        ("REQUEST_METHOD", Item::Method),
        ("REQUEST_URI", Item::PathAndQuery),
        ("SERVER_NAME", Item::ServerName),
        ("SERVER_PORT", Item::ServerPort),
        ("SERVER_PROTOCOL", Item::Version),
    ] {
        for written in [format!("%{{{name}}}e"), format!("%(var.{name})")] {
            assert_eq!(parts(&written), [item(meant.clone())], "{written}");
        }
    }
}

#[test]
fn whose_and_which_is_said_in_braces() {
    for (text, meant) in [
        ("%{c}a", Item::Peer),
        ("%{c}h", Item::Peer),
        ("%{canonical}p", Item::ServerPort),
        ("%{local}p", Item::ServerPort),
        ("%{remote}p", Item::ClientPort),
        ("%{pid}P", Item::Process),
        ("%{tid}P", Item::Thread(Radix::Decimal)),
        ("%{hextid}P", Item::Thread(Radix::Hexadecimal)),
        ("%k", Item::Earlier),
        ("%X", Item::Ending),
    ] {
        assert_eq!(parts(text), [item(meant)], "{text}");
    }
}

#[test]
fn errors_say_what_would_be_right() {
    for (text, why) in [
        ("%", "a letter is missing"),
        ("a %", "a letter is missing"),
        ("%>", "a letter is missing"),
        ("%{a", "no }"),
        ("%{a}", "a letter is missing"),
        ("%z", "%z is not known; known are %a"),
        ("%A", "has arrived is not kept"),
        ("%f", "neither a file name nor a handler"),
        ("%R", "neither a file name nor a handler"),
        ("%I", "bytes of headers are not counted"),
        ("%O", "bytes of headers are not counted"),
        ("%S", "bytes of headers are not counted"),
        ("%^ti", "trailers are not kept"),
        ("%{X-Sum}^to", "trailers are not kept"),
        ("%e", "expected a name, as in %{Name}e"),
        ("%{PATH_INFO}e", "%{PATH_INFO}e is not supported: the environment of the app is not kept. Known are CONTENT_LENGTH"),
        ("%{HTTP_}e", "cannot be a name"),
        ("%{x}a", "%{c}a is the other end"),
        ("%{x}p", "known are canonical, local and remote"),
        ("%{x}P", "known are pid, tid and hextid"),
        ("%(var.PATH_INFO)", "%(var.PATH_INFO) is not supported"),
        ("%\u{e4}", "%\u{e4} is not known"),
        ("%i", "expected a name, as in %{Name}i"),
        ("%{}i", "\"\" cannot be a name"),
        ("%{a b}o", "\"a b\" cannot be a name"),
        ("%{x}h", "%{c}h is the other end"),
        ("%{m}T", "s, ms and us"),
        ("%{%Q}t", "a time is sec"),
        ("%{%}t", "a time is sec"),
        ("%!s", "expected statuses"),
        ("%,s", "expected statuses"),
        ("%200,s", "expected statuses"),
        ("%99999s", "expected statuses"),
        ("%(addr", "no )"),
        ("%(size)", "%(size) is not known; known are addr"),
        ("%(var.HTTP_)", "cannot be a name"),
        ("%h\n%h", "has no '\\n'"),
    ] {
        let error = AccessPattern::parse(text).expect_err(text);
        assert!(error.contains(why), "{text:?}: {error}");
    }
}
