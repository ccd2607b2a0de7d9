//! The trailers after the content, on their way from the app of each language to real clients, and back.

use crate::connection::Connection;
use crate::language::{Language, Launcher, Site};
use crate::turn;
use std::process::Command;

crate::in_every_language!(clients_get_what_stands_behind_the_content, apps_get_what_stands_behind_the_content);

fn clients_get_what_stands_behind_the_content(language: Language) {
    let _turn = turn::beside_others();
    for edge in ["on", "off"] {
        let site = Site::start(Launcher::Oribi, language, &["--edge", edge, "--workers", "2"]);
        for (number, length) in [(1, 5), (2, 300_000)] {
            let url = format!("http://{}/trailers?{number}&{length}", site.address);
            for (version, expected) in [("--http2-prior-knowledge", true), ("--http1.1", true), ("--http1.0", false)] {
                // The trailers are among the fields, after those of the head.
                let mut curl = Command::new("curl");
                curl.args(["-sS", "--max-time", "50", version, "-o", "/dev/null", "-D", "-", "-w", "%{size_download}", &url]);
                let output = curl.output().expect("curl is installed");
                let said = String::from_utf8_lossy(&output.stdout).to_ascii_lowercase().replace("\r\n", "\n");
                let case = format!("edge {edge}, {version}: {said}{}", String::from_utf8_lossy(&output.stderr));
                assert!(output.status.success(), "{case}");
                let (head, behind) = said.split_once("\n\n").expect("the end of the head");
                assert!(head.contains(" 200") && !head.contains("x-number"), "{case}");
                let trailers = format!("x-number: {number}\nx-length: {length}\n");
                assert!(behind.contains(&trailers) == expected && behind.ends_with(&length.to_string()), "{case}");
            }
        }
    }
}

/// Returns a request with `length` bytes of chunked content and with trailers.
fn chunked(length: usize, trailers: &str) -> Vec<u8> {
    let head = "POST /behind HTTP/1.1\r\nHost: a\r\nX-Sum: head\r\nTransfer-Encoding: chunked\r\n\r\n";
    format!("{head}{length:x}\r\n{}\r\n0\r\n{trailers}\r\n", "x".repeat(length)).into_bytes()
}

fn apps_get_what_stands_behind_the_content(language: Language) {
    let _turn = turn::beside_others();
    for edge in ["on", "off"] {
        let site = Site::start(Launcher::Oribi, language, &["--edge", edge, "--workers", "1"]);
        let mut connection = Connection::open(site.address);
        // The content of the second request is in a file, and Host is no trailer. One worker answers all of these requests, and
        // none of them has trailers of an earlier one.
        let trailers = "X-Sum: a\r\nGrpc-Status:0\r\nhost: b\r\nx-sum:  b \r\n";
        for (length, trailers, said) in [
            (5, trailers, "grpc-status: 0\nx-sum: a, b\nhead head\n5 bytes"),
            (300_000, trailers, "grpc-status: 0\nx-sum: a, b\nhead head\n300000 bytes"),
            (5, "", "none: \nhead head\n5 bytes"),
            (5, "Content-Length: 7\r\n", "none: \nhead head\n5 bytes"),
        ] {
            connection.send(&chunked(length, trailers));
            assert_eq!(String::from_utf8_lossy(&connection.answer().0.content), said, "edge {edge}");
        }
        connection.send(&[chunked(5, "X-Sum: one\r\n"), chunked(5, ""), chunked(6, "x-other: two\r\n")].concat());
        for said in ["x-sum: one\nhead head\n5 bytes", "none: \nhead head\n5 bytes", "x-other: two\nhead head\n6 bytes"] {
            assert_eq!(String::from_utf8_lossy(&connection.answer().0.content), said, "edge {edge}");
        }
        let long = format!("X-Long: {}\r\n", "y".repeat(9_000));
        connection.send(&chunked(5, &long));
        assert_eq!(connection.answer().0.status, 431);
        let url = format!("http://{}/behind", site.address);
        let content = language.app();
        for (has_trailers, said) in [(true, "grpc-status: 0\nx-sum: a, b\nhead head\n"), (false, "none: \nhead head\n")] {
            let mut nghttp = Command::new("nghttp");
            nghttp.args(["--timeout=50", "-H", "x-sum: head", "-d"]).arg(&content);
            if has_trailers {
                nghttp.args(["--trailer", "x-sum: a", "--trailer", "grpc-status: 0", "--trailer", "x-sum: b"]);
            }
            let output = nghttp.arg(&url).output().expect("nghttp is installed");
            let length = std::fs::metadata(&content).expect("it is there").len();
            assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{said}{length} bytes"), "edge {edge}");
        }
    }
}
