//! Tests of TLS handshakes with real clients (OpenSSL, curl): each result is counted once. The end of certificates is also
//! reported.

use crate::counters::{SHAPES, Site};
use crate::scrape::{MetricsAddress, Scrape};
use crate::server::{Folder, wait_until};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

/// Makes a certificate of `localhost` that is valid for `days`, with the key in the same file.
fn certificate(folder: &Folder, days: &str) -> PathBuf {
    let (file, key, fresh) = (folder.file("localhost.pem"), folder.file("key"), folder.file("fresh"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-nodes", "-days", days, "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
    openssl.args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout"]).arg(&key);
    let made = openssl.arg("-out").arg(&fresh).output().expect("openssl is installed");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let parts = [&fresh, &key].map(|part| std::fs::read(part).expect("it was just made"));
    std::fs::write(&fresh, parts.concat()).and_then(|()| std::fs::rename(&fresh, &file)).expect("the folder is ours");
    file
}

/// Returns the time at which a certificate expires, as OpenSSL and date(1) compute it.
fn end_of(certificate: &Path) -> f64 {
    let script = "date +%s -d \"$(openssl x509 -in $0 -noout -enddate | cut -d= -f2)\"";
    let output = Command::new("sh").args(["-c", script]).arg(certificate).output().expect("a shell is there");
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
}

/// A server with an encrypted address, and its port.
fn start(edge: &str, query: &str, more: &[&str]) -> (Site, u16) {
    let listen = format!("https://127.0.0.1:0?{query}");
    let mut site =
        Site::start(&[&["--edge", edge, "--workers", "1", "--listen", &listen, "--metrics", "0"][..], more].concat());
    // Each address has a line of its own.
    site.server.wait_for_log("listening on https");
    let addresses = site.server.addresses();
    let port = addresses.iter().find_map(|address| address.strip_prefix("https://127.0.0.1:")?.parse().ok());
    (site, port.expect("an encrypted one"))
}

/// A request by `openssl s_client`.
fn openssl(port: u16, arguments: &[&str]) -> Output {
    let script = "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | openssl s_client -connect 127.0.0.1:$0 -ign_eof \"$@\" 2>&1";
    Command::new("sh").args(["-c", script, &port.to_string()]).args(arguments).output().expect("a shell is there")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("it is ours");
    stream
}

/// The beginning of a ClientHello.
const HELLO: &[u8] = b"\x16\x03\x01\x01\x00\x01\x00\x00\xfc\x03\x03";

#[test]
fn each_handshake_is_counted_once_by_how_it_ends() {
    for edge in SHAPES {
        let folder = Folder::new();
        let file = certificate(&folder, "30");
        let (site, port) = start(edge, &format!("cert={}", file.display()), &[]);
        let before = site.counters();
        let session = folder.file("session");
        let session = session.to_str().expect("a plain path");
        for version in ["-tls1_2", "-tls1_3"] {
            let first = said(&openssl(port, &[version, "-sess_out", session]));
            assert!(first.contains("hello") && first.contains("New, TLSv1."), "{first}");
            let second = said(&openssl(port, &[version, "-sess_in", session]));
            assert!(second.contains("hello") && second.contains("Reused, TLSv1."), "{second}");
        }
        let expected = [
            ("tls_handshakes_12_full", 1),
            ("tls_handshakes_12_resumed", 1),
            ("tls_handshakes_13_full", 1),
            ("tls_handshakes_13_resumed", 1),
            ("tls_failures_gone", 0),
            ("protocol_http10", 4),
        ];
        site.expect(&before, expected);

        let refused = openssl(port, &["-tls1_2", "-cipher", "AES128-SHA"]);
        assert!(said(&refused).contains("handshake failure"), "{}", said(&refused));
        let distrustful = Command::new("curl").args(["-sS", &format!("https://127.0.0.1:{port}/")]).output();
        assert_eq!(distrustful.expect("curl is installed").status.code(), Some(60), "it does not know the certificate");
        let mut plain = connect(port);
        plain.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("it is open");
        let mut answer = String::new();
        plain.read_to_string(&mut answer).expect("it is answered");
        assert!(answer.contains("https://"), "{answer}");
        connect(port).write_all(HELLO).expect("it is open");
        let mut nonsense = connect(port);
        nonsense.write_all(b"\x16\x03\x01\xff\xff").expect("it is open");
        let _ = nonsense.read_to_end(&mut Vec::new());
        // A client that sends nothing does not begin a handshake.
        drop(connect(port));
        let expected = [
            ("tls_failures_incompatible", 1),
            ("tls_failures_rejected", 1),
            ("tls_failures_not_tls", 1),
            ("tls_failures_gone", 1),
            ("tls_failures_other", 1),
            ("tls_failures_timeout", 0),
            ("tls_failures_client_certificate", 0),
            ("tls_handshakes_12_full", 1),
            ("tls_handshakes_13_full", 1),
        ];
        site.expect(&before, expected);
        let scrape = Scrape::of(&MetricsAddress::said_in(&site.server.log()));
        assert_eq!(scrape.get("oribi_tls_handshakes_total{version=\"1.3\",kind=\"resumed\"}"), 1.0);
        assert_eq!(scrape.get("oribi_tls_handshakes_failed_total{reason=\"not_tls\"}"), 1.0);
    }
}

/// Uses a separate server with a short deadline: on a busy machine, handshakes of the clients in other tests could miss that
/// deadline too.
#[test]
fn a_handshake_that_is_not_finished_in_time_is_counted() {
    for edge in SHAPES {
        let folder = Folder::new();
        let file = certificate(&folder, "30");
        let (site, port) = start(edge, &format!("cert={}", file.display()), &["--header-timeout", "1s"]);
        let before = site.counters();
        let (mut slow, mut silent) = (connect(port), connect(port));
        slow.write_all(HELLO).expect("it is open");
        for stream in [&mut slow, &mut silent] {
            let _ = stream.read_to_end(&mut Vec::new());
        }
        site.expect(&before, [("tls_failures_timeout", 1), ("tls_failures_gone", 0), ("tls_failures_other", 0)]);
    }
}

#[test]
fn a_client_without_a_good_certificate_is_counted() {
    for edge in SHAPES {
        let folder = Folder::new();
        let file = certificate(&folder, "30");
        let path = file.to_str().expect("a plain path");
        let more = ["--ssl-verify-client", "required", "--ssl-ca", path];
        let (site, port) = start(edge, &format!("cert={path}"), &more);
        let before = site.counters();
        for version in ["-tls1_2", "-tls1_3"] {
            assert!(!said(&openssl(port, &[version])).contains("hello"));
        }
        let expected = [("tls_failures_client_certificate", 2), ("tls_handshakes_12_full", 0), ("tls_handshakes_13_full", 0)];
        site.expect(&before, expected);
    }
}

#[test]
fn the_end_of_a_certificate_is_told_and_that_of_the_next_one() {
    let folder = Folder::new();
    let file = certificate(&folder, "30");
    let (site, _) = start("on", &format!("cert={}", file.display()), &[]);
    let place = MetricsAddress::said_in(&site.server.log());
    let told = || Scrape::of(&place).get("oribi_certificate_expiry_seconds{name=\"localhost\"}");
    let first = end_of(&file);
    assert_eq!(told(), first);
    certificate(&folder, "60");
    let second = end_of(&file);
    assert!(second > first, "{second}");
    wait_until("the other one is offered", || told() == second);
}
