//! The same apps for clients that speak TLS: real ones, curl and OpenSSL's own.

use crate::in_every_language;
use crate::language::{Language, Launcher, Site, content_of_file};
use crate::server::{Folder, wait_until};
use crate::turn;
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::Command;

in_every_language!(apps_are_served_over_tls, certificates_are_exchanged_by_hup);

/// A certificate and its key in one file.
fn certificate(folder: &Folder, name: &str) -> PathBuf {
    let (both, key) = (folder.file(name), folder.file("key"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-nodes", "-days", "30", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
    openssl.args(["-subj", &format!("/CN={name}"), "-addext", "subjectAltName=DNS:localhost", "-keyout"]).arg(&key);
    let made = openssl.arg("-out").arg(&both).output().expect("openssl is installed");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let text = [std::fs::read(&both), std::fs::read(&key)].map(|part| part.expect("it was just made")).concat();
    std::fs::write(&both, text).expect("the folder is ours");
    both
}

/// What curl gets, which believes only this certificate.
fn curl(site: &Site, certificate: &Path, arguments: &[&str]) -> Vec<u8> {
    let port = site.address.port();
    let mut curl = Command::new("curl");
    curl.args(["-sS", "--http1.1", "--max-time", "50", "--resolve", &format!("localhost:{port}:127.0.0.1"), "--cacert"]);
    curl.arg(certificate);
    curl.args(arguments.iter().map(|argument| argument.replace("SITE", &format!("https://localhost:{port}"))));
    let output = curl.output().expect("curl is installed");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}\n{}", site.server.log());
    output.stdout
}

fn apps_are_served_over_tls(language: Language) {
    let _turn = turn::beside_others();
    for edge in ["on", "off"] {
        let folder = Folder::new();
        let file = certificate(&folder, "first");
        let listen = format!("https://127.0.0.1:0?cert={}", file.display());
        let site = Site::start(Launcher::Oribi, language, &["--listen", &listen, "--edge", edge, "--workers", "2"]);
        let text = |arguments: &[&str]| String::from_utf8_lossy(&curl(&site, &file, arguments)).into_owned();
        let port = site.address.port();
        for (flag, version) in [("--tlsv1.3", "TLSv1.3"), ("--tls-max", "TLSv1.2")] {
            let flags: &[&str] = if version == "TLSv1.2" { &[flag, "1.2", "SITE/tls"] } else { &[flag, "SITE/tls"] };
            assert_eq!(text(flags), format!("https on {version} localhost {port}"), "edge {edge}");
        }
        // One connection for all.
        let count = text(&["-w", " %{num_connects}\n", "SITE/fast?1", "SITE/fast?2", "SITE/fast?3"]);
        assert_eq!(count, "fast 1\n 1\nfast 2\n 0\nfast 3\n 0\n");
        let content = content_of_file(2 << 20);
        let upload = folder.file("upload");
        std::fs::write(&upload, &content).expect("the folder is ours");
        assert!(curl(&site, &file, &["--data-binary", &format!("@{}", upload.display()), "SITE/upload?1"]) == content);
        assert!(curl(&site, &file, &["SITE/files/large"]) == content, "by the server itself");
        assert_eq!(curl(&site, &file, &["SITE/named?1"]), content_of_file(3000));
        assert_eq!(curl(&site, &file, &["SITE/big?0&3000000"]).len(), 3_000_000);
        assert_eq!(curl(&site, &file, &["SITE/stream?0&300000&10"]).len(), 300_000);
        if language != Language::Lua {
            assert_eq!(text(&["SITE/hijack?7"]), "hijack 7\n");
        }
        let plain =
            Command::new("curl").args(["-sS", &format!("http://127.0.0.1:{port}/")]).output().expect("curl is installed");
        assert!(String::from_utf8_lossy(&plain.stdout).contains("https://"), "{plain:?}");
        site.server.signal(Signal::TERM);
    }
}

/// The name in the certificate that a client is shown.
fn shown(site: &Site) -> String {
    let mut openssl = Command::new("openssl");
    let output = openssl.args(["s_client", "-connect", &site.address.to_string(), "-servername", "localhost"]).output();
    let text = output.expect("openssl is installed").stdout;
    let text = String::from_utf8_lossy(&text);
    text.lines().find_map(|line| line.strip_prefix("subject=")).unwrap_or_default().replace(' ', "")
}

fn certificates_are_exchanged_by_hup(language: Language) {
    let _turn = turn::beside_others();
    let folder = Folder::new();
    let file = certificate(&folder, "first");
    let arguments = ["--listen", "127.0.0.1:0", "--ssl-cert", file.to_str().expect("UTF-8"), "--workers", "1"];
    let mut site = Site::start(Launcher::Oribi, language, &arguments);
    assert_eq!(shown(&site), "CN=first");
    let good = std::fs::read(&file).expect("it is there");
    let second = certificate(&folder, "second");
    std::fs::write(&file, &good[..good.len() / 2]).expect("the folder is ours");
    site.server.signal(Signal::HUP);
    site.server.wait_for_log("the present certificates stay");
    assert_eq!(shown(&site), "CN=first");
    std::fs::copy(&second, &file).expect("the folder is ours");
    site.server.signal(Signal::HUP);
    wait_until("the new certificate is shown", || shown(&site) == "CN=second");
    site.server.wait_for_log("the certificates were exchanged");
}
