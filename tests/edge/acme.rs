//! Certificates from a real authority for ACME: Pebble, the test authority of Let's Encrypt. Clients are curl, which trusts
//! only this authority.

use crate::language::{Language, Launcher, Site, program};
use crate::server::{Folder, Server, children, title, wait_for, wait_until};
use crate::turn;
use crate::with_all_kinds_of_workers;
use rustix::process::Signal;
use std::cell::RefCell;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

with_all_kinds_of_workers!(certificates_are_ordered_and_renewed, certificates_are_ordered_where_there_is_only_tls);
crate::in_language!(
    once,
    Lua,
    an_authority_that_is_down_is_asked_again,
    a_challenge_that_fails_changes_nothing,
    proof_is_given_in_handshakes_to_those_who_shall_have_it,
    an_upgrade_keeps_ordering
);

/// The ports of an authority and of the server for which it issues certificates. Each test uses another address of the loopback
/// network.
const DIRECTORY: u16 = 14_000;
const MANAGEMENT: u16 = 15_000;
const NAMES: u16 = 8053;
const HTTP: u16 = 5080;
const HTTPS: u16 = 5443;

/// Pebble, and the DNS server that resolves all names for it.
struct Authority {
    address: Ipv4Addr,
    folder: Folder,
    processes: RefCell<Vec<Server>>,
}

impl Authority {
    /// Creates an authority that does not run yet.
    fn new() -> Self {
        static COUNT: AtomicU8 = AtomicU8::new(1);
        let [high, low] = (std::process::id() as u16).to_be_bytes();
        let address = Ipv4Addr::new(127, 64 | high, low, COUNT.fetch_add(1, Relaxed));
        let folder = Folder::new();
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-nodes", "-days", "30", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
        openssl.args(["-subj", "/CN=pebble", "-addext", "basicConstraints=critical,CA:FALSE"]);
        openssl.args(["-addext", &format!("subjectAltName=IP:{address}")]);
        openssl.arg("-keyout").arg(folder.file("key")).arg("-out").arg(folder.file("certificate"));
        assert!(openssl.output().expect("openssl is installed").status.success());
        Self { address, folder, processes: RefCell::default() }
    }

    /// Starts the authority. Its certificates are valid for `life` seconds. It asks for proof by HTTP at `port`, and in TLS
    /// handshakes at the usual port of this file.
    fn start(&self, life: u32, port: u16) {
        self.start_asking(life, port, HTTPS);
    }

    /// The same, but it asks for proof in TLS handshakes at `tls_port`.
    fn start_asking(&self, life: u32, port: u16, tls_port: u16) {
        let Self { address, folder, .. } = self;
        let config = format!(
            r#"{{"pebble": {{"listenAddress": "{address}:{DIRECTORY}", "managementListenAddress": "{address}:{MANAGEMENT}",
                "certificate": "{}", "privateKey": "{}", "httpPort": {port}, "tlsPort": {tls_port}, "certificateValidityPeriod": {life},
                "profiles": {{"default": {{"description": "", "validityPeriod": {life}}}}}}}}}"#,
            folder.file("certificate").display(),
            folder.file("key").display(),
        );
        std::fs::write(folder.file("config"), config).expect("the folder is ours");
        let mut names = Command::new("pebble-challtestsrv");
        names.args(["-defaultIPv4", &address.to_string(), "-defaultIPv6", "", "-dns01", &format!("{address}:{NAMES}")]);
        names.args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-management", &format!("{address}:{}", NAMES + 1)]);
        let mut pebble = Command::new("pebble");
        pebble.env("PEBBLE_VA_NOSLEEP", "1").arg("-config").arg(folder.file("config"));
        // A fifth of all good nonces are refused, as an authority may.
        pebble.env("PEBBLE_WFE_NONCEREJECT", "20").args(["-dnsserver", &format!("{address}:{NAMES}")]);
        self.processes.borrow_mut().extend([Server::run(&mut names), Server::run(&mut pebble)]);
        wait_until("Pebble listens", || {
            [DIRECTORY, MANAGEMENT].iter().all(|port| TcpStream::connect((*address, *port)).is_ok())
        });
        std::fs::write(folder.file("root"), self.curl(&["-k", &format!("https://{address}:{MANAGEMENT}/roots/0")]).1)
            .expect("the folder is ours");
    }

    /// Ends it.
    fn stop(&self) {
        self.processes.borrow_mut().clear();
    }

    /// The options to order certificates for a.example and b.example.
    fn arguments(&self) -> Vec<String> {
        let (address, file) = (self.address, |name: &str| self.folder.file(name).display().to_string());
        [
            "--listen",
            &format!("https://{address}:{HTTPS}"),
            "--acme",
            "a.example,b.example",
            "--acme-agree-terms",
            "--acme-directory",
            &format!("https://{address}:{DIRECTORY}/dir"),
            "--acme-ca",
            &file("certificate"),
            "--acme-storage",
            &file("storage"),
            "--workers",
            "1",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    fn site(&self, language: Language, more: &[&str]) -> Site {
        let plain = format!("http://{}:{HTTP}", self.address);
        self.site_without_http(language, &[&["--listen", &plain], more].concat())
    }

    /// Starts a server that listens only for TLS.
    fn site_without_http(&self, language: Language, more: &[&str]) -> Site {
        let arguments = self.arguments();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain(more.iter().copied()).collect();
        Site::start(Launcher::Oribi, language, &arguments)
    }

    /// Runs curl. Returns whether it succeeds, and its output.
    fn curl(&self, arguments: &[&str]) -> (bool, String) {
        let output =
            Command::new("curl").args(["-sS", "--max-time", "50"]).args(arguments).output().expect("curl is installed");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Requests a page from the server `name` by curl, over a new connection. curl trusts only this authority.
    fn ask(&self, name: &str) -> (bool, String) {
        let place = format!("{name}:{HTTPS}:{}", self.address);
        let root = self.folder.file("root");
        let url = format!("https://{name}:{HTTPS}/fast?1");
        self.curl(&["--resolve", &place, "--cacert", root.to_str().expect("UTF-8"), &url])
    }

    /// Requests a page by curl, which trusts any certificate: on a slow machine, a certificate that is valid for seconds may
    /// have expired before the server has read the next one.
    fn ask_anyhow(&self) -> (bool, String) {
        self.curl(&["-k", &format!("https://{}:{HTTPS}/fast?1", self.address)])
    }

    /// Returns the serial number and the issuer of the certificate that the server offers.
    fn shown(&self) -> String {
        let address = format!("{}:{HTTPS}", self.address);
        let script =
            "openssl s_client -connect $0 -servername a.example </dev/null 2>/dev/null | openssl x509 -noout -serial -issuer";
        let output = Command::new("sh").args(["-c", script, &address]).output().expect("a shell is there");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Shakes hands for a.example by `openssl s_client`, which offers these protocols. Returns whether that succeeds, and the
    /// output.
    fn shake_hands(&self, protocols: &str) -> (bool, String) {
        let mut openssl = Command::new("openssl");
        openssl.args(["s_client", "-connect", &format!("{}:{HTTPS}", self.address), "-servername", "a.example"]);
        let output = openssl.args(["-alpn", protocols]).stdin(Stdio::null()).output().expect("openssl is installed");
        (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    }

    /// Returns the files of the account's key and of the certificate.
    fn files(&self) -> [PathBuf; 2] {
        let folder = self.folder.file("storage").join(format!("{}_{DIRECTORY}_dir", self.address));
        ["account.pem", "a.example.pem"].map(|name| folder.join(name))
    }
}

fn certificates_are_ordered_and_renewed(language: Language) {
    let _turn = turn::beside_others();
    let authority = Authority::new();
    authority.start(9, HTTP);
    // The processes that answer challenges: workers of a mold, edges of a master, workers of a supervisor.
    let edge = if language == Language::Ruby { "on" } else { "off" };
    let site = authority.site(language, &["--edge", edge, &format!("--redirect-https={HTTPS}")]);
    expect_an_order_and_a_renewal(&authority, &site);
    for file in authority.files() {
        assert_eq!(std::fs::metadata(&file).expect("it is there").permissions().mode() & 0o777, 0o600, "{file:?}");
    }
    // Requests that are not challenges are answered as usual.
    let plain = format!("http://{}:{HTTP}/.well-known/acme-challenge/", authority.address);
    assert!(authority.curl(&[&format!("{plain}token")]).1.starts_with("token."));
    assert_eq!(authority.curl(&["-o", "/dev/null", "-w", "%{http_code}", &format!("{plain}a/b")]).1, "301");
}

/// Checks that the server offers a certificate of the authority, and another one after a while, and that every client is
/// answered meanwhile.
fn expect_an_order_and_a_renewal(authority: &Authority, site: &Site) {
    wait_until("the authority's certificate is offered", || authority.ask("b.example").0);
    let first = authority.shown();
    assert!(first.contains("Pebble"), "{first}");
    wait_until("it is renewed, and every client is answered", || {
        assert_eq!(authority.ask_anyhow(), (true, "fast 1\n".to_owned()), "{}", site.server.log());
        authority.shown() != first
    });
}

fn certificates_are_ordered_where_there_is_only_tls(language: Language) {
    let _turn = turn::beside_others();
    let authority = Authority::new();
    authority.start(9, HTTP);
    // Different processes show the proof: workers of a mold, edges of a master, or workers of a supervisor. An edge in a
    // sandbox cannot open the file with the proof.
    let edge = if language == Language::Ruby { &["--edge", "on", "--edge-sandbox", "try"][..] } else { &["--edge", "off"] };
    let site = authority.site_without_http(language, edge);
    expect_an_order_and_a_renewal(&authority, &site);
    let log = site.server.log();
    assert!(!log.contains("no certificate:"), "{log}");
}

fn proof_is_given_in_handshakes_to_those_who_shall_have_it(language: Language) {
    let _turn = turn::beside_others();
    let authority = Authority::new();
    // The authority asks for proof at a port without a listener.
    authority.start_asking(3600, HTTP, HTTPS + 1);
    let more = ["--acme-challenge", "tls-alpn-01", "--edge-sandbox", "try"];
    let mut site = authority.site(language, &more);
    site.server.wait_for_log("; port 443 of this name must reach");
    let pause = authority.files()[1].with_extension("pause");
    wait_until("the pause is stored", || pause.exists());
    let plain = format!("http://{}:{HTTP}/.well-known/acme-challenge/token", authority.address);
    assert!(!authority.curl(&[&plain]).1.starts_with("token."), "it is a request like all others");
    // A server that has been killed left this one.
    let [account, _] = authority.files();
    let file = account.with_file_name("proof");
    assert_eq!(std::fs::metadata(&file).expect("it is there").permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read(&file).expect("it is there"), b"", "what was not believed is gone");
    let proof = std::fs::read_to_string(account.with_file_name("a.example.pem")).expect("it is there");
    std::fs::write(&file, format!("a.example\n{proof}")).expect("it is ours");
    let (good, told) = authority.shake_hands("acme-tls/1");
    assert!(good && told.contains("ALPN protocol: acme-tls/1"), "{told}");
    // No other client gets it, and a client that asks for no proof is served HTTP.
    let (_, told) = authority.shake_hands("acme-tls/1,http/1.1");
    assert!(told.contains("ALPN protocol: http/1.1"), "{told}");
    std::fs::write(&file, "").expect("it is ours");
    for protocols in ["acme-tls/1", "acme-tls/1,other"] {
        let (good, told) = authority.shake_hands(protocols);
        assert!(!good && told.contains("no application protocol"), "{told}");
    }
    assert_eq!(authority.ask_anyhow(), (true, "fast 1\n".to_owned()), "the server serves");
    // An authority that is trusted, and is asked at once.
    site.server.signal(Signal::TERM);
    drop(site);
    std::fs::remove_file(&pause).expect("it is ours");
    authority.stop();
    authority.start(3600, HTTP + 1);
    let _site = authority.site(language, &more);
    wait_until("the authority's certificate is offered", || authority.ask("a.example").0);
    assert_eq!(std::fs::read(&file).expect("it is there"), b"");
}

fn an_authority_that_is_down_is_asked_again(language: Language) {
    let _turn = turn::beside_others();
    let authority = Authority::new();
    let mut site = authority.site(language, &[]);
    site.server.wait_for_log("nothing listens there (connection refused). The current one stays; the next attempt is in");
    assert!(authority.shown().contains("Oribi's placeholder"));
    authority.start(3600, HTTP);
    wait_until("the authority's certificate is offered", || authority.ask("a.example").0);
    let first = authority.shown();
    let kept = authority.files().map(|file| std::fs::read(file).expect("it is there"));
    // An existing certificate needs no authority, also at the next start.
    site.server.signal(Signal::TERM);
    drop(site);
    authority.stop();
    let site = authority.site(language, &[]);
    assert!(authority.ask("a.example").0 && authority.shown() == first);
    assert_eq!(authority.files().map(|file| std::fs::read(file).expect("it is there")), kept);
    let log = site.server.log();
    assert!(!log.contains("no certificate") && !log.contains("placeholder"), "{log}");
}

fn a_challenge_that_fails_changes_nothing(language: Language) {
    let _turn = turn::beside_others();
    let authority = Authority::new();
    // The authority asks for proof at a port without a listener.
    authority.start(3600, HTTP + 1);
    let mut site = authority.site(language, &[]);
    site.server.wait_for_log("(connection); port 80 of this name must reach");
    let log = site.server.log();
    assert!(log.contains("the authority has refused to accept that ") && log.contains("the next attempt is in"), "{log}");
    assert!(authority.shown().contains("Oribi's placeholder"));
    assert_eq!(authority.ask_anyhow(), (true, "fast 1\n".to_owned()), "the server serves");
    // Settings that cannot work are refused.
    let output =
        Command::new(program()).args(["check", "--native", "hello", "--acme", "a.example"]).output().expect("it was built");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("--acme-agree-terms"), "{said}");
}

fn an_upgrade_keeps_ordering(language: Language) {
    let _turn = turn::beside_others();
    let authority = Authority::new();
    authority.start(9, HTTP);
    let mut site = authority.site(language, &[]);
    let certifiers = |first: u32| {
        let is_certifier = |process: &u32| title(*process).starts_with("oribi: certifier");
        children(first).into_iter().filter(is_certifier).collect::<Vec<_>>()
    };
    let before = wait_for("there is a certifier", || certifiers(site.server.pid()).first().copied());
    wait_until("the authority's certificate is offered", || authority.ask("a.example").0);
    site.server.signal(Signal::USR2);
    site.server.wait_for_log("has taken over");
    wait_until("the certifier of the server before has ended", || !title(before).starts_with("oribi: certifier"));
    let first = authority.shown();
    wait_until("the new server has it renewed", || {
        assert!(authority.ask_anyhow().0, "{}", site.server.log());
        authority.shown() != first
    });
}
