//! An app that breaks the rules harms only itself.

use super::client::{Ending, LAST};
use super::servers::{Server, echo, on_both};
use oribi_host::{Reply, Request};
use oribi_message::ResponseHead;
use oribi_server::config::Settings;
use std::io::Write;

/// The target selects the broken rule.
fn app(request: &Request<'_>, mut reply: Reply<'_>) {
    let fields: &[(&[u8], &[u8])] = match request.head.target() {
        b"/cr" => &[(b"X", b"a\rSet-Cookie: b")],
        b"/lf" => &[(b"X", b"a\nSet-Cookie: b")],
        b"/nul" => &[(b"X", b"\0")],
        b"/name" => &[(b"X\r\nSet-Cookie", b"b")],
        b"/coding" => &[(b"Transfer-Encoding", b"chunked")],
        b"/lengths" => &[(b"Content-Length", b"5"), (b"Content-Length", b"6")],
        b"/short" => &[(b"Content-Length", b"100")],
        b"/long" => &[(b"Content-Length", b"3")],
        _ => &[],
    };
    let status = match request.head.target() {
        b"/20000" => 20_000,
        b"/101" => 101,
        b"/204" => 204,
        b"/304" => 304,
        _ => 200,
    };
    let head = ResponseHead { status, fields };
    // Only the response to the client matters here.
    match request.head.target() {
        b"/hint" => {
            let _ = reply.inform(103, &[(b"Link", b"</a>\r\n\r\nHTTP/1.1 200 OK")]);
            echo(request, reply);
        }
        b"/die" => {
            let Ok(mut writer) = reply.start(head) else { return };
            let _ = writer.write(b"first half");
        }
        b"/unlinked" => {
            let Ok(mut file) = tempfile::tempfile() else { return };
            let _ = file.write_all(b"shorter than promised");
            let _ = reply.send_file(head, file, 0, 1000);
        }
        b"/last" => echo(request, reply),
        _ => drop(reply.send(head, &[b"content"])),
    }
}

fn on(test: impl Fn(&mut dyn Server)) {
    on_both(&Settings::default(), app, test);
}

fn request(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes()
}

#[test]
fn nothing_of_an_invalid_head_is_sent() {
    on(|server| {
        for target in ["/cr", "/lf", "/nul", "/name", "/coding", "/lengths", "/20000", "/101"] {
            let answer = server.talk(&[&request(target), LAST]);
            assert_eq!(answer.statuses(), [500, 200], "{target}");
            assert!(!String::from_utf8_lossy(&answer.bytes).contains("Cookie"), "{target}");
        }
    });
}

#[test]
fn an_invalid_hint_is_not_sent() {
    on(|server| {
        let answer = server.talk(&[&request("/hint"), LAST]);
        assert_eq!(answer.statuses(), [200, 200]);
        assert!(!String::from_utf8_lossy(&answer.bytes).contains("Link"));
    });
}

#[test]
fn a_wrong_content_length_is_never_made_to_look_right() {
    on(|server| {
        let short = server.talk(&[&request("/short"), LAST]);
        assert!(!short.looks_whole());
        let long = server.talk(&[&request("/long"), LAST]);
        assert_eq!(long.responses().into_iter().map(|response| response.body).collect::<Vec<_>>(), ["con"]);
    });
}

#[test]
fn a_stream_that_breaks_off_is_not_ended_properly() {
    on(|server| {
        let answer = server.talk(&[&request("/die"), LAST]);
        assert!(!answer.looks_whole());
        assert_eq!(answer.ending, Ending::Reset);
    });
}

#[test]
fn a_file_that_is_too_short_is_not_filled_up() {
    on(|server| {
        let answer = server.talk(&[&request("/unlinked"), LAST]);
        assert!(!answer.looks_whole());
        assert_eq!(answer.ending, Ending::Reset);
    });
}

#[test]
fn responses_that_have_no_content_are_sent_none() {
    on(|server| {
        let answer = server.talk(&[&request("/204"), &request("/304"), LAST]);
        assert_eq!(answer.statuses(), [204, 304, 200]);
        let answer = server.talk(&[b"HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"]);
        assert!(answer.bytes.ends_with(b"\r\n\r\n"));
        assert!(!String::from_utf8_lossy(&answer.bytes).contains("content\r\n\r\ncontent"));
    });
}
