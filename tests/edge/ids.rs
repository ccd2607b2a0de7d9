//! Ids of requests: the app, its client and the logs see the same one.

use crate::connection::{Connection, request};
use crate::language::Language;
use crate::server::{Folder, send};
use crate::turn;
use rustix::process::Signal;

crate::with_all_kinds_of_workers!(
    an_app_sees_one_id_and_its_client_the_same,
    what_the_log_says_of_a_request_has_its_id,
    without_an_edge_it_is_the_same,
);

/// The option that names the field in which the apps of these tests answer with the id.
const FIELD: [&str; 2] = ["--request-id", "X-Sum"];

fn is_new(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|byte| b"0123456789abcdef".contains(&byte))
}

/// Sends a request with these field lines, and returns the values that the app saw.
#[track_caller]
fn seen(connection: &mut Connection, lines: &str) -> String {
    let head = String::from_utf8(request("GET", "/behind?1", &[])).expect("text");
    connection.send(head.replace("Host: test\r\n", &format!("Host: test\r\n{lines}")).as_bytes());
    let response = connection.answer().0;
    let said = response.field("X-Sum").expect("the response says it").to_owned();
    let content = String::from_utf8_lossy(&response.content).into_owned();
    let told = content.lines().find_map(|line| line.strip_prefix("head ")).unwrap_or_else(|| panic!("{content}"));
    assert_eq!(told, said);
    said
}

fn see(language: Language, more: &[&str]) {
    let folder = Folder::new();
    let log = folder.file("access");
    let log_flags = ["--access-log", log.to_str().expect("plain"), "--access-log-format", "%L %{X-Sum}i"];
    let site = language.start(&[&FIELD[..], &log_flags, more].concat());
    let mut connection = Connection::open(site.address);
    assert_eq!(seen(&mut connection, "x-sum: a.b-1\r\n"), "a.b-1");
    let new = seen(&mut connection, "");
    let mut expected = vec!["a.b-1".to_owned(), new.clone()];
    assert!(is_new(&new), "{new}");
    for lines in ["X-Sum: a b\r\n", "X-Sum: a\r\nX-Sum: b\r\n", "X_Sum: evil\r\n", "X-Sum: a\tb\r\n", "X-Sum:\r\n"] {
        let id = seen(&mut connection, lines);
        assert!(is_new(&id) && !expected.contains(&id), "{lines:?}: {id}");
        expected.push(id);
    }
    crate::server::wait_until("all lines", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        expected.iter().all(|id| text.contains(&format!("{id} {id}\n")))
    });
}

fn an_app_sees_one_id_and_its_client_the_same(language: Language) {
    let _turn = turn::beside_others();
    see(language, &["--workers", "1", "--underscore-headers"]);
}

fn without_an_edge_it_is_the_same(language: Language) {
    let _turn = turn::beside_others();
    see(language, &["--workers", "1", "--underscore-headers", "--edge", "off"]);
    let flags = ["--edge", "off", "--workers", "1", "--request-warning", "200ms", "--request-timeout", "2s"];
    let mut site = language.start(&[&FIELD[..], &flags].concat());
    let mut connection = Connection::open(site.address);
    connection.send(b"GET /sleep?1&5 HTTP/1.1\r\nHost: test\r\nX-Sum: warned\r\n\r\n");
    site.server.wait_for_log("its app takes long; it has done nothing for 0.2 s: GET /sleep?1&5 (warned)");
}

fn what_the_log_says_of_a_request_has_its_id(language: Language) {
    let _turn = turn::beside_others();
    let flags = ["--workers", "1", "--request-warning", "200ms", "--request-timeout", "50s"];
    let mut site = language.start(&[&FIELD[..], &flags].concat());
    let mut connection = Connection::open(site.address);
    connection.send(b"GET /sleep?1&30 HTTP/1.1\r\nHost: test\r\nX-Sum: slow-1\r\n\r\n");
    let worker = site.wait_inside(1);
    site.server.wait_for_log("GET /sleep?1&30 (slow-1) has been running for ");
    send(worker, Signal::KILL);
    let response = connection.answer().0;
    assert_eq!((response.status, response.field("X-Sum")), (502, Some("slow-1")));
    site.server.wait_for_log("GET /sleep?1&30 (slow-1) was lost with its worker: its client gets a 502");
}
