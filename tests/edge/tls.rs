//! The same apps for clients that speak TLS: real ones, curl and OpenSSL's own.

use crate::language::{Language, Launcher, Site, content_of_file};
use crate::response::letters;
use crate::server::{Folder, wait_until};
use crate::turn;
use crate::with_all_kinds_of_workers;
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::Command;

with_all_kinds_of_workers!(
    apps_are_served_over_tls,
    certificates_are_exchanged_by_hup,
    certificates_are_exchanged_when_files_change,
    clients_show_certificates
);

crate::in_language!(perl_sockets, Perl, what_an_app_has_sent_is_passed_on_when_its_process_ends);
crate::in_language!(ruby_sockets, Ruby, what_an_app_has_sent_is_passed_on_when_its_process_ends);

/// A certificate of `localhost` and its key in one file.
fn certificate(folder: &Folder, name: &str) -> PathBuf {
    certificate_for(folder, name, "DNS:localhost")
}

fn certificate_for(folder: &Folder, name: &str, hosts: &str) -> PathBuf {
    let (both, key) = (folder.file(name), folder.file("key"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-nodes", "-days", "30", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
    openssl.args(["-subj", &format!("/CN={name}"), "-addext", &format!("subjectAltName={hosts}"), "-keyout"]).arg(&key);
    let made = openssl.arg("-out").arg(&both).output().expect("openssl is installed");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let text = [std::fs::read(&both), std::fs::read(&key)].map(|part| part.expect("it was just made")).concat();
    std::fs::write(&both, text).expect("the folder is ours");
    both
}

/// Returns the output of curl, which trusts only this certificate.
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
        let other = certificate_for(&folder, "other", "DNS:other.test,DNS:*.other.test");
        let listen = format!("https://127.0.0.1:0?cert={}&cert={}", file.display(), other.display());
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
        // The same over HTTP/2, which is what clients choose if they can.
        let format = " %{http_version} %{num_connects}\n";
        let agreed = text(&["--http2", "-w", format, "SITE/tls", "SITE/fast?2"]);
        assert_eq!(agreed, format!("https on TLSv1.3 localhost {port} 2 1\nfast 2\n 2 0\n"), "edge {edge}");
        assert!(
            curl(&site, &file, &["--http2", "--data-binary", &format!("@{}", upload.display()), "SITE/upload?1"]) == content
        );
        assert!(curl(&site, &file, &["--http2", "SITE/files/large"]) == content, "by the server itself");
        assert_eq!(curl(&site, &file, &["--http2", "SITE/stream?0&300000&10"]).len(), 300_000);
        let load = ["-n", "400", "-c", "4", "-m", "20", &format!("https://127.0.0.1:{port}/fast?1")];
        let load = Command::new("h2load").args(load).output().expect("h2load is installed");
        let said = String::from_utf8_lossy(&load.stdout);
        assert!(said.contains("400 succeeded, 0 failed, 0 errored, 0 timeout"), "{said}\n{}", site.server.log());
        assert!(said.contains("Application protocol: h2\n"), "{said}");
        // A request that belongs on a connection for another server.
        for version in ["--http1.1", "--http2"] {
            for (host, status) in [
                ("localhost", "200"),
                ("LOCALHOST.:1", "200"),
                ("nobody.test", "200"),
                ("other.test", "421"),
                ("A.Other.test:443", "421"),
                ("a.b.other.test", "200"),
            ] {
                let host = format!("Host: {host}");
                let statuses = ["-o", "/dev/null", "-w", "%{http_code}", version, "-H", &host, "SITE/fast?1"];
                assert_eq!(text(&statuses), status, "{host} {version}");
            }
        }
        if language != Language::Lua {
            assert_eq!(text(&["SITE/hijack?7"]), "hijack 7\n");
        }
        let plain =
            Command::new("curl").args(["-sS", &format!("http://127.0.0.1:{port}/")]).output().expect("curl is installed");
        assert!(String::from_utf8_lossy(&plain.stdout).contains("https://"), "{plain:?}");
        site.server.signal(Signal::TERM);
    }
}

/// An app has taken a socket, and a process of the server encrypts the output of the app. That process sees the end of the
/// output when the app has finished. It must not end then: a slow client may not have all bytes yet.
fn what_an_app_has_sent_is_passed_on_when_its_process_ends(language: Language) {
    const LENGTH: usize = 8 << 20;
    let _turn = turn::beside_others();
    for (number, edge, signal) in [(1, "off", Signal::TERM), (2, "off", Signal::HUP), (3, "on", Signal::TERM)] {
        let folder = Folder::new();
        let file = certificate(&folder, "first");
        let listen = format!("https://127.0.0.1:0?cert={}", file.display());
        let mut site = Site::start(Launcher::Oribi, language, &["--listen", &listen, "--edge", edge, "--workers", "1"]);
        let target = format!("SITE/hijack?{number}&{LENGTH}");
        let received = std::thread::scope(|scope| {
            let client = scope.spawn(|| curl(&site, &file, &["--limit-rate", "6M", &target]));
            site.wait_inside(number);
            site.server.signal(signal);
            client.join().expect("curl had an answer")
        });
        assert!(received == letters(number, LENGTH), "edge {edge}, {signal:?}: {}", received.len());
        if signal == Signal::TERM {
            assert_eq!(site.server.wait(), 0, "{}", site.server.log());
        }
    }
}

/// Runs openssl with these arguments; `FILE:name` stands for the path of a file in the folder.
fn openssl(folder: &Folder, words: &str, more: &[&str]) {
    let word = |word: &str| word.strip_prefix("FILE:").map_or_else(|| word.into(), |name| folder.file(name).into_os_string());
    let made = Command::new("openssl").args(words.split(' ').map(word)).args(more).output().expect("openssl is installed");
    assert!(made.status.success(), "{words}: {}", String::from_utf8_lossy(&made.stderr));
}

/// Sends a request by curl with a client certificate and a key from the folder. Returns whether curl succeeds, and the content
/// of the answer.
fn as_client(site: &Site, folder: &Folder, shown: Option<[&str; 2]>) -> (bool, String) {
    let mut curl = Command::new("curl");
    curl.args(["-sk", "--max-time", "50", &format!("https://{}/client", site.address)]);
    if let Some([certificate, key]) = shown {
        curl.arg("--cert").arg(folder.file(certificate)).arg("--key").arg(folder.file(key));
    }
    let output = curl.output().expect("curl is installed");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

fn clients_show_certificates(language: Language) {
    let _turn = turn::beside_others();
    let folder = Folder::new();
    let file = certificate(&folder, "server");
    let ec = "-nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256";
    openssl(&folder, &format!("req -x509 -days 30 {ec} -subj /CN=authority -keyout FILE:ca-key -out FILE:ca"), &[]);
    let names: Vec<String> = (0..100).map(|number| format!("DNS:name-{number}.example")).collect();
    let names = format!("subjectAltName={}", names.join(","));
    let subject = ["-utf8", "-subj", "/O=Firm, \"Ltd\"/CN=J\u{f6}rg", "-addext", &names];
    openssl(&folder, &format!("req {ec} -keyout FILE:client-key -out FILE:request"), &subject);
    let sign = "x509 -req -days 30 -in FILE:request -CA FILE:ca -CAkey FILE:ca-key -set_serial 0xabc -copy_extensions copy -out FILE:client";
    openssl(&folder, sign, &[]);
    // Another authority that calls itself the same.
    openssl(&folder, &format!("req -x509 -days 30 {ec} -subj /CN=authority -keyout FILE:other-key -out FILE:other"), &[]);
    let foreign = "x509 -req -days 30 -in FILE:request -CA FILE:other -CAkey FILE:other-key -set_serial 1 -copy_extensions copy -out FILE:foreign";
    openssl(&folder, foreign, &[]);
    let pem = std::fs::read_to_string(folder.file("client")).expect("it was just made");
    let known = format!("SUCCESS\nCN=J\\C3\\B6rg,O=Firm\\, \\\"Ltd\\\"\nCN=authority\n0ABC\n{}", pem.trim_end());
    for (edge, mode) in [("on", "required"), ("off", "optional")] {
        let listen = format!("https://127.0.0.1:0?cert={}&verify_mode={mode}", file.display());
        let ca = folder.file("ca");
        let arguments = ["--listen", &listen, "--ssl-ca", ca.to_str().expect("UTF-8"), "--edge", edge, "--workers", "1"];
        let mut site = Site::start(Launcher::Oribi, language, &arguments);
        assert_eq!(as_client(&site, &folder, Some(["client", "client-key"])), (true, known.clone()), "{mode}");
        assert_eq!(as_client(&site, &folder, Some(["foreign", "client-key"])), (false, String::new()), "{mode}");
        site.server.wait_for_log("refused a TLS client because of its certificate: ");
        if mode == "optional" {
            assert_eq!(as_client(&site, &folder, None), (true, "NONE\n-\n-\n-\n-".to_owned()));
            continue;
        }
        assert_eq!(as_client(&site, &folder, None), (false, String::new()));
        site.server.wait_for_log("it has sent no certificate");
        for version in ["-tls1_2", "-tls1_3"] {
            let address = site.address.to_string();
            let output = Command::new("openssl").args(["s_client", version, "-ign_eof", "-connect", &address]).output();
            let said = output.expect("openssl is installed").stderr;
            let said = String::from_utf8_lossy(&said);
            assert!(said.contains("alert certificate required"), "{said}");
        }
    }
}

/// Returns the name in the certificate that the server offers.
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
    site.server.wait_for_log("keeping the current certificates");
    assert_eq!(shown(&site), "CN=first");
    std::fs::copy(&second, &file).expect("the folder is ours");
    site.server.signal(Signal::HUP);
    wait_until("the new certificate is shown", || shown(&site) == "CN=second");
    site.server.wait_for_log("the certificates were replaced");
}

fn certificates_are_exchanged_when_files_change(language: Language) {
    let _turn = turn::beside_others();
    for edge in ["on", "off"] {
        let folder = Folder::new();
        let file = certificate(&folder, "first");
        let listen = format!("https://127.0.0.1:0?cert={}", file.display());
        let mut site = Site::start(Launcher::Oribi, language, &["--listen", &listen, "--edge", edge, "--workers", "1"]);
        assert_eq!(shown(&site), "CN=first");
        let second = certificate(&folder, "second");
        std::fs::write(&file, "no certificate").expect("the folder is ours");
        site.server.wait_for_log("keeping the current certificates");
        assert_eq!(shown(&site), "CN=first");
        std::fs::rename(&second, &file).expect("the folder is ours");
        wait_until("the new certificate is shown", || shown(&site) == "CN=second");
        let reloaded = site.server.log().contains("reloading the app") || site.server.log().contains("replacing the workers");
        assert_eq!(reloaded, edge == "off", "{}", site.server.log());
    }
}
