use super::*;

const TYPE: &[u8] = b"multipart/form-data; boundary=XX";

/// A part for comparison: name, file name, content.
type ExpectedPart = (String, Option<String>, String);

fn read(content: &str) -> Result<Vec<ExpectedPart>, &'static str> {
    let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let parts = parse(content.as_bytes(), TYPE)?;
    Ok(parts.iter().map(|part| (shown(&part.name), part.filename.as_deref().map(shown), shown(part.content))).collect())
}

fn part_of(disposition: &str) -> Result<(String, Option<String>), &'static str> {
    let content = format!("--XX\r\nContent-Disposition: {disposition}\r\n\r\nx\r\n--XX--");
    let parts = read(&content)?;
    Ok((parts[0].0.clone(), parts[0].1.clone()))
}

fn value(name: &str, content: &str) -> ExpectedPart {
    (name.to_owned(), None, content.to_owned())
}

#[test]
fn what_a_browser_sends() {
    let content = b"------WebKitFormBoundaryABC\r\nContent-Disposition: form-data; name=\"title\"\r\n\r\nHello\r\n\
        ------WebKitFormBoundaryABC\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a b.bin\"\r\n\
        Content-Type: application/octet-stream\r\n\r\n\x00\r\n--\xff\r\n\r\n------WebKitFormBoundaryABC--\r\n";
    let parts = parse(content, b"multipart/form-data; boundary=----WebKitFormBoundaryABC").expect("it fits");
    assert_eq!(parts.len(), 2);
    assert_eq!((&*parts[0].name, parts[0].filename.as_deref(), parts[0].content), (&b"title"[..], None, &b"Hello"[..]));
    assert_eq!(parts[1].filename.as_deref(), Some(&b"a b.bin"[..]));
    assert_eq!(parts[1].field("content-TYPE"), Some(&b"application/octet-stream"[..]));
    assert_eq!(parts[1].content, b"\x00\r\n--\xff\r\n");
}

#[test]
fn parts_end_where_they_should() {
    let disposition = "Content-Disposition: form-data; name=a\r\n\r\n";
    for (content, expected) in [
        ("--XX--", vec![]),
        ("preamble\r\n--XX--epilogue", vec![]),
        (&*format!("--XX\r\n{disposition}\r\n--XX--"), vec![value("a", "")]),
        (&*format!("\r\n--XX \t\r\n{disposition}1\r\n--XX--"), vec![value("a", "1")]),
        (&*format!("--XX\r\n{disposition}1\r\n--XXY\r\n--XX--"), vec![value("a", "1\\r\\n--XXY")]),
        (&*format!("--XX\r\n{disposition}1\n--XX\r\n--XX--"), vec![value("a", "1\\n--XX")]),
        (&*format!("--XX\r\n{disposition}1\r\n\r\n--XX--"), vec![value("a", "1\\r\\n")]),
        (
            &*format!("--XX\r\n{disposition}1\r\n--XX\r\n{disposition}2\r\n--XX--\r\n--XX\r\n"),
            vec![value("a", "1"), value("a", "2")],
        ),
        (&*format!("--XX\r\nX: y\r\n{disposition}--XX--"), vec![value("a", "")]),
    ] {
        assert_eq!(read(content), Ok(expected), "{}", content.escape_debug());
    }
}

#[test]
fn names_of_fields_and_files() {
    for (disposition, name, filename) in [
        ("form-data; name=plain", "plain", None),
        ("FORM-DATA ; NAME = \"a\" ; x; filename=\"\"", "a", Some("")),
        ("form-data; name=\"a;b=\\\"c\\\\\"; filename=\"d.txt\"", "a;b=\\\"c\\\\", Some("d.txt")),
        ("form-data; name=\"a%22b%0D%0A\"; filename=c", "a\\\"b%0D%0A", Some("c")),
        ("form-data; name=a; filename=\"C:\\new\\x.txt\"", "a", Some("C:\\\\new\\\\x.txt")),
        ("form-data; name=a; filename=\"x\"; filename*=UTF-8''%e2%82%ac.txt", "a", Some("\\xe2\\x82\\xac.txt")),
        ("form-data; name=a; filename=\"x\"; filename*=latin1'en'%e9", "a", Some("x")),
        ("form-data; name=a; filename=\"x\"; filename*=UTF-8''%ff", "a", Some("x")),
        ("form-data; name=first; name=second", "first", None),
        ("form-data; filename=\"../../etc/passwd\"; name=a", "a", Some("../../etc/passwd")),
        ("form-data; name=\"open", "open", None),
    ] {
        assert_eq!(part_of(disposition), Ok((name.to_owned(), filename.map(str::to_owned))), "{disposition}");
    }
}

#[test]
fn what_is_damaged_is_refused() {
    let good = "Content-Disposition: form-data; name=a\r\n\r\n";
    for content in [
        "",
        "nothing",
        "--XX",
        "--XX\r\n",
        &*format!("--XX\r\n{good}1"),
        &*format!("--XX\r\n{good}1\r\n--X"),
        "--XX\r\n\r\n1\r\n--XX--",
        "--XX\r\nno field\r\n\r\n1\r\n--XX--",
        "--XX\r\nContent-Disposition: attachment; name=a\r\n\r\n1\r\n--XX--",
        "--XX\r\nContent-Disposition: form-data\r\n\r\n1\r\n--XX--",
        "--XX\r\nContent-Disposition: form-data; name=a\r\n--XX--",
        &*format!("--XX\r\nX: {}\r\n{good}1\r\n--XX--", "y".repeat(HEAD_BYTES)),
    ] {
        assert!(read(content).is_err(), "{}", content.escape_debug());
    }
    for (content_type, allowed) in [
        ("multipart/form-data; boundary=XX", true),
        ("Multipart/Form-Data;charset=utf-8; Boundary=\"XX\"", true),
        ("multipart/form-data", false),
        ("multipart/mixed; boundary=XX", false),
        ("multipart/form-data; boundary=", false),
        ("multipart/form-data; boundary=\"X \"", false),
        ("multipart/form-data; boundary=X{", false),
        ("application/x-www-form-urlencoded", false),
        ("", false),
    ] {
        assert_eq!(parse(b"--XX--", content_type.as_bytes()).is_ok(), allowed, "{content_type}");
    }
    let long = format!("multipart/form-data; boundary={}", "a".repeat(71));
    assert!(parse(b"", long.as_bytes()).is_err());
}

#[test]
fn there_are_not_too_many_parts() {
    let one = "--XX\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n";
    let most = format!("{}--XX--", one.repeat(PARTS));
    assert_eq!(read(&most).map(|parts| parts.len()), Ok(PARTS));
    assert_eq!(read(&format!("{one}{most}")), Err("too many parts"));
}
