use super::*;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::time::UNIX_EPOCH;

/// Answers one request with `answer`. Returns the URL, and the request when it has arrived.
fn server(answer: &'static str) -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}/a?b", listener.local_addr().expect("it is bound"));
    let thread = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("the client connects");
        let mut reader = BufReader::new(&stream);
        let (mut request, mut length) = (String::new(), 0);
        loop {
            let start = request.len();
            reader.read_line(&mut request).expect("a line of text");
            let line = request[start..].trim_end().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse().expect("a number");
            }
            if line.is_empty() {
                break;
            }
        }
        let mut content = vec![0; length];
        reader.read_exact(&mut content).expect("the content");
        (&stream).write_all(answer.as_bytes()).expect("the client reads");
        request + &String::from_utf8_lossy(&content)
    });
    (url, thread)
}

const TIME: Duration = Duration::from_secs(30);

/// A client that uses no proxy, whatever the environment of the tests names.
fn direct() -> Client {
    Client::new(false, Vec::new(), None, TIME)
}

fn request(url: &str) -> Request<'_> {
    Request { url, content: None, fields: &[], time: None, largest: 10 }
}

#[test]
fn content_is_posted_with_its_type_and_fields() {
    let (url, server) = server("HTTP/1.1 201 Created\r\nContent-Length: 4\r\nRetry-After: 7\r\nX-A: b\r\n\r\ndone");
    let fields = [("Api-Key".to_owned(), "secret".to_owned())];
    let content = Some(Content { media_type: "text/x", bytes: b"abc\n" });
    let response = direct().send(&Request { content, fields: &fields, ..request(&url) }).expect("it answers");
    assert_eq!((response.status, response.content.as_deref()), (201, Ok(&b"done"[..])));
    assert_eq!((response.field("x-a"), response.field("x-b")), (Some("b"), None));
    assert_eq!(response.retry_after(UNIX_EPOCH), Some(Duration::from_secs(7)));
    let sent = server.join().expect("it has answered").to_ascii_lowercase();
    assert!(sent.starts_with("post /a?b http/1.1\r\n") && sent.ends_with("\r\n\r\nabc\n"), "{sent}");
    for line in [
        "content-type: text/x",
        "api-key: secret",
        "content-length: 4",
        concat!("user-agent: oribi/", env!("CARGO_PKG_VERSION")),
    ] {
        assert!(sent.lines().any(|sent| sent == line), "{line}: {sent}");
    }
}

#[test]
fn without_content_a_request_is_a_get() {
    let (url, server) = server("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    assert!(direct().send(&request(&url)).is_ok());
    assert!(server.join().expect("it has answered").starts_with("GET /a?b HTTP/1.1\r\n"));
}

#[test]
fn every_status_is_a_response_and_redirects_are_not_followed() {
    for (answer, status) in [
        ("HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", 301),
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", 404),
        ("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", 503),
    ] {
        let (url, _server) = server(answer);
        assert_eq!(direct().send(&request(&url)).map(|response| response.status), Ok(status));
    }
}

#[test]
fn content_that_is_too_large_or_cut_off_leaves_the_head() {
    let (url, _server) = server("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789");
    let exact = direct().send(&request(&url)).expect("it answers");
    assert_eq!(exact.content.as_deref(), Ok(&b"0123456789"[..]));
    let (url, _server) = server("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n0123456789a");
    let larger = direct().send(&request(&url)).expect("it answers");
    assert_eq!((larger.status, larger.content), (200, Err(Failure::TooLarge)));
    let (url, _server) = server("HTTP/1.1 503 Busy\r\nContent-Length: 10\r\n\r\n01");
    let shorter = direct().send(&request(&url)).expect("it answers");
    assert!(shorter.status == 503 && shorter.content.is_err(), "{shorter:?}");
}

#[test]
fn a_server_that_does_not_answer_is_left_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
    let short = Duration::from_millis(50);
    let impatient = Client::new(false, Vec::new(), None, short);
    assert_eq!(impatient.send(&request(&url)).err(), Some(Failure::Timeout));
    assert_eq!(direct().send(&Request { time: Some(short), ..request(&url) }).err(), Some(Failure::Timeout));
}

#[test]
fn a_client_of_https_sends_nothing_in_clear_text() {
    let client = Client::new(true, Vec::new(), None, TIME);
    let failure = client.send(&request("http://127.0.0.1:1/dir")).expect_err("it is not encrypted");
    assert_eq!(failure, Failure::ClearText);
}

#[test]
fn retry_after_is_a_number_or_a_date() {
    let now = UNIX_EPOCH + Duration::from_secs(1_795_419_000);
    assert_eq!(retry_after(" 7 ", now), Some(Duration::from_secs(7)));
    assert_eq!(retry_after("Mon, 23 Nov 2026 07:30:05 GMT", now), Some(Duration::from_secs(5)));
    assert_eq!(retry_after("Mon, 23 Nov 2020 07:30:05 GMT", now), Some(Duration::ZERO));
    for text in ["", "-1", "soon", "99999999999999999999"] {
        assert_eq!(retry_after(text, now), None, "{text}");
    }
}

#[test]
fn files_of_authorities_that_are_none_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "nothing").expect("it is ours");
    for (file, why) in [(&empty, "there is no certificate in it"), (&folder.path().join("none"), "No such file")] {
        let message = Client::https(Some(file), "--ca", TIME).expect_err("it cannot be used");
        assert!(message.contains(&file.display().to_string()) && message.contains(why), "{message}");
    }
}
